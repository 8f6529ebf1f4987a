"""A handler that changes the role of its session fails alone: the consumer writes with its own role's privileges."""

import asyncio
import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from cdc_outbox.consumer import AsyncConsumer, Consumer, EffectsDatabase, InboxTable, RecordedEvent, inbox_component
from cdc_outbox.consumer.item import item_of
from cdc_outbox.consumer.limits import ENDLESS
from cdc_outbox.consumer.session import Session
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.drivers.mysql import PyMySql
from cdc_outbox.databases.migrations import upgrade
from cdc_outbox.errors import HandlerError
from cdc_outbox.testing import MariaDb, Stack
from tests.support.brokerless_service import CONTRACT, TOPIC_PARTITION, BrokerlessService
from tests.support.events import make_event
from tests.support.pymysql_connections import connect_pymysql
from tests.support.rig import Connection
from tests.support.service import PATIENT, Service, apply_effect

NAME, TENANT = "shipping", "tenant"
"""The consumer, and the aggregate whose event makes its handler change the role."""


@pytest.fixture
def service(outbox_stack: Stack) -> BrokerlessService:
    service = BrokerlessService(outbox_stack.postgres.create_database(f"roles_{uuid4().hex[:8]}"), name=NAME)
    service.create_tables()
    return service


@pytest.fixture
def role(service: BrokerlessService) -> Iterator[str]:
    """A role that may write effects and nothing else."""
    name = f"tenant_{uuid4().hex}"
    with service.connect() as connection:
        connection.execute("create table notes (number serial)")
        connection.execute(f"create role {name}".encode())
        connection.execute(f"grant insert on effects to {name}".encode())
        yield name
        connection.execute(f"drop owned by {name}".encode())
        connection.execute(f"drop role {name}".encode())


class Notes:
    """Writes at the end of the handlers, as an outbox does."""

    def caused_by(self, events: Sequence[RecordedEvent]) -> None:
        """Take no notice."""

    @contextmanager
    def gathering(self, connection: Connection) -> Iterator["Notes"]:
        """Write a row at the end."""
        yield self
        connection.execute("insert into notes default values")


async def deliver(consumer: Any) -> list[str]:
    """Apply the first event of three aggregates, each in a transaction of its own; return what failed."""
    session = Session(consumer._database.connect, consumer._know)
    held = {tp: assignment.epoch for tp, assignment in (await session.issue([TOPIC_PARTITION])).items()}
    errors = []
    for offset, aggregate_id in enumerate(("a", TENANT, "b")):
        message = CONTRACT.message_of(make_event(1, aggregate_id))
        message = replace(message, topic=TOPIC_PARTITION.topic, partition=TOPIC_PARTITION.partition, offset=offset)
        try:
            await session.apply([item_of(message, CONTRACT)], held, ENDLESS)
        except HandlerError as error:
            errors.append(str(error))
    await session.close()
    return errors


def assert_one_failed(errors: list[str]) -> None:
    [error] = errors
    assert re.fullmatch(r"a handler changed the role from \S+ to \S+, which lacks privileges of the consumer", error)


@pytest.mark.parametrize("before_commit", [None, Notes()], ids=["", "and another one writes"])
@pytest.mark.parametrize("pipeline", [False, True], ids=["", "in a pipeline"])
def test_only_the_event_fails_whose_handler_changes_the_role(
    service: BrokerlessService, role: str, before_commit: Notes | None, *, pipeline: bool
) -> None:
    connect = lambda: psycopg.connect(service.dsn)  # noqa: E731
    database = EffectsDatabase(connect=connect, before_commit=before_commit, pipeline=pipeline)
    consumer = Consumer(name=NAME, contract=CONTRACT, kafka="nowhere", database=database)

    @consumer.on("OrderPlaced")
    def handle(event: RecordedEvent, connection: Connection) -> None:
        apply_effect(event, connection)
        if event.aggregate_id == TENANT:
            connection.execute(f"set local role {role}".encode())

    assert_one_failed(asyncio.run(deliver(consumer)))
    assert service.effects() == [("a", 1), ("b", 1)]


def test_it_is_parked_and_the_rest_of_its_batch_is_applied(fed_service: Service) -> None:
    name = f"tenant_{uuid4().hex}"
    with fed_service.connect() as connection:
        connection.execute(f"create role {name}".encode())
        connection.execute(f"grant select, insert on effects to {name}".encode())
    consumer = fed_service.consumer(retry=PATIENT)

    @consumer.on("OfTenant")
    def handle(event: RecordedEvent, connection: Connection) -> None:
        apply_effect(event, connection)
        connection.execute(f"set local role {name}".encode())

    kinds = {3: "OfTenant", 7: "OfTenant"}
    fed_service.send(*(make_event(1, str(n), event_type=kinds.get(n, "OrderPlaced")) for n in range(10)))
    with fed_service.running(consumer):
        fed_service.wait_for_effects(*((str(number), 1) for number in range(10) if number not in kinds))
        fed_service.wait_for_parked(*[(1, "waiting", "failed")] * 2)


def test_the_same_holds_for_an_asynchronous_consumer(service: BrokerlessService, role: str) -> None:
    async def connect() -> Any:
        return await psycopg.AsyncConnection.connect(service.dsn)

    consumer = AsyncConsumer(name=NAME, contract=CONTRACT, kafka="nowhere", database=connect)

    @consumer.on("OrderPlaced")
    async def handle(event: RecordedEvent, connection: Any) -> None:
        values = (event.aggregate_id, event.sequence)
        await connection.execute("insert into effects (aggregate, sequence) values (%s, %s)", values)
        if event.aggregate_id == TENANT:
            await connection.execute(f"set role {role}")

    assert_one_failed(asyncio.run(deliver(consumer)))
    assert service.effects() == [("a", 1), ("b", 1)]


def test_a_role_that_mariadb_keeps_for_the_session_ends_with_it(mariadb: MariaDb) -> None:
    dsn = mariadb.create_database(f"roles_{uuid4().hex[:10]}")
    own, login = f"own_{uuid4().hex[:8]}", f"login_{uuid4().hex[:8]}"
    with closing(connect_pymysql(dsn)) as connection, connection.cursor() as cursor:
        component = inbox_component(InboxTable.on(Dialect.MYSQL))
        upgrade(lambda sql: PyMySql("pymysql").fetch(connection, sql), component)
        cursor.execute("create table effects (aggregate varchar(50), sequence int)")
        cursor.execute(f"create role {own}")
        cursor.execute(f"grant all on {dsn.database}.* to {own}")
        cursor.execute(f"create user {login}@'%' identified by '{dsn.password}'")
        cursor.execute(f"grant {own} to {login}@'%'")
        cursor.execute(f"set default role {own} for {login}@'%'")
    consumer = Consumer(
        name=NAME, contract=CONTRACT, kafka="nowhere", database=lambda: connect_pymysql(replace(dsn, user=login))
    )

    @consumer.on("OrderPlaced")
    def handle(event: RecordedEvent, connection: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute("insert into effects values (%s, %s)", (event.aggregate_id, event.sequence))
            if event.aggregate_id == TENANT:
                cursor.execute("set role none")

    assert_one_failed(asyncio.run(deliver(consumer)))
    with closing(connect_pymysql(dsn)) as connection, connection.cursor() as cursor:
        cursor.execute("select aggregate from effects order by aggregate")
        assert cursor.fetchall() == (("a",), ("b",))
