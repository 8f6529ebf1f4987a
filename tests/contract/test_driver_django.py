"""Django's connections, as those who open and end transactions use them."""

import logging
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import psycopg
import pytest
from django.db import Error, connections, transaction
from django.db import connection as default_connection
from django.db.transaction import TransactionManagementError

from cdc_outbox.databases.drivers import TransactionState
from cdc_outbox.errors import (
    ConfigError,
    DatabaseUnavailableError,
    OutboxError,
    TransactionAbortedError,
    TransactionEndedError,
)
from cdc_outbox.testing import Stack
from tests.contract.driver_contract import DriverContract, MariaDbContract, ReopenedPostgresContract, SqliteContract
from tests.support.django_site import add_entry, entry, remove_alias
from tests.support.driver_clients import Client
from tests.support.events import make_event


class Sites(DriverContract):
    """What Django adds to the contract, on every database."""

    def open(self, dsn: Any, **options: Any) -> Client:
        alias = add_entry(entry(dsn) | options)
        self.aliases.append(alias)
        return Client(connections[alias])

    @pytest.fixture(autouse=True)
    def _forget(self) -> Iterator[None]:
        self.aliases: list[str] = []
        yield
        for alias in self.aliases:
            remove_alias(alias)

    def test_a_block_of_a_handlers_is_a_savepoint(self, client: Client) -> None:
        client.begin()
        with pytest.raises(LookupError):
            self._fail_in_a_block(client)
        assert client.state() is TransactionState.OPEN
        with transaction.atomic(using=client.connection.alias):
            client.fetch("insert into t values (41)")
        client.commit()
        assert (client.rows(40), client.rows(41)) == ([], [(41,)])

    def _fail_in_a_block(self, client: Client) -> None:
        with transaction.atomic(using=client.connection.alias):
            client.fetch("insert into t values (40)")
            raise LookupError

    @pytest.mark.parametrize("end", [transaction.commit, transaction.rollback])
    def test_a_handler_that_would_end_the_transaction_is_refused(self, client: Client, end: Any) -> None:
        client.begin()
        with pytest.raises(TransactionManagementError):
            end(using=client.connection.alias)
        assert client.state() is TransactionState.OPEN
        client.commit()

    def test_a_rollback_that_was_asked_for_is_no_commit(self, client: Client) -> None:
        client.begin()
        client.fetch("insert into t values (42)")
        transaction.set_rollback(True, using=client.connection.alias)
        assert client.state() is TransactionState.ABORTED
        with pytest.raises(TransactionAbortedError):
            client.commit()
        client.rollback()
        assert client.rows(42) == []

    def test_a_block_that_was_left_open_inside_is_no_commit_and_is_undone(self, client: Client) -> None:
        client.begin()
        client.fetch("insert into t values (43)")
        transaction.atomic(using=client.connection.alias).__enter__()
        with pytest.raises(TransactionAbortedError, match="left open"):
            client.commit()
        client.rollback()
        assert not client.connection.in_atomic_block
        assert client.rows(43) == []

    def test_callbacks_run_after_our_commit_and_not_after_a_rollback(self, client: Client) -> None:
        seen: list[tuple[int, bool]] = []

        def note(number: int) -> None:
            transaction.on_commit(
                lambda: seen.append((number, client.connection.in_atomic_block)), using=client.connection.alias
            )

        client.begin()
        note(1)
        client.rollback()
        client.begin()
        note(2)
        assert seen == []
        client.commit()
        assert seen == [(2, False)]

    def test_each_callback_of_a_batch_runs_after_the_commit_and_each_failure_is_logged_with_its_event(
        self, client: Client, caplog: pytest.LogCaptureFixture
    ) -> None:
        seen: list[int] = []

        def fail() -> None:
            raise LookupError

        client.begin()
        client.fetch("insert into t values (44)")
        for number in range(1, 5):
            callback = fail if number % 2 else partial(seen.append, number)
            transaction.on_commit(callback, using=client.connection.alias, robust=number == 3)
            with suppress(KeyError), transaction.atomic(using=client.connection.alias):
                transaction.on_commit(partial(seen.append, -number), using=client.connection.alias)
                raise KeyError
            client.driver.handled(client.connection, [make_event(number, "a")])
        transaction.on_commit(fail, using=client.connection.alias)  # by what runs after all handlers
        with caplog.at_level(logging.ERROR):
            client.commit()
        assert seen == [2, 4]
        assert {record.message for record in caplog.records} == {"callback failed after the commit"}
        events = [vars(record)["events"].partition(" (")[0] for record in caplog.records]
        assert events == ["OrderPlaced order/a #1", "OrderPlaced order/a #3", ""]
        assert client.rows(44) == [(44,)]

    def test_a_handler_that_closes_and_opens_the_connection_is_noticed(self, client: Client) -> None:
        client.begin()
        client.connection.close()
        client.connection.connect()
        assert client.state() is TransactionState.ENDED
        with pytest.raises(TransactionEndedError):
            client.commit()
        client.rollback()
        assert client.rows(45) == []

    def test_what_the_user_has_begun_is_refused(self, client: Client) -> None:
        with transaction.atomic(using=client.connection.alias):
            for begin in (client.begin, client.prepare):
                with pytest.raises(OutboxError, match="already has a transaction"):
                    begin()

    def test_a_site_without_autocommit_is_refused(self, dsn: Any) -> None:
        client = self.open(dsn, AUTOCOMMIT=False)
        with pytest.raises(OutboxError, match="already has a transaction") as caught:
            client.begin()
        assert "AUTOCOMMIT" in caught.value.hint


class TestDjangoOnPostgresql(Sites, ReopenedPostgresContract):
    def test_another_isolation_level_is_refused(self, dsn: str) -> None:
        client = self.open(dsn, OPTIONS={"isolation_level": 4})
        with pytest.raises(ConfigError, match="are SERIALIZABLE"):
            client.prepare()
        assert client.state() is TransactionState.ENDED
        assert not client.connection.in_atomic_block

    def test_a_rollback_does_not_raise_while_nobody_takes_connections(
        self, client: Client, dsn: str, outbox_stack: Stack
    ) -> None:
        client.begin()
        [(session, database)] = client.fetch(f"{self.who}, current_database()")
        with psycopg.connect(outbox_stack.postgres.dsn(), autocommit=True) as server:
            server.execute(f"alter database {database} allow_connections false")
            self.cut(outbox_stack.postgres.dsn(), session)
            client.rollback()
            server.execute(f"alter database {database} allow_connections true")
        assert client.state() is TransactionState.ENDED
        self.assert_nothing_stayed(dsn)

    def test_the_proxy_stands_for_the_connection(self, dsn: str) -> None:
        alias = add_entry(entry(dsn), "default")
        self.aliases.append(alias)
        client = Client(default_connection)
        client.prepare()
        client.begin()
        client.fetch("insert into t values (46)")
        client.commit()
        assert client.rows(46) == [(46,)]


class TestDjangoOnMariaDb(Sites, MariaDbContract):
    sees_statements = False  # mysqlclient shows nothing of it
    sees_losses = False

    def test_another_isolation_level_is_refused(self, dsn: Any) -> None:
        client = self.open(dsn, OPTIONS={"isolation_level": "repeatable read"})
        with pytest.raises(ConfigError, match="are REPEATABLE READ"):
            client.prepare()

    def test_after_an_error_the_server_is_asked_whether_the_connection_lives(self, client: Client, dsn: Any) -> None:
        client.begin()
        [(session,)] = client.fetch(self.who)
        with pytest.raises(Error, match="SQL syntax"):
            client.fetch("selekt 1")
        assert client.state() is TransactionState.UNKNOWN
        assert client.resolved() is client.state() is TransactionState.OPEN
        self.cut(dsn, session)
        with pytest.raises(DatabaseUnavailableError):
            client.fetch("select 1")
        assert client.state() is TransactionState.UNKNOWN
        assert client.resolved() is TransactionState.LOST


class TestDjangoOnSqlite(Sites, SqliteContract):
    pass
