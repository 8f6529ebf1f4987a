"""What a consumer says about itself, and how often."""

import logging
from collections.abc import Iterator
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import Mock

import pytest
from confluent_kafka import KafkaError

from cdc_outbox.cli.running import fields_of
from cdc_outbox.consumer import Limits, Outcome, Retry
from cdc_outbox.consumer.delivery import Delivered
from cdc_outbox.consumer.fencing import TopicPartition
from cdc_outbox.consumer.group import pass_over
from cdc_outbox.consumer.item import Item, item_of
from cdc_outbox.consumer.limits import Room
from cdc_outbox.consumer.ordering import Aggregate
from cdc_outbox.consumer.parked_events import ParkedCount, ParkedEvent, Reason, State
from cdc_outbox.consumer.stats import ConsumerStats
from cdc_outbox.contract.wire import WireContract
from cdc_outbox.errors import (
    ConfigError,
    DatabaseUnavailableError,
    HandlerError,
    NoHandlerError,
    TransactionConflictError,
)
from cdc_outbox.event import SequenceMode
from cdc_outbox.formats.timestamps import to_milliseconds
from cdc_outbox.message import Message
from cdc_outbox.telemetry import NoMetrics
from cdc_outbox.testing import MemoryMetrics
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
def watch(clock: Clock, caplog: pytest.LogCaptureFixture) -> Iterator[ConsumerStats]:
    watch = ConsumerStats(
        name="shipping", limits=Limits(), metrics=NoMetrics(), handled=lambda: ["OrderPaid", "OrderClosed"], clock=clock
    )
    watch.started()
    with caplog.at_level(logging.INFO):
        yield watch


def test_a_type_without_a_handler_is_warned_of_once(watch: ConsumerStats, caplog: pytest.LogCaptureFixture) -> None:
    item = Item(event=make_event(1), message=Message(topic="t", partition=0, offset=0, key=b"1", value=b"{}"))
    for outcomes in ([Outcome.APPLIED], [Outcome.UNHANDLED], [Outcome.UNHANDLED]):
        watch.applied([item], Delivered(outcomes=outcomes), 0.1)
    [record] = caplog.records
    assert (record.levelname, vars(record)["type"], vars(record)["handled"]) == (
        "WARNING",
        "OrderPlaced",
        "OrderClosed, OrderPaid",
    )


def test_a_handler_that_may_be_misspelt_is_named_unless_it_was_called(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    handled = ["OrderPlcaed", "OrderPlaced2", "InvoiceSent"]
    watch = ConsumerStats(name="shipping", limits=Limits(), metrics=NoMetrics(), handled=lambda: handled, clock=clock)
    items = [
        Item(
            event=make_event(1, event_type=name),
            message=Message(topic="t", partition=0, offset=0, key=b"1", value=b"{}"),
        )
        for name in ("OrderPlaced", "OrderPlaced2", "RefundMade")
    ]
    watch.applied(items, Delivered(outcomes=[Outcome.UNHANDLED, Outcome.APPLIED, Outcome.UNHANDLED]), 0.1)
    told = {vars(record)["type"]: vars(record).get("hint") for record in caplog.records}
    assert told == {"OrderPlaced": "Did you mean 'OrderPlcaed'?", "RefundMade": None}


def test_the_way_of_an_event_begins_with_its_creation_and_not_with_its_record() -> None:
    contract, now = WireContract(aggregates={"order": SequenceMode.GAPLESS}, topic="t"), datetime.now(UTC)
    message = contract.message_of(replace(make_event(1), created_at=now - timedelta(seconds=10)))
    message = replace(message, timestamp_ms=to_milliseconds(now), partition=0, offset=0)
    metrics = MemoryMetrics()
    watch = ConsumerStats(name="shipping", limits=Limits(), metrics=metrics)
    item = Item(event=contract.event_of(message), message=message)
    watch.applied([item], Delivered(outcomes=[Outcome.APPLIED]), 0.1)
    [seconds] = metrics.measured("cdc_outbox_consumer_end_to_end_seconds", consumer="shipping")
    assert 10 <= seconds <= 10 + (datetime.now(UTC) - now).total_seconds()


def test_what_is_dead_without_having_been_tried_is_not_parked_in_silence(
    watch: ConsumerStats, caplog: pytest.LogCaptureFixture
) -> None:
    parked = {Reason.CONFLICT: 2, Reason.UNREADABLE: 1, Reason.GAP: 3, Reason.FAILED: 1}
    watch.applied([], Delivered(outcomes=[], parked=parked), 0.1)
    told = [(record.levelname, vars(record)["reason"], vars(record)["events"]) for record in caplog.records]
    assert told == [("ERROR", "conflict", 2), ("ERROR", "unreadable", 1)]


def test_an_event_that_failed_is_told_once_it_is_applied(
    watch: ConsumerStats, caplog: pytest.LogCaptureFixture
) -> None:
    message = Message(topic="t", partition=0, offset=0, key=b"1", value=b"{}")
    waiting = ParkedEvent(
        parked_id=1,
        event_id="a",
        state=State.WAITING,
        reason=Reason.BEHIND,
        blocks=True,
        forced=False,
        attempts=0,
        message=message,
        is_due=True,
        aggregate=Aggregate("orders.1", "order", "1"),
    )
    failed = replace(waiting, reason=Reason.FAILED, attempts=5)
    event = make_event(1, event_id="a")
    items = [Item(event=event, message=message, parked=row) for row in (None, waiting, failed, failed)]
    outcomes = [Outcome.APPLIED, Outcome.APPLIED, Outcome.PARKED, Outcome.APPLIED]
    watch.applied(items, Delivered(outcomes=outcomes), 0.1)
    assert told(caplog) == [("parked event applied", {"event_id": "a", "attempts": 6})]
    contract = WireContract(aggregates={"order": SequenceMode.GAPLESS})
    came = replace(contract.message_of(event), partition=0, offset=0)
    records = [item_of(came, contract, row).event.record for row in (None, waiting, failed)]
    assert [record and record.attempt for record in records] == [1, 1, 6]


def test_what_was_parked_takes_room_before_it_is_counted_and_by_its_bytes(watch: ConsumerStats) -> None:
    watch.looked([ParkedCount(state=State.DEAD, reason=Reason.FAILED, events=9_000, bytes=255_000_000)])
    watch.applied([], Delivered(outcomes=[], parked={Reason.GAP: 2}, parked_bytes=999_999), 0.1)
    assert watch.room == Room(events=998, bytes=1)
    assert watch.room.reached == ""
    watch.applied([], Delivered(outcomes=[], parked={Reason.GAP: 1}, parked_bytes=5), 0.1)
    assert watch.room.reached == "max_parked_bytes"
    progress = watch.progress()
    assert (progress.parked_bytes, progress.max_parked_bytes) == (256_000_004, 256_000_000)
    watch.looked([])
    assert watch.room == Limits().room


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[str, dict[str, Any]]]:
    return [(record.message, dict(fields_of(record))) for record in caplog.records]


def test_a_consumer_that_is_given_nothing_says_once_that_it_waits(
    watch: ConsumerStats, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for clock.now in (1.0, 9.0, 12.3456, 20.0):
        watch.lagged({}, assigned=())
    [record] = caplog.records
    assert record.message.startswith("waits to be assigned partitions")
    assert vars(record)["seconds"] == 12.35


def test_a_topic_that_does_not_exist_is_named_with_what_may_be_wrong(
    watch: ConsumerStats, caplog: pytest.LogCaptureFixture
) -> None:
    record = Mock(
        **{"error.return_value": KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART), "topic.return_value": "t.oder"}
    )
    pass_over(record, watch)
    assert told(caplog) == [
        ("topic does not exist: is the aggregate type spelt as in the outbox?", {"topic": "t.oder"}),
    ]


def test_a_consumer_says_what_it_reads_and_that_it_has_read_it(
    watch: ConsumerStats, caplog: pytest.LogCaptureFixture
) -> None:
    places = [TopicPartition("t", 0), TopicPartition("t", 1)]
    watch.started()
    watch.lagged({}, assigned=())
    for lags in ({}, {places[0]: 0}, {places[0]: 0, places[1]: 7}, dict.fromkeys(places, 0), {places[0]: 1}):
        watch.lagged(lags, assigned=places)
    watch.lagged({}, assigned=())
    assert told(caplog) == [
        ("joining the group", {"consumer": "shipping"}),
        ("reads", {"consumer": "shipping", "partitions": 2, "topics": "t"}),
        ("has read everything, and waits for new events", {"consumer": "shipping"}),
        ("reads", {"consumer": "shipping", "partitions": 0, "topics": ""}),
    ]


def test_a_consumer_with_many_topics_names_some_of_them(watch: ConsumerStats, caplog: pytest.LogCaptureFixture) -> None:
    watch.lagged({}, assigned=[TopicPartition(f"t{number}", 0) for number in range(9)])
    assert told(caplog)[0][1]["topics"] == "t0, t1, t2, t3, t4 and 4 more"


@pytest.mark.parametrize("applies", [True, False])
def test_a_consumer_says_that_its_database_is_back(
    watch: ConsumerStats, caplog: pytest.LogCaptureFixture, *, applies: bool
) -> None:
    watch.retried(DatabaseUnavailableError("gone"))
    assert watch.progress().outage == "the database"
    for _ in range(2):
        if applies:
            watch.applied([], Delivered(outcomes=[]), 0.1)
        else:
            watch.lagged({}, assigned=())
    assert told(caplog) == [("resumed", {"consumer": "shipping", "waited_for": "the database"})]
    assert watch.progress().outage == ""


def test_transactions_in_each_others_way_are_no_outage(watch: ConsumerStats, caplog: pytest.LogCaptureFixture) -> None:
    watch.retried(TransactionConflictError("deadlock detected"))
    assert watch.progress().outage == ""
    watch.lagged({}, assigned=())
    assert told(caplog) == []


def test_what_handlers_wait_for_is_not_back_because_the_database_answers(
    watch: ConsumerStats, caplog: pytest.LogCaptureFixture
) -> None:
    watch.retried(HandlerError("refused"), "systems that handlers need")
    watch.lagged({}, assigned=())
    assert (told(caplog), watch.progress().outage) == ([], "systems that handlers need")


def test_a_consumer_waits_for_an_event_with_a_handler(watch: ConsumerStats, caplog: pytest.LogCaptureFixture) -> None:
    watch.retried(NoHandlerError("none"))
    watch.lagged({}, assigned=())
    assert (told(caplog), watch.progress().outage) == ([], "an event with a handler")
    watch.applied([], Delivered(outcomes=[]), 0.1)
    assert told(caplog) == [("resumed", {"consumer": "shipping", "waited_for": "an event with a handler"})]


def test_the_log_says_at_every_try_that_the_database_is_gone(
    watch: ConsumerStats, caplog: pytest.LogCaptureFixture
) -> None:
    for error in (DatabaseUnavailableError("gone"), NoHandlerError("none")) * 2:
        for _ in range(2):
            watch.retried(error, seconds=1.234)
    gone, none = [("will be tried again", {"reason": reason, "retry_seconds": 1.23}) for reason in ("gone", "none")]
    assert told(caplog) == [gone, gone, none, gone, gone, none]


def test_a_consumer_that_has_a_partition_does_not_wait_for_one(
    watch: ConsumerStats, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for clock.now, assigned in ((1.0, 0), (5.0, 1), (60.0, 1), (61.0, 0)):
        places = [TopicPartition("t", 0)] * assigned
        watch.lagged(dict.fromkeys(places, 1), assigned=places)
    assert [message for message, _ in told(caplog)] == ["reads", "reads"]


def test_the_park_is_looked_into_as_often_as_the_limits_say(clock: Clock) -> None:
    limits = Limits(parked_poll_seconds=5)
    watch = ConsumerStats(name="shipping", limits=limits, metrics=NoMetrics(), handled=list, clock=clock)
    looks = [watch.wants_a_look() for clock.now in (0.0, 1.5, 4.9, 5.0, 9.9, 10.0)]
    assert looks == [True, False, False, True, False, True]


@pytest.mark.parametrize("name", [field.name for field in fields(Limits)])
def test_every_limit_is_greater_than_zero(name: str) -> None:
    value: Any
    for value in (0, -1, float("nan")):
        with pytest.raises(ConfigError, match=f"{name} must be greater than 0") as caught:
            replace(Limits(), **{name: value})
        assert caught.value.field == f"Limits.{name}"


@pytest.mark.parametrize("name", ["first_pause_seconds", "parked_pause_seconds", "longest_pause_seconds"])
def test_every_pause_is_greater_than_zero(name: str) -> None:
    seconds: Any
    for seconds in (0.0, -1.0, float("nan")):
        with pytest.raises(ConfigError, match=f"{name} must be greater than 0"):
            replace(Retry(), **{name: seconds})
