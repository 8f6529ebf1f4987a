"""SQLAlchemy under the writer's contract: sessions and connections on psycopg, psycopg2 and asyncpg, and SQLModel's."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
import sqlmodel
from sqlalchemy import URL, Engine, NullPool, create_engine
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from cdc_outbox import AsyncOutbox, NotInTransactionError, Outbox
from cdc_outbox.databases import drivers
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.drivers import find_async_driver, find_driver
from cdc_outbox.databases.table import OutboxTable
from cdc_outbox.errors import (
    DatabaseAccessError,
    DatabaseUnavailableError,
    DuplicateEventError,
    OutboxError,
    TableNotFoundError,
)
from cdc_outbox.event import new_event_id
from cdc_outbox.testing import Stack
from tests.contract.writer_contract import PlaceContract
from tests.support.postgresql import PostgresStore, PostgresWriterContract
from tests.support.sqlalchemy_clients import (
    AsyncConnectionClient,
    AsyncScopedSessionClient,
    AsyncSessionClient,
    AsyncSqlModelClient,
    ConnectionClient,
    ScopedSessionClient,
    SessionClient,
    SqlModelClient,
    make_url,
)
from tests.support.writer_clients import ORDER, Client


@pytest.fixture(scope="module")
def store(outbox_stack: Stack) -> Iterator[PostgresStore]:
    with closing(PostgresStore.create(outbox_stack, "writer_sqlalchemy")) as store:
        yield store


class OnSqlAlchemy:
    client_class: Callable[..., Client]
    driver: str

    def open(self, store: PostgresStore, *, autocommit: bool = False) -> Client:
        return type(self).client_class(store.dsn, self.driver, autocommit=autocommit)


class TestSession(OnSqlAlchemy, PostgresWriterContract):
    client_class: Callable[..., Client] = SessionClient
    driver = "psycopg"
    library = "SQLAlchemy"


class TestSessionOnPsycopg2(TestSession):
    driver = "psycopg2"

    def use_latin1(self, client: Any) -> None:
        client.place.connection().connection.dbapi_connection.set_client_encoding("LATIN1")


class TestAsyncSession(TestSession):
    client_class = AsyncSessionClient


class TestAsyncSessionOnAsyncpg(TestAsyncSession):
    driver = "asyncpg"


class TestConnection(OnSqlAlchemy, PlaceContract):
    client_class: Callable[..., Client] = ConnectionClient
    driver = "psycopg"


class TestScopedSession(TestConnection):
    client_class = ScopedSessionClient


class TestSqlModelSession(TestConnection):
    client_class = SqlModelClient


class TestAsyncConnection(TestConnection):
    client_class: Callable[..., Client] = AsyncConnectionClient


class TestAsyncConnectionOnAsyncpg(TestAsyncConnection):
    driver = "asyncpg"


class TestAsyncScopedSessionOnAsyncpg(TestAsyncConnectionOnAsyncpg):
    client_class = AsyncScopedSessionClient


class TestAsyncSqlModelSessionOnAsyncpg(TestAsyncConnectionOnAsyncpg):
    client_class = AsyncSqlModelClient


@pytest.fixture(params=["psycopg", "psycopg2"])
def engine(request: pytest.FixtureRequest, store: PostgresStore) -> Iterator[Engine]:
    store.reset()
    engine = create_engine(make_url(store.dsn, request.param))
    yield engine
    engine.dispose()


@pytest.fixture(params=["psycopg", "asyncpg"])
def async_engine(request: pytest.FixtureRequest, store: PostgresStore) -> AsyncEngine:
    store.reset()
    return create_async_engine(make_url(store.dsn, request.param), poolclass=NullPool)


AUTOCOMMIT: Any = {"isolation_level": "AUTOCOMMIT"}


def test_autocommit_of_an_engine_is_refused_though_it_says_that_a_transaction_is_open(
    engine: Engine, store: PostgresStore
) -> None:
    committing = engine.execution_options(**AUTOCOMMIT)
    with Session(committing) as session, session.begin():
        assert session.in_transaction()
        with pytest.raises(NotInTransactionError):
            Outbox().add(session, ORDER)
    with committing.connect() as connection, connection.begin():
        assert connection.in_transaction()
        with pytest.raises(NotInTransactionError):
            Outbox().add_all(connection, [ORDER])
    assert store.numbers() == []
    with Session(engine) as session, session.begin():  # the same connection, from the same pool
        assert Outbox().add(session, ORDER).sequence == 1


def test_autocommit_of_a_connection_is_refused(engine: Engine) -> None:
    with engine.connect() as connection:
        connection.execution_options(**AUTOCOMMIT)
        with pytest.raises(NotInTransactionError):
            Outbox().add(connection, ORDER)
        with Session(connection) as session, pytest.raises(NotInTransactionError):
            Outbox().add(session, ORDER)


def test_autocommit_of_a_session_is_refused(engine: Engine) -> None:
    with Session(engine) as session:
        session.connection(execution_options=AUTOCOMMIT)
        with pytest.raises(NotInTransactionError):
            Outbox().add(session, ORDER)
        session.rollback()
        assert Outbox().add(session, ORDER).sequence == 1


@pytest.mark.parametrize("whose", ["engine", "connection", "session"])
def test_autocommit_is_refused_in_asynchronous_use_too(
    async_engine: AsyncEngine, store: PostgresStore, whose: str
) -> None:
    async def add() -> None:
        committing = async_engine.execution_options(**AUTOCOMMIT)
        async with committing.connect() if whose == "engine" else async_engine.connect() as connection:
            if whose == "connection":
                await connection.execution_options(**AUTOCOMMIT)
            if whose != "session":
                with pytest.raises(NotInTransactionError):
                    await AsyncOutbox().add(connection, ORDER)
        async with AsyncSession(committing if whose == "engine" else async_engine) as session:
            if whose == "session":
                await session.connection(execution_options=AUTOCOMMIT)
            if whose != "connection":
                with pytest.raises(NotInTransactionError):
                    await AsyncOutbox().add(session, ORDER)

    asyncio.run(add())
    assert store.numbers() == []


def test_a_session_that_begins_nothing_by_itself_is_refused_until_it_began(engine: Engine) -> None:
    with Session(engine, autobegin=False) as session:
        with pytest.raises(NotInTransactionError) as caught:
            Outbox().add(session, ORDER)
        assert "`with session.begin():`" in caught.value.hint
        with session.begin():
            assert Outbox().add(session, ORDER).sequence == 1


def test_nothing_of_the_sessions_own_is_flushed(engine: Engine, store: PostgresStore) -> None:
    with Session(engine) as session, session.begin():
        with session.begin_nested() as savepoint:
            Outbox().add(session, ORDER)
            savepoint.rollback()
        session.add(Customer(id=7))
        assert Outbox().add(session, ORDER).sequence == 1
        assert list(session.new)
    assert store.numbers() == [("42", 1)]


class Customer(sqlmodel.SQLModel, table=True):
    __tablename__ = "customers"
    id: int = sqlmodel.Field(primary_key=True)


def test_a_session_of_several_engines_needs_to_be_told_which(engine: Engine) -> None:
    with Session(binds={Customer: engine}) as session:
        with pytest.raises(OutboxError, match="has no engine or several") as caught:
            Outbox().add(session, ORDER)
        assert "bind_arguments" in caught.value.hint
        assert Outbox().add(session.connection(bind_arguments={"mapper": Customer}), ORDER).sequence == 1


def test_the_synchronous_outbox_works_inside_run_sync(async_engine: AsyncEngine) -> None:
    async def add() -> int | None:
        async with AsyncSession(async_engine) as session, session.begin():
            return await session.run_sync(lambda inner: Outbox().add(inner, ORDER).sequence)

    assert asyncio.run(add()) == 1


def test_an_error_of_sqlalchemys_shows_no_payload(engine: Engine) -> None:
    event = replace(ORDER, id=new_event_id(), payload={"iban": "DE02120300000000202051"})
    with Session(engine) as session:
        Outbox().add(session, event)
        with pytest.raises(DuplicateEventError) as caught:
            Outbox().add(session, event)
        assert isinstance(caught.value.__cause__, IntegrityError)
        assert "DE02120300000000202051" not in str(caught.value) + str(caught.value.__cause__)
        session.rollback()
        with pytest.raises(TableNotFoundError) as missing:
            Outbox(table=OutboxTable(name="nowhere")).add(session, event)
        assert "DE02120300000000202051" not in str(missing.value.__cause__)


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2", "asyncpg"])
def test_a_session_that_cannot_connect_says_so_in_our_words(store: PostgresStore, driver: str) -> None:
    url = make_url(store.dsn, driver)

    async def add(wrong: URL) -> None:
        if driver == "asyncpg":
            async with AsyncSession(create_async_engine(wrong)) as session:
                await AsyncOutbox().add(session, ORDER)
        with Session(create_engine(wrong)) as waiting_session:
            Outbox().add(waiting_session, ORDER)

    with pytest.raises(DatabaseUnavailableError):
        asyncio.run(add(url.set(port=1)))
    # libpq does not tell psycopg2 why it could not connect, but for a sentence in the server's language.
    with pytest.raises(DatabaseUnavailableError if driver == "psycopg2" else DatabaseAccessError):
        asyncio.run(add(url.set(password="wrong")))


def test_a_driver_that_has_none_here_is_asked_through_sqlalchemy(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = drivers._load
    monkeypatch.setattr(drivers, "_load", lambda package: known(package) if package == "sqlalchemy" else None)
    with Session(engine) as session:
        assert Outbox().add(session, ORDER).sequence == 1
    with Session(engine.execution_options(**AUTOCOMMIT)) as session, pytest.raises(NotInTransactionError):
        Outbox().add(session, ORDER)


@pytest.mark.parametrize(
    ("url", "dialect"),
    [
        ("sqlite://", Dialect.SQLITE),
        ("postgresql+psycopg://", Dialect.POSTGRESQL),
    ],
)
def test_the_dialect_is_the_engines(url: str, dialect: Dialect) -> None:
    engine = create_engine(url)
    assert find_driver(Session(engine)).dialect is dialect
    assert find_driver(scoped_session(sessionmaker(engine))).dialect is dialect


@pytest.mark.parametrize(("name", "dialect"), [("mysql", Dialect.MYSQL), ("mariadb", Dialect.MYSQL)])
def test_mysql_and_mariadb_are_one_dialect(name: str, dialect: Dialect, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = create_engine("sqlite://")
    monkeypatch.setattr(engine.dialect, "name", name)
    assert find_driver(Session(engine)).dialect is dialect


def test_other_databases_and_wrong_kinds_are_refused(engine: Engine, async_engine: AsyncEngine) -> None:
    with pytest.raises(OutboxError, match="is not a synchronous connection"):
        find_driver(engine)
    with pytest.raises(OutboxError, match="is not an asynchronous connection"):
        find_async_driver(Session(engine))
    with pytest.raises(OutboxError, match="is not a synchronous connection"):
        find_driver(AsyncSession(async_engine))


def test_a_database_without_an_outbox_here_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = create_engine("sqlite://")
    monkeypatch.setattr(engine.dialect, "name", "oracle")
    with pytest.raises(OutboxError, match="oracle cannot have an outbox here") as caught:
        find_driver(Session(engine))
    assert "postgresql" in caught.value.hint


def test_a_transaction_in_two_phases_is_joined(store: PostgresStore) -> None:
    """PostgreSQL's slots send it when it is committed; MariaDB's binlog has it when it is prepared."""
    store.reset()
    engine = create_engine(make_url(store.dsn, "psycopg"), poolclass=NullPool)
    with closing(engine.connect()) as connection:
        connection.begin_twophase()
        assert Outbox().add(connection, ORDER).sequence == 1
        connection.rollback()
    assert store.numbers() == []
