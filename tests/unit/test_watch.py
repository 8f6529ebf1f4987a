"""What a consumer says about itself, and how often."""

import logging
from collections.abc import Iterator

import pytest

from cdc_outbox.consumer import Limits, Outcome
from cdc_outbox.consumer.delivery import Delivered
from cdc_outbox.consumer.epochs import Place
from cdc_outbox.consumer.item import Item
from cdc_outbox.consumer.park import Reason
from cdc_outbox.consumer.watch import Watch
from cdc_outbox.message import Message
from cdc_outbox.metrics import NoMetrics
from tests.support.events import make_event


class Clock:
    """Monotonic seconds, moved by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def watch(clock: Clock, caplog: pytest.LogCaptureFixture) -> Iterator[Watch]:
    watch = Watch(
        name="shipping", limits=Limits(), metrics=NoMetrics(), handled=lambda: ["OrderPaid", "OrderClosed"], clock=clock
    )
    watch.started()
    with caplog.at_level(logging.INFO):
        yield watch


def test_a_type_without_a_handler_is_warned_of_once(watch: Watch, caplog: pytest.LogCaptureFixture) -> None:
    item = Item(event=make_event(1), message=Message(topic="t", partition=0, offset=0, key=b"1", value=b"{}"))
    for outcomes in ([Outcome.APPLIED], [Outcome.UNHANDLED], [Outcome.UNHANDLED]):
        watch.applied([item], Delivered(outcomes=outcomes), 0.1)
    [record] = caplog.records
    assert (record.levelname, vars(record)["type"], vars(record)["handled"]) == (
        "WARNING",
        "OrderPlaced",
        "OrderClosed, OrderPaid",
    )


def test_what_is_dead_without_having_been_tried_is_not_parked_in_silence(
    watch: Watch, caplog: pytest.LogCaptureFixture
) -> None:
    parked = {Reason.CONFLICT: 2, Reason.UNREADABLE: 1, Reason.GAP: 3, Reason.FAILED: 1}
    watch.applied([], Delivered(outcomes=[], parked=parked), 0.1)
    told = [(record.levelname, vars(record)["reason"], vars(record)["events"]) for record in caplog.records]
    assert told == [("ERROR", "conflict", 2), ("ERROR", "unreadable", 1)]


def test_a_consumer_that_is_given_nothing_says_once_that_it_waits(
    watch: Watch, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for clock.now in (1.0, 9.0, 12.3456, 20.0):
        watch.lagged({}, assigned=0)
    [record] = caplog.records
    assert record.message.startswith("waits to be given partitions")
    assert vars(record)["seconds"] == 12.35


def test_a_consumer_that_has_a_partition_does_not_wait_for_one(
    watch: Watch, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for clock.now, assigned in ((1.0, 0), (5.0, 1), (60.0, 1), (61.0, 0)):
        watch.lagged({Place("t", 0): 0} if assigned else {}, assigned=assigned)
    assert caplog.records == []
