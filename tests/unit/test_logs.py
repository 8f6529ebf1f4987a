"""Log lines for people and for collectors."""

import json
import logging
import time
from contextlib import closing

import pytest

from cdc_outbox.cli.consume import JsonLines, TextLines, is_news
from cdc_outbox.kafka import clients as kafka_clients


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


def test_what_librdkafka_says_of_connections_is_left_out_and_why_a_login_is_refused_is_not() -> None:
    heard: list[logging.LogRecord] = []
    log = logging.getLogger("tests.unit.test_logs.librdkafka")

    def hear(record: logging.LogRecord) -> bool:
        heard.append(record)
        return False

    log.addFilter(hear)
    client = kafka_clients.make_consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "logs"}, log)
    with closing(client):
        client.subscribe(["orders"])
        deadline = time.monotonic() + 20
        while not any("Connection refused" in record.getMessage() for record in heard):
            assert time.monotonic() < deadline, heard
            client.poll(0.05)
    assert not any(map(is_news, heard)), heard
    for text in ("FAIL [rdkafka#consumer-1] [thrd:x]: x: SASL authentication error: refused", "CONFWARN: no such"):
        assert is_news(logging.makeLogRecord({"name": log.name, "msg": text}))
    assert is_news(logging.makeLogRecord({"name": "service", "msg": "FAIL: no stock"}))
