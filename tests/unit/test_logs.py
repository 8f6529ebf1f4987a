"""Log lines for people and for collectors."""

import json
import logging

import pytest

from cdc_outbox.cli.logs import JsonLines, TextLines


def record(**fields: object) -> logging.LogRecord:
    made = logging.LogRecord("cdc_outbox.consumer", logging.WARNING, "x.py", 1, "event is parked", None, None)
    vars(made).update(fields)
    return made


def test_a_line_for_people_has_the_fields_behind_the_message() -> None:
    assert (
        TextLines()
        .format(record(event_id="7", attempts=2))
        .endswith("WARNING cdc_outbox.consumer event is parked event_id=7 attempts=2")
    )


@pytest.mark.parametrize(
    ("value", "told"),
    [("7", "7"), (0.25, "0.25"), ("two words", '"two words"'), ('a "quote"\nü', r'"a \"quote\"\nü"'), ("", '""')],
)
def test_a_field_of_a_line_for_people_ends_where_it_seems_to(value: object, told: str) -> None:
    assert TextLines().format(record(reason=value)).endswith(f"event is parked reason={told}")


def test_a_line_for_collectors_is_one_object() -> None:
    [line] = JsonLines().format(record(event_id="7", seconds=0.5, reason='a "quote"\nand a line')).splitlines()
    told = json.loads(line)
    assert told.pop("time").endswith("+00:00")
    assert told == {
        "level": "WARNING",
        "logger": "cdc_outbox.consumer",
        "message": "event is parked",
        "event_id": "7",
        "seconds": 0.5,
        "reason": 'a "quote"\nand a line',
    }


def test_a_traceback_is_a_member_of_it() -> None:
    try:
        raise ValueError("hunter2")
    except ValueError as error:
        made = record(exc_info=(ValueError, error, error.__traceback__))
    assert "ValueError: hunter2" in json.loads(JsonLines().format(made))["traceback"]
