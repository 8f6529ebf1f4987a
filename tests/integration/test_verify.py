"""`cdc-outbox verify` on real servers, with messages as the contract writes them and nobody between table and topic."""

import json
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from confluent_kafka import Producer

from cdc_outbox import Event, Outbox, RecordedEvent
from cdc_outbox.cli.brokers import broker_settings
from cdc_outbox.cli.database import connected
from cdc_outbox.consumer import InboxTable, SequenceMode, inbox_component
from cdc_outbox.consumer.topic_reader import TopicReader
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.migrations import upgrade
from cdc_outbox.message import Message
from cdc_outbox.operations.connections import OpenInbox
from cdc_outbox.operations.reconciliation import DifferenceKind
from cdc_outbox.operations.stages import InboxStage, OutboxStage
from cdc_outbox.operations.verify import Verification, Verified
from cdc_outbox.spec import parse_spec
from cdc_outbox.testing import MariaDb, Stack
from cdc_outbox.writer.outbox_schema import outbox_component
from tests.support.commands import run_command
from tests.support.patience import patience
from tests.support.pipeline import Pipeline
from tests.support.pymysql_connections import connect_pymysql
from tests.support.rig import eventually
from tests.support.service import Service
from tests.support.threads import Threads
from tests.support.timings import SILENT_TIMINGS


@pytest.fixture
def service(pipeline: Pipeline) -> Service:
    """A consuming service behind an outbox without a connector."""
    pipeline.create_topics()
    return Service(pipeline)


def add(pipeline: Pipeline, event: Event) -> RecordedEvent:
    with psycopg.connect(pipeline.dsn) as connection:
        return Outbox(spec=pipeline.spec).add(connection, event)


def verified(service: Service, *, settle: float = 0.0, inbox: bool = True) -> Verified:
    spec, servers = service.pipeline.spec, service.pipeline.stack.broker.bootstrap_servers
    with (
        connected(service.dsn) as (connection, driver),
        TopicReader.opened(broker_settings(servers, None, group=service.name)) as reader,
    ):
        return Verification(
            spec.contract,
            outbox=OutboxStage(connection, driver, spec.outbox),
            topics=reader,
            inbox=InboxStage(OpenInbox(connection, driver, table=InboxTable(), consumer=service.name))
            if inbox
            else None,
            settle_seconds=settle,
        ).run()


def kinds(found: Verified) -> dict[DifferenceKind, int]:
    counts: dict[DifferenceKind, int] = {}
    for (_, kind), events in found.findings.events.items():
        counts[kind] = counts.get(kind, 0) + events
    return counts


def test_nothing_differs_where_everything_arrived(service: Service) -> None:
    service.pipeline.write_and_send(5)
    service.pipeline.write_and_send(3, "2")
    service.consume(8)
    found = verified(service)
    assert kinds(found) == {}
    [_, order] = found.sums
    assert (order.aggregates, order.given, order.held, order.applied) == (2, 8, 8, 8)


def test_a_last_event_that_was_lost_is_missing(service: Service) -> None:
    service.pipeline.write_and_send(2)
    service.pipeline.write(1)
    service.consume(2)
    assert kinds(verified(service)) == {DifferenceKind.MISSING: 1}
    assert kinds(verified(service, inbox=False)) == {DifferenceKind.MISSING: 1}


def test_an_event_that_was_lost_in_the_middle_is_missing_and_its_successors_are_parked(service: Service) -> None:
    service.send(*(event for event in service.pipeline.write(4) if event.sequence != 2))
    with service.running():
        eventually(
            lambda: kinds(verified(service)) == {DifferenceKind.MISSING: 1, DifferenceKind.PARKED: 2},
            "two parked events",
        )


def test_an_event_under_another_id_is_a_conflict(service: Service) -> None:
    [event] = service.pipeline.write(1)
    service.send(replace(event, id="another"))
    service.consume(1)
    assert kinds(verified(service)) == {DifferenceKind.CONFLICT: 1}
    # The same number under two ids in the topic is one too, whatever the outbox still knows.
    service.send(event)
    with service.connect() as connection:
        connection.execute("delete from outbox")
    assert kinds(verified(service, inbox=False)) == {DifferenceKind.CONFLICT: 1}


def test_what_was_never_given_out_is_extra(service: Service) -> None:
    service.pipeline.write_and_send(3)
    service.consume(3)
    with service.connect() as connection:
        connection.execute("update outbox_heads set last = 1")
    assert kinds(verified(service)) == {DifferenceKind.EXTRA: 2}


def test_a_consumer_that_lags_is_behind_until_it_has_caught_up(service: Service) -> None:
    service.pipeline.write_and_send(3)
    service.consume(3)
    service.pipeline.write_and_send(4)
    found = verified(service)
    assert kinds(found) == {DifferenceKind.BEHIND: 4}
    with service.running():
        assert kinds(verified(service, settle=30)) == {}


def test_what_the_offset_passed_over_is_told_from_what_is_to_come(service: Service) -> None:
    service.pipeline.write_and_send(3)
    service.consume_and_commit(3)
    service.pipeline.write_and_send(2)
    assert kinds(verified(service)) == {DifferenceKind.BEHIND: 2}
    service.skip_to_the_end()
    assert kinds(verified(service)) == {DifferenceKind.PASSED_OVER: 2}


def test_a_message_that_nobody_can_read_is_named(service: Service) -> None:
    service.send(Message(topic=service.pipeline.topic, key=b"1", value=b"{}"))
    found = verified(service, inbox=False)
    [told] = found.findings.listed[DifferenceKind.UNREADABLE]
    assert told.location.startswith(f"{service.pipeline.topic}[")
    with service.running():
        eventually(
            lambda: kinds(verified(service)) == {DifferenceKind.UNREADABLE: 1, DifferenceKind.PARKED: 1},
            "the message in the park",
        )
    with service.connect() as connection:
        connection.execute("update inbox_parked set topic = 'of.another.pipeline'")
    assert kinds(verified(service)) == {DifferenceKind.UNREADABLE: 1}


def test_what_no_database_can_hold_is_compared_all_the_same(service: Service) -> None:
    [event] = service.pipeline.write_and_send()
    service.send(replace(event, id="2\0"), replace(event, aggregate_id="1\0"))
    assert kinds(verified(service, settle=0.1)) == {
        DifferenceKind.BEHIND: 2,
        DifferenceKind.CONFLICT: 1,
        DifferenceKind.EXTRA: 1,
    }


def test_what_a_producer_aborted_is_in_no_topic_and_keeps_nobody_waiting(service: Service) -> None:
    service.pipeline.write_and_send(2)
    [aborted] = service.pipeline.write(1)
    message = service.pipeline.spec.contract.message_of(aborted)
    producer = Producer(
        {"bootstrap.servers": service.pipeline.stack.broker.bootstrap_servers, "transactional.id": service.name}
    )
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce(message.topic, message.value, message.key, headers=list(message.headers))
    producer.flush(patience())
    producer.abort_transaction(10)
    found = verified(service, inbox=False)
    assert kinds(found) == {DifferenceKind.MISSING: 1}
    assert found.seconds < 5


def test_unnumbered_events_are_compared_as_far_as_their_rows_are_kept(service: Service) -> None:
    metric = Event(aggregate_type="metric", aggregate_id="1", type="OrderPlaced", payload={})
    written = [add(service.pipeline, metric) for _ in range(5)]
    service.send(*written[:4])
    service.consume(4)
    assert kinds(verified(service)) == {DifferenceKind.MISSING: 1}
    service.send(*written[4:])
    assert kinds(verified(service)) == {DifferenceKind.BEHIND: 1}
    service.consume(5)
    assert kinds(verified(service)) == {}
    with service.connect() as connection:
        connection.execute("delete from outbox")
    found = verified(service)
    assert kinds(found) == {}
    assert any("metric is not numbered" in note for note in found.notes)


def test_what_the_topic_forgot_is_missing_to_nobody_who_has_applied_it(service: Service) -> None:
    service.pipeline.write_and_send(5)
    service.consume(5)
    service.pipeline.delete_first_messages(3)
    found = verified(service)
    assert kinds(found) == {}
    assert found.sums[1].forgotten == 3
    assert any("the oldest messages of" in note for note in found.notes)
    another = Service(service.pipeline)
    assert kinds(verified(another)) == {DifferenceKind.MISSING: 3, DifferenceKind.BEHIND: 2}


@contextmanager
def busy(pipeline: Pipeline, aggregates: int = 5) -> Iterator[None]:
    """Write without a pause on one thread, and send a little later on another, in order."""
    written: queue.Queue[RecordedEvent | None] = queue.Queue()
    over = threading.Event()
    pause = threading.Event()
    outbox = Outbox(spec=pipeline.spec)

    def write_on() -> None:
        number = 0
        with psycopg.connect(pipeline.dsn) as connection:
            while not over.is_set():
                number += 1
                event = Event(
                    aggregate_type="order", aggregate_id=str(number % aggregates), type="OrderPlaced", payload={}
                )
                written.put(outbox.add(connection, event))
                connection.commit()
                pause.wait(0.001)
        written.put(None)

    def send_on() -> None:
        batch: list[RecordedEvent] = []
        while (event := written.get()) is not None:
            batch.append(event)
            if written.empty() or len(batch) > 50:
                pipeline.send(*batch)
                batch = []
        pipeline.send(*batch)

    with Threads() as threads:
        threads.submit(write_on)
        threads.submit(send_on)
        try:
            yield
        finally:
            over.set()


def test_nothing_is_accused_that_goes_on(service: Service) -> None:
    with busy(service.pipeline), service.running():
        eventually(lambda: len(service.effects()) > 50, "some effects")
        runs = [verified(service, settle=30) for _ in range(5)]
    assert [kinds(found) for found in runs] == [{}] * 5
    held = [found.sums[1].held for found in runs]
    assert held == sorted(held)
    assert held[0] < held[-1]


def arguments(service: Service, tmp_path: Any, *more: str) -> list[str]:
    spec = tmp_path / "orders.yaml"
    spec.write_text(Pipeline.text(service.pipeline.name))
    return [
        "verify", str(spec), "--dsn", service.dsn,
        "--bootstrap-servers", service.pipeline.stack.broker.bootstrap_servers,
        "--consumer", service.name, "--settle", "0s", *more,
    ]  # fmt: skip


def test_the_command_prints_a_table_a_sentence_for_each_difference_and_exits_with_3(
    service: Service, tmp_path: Any
) -> None:
    service.pipeline.write_and_send(2)
    service.consume(2)
    done = run_command(*arguments(service, tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "no differences"
    service.pipeline.write(1)
    done = run_command(*arguments(service, tmp_path))
    assert done.returncode == 3
    [header, _, order, *_] = done.stdout.splitlines()
    assert header.split() == ["type", "aggregates", "given", "out", "in", "topic", "applied", "missing"]
    assert order.split() == ["order", "1", "3", "2", "2", "1"]
    source = service.pipeline.spec.first_source
    assert f"missing: order/1 ({source}): 3 was given out and is not in the topic: late, or lost." in done.stdout
    document = json.loads(run_command(*arguments(service, tmp_path, "--output=json")).stdout)
    assert document["hasDifferences"] is True
    [found] = document["findings"]
    assert (found["kind"], found["events"]) == ("missing", 1)


@pytest.mark.parametrize(
    ("option", "value"), [("--dsn", "host=127.0.0.1 port=1"), ("--bootstrap-servers", "127.0.0.1:1")]
)
def test_what_cannot_be_reached_is_said_with_an_exit_code_of_its_own(
    service: Service, tmp_path: Any, option: str, value: str
) -> None:
    with psycopg.connect(service.dsn) as connection:
        connection.execute("insert into inbox_epochs values (%s, 'orders', 0, 1, 0)", (service.name,))
    done = run_command(*arguments(service, tmp_path, option, value), timings=SILENT_TIMINGS)
    assert done.returncode == 75
    assert "error: " in done.stderr
    assert "Traceback" not in done.stderr
    assert "rdkafka#" not in done.stderr  # the client's own voice, at every attempt


def test_an_outbox_on_mariadb_is_compared_with_an_inbox_on_postgresql(
    outbox_stack: Stack, mariadb: MariaDb, service: Service
) -> None:

    name = f"v{service.pipeline.name}"
    dsn = mariadb.create_database(name)
    spec = parse_spec(
        f"version: 1\nname: {name}\n"
        f"database: {{kind: mariadb, host: h, name: {name}, user: u, password: '${{env:P}}'}}\n"
        f"aggregates: {{order: {{}}}}\ntopics: {{name: '{service.pipeline.name}.{{aggregate_type}}'}}\n"
    )
    settings = broker_settings(outbox_stack.broker.bootstrap_servers, None, group=service.name)
    with (
        connected(dsn.url("mysql").partition("?")[0]) as (connection, driver),
        connected(service.dsn) as (inbox, inbox_driver),
        TopicReader.opened(settings) as reader,
    ):
        component = outbox_component(spec.outbox, first_source=spec.first_source, dialect=Dialect.MYSQL)
        upgrade(lambda statement: driver.fetch(connection, statement), component)
        outbox, written = Outbox(spec=spec), []
        with connect_pymysql(dsn) as writing:
            written = [
                outbox.add(
                    writing, Event(aggregate_type="order", aggregate_id=str(number % 2), type="OrderPlaced", payload={})
                )
                for number in range(7)
            ]
            writing.commit()
        service.send(*(spec.contract.message_of(event) for event in written[:6]))
        service.consume(6)
        found = Verification(
            spec.contract,
            outbox=OutboxStage(connection, driver, spec.outbox),
            topics=reader,
            inbox=InboxStage(OpenInbox(inbox, inbox_driver, table=InboxTable(), consumer=service.name)),
            settle_seconds=0,
        ).run()
    assert kinds(found) == {DifferenceKind.MISSING: 1}
    assert (found.sums[0].given, found.sums[0].applied) == (7, 6)
    assert inbox_component(InboxTable()).kind == "inbox"


def test_types_whose_topic_the_consumer_never_read_are_compared_without_it(service: Service) -> None:
    """README's shipping takes some of the aggregate types of its spec."""
    metric = Event(aggregate_type="metric", aggregate_id="1", type="Measured", payload={})
    service.send(add(service.pipeline, metric))
    service.pipeline.write_and_send(2)
    contract = replace(service.pipeline.spec.contract, aggregates={"order": SequenceMode.GAPLESS})
    service.consume(2, service.consumer(contract=contract))
    found = verified(service)
    assert kinds(found) == {}
    assert any(
        "has never read" in note and "of metric, only outbox and topic are compared" in note for note in found.notes
    )
    [measured, order] = found.sums
    assert (measured.applied, order.applied) == (None, 2)
    # What it does take is compared with what it applied.
    service.pipeline.write_and_send(1)
    assert kinds(verified(service)) == {DifferenceKind.BEHIND: 1}
