"""Where the writer executes below SQLAlchemy, on its driver's connection: what users of SQLAlchemy must not notice."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, NullPool, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from cdc_outbox import AsyncOutbox, DuplicateEventError, Event, Outbox
from cdc_outbox.errors import DatabaseUnavailableError
from cdc_outbox.event import new_event_id
from cdc_outbox.testing import Stack
from tests.support.postgresql import PostgresStore
from tests.support.sqlalchemy_clients import make_url
from tests.support.writer_clients import ORDER

OUTBOX = 'insert into "public"."outbox"'


@pytest.fixture(scope="module")
def shared_store(outbox_stack: Stack) -> Iterator[PostgresStore]:
    with closing(PostgresStore.create(outbox_stack, "writer_sqlalchemy_below")) as store:
        yield store


@pytest.fixture
def store(shared_store: PostgresStore) -> PostgresStore:
    shared_store.reset()
    return shared_store


@pytest.fixture(params=["psycopg", "psycopg2"])
def engine(request: pytest.FixtureRequest, store: PostgresStore) -> Iterator[Engine]:
    engine = create_engine(make_url(store.dsn, request.param))
    yield engine
    engine.dispose()


@pytest.fixture(params=[False, True], ids=["alone", "listened to"])
def either_engine(request: pytest.FixtureRequest, engine: Engine) -> Engine:
    """With and without a listener: without one the statements go below."""
    if request.param:
        event.listen(engine, "before_cursor_execute", lambda *_: None)
    return engine


def refuse(*_: object, **__: object) -> None:
    raise AssertionError("executed by SQLAlchemy")


def test_statements_go_below_without_listeners(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    with Session(engine) as session, session.begin():
        session.connection()
        monkeypatch.setattr(Connection, "exec_driver_sql", refuse)
        assert Outbox().add(session, ORDER).sequence == 1


def test_statements_go_below_from_an_asynchronous_session(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def add() -> int | None:
        engine = create_async_engine(make_url(store.dsn, "asyncpg"), poolclass=NullPool)
        async with AsyncSession(engine) as session, session.begin():
            await session.connection()
            monkeypatch.setattr(Connection, "exec_driver_sql", refuse)
            return (await AsyncOutbox().add(session, ORDER)).sequence

    assert asyncio.run(add()) == 1


def listen_to_engine(engine: Engine, _: Connection, listener: Callable[..., None]) -> None:
    event.listen(engine, "before_cursor_execute", listener)


def listen_to_connection(_: Engine, connection: Connection, listener: Callable[..., None]) -> None:
    event.listen(connection, "before_cursor_execute", listener)


def listen_to_dialect(engine: Engine, _: Connection, listener: Callable[..., None]) -> None:
    event.listen(engine, "do_execute", lambda cursor, statement, *_: listener(None, cursor, statement))


@pytest.mark.parametrize("listen", [listen_to_engine, listen_to_connection, listen_to_dialect])
def test_a_listener_sees_each_statement(engine: Engine, listen: Callable[..., None]) -> None:
    seen = []

    def see(_: object, __: object, statement: str, *___: object) -> None:
        seen.append(statement)

    with engine.connect() as connection:
        Outbox().add(connection, ORDER)  # begins
        listen(engine, connection, see)
        Outbox().add(connection, ORDER)
    assert [OUTBOX in statement for statement in seen] == [True]


def test_the_engines_log_has_each_statement(store: PostgresStore, caplog: pytest.LogCaptureFixture) -> None:
    engine = create_engine(make_url(store.dsn, "psycopg"), poolclass=NullPool)
    with caplog.at_level(logging.INFO, "sqlalchemy.engine"), engine.connect() as connection:
        Outbox().add(connection, ORDER)  # begins
        caplog.clear()
        Outbox().add(connection, ORDER)
    assert OUTBOX in caplog.text


def test_a_connection_that_has_not_begun_begins_and_commits(either_engine: Engine, store: PostgresStore) -> None:
    with either_engine.connect() as connection:
        assert not connection.in_transaction()
        for _ in range(2):
            Outbox().add(connection, ORDER)
            assert connection.in_transaction()
        connection.commit()
        Outbox().add(connection, ORDER)
        connection.rollback()
    assert store.numbers() == [("42", 1), ("42", 2)]


def test_an_error_is_sqlalchemys_and_shows_no_parameter(either_engine: Engine) -> None:
    known = Event(aggregate_type="order", aggregate_id="42", type="X", payload={"iban": "DE02"}, id=new_event_id())
    with Session(either_engine) as session:
        Outbox().add(session, known)
        with pytest.raises(DuplicateEventError) as caught:
            Outbox().add(session, known)
    cause: Any = caught.value.__cause__
    assert isinstance(cause, DBAPIError)
    assert (cause.hide_parameters, cause.connection_invalidated) == (True, False)
    assert type(cause.orig).__name__ == "UniqueViolation"
    assert OUTBOX in str(cause)
    assert "DE02" not in str(cause)


def test_a_connection_that_broke_is_given_up(either_engine: Engine, store: PostgresStore) -> None:
    with Session(either_engine) as session:
        Outbox().add(session, ORDER)
        connection = session.connection()
        store.end_other_sessions()
        with pytest.raises(DatabaseUnavailableError) as caught:
            Outbox().add(session, ORDER)
        assert getattr(caught.value.__cause__, "connection_invalidated", False)
        assert connection.invalidated
        session.rollback()
        Outbox().add(session, ORDER)  # on a new one
        session.commit()
    assert store.numbers() == [("42", 1)]


def test_a_connection_whose_statement_was_interrupted_is_given_up(either_engine: Engine, store: PostgresStore) -> None:
    """SQLAlchemy invalidates it too, because the state of its session on the server is unknown."""

    class Interrupting:
        description = None

        def execute(self, *_: object) -> None:
            raise KeyboardInterrupt

        def close(self) -> None:
            pass

    with either_engine.connect() as connection:
        Outbox().add(connection, ORDER)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(type(connection.connection), "cursor", lambda *_, **__: Interrupting())
            with pytest.raises(KeyboardInterrupt):
                Outbox().add(connection, ORDER)
        assert connection.invalidated
    assert store.numbers() == []
