"""psycopg2 under the writer's contract: connection and cursor."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC
from typing import Any

import psycopg2
import psycopg2.extensions
import psycopg2.extras
import pytest

from cdc_outbox import NotInTransactionError, Outbox
from cdc_outbox.databases.drivers import find_async_driver, find_driver
from cdc_outbox.errors import EventError, OutboxError
from cdc_outbox.testing import Stack
from tests.contract.writer_contract import PlaceContract
from tests.support.postgresql import PostgresStore, PostgresWriterContract
from tests.support.writer_clients import ORDER, Client


@pytest.fixture(scope="module")
def store(outbox_stack: Stack) -> Iterator[PostgresStore]:
    with closing(PostgresStore.create(outbox_stack, "writer_psycopg2")) as store:
        yield store


class Psycopg2Client(Client):
    def __init__(self, dsn: str, *, autocommit: bool) -> None:
        # What users may have set on their connections must not reach our rows.
        self.connection = psycopg2.connect(dsn, cursor_factory=psycopg2.extras.RealDictCursor)
        times = psycopg2.extensions.new_type((1114,), "TEXT_TIME", lambda value, _: f"at {value!r}")
        psycopg2.extensions.register_type(times, self.connection)
        self.connection.autocommit = autocommit
        self.place: object = self.connection

    def execute(self, sql: str) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute(sql)

    def begin(self) -> None:
        self.execute("begin")

    def commit(self) -> None:
        # In autocommit psycopg2's own methods do nothing: what was opened by statement is ended by statement.
        self.execute("commit") if self.connection.autocommit else self.connection.commit()

    def rollback(self) -> None:
        self.execute("rollback") if self.connection.autocommit else self.connection.rollback()

    def close(self) -> None:
        self.connection.close()


class Psycopg2CursorClient(Psycopg2Client):
    def __init__(self, dsn: str, *, autocommit: bool) -> None:
        super().__init__(dsn, autocommit=autocommit)
        self.place = self.connection.cursor()


class TestPsycopg2(PostgresWriterContract):
    library = "psycopg2"

    def open(self, store: PostgresStore, *, autocommit: bool = False) -> Client:
        return Psycopg2Client(store.dsn, autocommit=autocommit)

    def use_latin1(self, client: Any) -> None:
        client.connection.set_client_encoding("LATIN1")  # a statement is not noticed


class TestPsycopg2Cursor(PlaceContract):
    def open(self, store: PostgresStore, *, autocommit: bool = False) -> Client:
        return Psycopg2CursorClient(store.dsn, autocommit=autocommit)


@pytest.fixture
def connection(store: PostgresStore) -> Iterator[psycopg2.extensions.connection]:
    store.reset()
    with closing(psycopg2.connect(store.dsn)) as connection:
        yield connection


def test_autocommit_by_isolation_level_is_autocommit(connection: psycopg2.extensions.connection) -> None:
    connection.set_isolation_level(psycopg2.extensions.ISOLATION_LEVEL_AUTOCOMMIT)
    with pytest.raises(NotInTransactionError):
        Outbox().add(connection, ORDER)
    connection.set_isolation_level(psycopg2.extensions.ISOLATION_LEVEL_DEFAULT)
    assert Outbox().add(connection, ORDER).sequence == 1


def test_the_session_keeps_its_way_of_showing_times(connection: psycopg2.extensions.connection) -> None:
    with connection.cursor() as cursor:
        cursor.execute("set datestyle = 'SQL, DMY'")
        connection.commit()
        assert Outbox().add(connection, ORDER).sequence == 1
        for end in (connection.commit, connection.rollback):
            cursor.execute("show datestyle")
            assert cursor.fetchone() == ("SQL, DMY",)
            end()


def test_the_session_keeps_it_behind_an_error_that_the_server_did_not_see(
    connection: psycopg2.extensions.connection,
) -> None:
    with connection.cursor() as cursor:
        cursor.execute("set datestyle = 'SQL, DMY'")
        connection.commit()
        connection.set_client_encoding("LATIN1")
        with pytest.raises(EventError):
            Outbox().add(connection, replace(ORDER, aggregate_id="€"))
        cursor.execute("show datestyle")
        assert cursor.fetchone() == ("SQL, DMY",)


def test_a_session_that_does_not_tell_how_it_shows_times_is_asked_for_iso_8601(store: PostgresStore) -> None:
    class Silent(psycopg2.extensions.connection):
        def get_parameter_status(self, _parameter: str) -> None:
            return None

    with closing(psycopg2.connect(store.dsn, connection_factory=Silent)) as connection, connection.cursor() as cursor:
        cursor.execute("set datestyle = 'German'")
        connection.commit()
        assert Outbox().add(connection, ORDER).created_at.tzinfo is UTC
        connection.commit()
        cursor.execute("show datestyle")
        assert cursor.fetchone() == ("German, DMY",)


def test_a_with_block_is_a_transaction_also_in_autocommit(
    connection: psycopg2.extensions.connection, store: PostgresStore
) -> None:
    connection.autocommit = True
    with connection:
        assert Outbox().add(connection, ORDER).sequence == 1
        connection.rollback()
    assert store.numbers() == []
    with connection, Outbox().collect(connection) as events:
        events.add(ORDER)
    assert store.numbers() == [("42", 1)]
    with pytest.raises(NotInTransactionError):
        Outbox().add(connection, ORDER)


def test_asynchronous_use_is_refused(connection: psycopg2.extensions.connection, store: PostgresStore) -> None:
    with pytest.raises(OutboxError, match="is not an asynchronous connection"):
        find_async_driver(connection)
    with (
        closing(psycopg2.connect(store.dsn, async_=True)) as unwaiting,
        pytest.raises(OutboxError, match="is not a synchronous connection"),
    ):
        find_driver(unwaiting)
