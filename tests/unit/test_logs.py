"""Log lines for people and for collectors."""

import json
import logging
import time
from contextlib import closing
from typing import Any

import pytest

from cdc_outbox.cli.running import JsonLines, TextLines, is_news
from cdc_outbox.kafka import clients as kafka_clients
from tests.support.patience import patience


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
        deadline = time.monotonic() + patience()
        while not any("Connection refused" in record.getMessage() for record in heard):
            assert time.monotonic() < deadline, heard
            client.poll(0.05)
    assert not any(map(is_news, heard)), heard
    for text in ("FAIL [rdkafka#consumer-1] [thrd:x]: x: SASL authentication error: refused", "CONFWARN: no such"):
        assert is_news(logging.makeLogRecord({"name": log.name, "msg": text}))
    assert is_news(logging.makeLogRecord({"name": "service", "msg": "FAIL: no stock"}))
    getpid = "GETPID [rdkafka#producer-2] [thrd:main]: Failed to acquire idempotence PID from broker x: {}"
    for end, is_told in (("Coordinator load in progress: retrying", False), ("Not authorized: fatal", True)):
        assert is_news(logging.makeLogRecord({"name": log.name, "msg": getpid.format(end)})) is is_told


@pytest.mark.parametrize(
    ("settings", "levels"),
    [
        ({}, {logging.INFO, logging.WARNING}),
        ({"log_level": 4}, {logging.WARNING}),
        ({"log_level": 7}, {logging.INFO, logging.WARNING}),
        ({"debug": "cgrp"}, {logging.DEBUG, logging.INFO, logging.WARNING}),
    ],
)
def test_a_log_that_is_read_for_ids_of_topics_is_as_long_as_the_user_set_it(
    settings: dict[str, Any], levels: set[int], caplog: pytest.LogCaptureFixture
) -> None:
    learnt: list[tuple[str, str]] = []
    log = logging.getLogger("tests.unit.test_logs.topics")
    caplog.set_level(logging.DEBUG, log.name)
    reader = kafka_clients._TopicIdLog(log, lambda *ids: learnt.append(ids), kafka_clients._least_level(settings))
    text = "%s [%s] %s"
    reader.log(logging.DEBUG, text, "METADATA", "c#1", "[thrd:main]: Topic t.x-1_ changed id from AAAA to b/+c")
    reader.log(logging.DEBUG, text, "METADATA", "c#1", "[thrd:main]: Topic t [0] Leader 1 Epoch 0")
    reader.log(logging.INFO, text, "FAIL", "c#1", "[thrd:b]: b: Disconnected")
    reader.log(logging.WARNING, text, "MAXPOLL", "c#1", "[thrd:main]: Application maximum poll interval exceeded")
    assert learnt == [("t.x-1_", "b/+c")]
    assert {record.levelno for record in caplog.records} == levels
