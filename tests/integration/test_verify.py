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

from cdc_outbox import Event, Outbox
from cdc_outbox.cli.brokers import broker_settings
from cdc_outbox.cli.database import connected
from cdc_outbox.consumer import InboxTable, inbox_component
from cdc_outbox.consumer.topics import TopicReader
from cdc_outbox.message import Message
from cdc_outbox.migrations import upgrade
from cdc_outbox.operate.inbox import OpenInbox
from cdc_outbox.operate.stages import InboxStage, OutboxStage
from cdc_outbox.operate.verification import Kind
from cdc_outbox.operate.verify import Verification, Verified
from cdc_outbox.spec import parse_spec
from cdc_outbox.table import Dialect
from cdc_outbox.testing import MariaDb, Stack
from cdc_outbox.writer.schema import outbox_component
from tests.support.carrying import carry, consume_and_leave, forget_first, make_shop, skip_to_the_end, write
from tests.support.commands import run_command
from tests.support.rig import Pipeline, Shop, eventually


@pytest.fixture
def shop(pipeline: Pipeline) -> Shop:
    return make_shop(pipeline)


def add(pipeline: Pipeline, event: Event) -> Event:
    with psycopg.connect(pipeline.dsn) as connection:
        return Outbox(table=pipeline.spec.outbox, contract=pipeline.spec.contract).add(connection, event)


def verified(shop: Shop, *, settle: float = 0.0, inbox: bool = True) -> Verified:
    spec, servers = shop.pipeline.spec, shop.pipeline.stack.broker.bootstrap_servers
    with (
        connected(shop.pipeline.dsn) as (connection, driver),
        TopicReader.opened(broker_settings(servers, None, group=shop.name)) as reader,
    ):
        return Verification(
            spec.contract,
            outbox=OutboxStage(connection, driver, spec.outbox),
            topics=reader,
            inbox=InboxStage(OpenInbox(connection, driver, table=InboxTable(), consumer=shop.name)) if inbox else None,
            settle_seconds=settle,
        ).run()


def kinds(found: Verified) -> dict[Kind, int]:
    counts: dict[Kind, int] = {}
    for (_, kind), events in found.findings.events.items():
        counts[kind] = counts.get(kind, 0) + events
    return counts


def test_nothing_differs_where_everything_arrived(shop: Shop) -> None:
    write(shop.pipeline, 5)
    write(shop.pipeline, 3, "2")
    shop.consume(8)
    found = verified(shop)
    assert kinds(found) == {}
    [_, order] = found.sums
    assert (order.aggregates, order.given, order.held, order.applied) == (2, 8, 8, 8)


def test_a_last_event_that_was_lost_is_missing(shop: Shop) -> None:
    write(shop.pipeline, 2)
    shop.pipeline.write(1)
    shop.consume(2)
    assert kinds(verified(shop)) == {Kind.MISSING: 1}
    assert kinds(verified(shop, inbox=False)) == {Kind.MISSING: 1}


def test_an_event_that_was_lost_in_the_middle_is_missing_and_its_successors_are_parked(shop: Shop) -> None:
    carry(shop.pipeline, [event for event in shop.pipeline.write(4) if event.sequence != 2])
    with shop.running():
        eventually(lambda: kinds(verified(shop)) == {Kind.MISSING: 1, Kind.PARKED: 2}, "two parked events")


def test_an_event_under_another_id_is_a_conflict(shop: Shop) -> None:
    [event] = shop.pipeline.write(1)
    swapped = Event(**{**{name: getattr(event, name) for name in event.__dataclass_fields__}, "id": "another"})
    carry(shop.pipeline, [swapped])
    shop.consume(1)
    assert kinds(verified(shop)) == {Kind.CONFLICT: 1}
    # The same number under two ids in the topic is one too, whatever the outbox still knows.
    carry(shop.pipeline, [event])
    with shop.pipeline.connect() as connection:
        connection.execute("delete from outbox")
    assert kinds(verified(shop, inbox=False)) == {Kind.CONFLICT: 1}


def test_what_was_never_given_out_is_extra(shop: Shop) -> None:
    write(shop.pipeline, 3)
    shop.consume(3)
    with shop.pipeline.connect() as connection:
        connection.execute("update outbox_heads set last = 1")
    assert kinds(verified(shop)) == {Kind.EXTRA: 2}


def test_a_consumer_that_lags_is_behind_until_it_has_caught_up(shop: Shop) -> None:
    write(shop.pipeline, 3)
    shop.consume(3)
    write(shop.pipeline, 4)
    found = verified(shop)
    assert kinds(found) == {Kind.BEHIND: 4}
    with shop.running():
        assert kinds(verified(shop, settle=30)) == {}


def test_what_the_offset_passed_over_is_told_from_what_is_to_come(shop: Shop) -> None:
    write(shop.pipeline, 3)
    consume_and_leave(shop, 3)
    write(shop.pipeline, 2)
    assert kinds(verified(shop)) == {Kind.BEHIND: 2}
    skip_to_the_end(shop)
    assert kinds(verified(shop)) == {Kind.PASSED_OVER: 2}


def test_a_message_that_nobody_can_read_is_named(shop: Shop) -> None:
    shop.pipeline.produce(Message(topic=shop.pipeline.topic, key=b"1", value=b"{}"))
    found = verified(shop, inbox=False)
    [told] = found.findings.told[Kind.UNREADABLE]
    assert told.place.startswith(f"{shop.pipeline.topic}[")
    with shop.running():
        eventually(lambda: kinds(verified(shop)) == {Kind.UNREADABLE: 1, Kind.PARKED: 1}, "the message in the park")
    with shop.pipeline.connect() as connection:
        connection.execute("update inbox_parked set topic = 'of.another.pipeline'")
    assert kinds(verified(shop)) == {Kind.UNREADABLE: 1}


def test_what_no_database_can_hold_is_compared_all_the_same(shop: Shop) -> None:
    [event] = write(shop.pipeline)
    carry(shop.pipeline, [replace(event, id="2\0"), replace(event, aggregate_id="1\0")])
    assert kinds(verified(shop, settle=0.1)) == {Kind.BEHIND: 2, Kind.CONFLICT: 1, Kind.EXTRA: 1}


def test_what_a_producer_aborted_is_in_no_topic_and_keeps_nobody_waiting(shop: Shop) -> None:
    write(shop.pipeline, 2)
    [aborted] = shop.pipeline.write(1)
    message = shop.pipeline.spec.contract.message_of(aborted)
    producer = Producer(
        {"bootstrap.servers": shop.pipeline.stack.broker.bootstrap_servers, "transactional.id": shop.name}
    )
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce(message.topic, message.value, message.key, headers=list(message.headers))
    producer.flush(10)
    producer.abort_transaction(10)
    found = verified(shop, inbox=False)
    assert kinds(found) == {Kind.MISSING: 1}
    assert found.seconds < 5


def test_unnumbered_events_are_compared_as_far_as_their_rows_are_kept(shop: Shop) -> None:
    metric = Event(aggregate_type="metric", aggregate_id="1", type="OrderPlaced", payload={})
    written = [add(shop.pipeline, metric) for _ in range(5)]
    carry(shop.pipeline, written[:4])
    shop.consume(4)
    assert kinds(verified(shop)) == {Kind.MISSING: 1}
    carry(shop.pipeline, written[4:])
    assert kinds(verified(shop)) == {Kind.BEHIND: 1}
    shop.consume(5)
    assert kinds(verified(shop)) == {}
    with shop.pipeline.connect() as connection:
        connection.execute("delete from outbox")
    found = verified(shop)
    assert kinds(found) == {}
    assert any("metric is not numbered" in note for note in found.notes)


def test_what_the_topic_forgot_is_missing_to_nobody_who_has_applied_it(shop: Shop) -> None:
    write(shop.pipeline, 5)
    shop.consume(5)
    forget_first(shop.pipeline, 3)
    found = verified(shop)
    assert kinds(found) == {}
    assert found.sums[1].forgotten == 3
    assert any("has forgotten its oldest messages" in note for note in found.notes)
    another = Shop(shop.pipeline)
    assert kinds(verified(another)) == {Kind.MISSING: 3, Kind.BEHIND: 2}


@contextmanager
def busy(pipeline: Pipeline, aggregates: int = 5) -> Iterator[None]:
    """Write without a pause on one thread, and carry a little later on another, in order."""
    written: queue.Queue[Event | None] = queue.Queue()
    over = threading.Event()
    pause = threading.Event()
    outbox = Outbox(table=pipeline.spec.outbox, contract=pipeline.spec.contract)

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

    def carry_on() -> None:
        batch: list[Event] = []
        while (event := written.get()) is not None:
            batch.append(event)
            if written.empty() or len(batch) > 50:
                carry(pipeline, batch)
                batch = []
        carry(pipeline, batch)

    threads = [threading.Thread(target=write_on), threading.Thread(target=carry_on)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join(30)


def test_nothing_is_accused_that_goes_on(shop: Shop) -> None:
    with busy(shop.pipeline), shop.running():
        eventually(lambda: len(shop.effects()) > 50, "some effects")
        runs = [verified(shop, settle=30) for _ in range(5)]
    assert [kinds(found) for found in runs] == [{}] * 5
    held = [found.sums[1].held for found in runs]
    assert held == sorted(held)
    assert held[0] < held[-1]


def arguments(shop: Shop, tmp_path: Any, *more: str) -> list[str]:
    spec = tmp_path / "orders.yaml"
    spec.write_text(Pipeline.text(shop.pipeline.name))
    return [
        "verify", str(spec), "--dsn", shop.pipeline.dsn,
        "--bootstrap-servers", shop.pipeline.stack.broker.bootstrap_servers,
        "--consumer", shop.name, "--settle", "0s", *more,
    ]  # fmt: skip


def test_the_command_prints_a_table_a_sentence_for_each_difference_and_exits_with_3(shop: Shop, tmp_path: Any) -> None:
    write(shop.pipeline, 2)
    shop.consume(2)
    done = run_command(*arguments(shop, tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "no differences"
    shop.pipeline.write(1)
    done = run_command(*arguments(shop, tmp_path))
    assert done.returncode == 3
    [header, _, order, *_] = done.stdout.splitlines()
    assert header.split() == ["type", "aggregates", "given", "out", "in", "topic", "applied", "missing"]
    assert order.split() == ["order", "1", "3", "2", "2", "1"]
    source = shop.pipeline.spec.first_source
    assert f"missing: order/1 ({source}): 3 was given out and is not in the topic: late, or lost." in done.stdout
    document = json.loads(run_command(*arguments(shop, tmp_path, "--json")).stdout)
    assert document["hasDifferences"] is True
    [found] = document["findings"]
    assert (found["kind"], found["events"]) == ("missing", 1)


@pytest.mark.parametrize(
    ("option", "value"), [("--dsn", "host=127.0.0.1 port=1"), ("--bootstrap-servers", "127.0.0.1:1")]
)
def test_what_cannot_be_reached_is_said_with_an_exit_code_of_its_own(
    shop: Shop, tmp_path: Any, option: str, value: str
) -> None:
    with psycopg.connect(shop.pipeline.dsn) as connection:
        connection.execute("insert into inbox_epochs values (%s, 'orders', 0, 1, 0)", (shop.name,))
    done = run_command(*arguments(shop, tmp_path, option, value))
    assert done.returncode == 75
    assert "error: " in done.stderr
    assert "Traceback" not in done.stderr


def test_an_outbox_on_mariadb_is_compared_with_an_inbox_on_postgresql(
    outbox_stack: Stack, mariadb: MariaDb, shop: Shop
) -> None:
    import pymysql

    name = f"v{shop.pipeline.name}"
    dsn = mariadb.create_database(name)
    spec = parse_spec(
        f"version: 1\nname: {name}\n"
        f"database: {{kind: mariadb, host: h, name: {name}, user: u, password: '${{env:P}}'}}\n"
        f"aggregates: {{order: {{}}}}\ntopics: {{name: '{shop.pipeline.name}.{{aggregate_type}}'}}\n"
    )
    settings = broker_settings(outbox_stack.broker.bootstrap_servers, None, group=shop.name)
    with (
        connected(dsn.url("mysql").partition("?")[0]) as (connection, driver),
        connected(shop.pipeline.dsn) as (inbox, inbox_driver),
        TopicReader.opened(settings) as reader,
    ):
        component = outbox_component(spec.outbox, first_source=spec.first_source, dialect=Dialect.MYSQL)
        upgrade(lambda statement: driver.fetch(connection, statement), component)
        outbox, written = Outbox(table=spec.outbox, contract=spec.contract), []
        with pymysql.connect(**dsn.parameters()) as writing:
            written = [
                outbox.add(
                    writing, Event(aggregate_type="order", aggregate_id=str(number % 2), type="OrderPlaced", payload={})
                )
                for number in range(7)
            ]
            writing.commit()
        shop.pipeline.produce(*(spec.contract.message_of(event) for event in written[:6]))
        shop.consume(6)
        found = Verification(
            spec.contract,
            outbox=OutboxStage(connection, driver, spec.outbox),
            topics=reader,
            inbox=InboxStage(OpenInbox(inbox, inbox_driver, table=InboxTable(), consumer=shop.name)),
            settle_seconds=0,
        ).run()
    assert kinds(found) == {Kind.MISSING: 1}
    assert (found.sums[0].given, found.sums[0].applied) == (7, 6)
    assert inbox_component(InboxTable()).kind == "inbox"
