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

from cdc_outbox import ForeignOutbox, HeaderNames, RecordedEvent, SequenceMode, WireContract
from cdc_outbox.consumer import Inbox, Outcome, Verdict
from cdc_outbox.message import Message
from cdc_outbox.monitoring.series import SERIES
from tests.support.commands import run_command
from tests.support.events import make_event
from tests.support.patience import patience
from tests.support.rig import Connection, eventually, one
from tests.support.service import Service, apply_effect, effects_of
from tests.support.threads import Threads


def test_a4_consumers_read_the_stream_of_a_category_and_handle_events_by_their_type(fed_service: Service) -> None:
    """A stream category is an aggregate type, and `@handle(OrderCreated)` is `@consumer.on("OrderCreated")`."""
    consumer = fed_service.consumer()
    handled: list[str] = []

    @consumer.on("OrderCreated")
    def create(event: RecordedEvent, connection: Connection) -> None:
        handled.append(event.type)
        apply_effect(event, connection)

    fed_service.send(make_event(1, event_type="OrderCreated"), make_event(2, event_type="OrderLost"), make_event(3))
    with fed_service.running(consumer):
        fed_service.wait_for_effects(("1", 1), ("1", 3))
    assert handled == ["OrderCreated"]
    assert consumer.outcomes[Outcome.UNHANDLED] == 1


def test_b5_cleanup_and_monitoring_are_components_of_the_consumer_too(fed_service: Service) -> None:
    """Lag, failures, the size of what is set aside and the handlers' time are metrics; ids are forgotten by command."""
    told = {series.name.removeprefix("cdc_outbox_consumer_") for series in SERIES}
    assert {"lag_events", "batches_total", "retries_total", "parked_events", "handler_seconds"} <= told
    fed_service.send(make_event(1), make_event(2))
    with fed_service.running():
        fed_service.wait_for_effects(*effects_of(2))
        lag = {"consumer": fed_service.name, "topic": fed_service.pipeline.topic, "partition": "0"}
        metrics = fed_service.metrics
        eventually(lambda: metrics.gauge("cdc_outbox_consumer_lag_events", **lag) == 0, "the lag to be gone")
    handler = {"consumer": fed_service.name, "type": "OrderPlaced"}
    assert len(metrics.measured("cdc_outbox_consumer_handler_seconds", **handler)) == 2
    purge = run_command("purge-inbox", "--horizon", "7d", "--accept-shorter-horizon", "--dsn", fed_service.dsn)
    assert purge.returncode == 0, purge.stderr


def test_d6_two_deliveries_at_once_have_one_effect(fed_service: Service) -> None:
    """The original checks, handles and inserts, so that two deliveries both pass the check; ours inserts first."""
    contract, event = fed_service.pipeline.spec.contract, make_event(1)
    inbox, verdicts = Inbox(name=fed_service.name, contract=contract), list[Verdict]()
    inside, go_on = threading.Event(), threading.Event()

    def deliver(*, waits: bool) -> None:
        with psycopg.connect(fed_service.dsn) as connection, inbox.receiving(connection, event) as verdict:
            verdicts.append(verdict)
            if waits:
                inside.set()
                assert go_on.wait(patience())
            if verdict is Verdict.NEXT:
                apply_effect(event, connection)

    with fed_service.connect() as watcher, Threads() as threads:
        threads.submit(deliver, waits=True)
        assert inside.wait(patience())
        threads.submit(deliver, waits=False)
        blocked = (
            "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
        )
        eventually(lambda: one(watcher, blocked) == 1, "the second to wait for the claim")
        go_on.set()
    assert verdicts == [Verdict.NEXT, Verdict.DUPLICATE]
    assert fed_service.effects() == effects_of(1)


def test_d6_a_duplicate_is_skipped_and_counted_and_the_handlers_effects_share_the_claims_transaction(
    fed_service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    """Instead of a line in the log for each, which a replay would fill the disk with, there is a counter."""
    [message] = fed_service.send(make_event(1))
    fed_service.send(message)
    with caplog.at_level(logging.WARNING, "cdc_outbox"), fed_service.running() as consumer:
        eventually(lambda: consumer.outcomes[Outcome.DUPLICATE] == 1, "the duplicate")
    assert fed_service.effects() == effects_of(1)
    query = "select (select xmin::text from inbox limit 1), (select xmin::text from effects limit 1)"
    [(claimed, applied)] = fed_service.rows(query)
    assert claimed == applied
    assert fed_service.metrics.total("cdc_outbox_consumer_events_total", outcome="duplicate", type="OrderPlaced") == 1


def test_d7_processed_ids_have_their_time_and_are_forgotten_after_days(fed_service: Service) -> None:
    """The table is `inbox`: by consumer and id, with the time of the claim; a horizon for both, and not one of a day
    for the check and one of a week for the table."""
    old = make_event(None, "cpu", aggregate_type="metric")
    fed_service.send(replace(old, id="6c1fd0dd-14ea-4d5c-a6a8-5b7a9d3b8f10"), make_event(1))
    with fed_service.running():
        eventually(lambda: len(fed_service.effects()) == 2, "two effects")
    with fed_service.connect() as connection:
        week = timedelta(days=8)
        connection.execute("update inbox set claimed_at = claimed_at - %s where event_id like '~%%'", (week,))
    purge = run_command("purge-inbox", "--horizon", "7d", "--accept-shorter-horizon", "--dsn", fed_service.dsn)
    assert purge.returncode == 0, purge.stderr
    assert fed_service.rows("select count(*) filter (where event_id like '~%%'), count(*) from inbox") == [(0, 1)]


def test_d8_events_of_one_aggregate_are_applied_in_the_order_of_the_topic(fed_service: Service) -> None:
    """Topics `order-events`, headers `event-type` and `aggregate-type`, and attributes in the value are read as they
    are. Without numbers their order in the topic is the only one there is."""
    name = fed_service.pipeline.name
    contract = WireContract(
        aggregates={"order": SequenceMode.NONE},
        topic=f"{name}-{{aggregate_type}}-events",
        headers=HeaderNames(type="event-type", aggregate_type="aggregate-type"),
        foreign=ForeignOutbox(),
    )
    topic = contract.topic_of("order")
    fed_service.pipeline.stack.broker.create_topic(topic, partitions=2)
    consumer, seen = fed_service.consumer(contract=contract), list[tuple[str, Any]]()

    @consumer.on("OrderMoved")
    def move(event: RecordedEvent, _connection: Connection) -> None:
        seen.append((event.aggregate_id, event.payload["step"]))

    for step in range(1, 4):
        for order in ("7", "8"):
            value = {"id": f"{order}.{step}", "type": "OrderMoved", "aggregate_id": order, "step": step}
            headers = {"id": f"{order}.{step}", "event-type": "OrderMoved", "aggregate-type": "order"}
            fed_service.send(
                Message(
                    topic=topic,
                    key=order.encode(),
                    value=json.dumps(value).encode(),
                    headers=tuple((header, text.encode()) for header, text in headers.items()),
                )
            )
    with fed_service.running(consumer):
        eventually(lambda: consumer.outcomes[Outcome.APPLIED] == 6, "six events")
    for order in ("7", "8"):
        assert [step for found, step in seen if found == order] == [1, 2, 3]
