"""What consumers and commands rely on in a driver that opens and ends transactions of its own.

Not collected itself: see ``test_driver*.py``. Every test runs through a client of ``driver_clients.py``, so that it is
the same one for synchronous drivers and for their twins.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import psycopg
import pytest

from cdc_outbox.databases.drivers import TransactionState
from cdc_outbox.errors import (
    ConfigError,
    DatabaseError,
    DatabaseUnavailableError,
    OutboxError,
    TransactionAbortedError,
    TransactionEndedError,
    TransactionTimeoutError,
)
from cdc_outbox.testing import MariaDb, MariaDbDsn, Stack
from tests.support.driver_clients import Client, start_copy
from tests.support.pymysql_connections import connect_pymysql
from tests.support.rig import eventually
from tests.support.threads import Threads


class DriverContract:
    """Subclasses say how a connection is opened, to a database with a table ``t``."""

    autocommit: ClassVar[bool] = False
    tells_closed_from_lost: ClassVar[bool] = True
    sees_statements: ClassVar[bool] = True
    """Whether the state shows at once what SQL did to the transaction; a commit finds out anyway."""

    def open(self, dsn: Any) -> Client:
        raise NotImplementedError

    @pytest.fixture(scope="class")
    @classmethod
    def dsn(cls) -> Any:
        raise NotImplementedError

    @pytest.fixture
    def client(self, dsn: Any) -> Iterator[Client]:
        client = self.open(dsn)
        yield client
        client.close()

    def test_what_is_committed_is_there(self, client: Client) -> None:
        client.begin()
        assert client.joins_transaction()
        client.fetch("insert into t values (1)")
        client.commit()
        assert client.state() is TransactionState.ENDED
        assert client.rows(1) == [(1,)]
        client.begin()
        client.fetch("delete from t where a = 1")
        client.commit()
        assert client.rows(1) == []

    def test_what_is_rolled_back_is_not_there(self, client: Client) -> None:
        client.begin()
        client.fetch("insert into t values (2)")
        client.rollback()
        assert client.state() is TransactionState.ENDED
        assert client.rows(2) == []

    def test_a_second_begin_is_refused(self, client: Client) -> None:
        client.begin()
        client.fetch("select 1")
        with pytest.raises(OutboxError, match="already has a transaction"):
            client.begin()
        with pytest.raises(OutboxError, match="already has a transaction"):
            client.prepare()

    def test_the_state_is_that_of_the_transaction(self, client: Client) -> None:
        assert client.state() is TransactionState.ENDED
        client.begin()
        assert client.state() is TransactionState.OPEN
        client.hang_up()
        assert client.state() is (TransactionState.ENDED if self.tells_closed_from_lost else TransactionState.LOST)
        with pytest.raises(TransactionEndedError if self.tells_closed_from_lost else DatabaseUnavailableError):
            client.commit()

    def test_a_commit_of_nothing_is_an_error(self, client: Client) -> None:
        with pytest.raises(TransactionEndedError):
            client.commit()

    @pytest.mark.parametrize("end", ["commit", "rollback"])
    def test_a_transaction_that_sql_ended_is_noticed(self, client: Client, end: str) -> None:
        client.begin()
        client.fetch("insert into t values (3)")
        client.fetch(end)
        if self.sees_statements:
            assert client.state() is TransactionState.ENDED
        with pytest.raises(TransactionEndedError):
            client.commit()
        client.rollback()
        client.begin()
        client.fetch("delete from t where a = 3")
        client.commit()

    def test_a_rollback_of_nothing_and_of_a_closed_connection_does_nothing(self, client: Client) -> None:
        client.rollback()
        client.begin()
        client.hang_up()
        client.rollback()

    def test_parameters_go_by_name_and_rows_are_plain_tuples(self, client: Client) -> None:
        style = client.driver.style
        client.begin()
        sql = f"select cast({style.parameter('a')} as char(4)), {style.parameter('b')} + 0"
        assert client.fetch(sql, {"a": "x'%s", "b": 7}) == [("x'%s", 7)]
        client.rollback()

    def test_a_bound_that_is_none_is_refused(self, client: Client) -> None:
        with pytest.raises(ConfigError, match="cannot be limited") as caught:
            client.prepare(idle_seconds=0)
        assert caught.value.field == "idle_seconds"
        assert client.state() is TransactionState.ENDED

    def test_what_was_prepared_can_be_prepared_again_and_begins(self, client: Client) -> None:
        client.prepare()
        client.prepare(idle_seconds=0.5)
        assert client.state() is TransactionState.ENDED
        client.begin()
        assert client.state() is TransactionState.OPEN
        client.rollback()


class ServerContract(DriverContract):
    """Where there is a server that can go away."""

    who: ClassVar[str]
    """What asks for the session's number."""
    timed_out: ClassVar[type[DatabaseError]] = DatabaseUnavailableError
    sees_losses: ClassVar[bool] = True

    def cut(self, dsn: Any, session: int) -> None:
        raise NotImplementedError

    def is_connected(self, dsn: Any, session: int) -> bool:
        raise NotImplementedError

    @pytest.mark.parametrize("noticed", [False, True], ids=["unnoticed", "noticed"])
    def test_a_connection_that_the_server_cut_is_lost(self, client: Client, dsn: Any, *, noticed: bool) -> None:
        client.begin()
        client.fetch("insert into t values (6)")
        [(session,)] = client.fetch(self.who)
        self.cut(dsn, session)
        if noticed:
            with pytest.raises(DatabaseUnavailableError):
                client.fetch("select 1")
            if self.sees_losses:
                assert client.state() is TransactionState.LOST
        with pytest.raises(DatabaseUnavailableError):
            client.commit()
        client.rollback()
        assert client.state() in {TransactionState.LOST, TransactionState.ENDED}
        self.assert_nothing_stayed(dsn)

    def test_a_transaction_that_idles_is_ended_by_the_server(self, client: Client, dsn: Any) -> None:
        client.prepare(idle_seconds=0.2)
        client.begin()
        client.fetch("insert into t values (6)")
        [(session,)] = client.fetch(self.who)
        eventually(lambda: not self.is_connected(dsn, session), "the server to end the transaction")
        with pytest.raises(self.timed_out):
            client.commit()
        client.rollback()
        self.assert_nothing_stayed(dsn)

    def assert_nothing_stayed(self, dsn: Any) -> None:
        """Go on with a new connection, as a consumer does, and find nothing of what was lost."""
        anew = self.open(dsn)
        assert anew.rows(6) == []
        anew.close()


class PostgresContract(ServerContract):
    who = "select pg_backend_pid()"
    timed_out: ClassVar[type[DatabaseError]] = TransactionTimeoutError
    sees_aborts: ClassVar[bool] = True

    @pytest.fixture(scope="class")
    @classmethod
    def dsn(cls, outbox_stack: Stack) -> str:
        dsn = outbox_stack.postgres.create_database(f"driver_{cls.__name__.lower()}")
        with psycopg.connect(dsn) as connection:
            connection.execute("create table t (a int, unique (a) deferrable initially deferred)")
        return dsn

    def cut(self, dsn: str, session: int) -> None:
        with psycopg.connect(dsn, autocommit=True) as other:
            other.execute("select pg_terminate_backend(%s, 5000)", (session,))

    def is_connected(self, dsn: str, session: int) -> bool:
        with psycopg.connect(dsn, autocommit=True) as other:
            found = other.execute("select from pg_stat_activity where pid = %s", (session,))
            return found.fetchone() is not None

    def test_a_commit_that_the_server_turns_into_a_rollback_is_an_error(self, client: Client) -> None:
        client.begin()
        client.fetch("insert into t values (4)")
        with pytest.raises(Exception, match="division by zero"):
            client.fetch("select 1 / 0")
        if self.sees_aborts:
            assert client.state() is TransactionState.ABORTED
        with pytest.raises(TransactionAbortedError, match="would answer COMMIT with ROLLBACK"):
            client.commit()
        assert client.state() is TransactionState.ABORTED
        client.rollback()
        assert client.rows(4) == []

    def test_a_statement_after_a_swallowed_error_tells_at_the_latest(self, client: Client) -> None:
        client.begin()
        for sql in ("select 1 / 0", "select 1"):
            with pytest.raises(Exception, match=r"division by zero|is aborted"):
                client.fetch(sql)
        assert client.state() is TransactionState.ABORTED
        client.rollback()
        client.begin()
        assert client.state() is TransactionState.OPEN
        client.rollback()

    def test_a_commit_that_the_server_refuses_is_an_error(self, client: Client) -> None:
        client.begin()
        client.fetch("insert into t values (5), (5)")
        with pytest.raises(Exception, match="duplicate key"):
            client.commit()
        client.rollback()
        assert client.rows(5) == []

    def test_a_prepared_session_is_read_committed_and_bound(self, client: Client, dsn: str) -> None:
        with psycopg.connect(dsn) as connection:
            connection.execute(
                f"alter database {connection.info.dbname} set default_transaction_isolation = serializable"
            )
        anew = self.open(dsn)
        anew.prepare(idle_seconds=12.3456)
        for _ in range(2):
            anew.begin()
            assert anew.fetch("show transaction_isolation") == [("read committed",)]
            assert anew.fetch("show idle_in_transaction_session_timeout") == [("12346ms",)]
            anew.commit()
        anew.close()
        with psycopg.connect(dsn) as connection:
            connection.execute(f"alter database {connection.info.dbname} reset default_transaction_isolation")


class CopyingContract(PostgresContract):
    """For those whose connections a handler can leave in the midst of a COPY.

    Whether such a connection is dead or busy, the client cannot know. The state is UNKNOWN then, until ``resolved`` has
    asked the server: without an answer it is LOST.
    """

    copying: ClassVar[TransactionState] = TransactionState.UNKNOWN
    """What the answer shows: that it is still busy, unless the driver ends a COPY by itself."""

    def test_a_connection_that_a_copy_keeps_busy_is_unknown_until_its_server_answers(self, client: Client) -> None:
        client.begin()
        client.fetch("insert into t values (6)")
        copy = start_copy(client)
        assert client.state() is TransactionState.UNKNOWN
        assert client.resolved() is self.copying
        client.rollback()  # which does not wait for the end of the COPY
        client.hang_up()
        del copy

    def test_a_connection_that_the_server_cut_in_a_copy_is_unknown_and_then_lost(
        self, client: Client, dsn: Any
    ) -> None:
        client.begin()
        client.fetch("insert into t values (6)")
        [(session,)] = client.fetch(self.who)
        copy = start_copy(client)
        self.cut(dsn, session)
        assert client.state() is TransactionState.UNKNOWN
        with pytest.raises(DatabaseUnavailableError):
            client.commit()
        assert client.resolved() is TransactionState.LOST
        client.rollback()
        client.hang_up()
        del copy
        self.assert_nothing_stayed(dsn)


class ReopenedPostgresContract(CopyingContract):
    """For connections that open themselves anew after they were lost."""

    def test_a_connection_that_was_left_busy_is_opened_anew(self, client: Client) -> None:
        client.begin()
        copy = start_copy(client)
        client.rollback()
        del copy
        assert client.rows(6) == []

    def test_a_connection_that_is_opened_anew_is_prepared(self, client: Client, dsn: str) -> None:
        client.prepare(idle_seconds=7)
        client.begin()
        [(session,)] = client.fetch(self.who)
        self.cut(dsn, session)
        client.rollback()
        client.begin()
        assert client.fetch("show idle_in_transaction_session_timeout") == [("7s",)]
        client.rollback()


class MariaDbContract(ServerContract):
    who = "select connection_id()"

    @pytest.fixture(scope="class")
    @classmethod
    def dsn(cls, mariadb: MariaDb) -> MariaDbDsn:
        dsn = mariadb.create_database(f"driver_{cls.__name__.lower()}")
        with closing(connect_pymysql(dsn)) as connection, connection.cursor() as cursor:
            cursor.execute("create table t (a int)")
            cursor.execute("create table locked (a int primary key) select 1 as a union select 2")
        return dsn

    def cut(self, dsn: MariaDbDsn, session: int) -> None:
        with closing(connect_pymysql(dsn)) as other, other.cursor() as cursor:
            cursor.execute(f"kill {session}")

    def is_connected(self, dsn: MariaDbDsn, session: int) -> bool:
        with closing(connect_pymysql(dsn)) as other, other.cursor() as cursor:
            return bool(cursor.execute("select 1 from information_schema.processlist where id = %s", [session]))

    def test_a_prepared_session_is_read_committed_and_bound(self, client: Client) -> None:
        client.prepare(idle_seconds=12.3)
        for _ in range(2):
            client.begin()
            assert client.fetch("select @@tx_isolation, @@idle_transaction_timeout") == [("READ-COMMITTED", 13)]
            client.commit()

    def test_a_deadlock_that_somebody_swallowed_is_no_commit(self, client: Client, dsn: MariaDbDsn) -> None:
        with (
            closing(connect_pymysql(dsn)) as other,
            other.cursor() as cursor,
            Threads(1) as pool,
        ):
            client.begin()
            client.fetch("select a from locked where a = 1 for update")
            cursor.execute("select a from locked where a = 2 for update")
            # Who has written more is not the victim.
            cursor.execute("insert into locked select seq from seq_100_to_200")
            waiting = pool.submit(cursor.execute, "select a from locked where a = 1 for update")
            with pytest.raises(Exception, match="Deadlock"):
                client.fetch("select a from locked where a = 2 for update")
            with pytest.raises(TransactionEndedError):
                client.commit()
            client.rollback()
            waiting.result()


class SqliteContract(DriverContract):
    @pytest.fixture(scope="class")
    @classmethod
    def dsn(cls, tmp_path_factory: pytest.TempPathFactory) -> Path:
        path = tmp_path_factory.mktemp("driver") / "orders.db"
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("create table t (a int)")
        return path

    def test_a_transaction_writes_from_its_beginning(self, client: Client, dsn: Path) -> None:
        client.begin()
        with (
            closing(sqlite3.connect(dsn, timeout=0)) as other,
            pytest.raises(sqlite3.OperationalError, match="locked"),
        ):
            other.execute("insert into t values (1)")
        client.rollback()
