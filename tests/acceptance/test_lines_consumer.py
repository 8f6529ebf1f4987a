"""Lines of what the systems before this one could do on the consuming side, each by its name; where ours differs, the
docstring says how."""

import json
import logging
import threading
from dataclasses import replace
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from cdc_outbox import Event, ForeignOutbox, HeaderNames, SequenceMode, WireContract
from cdc_outbox.consumer import Inbox, Outcome, Verdict
from cdc_outbox.message import Message
from cdc_outbox.metrics import SERIES
from tests.support.commands import run_command
from tests.support.desk import Desk, numbered, placed
from tests.support.rig import Connection, apply_effect, eventually, one


def test_a4_consumers_read_the_stream_of_a_category_and_handle_events_by_their_type(desk: Desk) -> None:
    """A stream category is an aggregate type, and `@handle(OrderCreated)` is `@consumer.on("OrderCreated")`."""
    consumer = desk.consumer()
    handled: list[str] = []

    @consumer.on("OrderCreated")
    def create(event: Event, connection: Connection) -> None:
        handled.append(event.type)
        apply_effect(event, connection)

    desk.send(placed(1, event_type="OrderCreated"), placed(2, event_type="OrderLost"), placed(3))
    with desk.running(consumer):
        desk.wait_for_effects(("1", 1), ("1", 3))
    assert handled == ["OrderCreated"]
    assert consumer.outcomes[Outcome.UNHANDLED] == 1


def test_b5_cleanup_and_monitoring_are_components_of_the_consumer_too(desk: Desk) -> None:
    """Lag, failures, the size of what is set aside and the handlers' time are metrics; ids are forgotten by command."""
    told = {series.name.removeprefix("cdc_outbox_consumer_") for series in SERIES}
    assert {"lag_events", "batches_total", "retries_total", "parked_events", "handler_seconds"} <= told
    desk.send(placed(1), placed(2))
    with desk.running():
        desk.wait_for_effects(*numbered(2))
        lag = {"consumer": desk.name, "topic": desk.pipeline.topic, "partition": "0"}
        eventually(lambda: desk.metrics.gauge("cdc_outbox_consumer_lag_events", **lag) == 0, "the lag to be gone")
    assert (
        len(desk.metrics.measured("cdc_outbox_consumer_handler_seconds", consumer=desk.name, type="OrderPlaced")) == 2
    )
    purge = run_command("purge-inbox", "--horizon-days", "7", "--accept-shorter-horizon", "--dsn", desk.pipeline.dsn)
    assert purge.returncode == 0, purge.stderr


def test_d6_two_deliveries_at_once_have_one_effect(desk: Desk) -> None:
    """The original checks, handles and inserts, so that two deliveries both pass the check; ours inserts first."""
    contract, event = desk.pipeline.spec.contract, placed(1)
    inbox, verdicts = Inbox(name=desk.name, contract=contract), list[Verdict]()
    inside, go_on = threading.Event(), threading.Event()

    def deliver(*, waits: bool) -> None:
        with psycopg.connect(desk.pipeline.dsn) as connection, inbox.receiving(connection, event) as verdict:
            verdicts.append(verdict)
            if waits:
                inside.set()
                assert go_on.wait(20)
            if verdict is Verdict.NEXT:
                apply_effect(event, connection)

    first = threading.Thread(target=deliver, kwargs={"waits": True})
    second = threading.Thread(target=deliver, kwargs={"waits": False})
    first.start()
    assert inside.wait(20)
    second.start()
    with desk.pipeline.connect() as watcher:
        blocked = (
            "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
        )
        eventually(lambda: one(watcher, blocked) == 1, "the second to wait for the claim")
    go_on.set()
    first.join(20)
    second.join(20)
    assert verdicts == [Verdict.NEXT, Verdict.DUPLICATE]
    assert desk.effects() == numbered(1)


def test_d6_a_duplicate_is_skipped_and_counted_and_the_handlers_effects_share_the_claims_transaction(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    """Instead of a line in the log for each, which a replay would fill the disk with, there is a counter."""
    [message] = desk.send(placed(1))
    desk.pipeline.produce(message)
    with caplog.at_level(logging.WARNING, "cdc_outbox"), desk.running() as consumer:
        eventually(lambda: consumer.outcomes[Outcome.DUPLICATE] == 1, "the duplicate")
    assert desk.effects() == numbered(1)
    query = "select (select xmin::text from inbox limit 1), (select xmin::text from effects limit 1)"
    [(claimed, applied)] = desk.rows(query)
    assert claimed == applied
    assert desk.metrics.total("cdc_outbox_consumer_events_total", outcome="duplicate", type="OrderPlaced") == 1


def test_d7_processed_ids_have_their_time_and_are_forgotten_after_days(desk: Desk) -> None:
    """The table is `inbox`: by consumer and id, with the time of the claim; a horizon for both, and not one of a day
    for the check and one of a week for the table."""
    old = placed(None, "cpu", aggregate_type="metric")
    desk.send(replace(old, id="6c1fd0dd-14ea-4d5c-a6a8-5b7a9d3b8f10"), placed(1))
    with desk.running():
        eventually(lambda: len(desk.effects()) == 2, "two effects")
    with desk.pipeline.connect() as connection:
        week = timedelta(days=8)
        connection.execute("update inbox set claimed_at = claimed_at - %s where event_id like '~%%'", (week,))
    purge = run_command("purge-inbox", "--horizon-days", "7", "--accept-shorter-horizon", "--dsn", desk.pipeline.dsn)
    assert purge.returncode == 0, purge.stderr
    assert desk.rows("select count(*) filter (where event_id like '~%%'), count(*) from inbox") == [(0, 1)]


def test_d8_events_of_one_aggregate_are_applied_in_the_order_of_the_topic(desk: Desk) -> None:
    """Topics `order-events`, headers `event-type` and `aggregate-type`, and attributes in the value are read as they
    are. Without numbers their order in the topic is the only one there is."""
    name = desk.pipeline.name
    contract = WireContract(
        aggregates={"order": SequenceMode.NONE},
        topic=f"{name}-{{aggregate_type}}-events",
        headers=HeaderNames(type="event-type", aggregate_type="aggregate-type"),
        foreign=ForeignOutbox(),
    )
    topic = contract.topic_of("order")
    desk.pipeline.stack.broker.create_topic(topic, partitions=2)
    consumer, seen = desk.consumer(contract=contract), list[tuple[str, Any]]()

    @consumer.on("OrderMoved")
    def move(event: Event, _connection: Connection) -> None:
        seen.append((event.aggregate_id, event.payload["step"]))

    for step in range(1, 4):
        for order in ("7", "8"):
            value = {"id": f"{order}.{step}", "type": "OrderMoved", "aggregate_id": order, "step": step}
            headers = {"id": f"{order}.{step}", "event-type": "OrderMoved", "aggregate-type": "order"}
            desk.pipeline.produce(
                Message(
                    topic=topic,
                    key=order.encode(),
                    value=json.dumps(value).encode(),
                    headers=tuple((header, text.encode()) for header, text in headers.items()),
                )
            )
    with desk.running(consumer):
        eventually(lambda: consumer.outcomes[Outcome.APPLIED] == 6, "six events")
    for order in ("7", "8"):
        assert [step for found, step in seen if found == order] == [1, 2, 3]
