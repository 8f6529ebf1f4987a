"""SQLAlchemy's sessions and connections, as those who open and end transactions use them."""

import asyncio
from pathlib import Path
from typing import Any, ClassVar

import pytest
import sqlmodel
from sqlalchemy import Engine, create_engine, event, text
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, scoped_session, sessionmaker
from sqlalchemy.pool import NullPool

from cdc_outbox.databases.drivers import TransactionState
from cdc_outbox.databases.drivers.sqlalchemy import SqlAlchemy
from cdc_outbox.errors import (
    ConfigError,
    DatabaseUnavailableError,
    OutboxError,
    TransactionAbortedError,
    TransactionEndedError,
)
from tests.contract.driver_contract import (
    CopyingContract,
    DriverContract,
    MariaDbContract,
    PostgresContract,
    ReopenedPostgresContract,
    SqliteContract,
)
from tests.contract.listener_contract import AbortedListenerContract, ListenerContract
from tests.support.driver_clients import AsyncClient, Client
from tests.support.sqlalchemy_clients import url_of


class Base(DeclarativeBase):
    pass


class Row(Base):
    __tablename__ = "t"
    a: Mapped[int] = mapped_column(primary_key=True)


class Listeners(ListenerContract):
    def row(self, number: int) -> object:
        return Row(a=number)


class Sessions(Listeners, DriverContract):
    """What a session adds to the contract, on every database."""

    driver: ClassVar[str] = "psycopg"

    def open(self, dsn: Any, **options: Any) -> Client:
        return Client(self.make(create_engine(url_of(dsn, self.driver), poolclass=NullPool, **options)))

    def make(self, engine: Engine) -> Any:
        return Session(engine)

    @pytest.mark.parametrize("end", ["commit", "rollback", "close", "reset"])
    def test_a_handler_that_ends_the_sessions_transaction_is_noticed(self, client: Client, end: str) -> None:
        client.begin()
        client.fetch("insert into t values (20)")
        getattr(client.connection, end)()
        assert client.state() is TransactionState.ENDED
        client.connection.execute(text("select 1"))  # the session has begun another one by itself
        assert client.state() is TransactionState.ENDED
        with pytest.raises(TransactionEndedError):
            client.commit()
        client.rollback()
        client.begin()
        client.fetch("delete from t where a = 20")
        client.commit()

    def test_a_handler_that_ends_the_connections_transaction_is_noticed(self, client: Client) -> None:
        client.begin()
        client.connection.connection().rollback()
        assert client.state() is TransactionState.ENDED
        client.rollback()

    def test_what_the_user_has_begun_is_refused(self, client: Client) -> None:
        client.connection.execute(text("select 1"))
        with pytest.raises(OutboxError, match="already has a transaction"):
            client.begin()

    def test_what_waits_in_the_session_is_written(self, client: Client) -> None:
        client.begin()
        client.connection.add(Row(a=21))
        client.driver.flush(client.connection)
        assert client.fetch("select a from t where a = 21") == [(21,)]
        client.connection.add(Row(a=22))
        client.commit()
        assert client.rows(22) == [(22,)]
        client.begin()
        client.fetch("delete from t where a in (21, 22)")
        client.commit()

    def test_nothing_of_one_transaction_is_seen_by_the_next(self, client: Client) -> None:
        for end in (client.commit, client.rollback):
            client.begin()
            row = Row(a=23)
            client.connection.add(row)
            client.connection.flush()
            assert row in client.connection
            end()
            assert row not in client.connection
        client.begin()
        client.fetch("delete from t where a = 23")
        client.commit()

    def test_a_savepoint_of_a_handlers_undoes_its_part(self, client: Client) -> None:
        client.begin()
        savepoint = client.connection.begin_nested()
        client.fetch("insert into t values (24)")
        savepoint.rollback()
        assert client.state() is TransactionState.OPEN
        client.commit()
        assert client.rows(24) == []

    def test_a_flush_that_failed_and_was_swallowed_is_an_aborted_transaction(self, client: Client) -> None:
        @event.listens_for(client.connection, "after_flush")
        def fail(*_: object) -> None:
            raise LookupError

        client.begin()
        client.fetch("insert into t values (25)")
        client.connection.add(Row(a=26))
        with pytest.raises(LookupError):
            client.connection.flush()
        assert client.state() is TransactionState.ABORTED
        with pytest.raises(TransactionAbortedError):
            client.commit()
        client.rollback()
        assert (client.rows(25), client.rows(26)) == ([], [])

    def test_autocommit_is_refused(self, client: Client) -> None:
        session = Session(client.connection.get_bind().execution_options(isolation_level="AUTOCOMMIT"))
        other = Client(session)
        with pytest.raises(OutboxError, match="each statement would commit itself"):
            other.begin()
        assert not session.in_transaction()


class TestSessionOnPsycopg(AbortedListenerContract, Sessions, CopyingContract):
    def test_each_connection_of_a_pool_is_prepared(self, dsn: str) -> None:
        engine = create_engine(url_of(dsn, self.driver), pool_size=2)
        client = Client(Session(engine))
        client.prepare(idle_seconds=7)
        with engine.connect() as first:
            bound = "show idle_in_transaction_session_timeout"
            assert first.scalar(text(bound)) == "7s"
            client.begin()
            assert client.fetch(bound) == [("7s",)]
            client.commit()
        client.close()
        engine.dispose()

    @pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
    def test_another_isolation_level_is_refused(self, dsn: str, level: str) -> None:
        client = self.open(dsn, isolation_level=level)
        with pytest.raises(ConfigError, match=f"are {level}"):
            client.prepare()
        assert client.state() is TransactionState.ENDED
        assert not client.connection.in_transaction()
        client.close()

    def test_a_write_that_the_database_refuses_is_the_handlers(self, client: Client) -> None:
        client.begin()
        client.connection.add(Row(a=2**40))
        with pytest.raises(DBAPIError, match="out of range"):
            client.driver.flush(client.connection)
        client.rollback()
        client.begin()
        client.fetch("insert into t values (30)")
        client.connection.add_all([Row(a=30)])
        with pytest.raises(IntegrityError, match="duplicate key"):
            client.commit()
        client.rollback()
        assert client.rows(30) == []

    def test_a_session_on_a_connection_that_has_a_transaction_is_refused(self, dsn: str) -> None:
        engine = create_engine(url_of(dsn, self.driver), poolclass=NullPool)
        with engine.connect() as connection:
            connection.begin()
            client = Client(Session(connection))
            with pytest.raises(OutboxError, match="already has a transaction"):
                client.begin()
            connection.rollback()
            client.begin()
            client.fetch("insert into t values (31)")
            client.commit()
            assert client.rows(31) == [(31,)]

    def test_a_session_that_closes_for_good_is_only_reset(self, dsn: str) -> None:
        client = Client(Session(create_engine(url_of(dsn, self.driver), poolclass=NullPool), close_resets_only=False))
        assert client.rows(1) == client.rows(1) == []
        client.close()


class TestScopedSession(Sessions, PostgresContract):
    def make(self, engine: Engine) -> Any:
        return scoped_session(sessionmaker(engine))

    def test_a_handler_that_removes_the_session_is_noticed(self, client: Client) -> None:
        client.begin()
        client.connection.remove()
        assert client.state() is TransactionState.ENDED
        client.rollback()


class TestSqlModel(Sessions, CopyingContract):
    driver = "psycopg2"
    copying = TransactionState.ABORTED
    timed_out = DatabaseUnavailableError

    def make(self, engine: Engine) -> Any:
        return sqlmodel.Session(engine)


class TestConnection(ReopenedPostgresContract):
    def open(self, dsn: str) -> Client:
        return Client(create_engine(url_of(dsn, "psycopg"), poolclass=NullPool).connect())

    @pytest.mark.parametrize("end", ["commit", "rollback"])
    def test_a_handler_that_ends_the_transaction_is_noticed(self, client: Client, end: str) -> None:
        client.begin()
        getattr(client.connection, end)()
        client.connection.execute(text("select 1"))
        assert client.state() is TransactionState.ENDED
        with pytest.raises(TransactionEndedError):
            client.commit()
        client.rollback()


class TestSessionOnPyMySql(Sessions, MariaDbContract):
    driver = "pymysql"


class TestSessionOnMySqlClient(Sessions, MariaDbContract):
    driver = "mysqldb"
    sees_statements = False
    sees_losses = False


class TestSessionOnSqlite(Sessions, SqliteContract):
    driver = "pysqlite"

    def test_a_transaction_that_an_event_has_begun_will_do(self, dsn: Path) -> None:
        client = self.open(dsn)
        engine = client.connection.get_bind()
        event.listen(engine, "connect", lambda raw, _: setattr(raw, "isolation_level", None))
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("begin immediate"))
        client.begin()
        assert client.state() is TransactionState.OPEN
        client.rollback()
        client.close()


class AsyncSessions(DriverContract):
    driver: ClassVar[str]

    def open(self, dsn: Any) -> Client:
        runner = asyncio.Runner()
        engine = create_async_engine(url_of(dsn, self.driver), poolclass=NullPool)
        return AsyncClient(runner, runner.run(self.make(engine)))

    async def make(self, engine: Any) -> Any:
        return AsyncSession(engine)

    @pytest.mark.parametrize("end", ["commit", "rollback", "close"])
    def test_a_handler_that_ends_the_transaction_is_noticed(self, client: AsyncClient, end: str) -> None:
        client.begin()
        client.fetch("insert into t values (20)")
        client.runner.run(getattr(client.connection, end)())
        assert client.state() is TransactionState.ENDED
        with pytest.raises(TransactionEndedError):
            client.commit()
        client.rollback()
        client.begin()
        client.fetch("delete from t where a = 20")
        client.commit()


class WaitingObjects(Listeners, AsyncSessions):
    def test_what_waits_in_the_session_is_written(self, client: AsyncClient) -> None:
        client.begin()
        client.connection.add(row := Row(a=21))
        client.runner.run(client.driver.flush(client.connection))
        assert client.fetch("select a from t where a = 21") == [(21,)]
        client.connection.add(Row(a=22))
        client.commit()
        assert row not in client.connection
        assert client.rows(22) == [(22,)]
        client.begin()
        client.fetch("delete from t where a in (21, 22)")
        client.commit()


class TestAsyncSessionOnAsyncpg(AbortedListenerContract, WaitingObjects, PostgresContract):
    driver = "asyncpg"
    timed_out = DatabaseUnavailableError
    sees_aborts = False

    def test_a_connection_that_breaks_while_it_is_prepared_is_our_error(
        self, dsn: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The commit of what was set goes below SQLAlchemy, which then translates nothing."""
        fetch = SqlAlchemy.fetch

        def fetch_and_cut(driver: SqlAlchemy, connection: Any, sql: str) -> Any:
            rows = fetch(driver, connection, sql)
            if "idle" in sql:  # the last setting
                [(session,)] = fetch(driver, connection, self.who)
                self.cut(dsn, session)
            return rows

        monkeypatch.setattr(SqlAlchemy, "fetch", fetch_and_cut)
        client = self.open(dsn)
        with pytest.raises(DatabaseUnavailableError):
            client.prepare()
        client.close()

    def test_another_isolation_level_is_refused(self, dsn: str) -> None:
        with asyncio.Runner() as runner:
            engine = create_async_engine(url_of(dsn, self.driver), poolclass=NullPool, isolation_level="SERIALIZABLE")
            client = AsyncClient(runner, AsyncSession(engine))
            with pytest.raises(ConfigError, match="are SERIALIZABLE"):
                client.prepare()


class TestAsyncSessionOnPsycopg(AbortedListenerContract, WaitingObjects, CopyingContract):
    driver = "psycopg"


class TestAsyncScopedSession(AsyncSessions, PostgresContract):
    driver = "psycopg"

    async def make(self, engine: Any) -> Any:
        return async_scoped_session(async_sessionmaker(engine), scopefunc=lambda: 1)


class TestAsyncConnection(AsyncSessions, PostgresContract):
    driver = "asyncpg"
    timed_out = DatabaseUnavailableError
    sees_aborts = False

    async def make(self, engine: Any) -> Any:
        return await engine.connect()

    @pytest.mark.parametrize("end", ["commit", "rollback"])
    def test_a_handler_that_ends_the_transaction_is_noticed(self, client: AsyncClient, end: str) -> None:
        super().test_a_handler_that_ends_the_transaction_is_noticed(client, end)


class TestAsyncSessionOnSqlite(WaitingObjects, SqliteContract):
    driver = "aiosqlite"
