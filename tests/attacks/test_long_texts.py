"""A text of a message is as long as its writer likes; logs, labels, errors and memory keep a part of it."""

import logging
from dataclasses import replace

import pytest

from cdc_outbox.consumer import Limits, Outcome
from cdc_outbox.consumer.delivery import Delivered
from cdc_outbox.consumer.item import Item
from cdc_outbox.consumer.stats import ConsumerStats
from cdc_outbox.message import Message
from cdc_outbox.monitoring.series import Labels, SeriesKind
from cdc_outbox.redaction import shortened
from cdc_outbox.telemetry import NoMetrics
from tests.support.events import make_event

LONG = "x" * 500_000


class Recorded(NoMetrics):
    def __init__(self) -> None:
        self.types: set[str] = set()

    def count(self, name: str, amount: int = 1, /, **labels: str) -> None:
        if "type" in labels:
            self.types.add(labels["type"])


def test_a_short_text_stays_and_a_long_one_says_that_it_was_cut() -> None:
    assert shortened("x" * 100) == "x" * 100
    assert shortened("x" * 101) == "x" * 99 + "…"
    assert shortened("abc", 2) == "a…"


def test_types_without_a_handler_are_cut_and_bounded(caplog: pytest.LogCaptureFixture) -> None:
    metrics = Recorded()
    watch = ConsumerStats(name="shipping", limits=Limits(), metrics=metrics)
    message = Message(topic="t", partition=0, offset=0, key=b"1", value=b"{}")
    with caplog.at_level(logging.WARNING):
        for number in range(1_000):
            event = replace(make_event(1), type=f"{number} {LONG[:1000]}")
            watch.applied([Item(event=event, message=message)], Delivered(outcomes=[Outcome.UNHANDLED]), 0.1)
    assert {len(kind) for kind in metrics.types} == {100}
    types = [vars(record)["type"] for record in caplog.records]
    assert 100 <= len(types) <= 300
    assert max(map(len, types)) == 100


def test_a_label_is_cut() -> None:
    labels = {"consumer": "c", "type": LONG, "outcome": "applied"}
    values = Labels().values("cdc_outbox_consumer_events_total", SeriesKind.COUNTER, labels)
    assert values is not None
    assert max(map(len, values)) == 100


def test_an_event_in_a_sentence_is_cut() -> None:
    event = replace(make_event(1), type=LONG, aggregate_type=LONG, aggregate_id=LONG, id=LONG)
    assert len(str(event)) < 500
