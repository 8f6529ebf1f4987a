"""What ``docs/`` shows of handlers is executed on PostgreSQL, as it stands there."""

import logging
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cdc_outbox import Event, Outbox, RecordedEvent
from cdc_outbox.consumer import Consumer, EffectsDatabase, Inbox, InboxTable, KafkaRecord, Verdict, inbox_component
from cdc_outbox.message import Message
from cdc_outbox.spec import Spec, parse_spec
from cdc_outbox.testing import HandlerFaults, Stack
from cdc_outbox.writer.outbox_schema import outbox_component
from tests.support.events import make_event
from tests.support.pipeline import Pipeline
from tests.support.reactions import deliver
from tests.support.rig import Connection, run_upgrade

DOCS = Path(__file__).parents[2] / "docs"


def block(page: str, heading: str, language: str = "python") -> str:
    """Return the first block under a heading."""
    text = (DOCS / page).read_text()
    section = re.split(r"^## ", text[text.index(f"# {heading}\n") + 2 :], maxsplit=1, flags=re.MULTILINE)[0]
    found = re.search(rf"^```{language}\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture
def spec() -> Spec:
    headers = block("consuming.md", "A consumer that writes events", "yaml")
    text = Pipeline.text("shipping", headers).replace("order: {}", "order: {}\n  shipment: {}")
    return parse_spec(text, name="shipping.yaml")


@pytest.fixture(scope="module")
def dsn(outbox_stack: Stack) -> str:
    return outbox_stack.postgres.create_database("consuming_docs")


@pytest.fixture
def database(dsn: str, spec: Spec) -> str:
    with psycopg.connect(dsn) as connection:
        run_upgrade(connection, inbox_component(InboxTable()))
        run_upgrade(connection, outbox_component(spec.outbox, first_source="shipping.1"))
        connection.execute("drop table if exists shipments")
        connection.execute("create table shipments (order_id text primary key, paid boolean not null default false)")
    return dsn


def new_consumer(spec: Spec, database: EffectsDatabase[Connection]) -> Consumer:
    return Consumer(name="shipping", contract=spec.contract, kafka="nowhere", database=database)


def test_the_handler_that_looks_at_the_record_is_told_where_and_which_attempt(
    database: str, spec: Spec, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = new_consumer(spec, EffectsDatabase(connect=lambda: psycopg.connect(database)))
    names = {"consumer": consumer, "RecordedEvent": RecordedEvent, "psycopg": psycopg, "log": logging.getLogger("x")}
    exec(block("consuming.md", "What a handler is given"), names)  # noqa: S102
    ship: Any = names["ship"]
    with psycopg.connect(database) as connection:
        for attempt in (1, 2):
            record = KafkaRecord("outbox.event.order", 3, 41, attempt)
            ship(replace(make_event(1, str(attempt)), record=record), connection)
    assert [message.partition(" at ")[2] for message in caplog.messages] == ["outbox.event.order[3]@41 is tried again"]


def test_the_test_of_handlers_that_is_shown_passes_and_counts_mails(
    database: str, spec: Spec, handler_faults: HandlerFaults
) -> None:
    effects = EffectsDatabase(connect=lambda: psycopg.connect(database))
    consumer, mailbox = new_consumer(spec, effects), list[str]()

    @consumer.on("OrderPlaced")
    def ship(event: RecordedEvent, connection: Connection) -> None:
        connection.execute("insert into shipments (order_id) values (%s)", [event.aggregate_id])
        mailbox.append(event.aggregate_id)

    @consumer.on("OrderPaid")
    def pay(event: RecordedEvent, connection: Connection) -> None:
        connection.execute("update shipments set paid = true where order_id = %s", [event.aggregate_id])

    names = {"consumer": consumer, "Event": Event, "psycopg": psycopg, "TEST_DSN": database, "mailbox": mailbox}
    exec(block("testing.md", "Testing your handlers"), names)  # noqa: S102 - the documentation's own
    test: Any = names["test_my_handlers_are_safe"]
    test(handler_faults)
    assert mailbox


def test_the_handler_that_writes_events_that_is_shown_writes_them(database: str, spec: Spec) -> None:
    names: dict[str, Any] = {
        "Outbox": Outbox,
        "Event": Event,
        "load_spec": lambda _path: spec,
        "EffectsDatabase": EffectsDatabase,
        "psycopg": psycopg,
        "DSN": database,
        "make_consumer": partial(new_consumer, spec),
    }
    exec(block("consuming.md", "A consumer that writes events"), names)  # noqa: S102
    event = make_event(1, "41")
    deliver(names["consumer"], event)
    with psycopg.connect(database) as connection:
        query = "select type, aggregateid, sequence, causation_id, correlation_id from outbox"
        assert connection.execute(query).fetchall() == [("ShipmentStarted", "41", 1, event.id, event.id)]
    assert {"causation_id", "correlation_id"} <= set(spec.contract.extra_headers)


def test_the_loop_that_is_shown_applies_an_event_once(database: str, spec: Spec) -> None:
    shipped: list[RecordedEvent] = []
    committed: list[Message] = []
    message = spec.contract.message_of(make_event(1, "41"))
    with psycopg.connect(database) as connection:
        names: dict[str, Any] = {
            "Inbox": Inbox,
            "Verdict": Verdict,
            "contract": spec.contract,
            "messages": [message, message],
            "connection": connection,
            "ship": lambda event, _connection: shipped.append(event),
            "commit_offset": committed.append,
        }
        exec(block("consuming.md", "Your own loop").replace('"shipping"', '"own loop"'), names)  # noqa: S102
    assert [event.aggregate_id for event in shipped] == ["41"]
    assert committed == [message, message]
