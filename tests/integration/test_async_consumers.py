"""Asynchronous consumers wait a lost database out, whatever their driver makes of it."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import asyncpg
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from cdc_outbox.consumer import AsyncConsumer, RecordedEvent
from tests.support.driver_clients import asyncpg_options
from tests.support.events import make_event
from tests.support.rig import eventually
from tests.support.service import QUICK, Service, effects_of
from tests.support.threads import Threads
from tests.support.timings import QUICK_LIMITS


class Database:
    """The service's database, which refuses connections while it is away."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.is_away = threading.Event()
        self.refused = 0
        self.engine = create_async_engine("postgresql+asyncpg://", async_creator=self.open)

    async def open(self, *_arguments: object, **_options: object) -> Any:
        """Connect with asyncpg, as its pools and SQLAlchemy's do."""
        if self.is_away.is_set():
            self.refused += 1
            raise ConnectionRefusedError(111, "Connect call failed ('127.0.0.1', 1)")
        return await asyncpg.connect(**asyncpg_options(self.service.dsn))

    def lose(self) -> None:
        """Refuse connections from now on, and end those that there are."""
        self.is_away.set()
        self.service.rows(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )


def connect_asyncpg(database: Database) -> Callable[[], Awaitable[Any]]:
    return database.open


def connect_sqlalchemy(database: Database) -> Callable[[], Awaitable[Any]]:
    async def connect() -> AsyncSession:
        return AsyncSession(database.engine)

    return connect


async def apply_effect(event: RecordedEvent, connection: Any) -> None:
    """Insert a row that names the event, with either driver."""
    values = {"aggregate": event.aggregate_id, "sequence": event.sequence}
    if isinstance(connection, AsyncSession):
        insert = "insert into effects (aggregate, sequence) values (:aggregate, :sequence)"
        await connection.execute(text(insert), values)
    else:
        await connection.execute("insert into effects (aggregate, sequence) values ($1, $2)", *values.values())


@contextmanager
def running(consumer: AsyncConsumer, database: Database) -> Iterator[None]:
    """Run a consumer in an event loop on a thread, and raise what it raised."""
    loop = asyncio.new_event_loop()

    def run() -> None:
        try:
            loop.run_until_complete(consumer.run())
        finally:
            loop.run_until_complete(database.engine.dispose())

    with closing(loop), Threads() as threads:
        threads.submit(run)
        try:
            yield
        finally:
            loop.call_soon_threadsafe(consumer.stop)


@pytest.mark.parametrize("connect", [connect_asyncpg, connect_sqlalchemy])
def test_an_asynchronous_consumer_goes_on_after_its_database_was_away(
    fed_service: Service, connect: Callable[[Database], Callable[[], Awaitable[Any]]]
) -> None:
    database = Database(fed_service)
    consumer = AsyncConsumer(
        name=fed_service.name,
        contract=fed_service.pipeline.spec.contract,
        kafka={"bootstrap.servers": fed_service.pipeline.stack.broker.bootstrap_servers, **QUICK},
        database=connect(database),
        limits=QUICK_LIMITS,
    )
    consumer.on("OrderPlaced")(apply_effect)
    fed_service.send(*(make_event(number) for number in range(1, 6)))
    with running(consumer, database):
        fed_service.wait_for_effects(*effects_of(5))
        database.lose()
        fed_service.send(*(make_event(number) for number in range(6, 11)))
        eventually(lambda: database.refused > 1, "the consumer to connect again and again")
        assert consumer.progress().outage == "the database"
        database.is_away.clear()
        fed_service.wait_for_effects(*effects_of(10))
    assert fed_service.parked() == []
