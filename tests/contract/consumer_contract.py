"""What a consumer promises on every database, and with every driver that its handlers may be given.

Not collected itself: see ``test_consumer_*.py``. A subclass says who its users are. The handlers are written once, as
coroutines; a synchronous driver's never wait, and are run to their end at once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

import psycopg
import pytest
from confluent_kafka import Producer

from cdc_outbox.consumer import AsyncConsumer, Consumer, InboxTable, Outcome, RecordedEvent, inbox_component
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.drivers.immediate import finish
from cdc_outbox.databases.drivers.mysql import PyMySql
from cdc_outbox.databases.drivers.sqlite3 import Sqlite3
from cdc_outbox.databases.migrations import upgrade
from cdc_outbox.errors import TransactionEndedError
from cdc_outbox.spec import parse_spec
from cdc_outbox.testing import MariaDb, MariaDbDsn, Stack
from tests.support.driver_users import Users
from tests.support.events import make_event
from tests.support.mariadb import MariaDbStore
from tests.support.patience import patience
from tests.support.pipeline import Pipeline
from tests.support.pymysql_connections import connect_pymysql
from tests.support.rig import eventually, run_upgrade
from tests.support.service import PATIENT, QUICK, by_aggregate
from tests.support.sqlite import SqliteStore
from tests.support.threads import Threads

Ends = Callable[[Any], Awaitable[object]]


class Ledger:
    """The database of a consuming service, as a test looks at it from outside; effects are rows of ``effects``."""

    session: ClassVar[str] = ""
    """What a connection answers with its number in the server; empty where there is no server."""
    address: Any
    """What its drivers reach it by."""

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Execute at once, and return the rows."""
        raise NotImplementedError

    def end(self, session: int) -> None:
        """End another's connection."""
        raise NotImplementedError

    def applied(self) -> dict[str, list[int]]:
        """Return the numbers of each aggregate, in the order in which their effects were committed."""
        return by_aggregate(self.query("select aggregate, sequence from effects order by number"))

    def parked(self) -> list[tuple[str, int | None, str]]:
        """Return aggregate, sequence and reason of each parked event."""
        rows = self.query("select aggregateid, sequence, reason from inbox_parked")
        return sorted((bytes(a).decode() if isinstance(a, bytes) else a, number, why) for a, number, why in rows)

    def clear(self) -> None:
        """Forget everything."""
        for table in ("effects", "inbox", "inbox_watermarks", "inbox_parked", "inbox_epochs", "inbox_starts"):
            self.query(f"delete from {table}")  # noqa: S608 - a name of ours


class PostgresLedger(Ledger):
    session = "select pg_backend_pid()"

    def __init__(self, dsn: str) -> None:
        self.address = self.dsn = dsn
        self._connection = psycopg.connect(dsn, autocommit=True)
        run_upgrade(self._connection, inbox_component(InboxTable()))
        self.query("create table effects (number serial primary key, aggregate text, sequence int)")

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        cursor = self._connection.execute(sql.encode())
        return cursor.fetchall() if cursor.description else []

    def end(self, session: int) -> None:
        self.query(f"select pg_terminate_backend({session})")

    def close(self) -> None:
        self._connection.close()


class MariaDbLedger(MariaDbStore, Ledger):
    session = "select connection_id()"

    def __init__(self, dsn: MariaDbDsn) -> None:
        super().__init__(dsn)
        self.address = dsn
        with closing(connect_pymysql(dsn)) as connection:
            component = inbox_component(InboxTable.on(Dialect.MYSQL))
            upgrade(lambda sql: PyMySql("pymysql").fetch(connection, sql), component)
        self.query("create table effects (number serial, aggregate varchar(50), sequence int)")

    def end(self, session: int) -> None:
        with closing(MariaDbStore(self.dsn)) as other:  # called by a handler, on the consumer's thread
            other.query(f"kill {session}")


class SqliteLedger(SqliteStore, Ledger):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.address = path
        self.query("begin")
        component = inbox_component(InboxTable.on(Dialect.SQLITE))
        upgrade(lambda sql: Sqlite3().fetch(self._connection, sql), component)
        self.query("create table effects (number integer primary key, aggregate text, sequence int)")
        self.query("commit")


class OnDatabase:
    """Subclasses say which one."""

    aborts: ClassVar[bool] = False
    """Whether nothing can be committed after a statement failed."""
    ends: ClassVar[tuple[str, ...]] = ("commit",)
    """Statements by which a handler may end its transaction; others are every driver's own contract."""

    @pytest.fixture(scope="class")
    @classmethod
    def database(cls) -> Any:
        """Yield a ledger."""
        raise NotImplementedError

    @pytest.fixture
    def ledger(self, database: Any) -> Any:
        """Return a ledger with nothing in it."""
        database.clear()
        return database


class OnPostgres(OnDatabase):
    aborts = True
    ends = ("commit", "commit and chain")

    @pytest.fixture(scope="class")
    @classmethod
    def database(cls, outbox_stack: Stack) -> Iterator[PostgresLedger]:
        with closing(PostgresLedger(outbox_stack.postgres.create_database(f"c{uuid4().hex[:10]}"))) as ledger:
            yield ledger


class OnMariaDb(OnDatabase):
    ends = ("commit and chain", "create table if not exists t (a int)")

    @pytest.fixture(scope="class")
    @classmethod
    def database(cls, mariadb: MariaDb) -> Iterator[MariaDbLedger]:
        with closing(MariaDbLedger(mariadb.create_database(f"c{uuid4().hex[:10]}"))) as ledger:
            yield ledger


class OnSqlite(OnDatabase):
    @pytest.fixture(scope="class")
    @classmethod
    def database(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteLedger]:
        with closing(SqliteLedger(tmp_path_factory.mktemp("sqlite") / "shipping.db")) as ledger:
            yield ledger


class ConsumerContract(OnDatabase):
    """Subclasses say which users there are."""

    users: ClassVar[Users]

    @pytest.fixture
    def service(self, outbox_stack: Stack, ledger: Any) -> "Service":
        return Service(self.users, outbox_stack, ledger)

    def test_effects_come_once_and_in_order_and_only_what_fails_and_what_depends_on_it_waits(
        self, service: "Service"
    ) -> None:
        cut: list[int] = []

        async def apply(event: RecordedEvent, connection: Any) -> None:
            await service.apply_effect(event, connection)

        async def fail(event: RecordedEvent, connection: Any) -> None:
            await service.apply_effect(event, connection)
            raise LookupError

        async def swallow(event: RecordedEvent, connection: Any) -> None:
            await service.apply_effect(event, connection)
            with suppress(Exception):
                await self.users.execute(connection, "select 1 from nowhere")

        async def cut_once(event: RecordedEvent, connection: Any) -> None:
            await service.apply_effect(event, connection)
            if not cut and service.ledger.session:
                [(session,)] = await self.users.execute(connection, service.ledger.session)
                cut.append(session)
                service.ledger.end(session)
            await self.users.execute(connection, "select 1")

        handlers = {"OrderPlaced": apply, "Poison": fail, "Swallowed": swallow, "Cut": cut_once}
        first = make_event(1, "a")
        service.send(first, *(make_event(number, "a") for number in range(2, 6)))
        service.send(first)
        service.send(
            make_event(1, "b"), make_event(2, "b", event_type="Poison"), make_event(3, "b"), make_event(4, "b")
        )
        service.send(make_event(1, "c", event_type="Swallowed"))
        service.send(replace(make_event(1, "x"), id="an id that no index takes " * 200))
        service.send(make_event(1, "d"), make_event(2, "d", event_type="Cut"), make_event(3, "d"))
        service.send(make_event(1, "e", event_type="NobodyListens"), make_event(2, "e"), make_event(5, "e"))
        consumer = service.consumer(handlers)
        with service.running(consumer):
            eventually(lambda: service.ledger.applied().get("e"), "the last effect")
        effects = service.ledger.applied()
        expected = {"a": [1, 2, 3, 4, 5], "b": [1], "d": [1, 2, 3], "e": [2]}
        assert effects == (expected if self.aborts else {**expected, "c": [1]})
        waiting = [("", None, "unreadable"), ("b", 2, "failed"), ("b", 3, "gap"), ("b", 4, "gap"), ("e", 5, "gap")]
        assert service.ledger.parked() == sorted([*waiting, *([("c", 1, "failed")] if self.aborts else [])])
        assert len(cut) == bool(service.ledger.session)
        assert consumer.outcomes[Outcome.DUPLICATE] == 1

        # Its number is the next one, and its id was claimed.
        service.send(replace(make_event(6, "a"), id=first.id), make_event(3, "e"), make_event(4, "e"))
        with service.running(service.consumer(handlers)):
            eventually(lambda: len(service.ledger.applied()["e"]) == 4, "what the gap kept waiting")
        assert service.ledger.applied() == {**effects, "e": [2, 3, 4, 5]}
        assert ("a", 6, "conflict") in service.ledger.parked()

    def test_a_handler_that_ends_its_transaction_stops_the_consumer_and_nothing_is_lost(
        self, service: "Service"
    ) -> None:
        for number, end in enumerate(self.ends, 1):

            async def end_it(event: RecordedEvent, connection: Any, end: str = end) -> None:
                await self.users.execute(connection, end)
                with suppress(Exception):  # where nothing is open any more, a statement may fail or commit itself
                    await service.apply_effect(replace(event, aggregate_id="stray"), connection)

            service.send(make_event(number, "a"))
            with pytest.raises(TransactionEndedError), service.running(service.consumer({"OrderPlaced": end_it})) as it:
                eventually(lambda it=it: service.has_ended(it), "the consumer to stop")  # type: ignore[misc]
            assert "a" not in service.ledger.applied() or len(service.ledger.applied()["a"]) == number - 1
            with service.running(service.consumer({"OrderPlaced": service.apply_effect})):
                eventually(lambda number=number: len(service.ledger.applied().get("a", [])) == number, "its effect")  # type: ignore[misc]
        assert service.ledger.applied()["a"] == list(range(1, len(self.ends) + 1))


class Service:
    """A consuming service on one driver, with a topic of its own."""

    def __init__(self, users: Users, stack: Stack, ledger: Any) -> None:
        self.name = f"s{uuid4().hex[:10]}"
        self.ledger = ledger
        self._users, self._broker = users, stack.broker
        self._wire = parse_spec(Pipeline.text(self.name), name=f"{self.name}.yaml").contract
        self._broker.create_topic(self._wire.topic_of("order"))
        self._ended: set[int] = set()

    def send(self, *events: RecordedEvent) -> None:
        """Put events into the topic."""
        producer = Producer({"bootstrap.servers": self._broker.bootstrap_servers})
        for message in map(self._wire.message_of, events):
            producer.produce(message.topic, message.value, message.key, headers=list(message.headers))
        assert producer.flush(patience()) == 0

    async def apply_effect(self, event: RecordedEvent, connection: Any) -> None:
        """Insert a row that names the event."""
        insert = f"insert into effects (aggregate, sequence) values ('{event.aggregate_id}', {event.sequence})"  # noqa: S608
        await self._users.execute(connection, insert)

    def consumer(
        self, handlers: dict[str, Callable[..., Any]], *, kafka_settings: Mapping[str, Any] = QUICK
    ) -> Consumer | AsyncConsumer:
        """Return a consumer with these handlers, which are coroutine functions."""
        settings: dict[str, Any] = {
            "name": self.name,
            "contract": self._wire,
            "kafka": {"bootstrap.servers": self._broker.bootstrap_servers, **kafka_settings},
            "database": lambda: self._users.connect(self.ledger.address),
            "retry": PATIENT,
        }
        kind = AsyncConsumer if self._users.asynchronous else Consumer
        consumer: Consumer | AsyncConsumer = kind(**settings)
        for event_type, handler in handlers.items():
            consumer.on(event_type)(handler if self._users.asynchronous else immediate(handler))
        return consumer

    def running(self, consumer: Consumer | AsyncConsumer) -> AbstractContextManager[Consumer | AsyncConsumer]:
        """Run a consumer on a thread, stop it at the end, and raise what it raised."""
        return running(consumer, self._ended)

    def has_ended(self, consumer: Consumer | AsyncConsumer) -> bool:
        """Tell whether a consumer has ended by itself."""
        return id(consumer) in self._ended


@contextmanager
def running(consumer: Consumer | AsyncConsumer, ended: set[int] | None = None) -> Iterator[Consumer | AsyncConsumer]:
    """Run a consumer on a thread, stop it at the end, and raise what it raised."""
    loops: list[asyncio.AbstractEventLoop] = []

    async def run_on_loop(consumer: AsyncConsumer) -> None:
        loops.append(asyncio.get_running_loop())
        await consumer.run()

    def run() -> None:
        try:
            if isinstance(consumer, AsyncConsumer):
                asyncio.run(run_on_loop(consumer))
            else:
                consumer.run()
        finally:
            (set() if ended is None else ended).add(id(consumer))

    with Threads() as threads:
        result = threads.submit(run)
        try:
            yield consumer
        finally:
            if isinstance(consumer, Consumer):
                consumer.stop()
            elif not result.done() and loops:
                with suppress(RuntimeError):  # it ended meanwhile
                    loops[0].call_soon_threadsafe(consumer.stop)


def immediate(handler: Callable[..., Any]) -> Callable[[RecordedEvent, Any], None]:
    """Return a plain function that runs a coroutine function to its end, which never waits."""
    return lambda event, connection: finish(handler(event, connection))
