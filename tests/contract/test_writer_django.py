"""Django's connections under the writer's contract: on PostgreSQL, MariaDB and SQLite."""

import subprocess
import sys
import unittest
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace
from unittest import mock

import pytest
from django.apps import apps
from django.core.cache import cache
from django.db import connection, connections, router, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.test import Client as Browser
from django.test import TestCase
from django.test.utils import CaptureQueriesContext

from cdc_outbox import NotInTransactionError, Outbox
from cdc_outbox.databases.drivers import find_async_driver, find_driver
from cdc_outbox.errors import DatabaseError, DatabaseUnavailableError, DuplicateEventError, OutboxError
from cdc_outbox.testing import MariaDb, Stack
from tests.contract.writer_contract import WriterContract
from tests.contract.writer_errors_contract import WriterErrorsContract
from tests.support.django_site import DjangoClient, add_alias, remove_alias
from tests.support.mariadb import MariaDbStore, MariaDbWriterContract
from tests.support.postgresql import PostgresStore, PostgresWriterContract
from tests.support.sqlite import SqliteStore
from tests.support.writer_clients import ORDER, Client


@pytest.fixture(scope="module")
def postgresql(outbox_stack: Stack) -> Iterator[PostgresStore]:
    with closing(PostgresStore.create(outbox_stack, "writer_django")) as store:
        yield store


@pytest.fixture(scope="module")
def sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteStore]:
    with closing(SqliteStore(tmp_path_factory.mktemp("django") / "orders.db")) as store:
        yield store


class TestDjangoOnPostgresql(PostgresWriterContract):
    library = "Django"

    @pytest.fixture(scope="class")
    @classmethod
    def store(cls, postgresql: PostgresStore) -> PostgresStore:
        return postgresql

    def open(self, store: PostgresStore, *, autocommit: bool = False) -> Client:
        return DjangoClient(store, autocommit=autocommit)


class TestDjangoOnMariaDb(MariaDbWriterContract):
    library = "Django"

    @pytest.fixture(scope="class")
    @classmethod
    def store(cls, mariadb: MariaDb) -> Iterator[MariaDbStore]:
        with closing(MariaDbStore.create(mariadb, "writer_django")) as store:
            yield store

    def open(self, store: MariaDbStore, *, autocommit: bool = False) -> Client:
        return DjangoClient(store, autocommit=autocommit)


class TestDjangoOnSqlite(WriterErrorsContract, WriterContract):
    has_row_locks = False

    @pytest.fixture(scope="class")
    @classmethod
    def store(cls, sqlite: SqliteStore) -> SqliteStore:
        return sqlite

    def open(self, store: SqliteStore, *, autocommit: bool = False) -> Client:
        return DjangoClient(store, autocommit=autocommit)


@pytest.fixture
def alias(sqlite: SqliteStore) -> Iterator[str]:
    sqlite.reset()
    alias = add_alias(sqlite)
    yield alias
    remove_alias(alias)


@pytest.fixture
def default(sqlite: SqliteStore) -> Iterator[SqliteStore]:
    """The project's default database."""
    sqlite.reset()
    add_alias(sqlite, "default", ATOMIC_REQUESTS=True)
    yield sqlite
    remove_alias("default")


def test_the_default_connection_is_known_by_its_proxy(default: SqliteStore) -> None:
    with pytest.raises(NotInTransactionError) as caught:
        Outbox().add(connection, ORDER)
    assert "transaction.atomic(" in caught.value.hint
    with transaction.atomic():
        assert Outbox().add(connection, ORDER).sequence == 1
    assert default.numbers() == [("42", 1)]


class Router:
    """Writes every row to the database ``shop``, or to the default one."""

    def __init__(self, alias: str) -> None:
        self.alias = alias

    def db_for_write(self, model: object, **_: object) -> str:
        return self.alias


def test_the_default_connection_is_refused_where_routers_write_rows_elsewhere(
    default: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apps, "get_models", lambda: [SimpleNamespace(_meta=SimpleNamespace(label="shop.Order"))])
    with transaction.atomic():
        monkeypatch.setattr(router, "routers", [Router("shop")])
        with pytest.raises(OutboxError, match=r"routers write shop\.Order to shop, .* written to default") as caught:
            Outbox().add(connection, ORDER)
        assert "connections[router.db_for_write(Order)]" in caught.value.hint
        Outbox().add(connections["default"], ORDER)
        monkeypatch.setattr(router, "routers", [Router("default")])
        Outbox().add(connection, ORDER)
    assert default.numbers() == [("42", 1), ("42", 2)]


def test_an_alias_is_chosen_per_call(default: SqliteStore, alias: str) -> None:
    with transaction.atomic():
        with pytest.raises(NotInTransactionError):
            Outbox().add(connections[alias], ORDER)
        with transaction.atomic(using=alias):
            Outbox().add(connections[alias], ORDER)
    assert default.numbers() == [("42", 1)]


def test_the_event_goes_with_the_atomic_block_that_it_is_in(alias: str, sqlite: SqliteStore) -> None:
    def add() -> int | None:
        return Outbox().add(connections[alias], ORDER).sequence

    with transaction.atomic(using=alias):
        assert add() == 1
        with transaction.atomic(using=alias):
            assert add() == 2
            transaction.set_rollback(True, using=alias)
        assert add() == 2
    assert sqlite.numbers() == [("42", 1), ("42", 2)]


def test_autocommit_may_be_off_instead(alias: str, sqlite: SqliteStore) -> None:
    transaction.set_autocommit(False, using=alias)
    Outbox().add(connections[alias], ORDER)
    transaction.rollback(using=alias)
    assert Outbox().add(connections[alias], ORDER).sequence == 1
    transaction.commit(using=alias)
    transaction.set_autocommit(True, using=alias)
    assert sqlite.numbers() == [("42", 1)]


def test_in_a_broken_block_django_takes_no_statement(alias: str) -> None:
    with transaction.atomic(using=alias):
        transaction.set_rollback(True, using=alias)
        with pytest.raises(DatabaseError, match="the transaction is aborted") as caught:
            Outbox().add(connections[alias], ORDER)
        assert isinstance(caught.value.__cause__, transaction.TransactionManagementError)


def test_atomic_requests_need_nothing_else(default: SqliteStore) -> None:
    browser = Browser()
    assert browser.post("/orders").status_code == 200
    with pytest.raises(LookupError):
        browser.post("/orders?fail")
    assert browser.post("/orders").status_code == 200
    assert default.numbers() == [("42", 1), ("42", 2)]


def test_in_djangos_own_test_cases_a_write_passes_and_is_undone(default: SqliteStore) -> None:
    class OrderTest(TestCase):
        def test_order(self) -> None:
            self.assertEqual(Outbox().add(connection, ORDER).sequence, 1)  # noqa: PT009 - unittest's

    result = unittest.TestResult()
    unittest.TestSuite([OrderTest("test_order"), OrderTest("test_order")]).run(result)
    assert (result.testsRun, result.errors, result.failures) == (2, [], [])
    assert default.numbers() == []


def test_who_does_not_answer_is_our_error(postgresql: PostgresStore) -> None:
    alias = add_alias(postgresql, PORT=1)
    with pytest.raises(DatabaseUnavailableError):
        Outbox().add(connections[alias], ORDER)
    remove_alias(alias)


def test_a_kept_cursor_hides_nothing_from_who_looks_at_queries(postgresql: PostgresStore) -> None:
    postgresql.reset()
    alias = add_alias(postgresql)
    place, outbox = connections[alias], Outbox()
    with transaction.atomic(using=alias):
        outbox.add(place, ORDER)
        with CaptureQueriesContext(place) as captured:
            outbox.add(place, ORDER)
        assert ["insert" in each["sql"] for each in captured.captured_queries] == [True]
        outbox.add(place, ORDER)
        with mock.patch.object(place, "cursor", wraps=place.cursor) as cursor:  # as a toolbar does
            outbox.add(place, ORDER)
        assert cursor.call_count == 1
        wrapper = mock.Mock(side_effect=lambda execute, *statement: execute(*statement))
        with place.execute_wrapper(wrapper):
            outbox.add(place, ORDER)
        assert wrapper.call_count == 1
    assert postgresql.numbers() == [("42", number) for number in range(1, 6)]
    remove_alias(alias)


def test_a_kept_cursor_ends_with_its_connection_and_its_encoding(postgresql: PostgresStore) -> None:
    postgresql.reset()
    alias = add_alias(postgresql)
    place, outbox, written = connections[alias], Outbox(), None
    for letter, encoding in (("é", "utf8"), ("ü", "latin1"), ("ö", "utf8")):
        with transaction.atomic(using=alias), place.cursor() as cursor:
            cursor.execute(f"set client_encoding to {encoding}")
            written = outbox.add(place, replace(ORDER, aggregate_id=letter))
            cursor.execute("select ascii(aggregateid) from outbox where id = %s", [written.id])
            assert cursor.fetchone() == (ord(letter),)
    place.close()
    with transaction.atomic(using=alias):
        outbox.add(place, ORDER)
        # A statement that fails takes the cursor along; the next one gets another.
        assert written is not None
        with pytest.raises(DuplicateEventError), transaction.atomic(using=alias):
            outbox.add(place, replace(ORDER, id=written.id))
        outbox.add(place, ORDER)
    assert ("42", 2) in postgresql.numbers()
    remove_alias(alias)


def test_only_database_connections_of_known_vendors_are_taken() -> None:
    class Oracle(BaseDatabaseWrapper):
        vendor = "oracle"

    for stranger in (cache, connections):
        with pytest.raises(OutboxError, match="is not a synchronous connection"):
            find_driver(stranger)
    with pytest.raises(OutboxError, match="oracle cannot have an outbox here"):
        find_driver(object.__new__(Oracle))


@pytest.mark.usefixtures("default")
def test_only_synchronous_use_is_offered() -> None:
    with pytest.raises(OutboxError, match="is not an asynchronous connection"):
        find_async_driver(connection)


def test_importing_the_driver_needs_no_settings() -> None:
    code = "import cdc_outbox.databases.drivers.django; from django.conf import settings; print(settings.configured)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={})
    assert done.stdout.split() == ["False"]
