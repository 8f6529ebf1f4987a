"""MariaDB as the writer's contract needs it, and what every driver for it must do beside that."""

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pytest
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from cdc_outbox import EventError, NotInTransactionError, StaleSequenceError
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.drivers.mysql import PyMySql
from cdc_outbox.databases.migrations import upgrade
from cdc_outbox.databases.table import OutboxTable
from cdc_outbox.errors import (
    DatabaseAccessError,
    DatabaseUnavailableError,
    TableNotFoundError,
    TransactionConflictError,
)
from cdc_outbox.testing import MariaDb, MariaDbDsn
from cdc_outbox.writer.outbox_schema import outbox_component
from tests.contract.row_lock_contract import RowLockContract
from tests.support.pymysql_connections import connect_pymysql
from tests.support.rig import eventually
from tests.support.writer_clients import NUMBERED_BY_CALLER, ORDER, Client, Store


class MariaDbStore(Store):
    dialect = Dialect.MYSQL

    def __init__(self, dsn: MariaDbDsn) -> None:
        self.dsn = dsn
        self._connection: Connection[Cursor] = connect_pymysql(dsn, autocommit=True)

    @classmethod
    def create(cls, mariadb: MariaDb, name: str) -> "MariaDbStore":
        store = cls(mariadb.create_database(name))
        store.make_tables(OutboxTable())
        store.query("create table customers (id int)")
        store.query("create user if not exists reader identified by 'reader'")
        store.query(f"grant select on {name}.* to reader")
        return store

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def close(self) -> None:
        self._connection.close()

    def make_tables(self, table: OutboxTable) -> None:
        component = outbox_component(table, first_source="orders.1", dialect=Dialect.MYSQL)
        upgrade(lambda sql: PyMySql("pymysql").fetch(self._connection, sql), component)

    def sessions(self) -> list[int]:
        query = "select id from information_schema.processlist where db = database() and id <> connection_id()"
        return [row[0] for row in self.query(query)]

    def count_sessions(self) -> int:
        return len(self.sessions())

    def waiting(self) -> set[int]:
        """Return the ids of the sessions that wait for a row's lock.

        information_schema.innodb_trx has them too, but answers frequent queries from a cache.
        """
        [(_, _, status)] = self.query("show engine innodb status")
        # The first part tells of the last deadlock, which is over.
        _, *transactions = str(status).split("---TRANSACTION")
        blocked = [text for text in transactions if "LOCK WAIT" in text]
        return {int(found[1]) for text in blocked if (found := re.search(r"thread id (\d+)", text))}

    def end_other_sessions(self) -> None:
        for session in self.sessions():
            self.query(f"kill {session}")

    def reset(self) -> None:
        # The server notices only by and by that the last test's clients are gone.
        eventually(lambda: not self.sessions(), "the last test's sessions to end")
        super().reset()


class MariaDbWriterContract(RowLockContract):
    """Subclasses say what the hint of a refusal calls their driver."""

    conflicts_when_repeatable = False
    library: ClassVar[str]

    @pytest.fixture
    def other(self, store: MariaDbStore) -> Iterator[Client]:
        with closing(self.open(store)) as client:
            yield client

    def test_a_refusal_says_how_this_driver_opens_a_transaction(self, store: MariaDbStore) -> None:
        with closing(self.open(store, autocommit=True)) as client:
            with pytest.raises(NotInTransactionError) as caught:
                client.add()
            assert self.library in caught.value.hint

    def test_what_was_written_is_not_asked_for_again(self, client: Client, store: MariaDbStore) -> None:
        """Counted by the session itself: other tests ask the same server."""
        count = (
            "insert into asked select variable_value from information_schema.session_status"
            " where variable_name = 'Com_select'"
        )
        client.add()  # a driver has questions of its own at first
        client.commit()
        store.query("create or replace table asked (questions integer)")
        client.execute(count)
        client.add()
        client.execute(count)
        client.commit()
        (before,), (after,) = store.query("select questions from asked")
        store.query("drop table asked")
        assert before == after

    @pytest.mark.parametrize("level", ["repeatable read", "serializable"])
    def test_under_snapshot_isolation_the_second_writer_fails(
        self, client: Client, other: Client, store: MariaDbStore, level: str
    ) -> None:
        other.execute("set innodb_snapshot_isolation = on")
        self.set_isolation(other, level)
        client.add()
        client.commit()
        other.execute("select * from customers")  # its snapshot is taken
        client.add()
        client.commit()
        with pytest.raises(TransactionConflictError, match="changed since last read"):
            other.add()
        other.rollback()
        assert other.add().sequence == 3

    @pytest.mark.parametrize("level", ["read committed", "repeatable read", "serializable"])
    def test_the_callers_own_numbers_are_compared_with_the_newest_and_not_with_the_snapshots(
        self, client: Client, other: Client, level: str
    ) -> None:
        def add(writer: Client, sequence: int) -> int | None:
            return writer.add(
                replace(ORDER, sequence=sequence), table=OutboxTable(), contract=NUMBERED_BY_CALLER
            ).sequence

        self.set_isolation(other, level)
        other.execute("select * from customers")
        add(client, 5)
        client.commit()
        with pytest.raises(StaleSequenceError):
            add(other, 4)
        assert add(other, 6) == 6
        other.commit()

    def test_what_an_operator_can_mend_is_our_error(self, client: Client, store: MariaDbStore) -> None:
        with pytest.raises(TableNotFoundError, match=r"nowhere_heads' doesn't exist \(error 1146\)") as missing:
            client.add(table=OutboxTable(name="nowhere"))
        assert missing.value.__cause__ is not None
        client.rollback()
        assert client.add().sequence == 1
        client.commit()
        with closing(MariaDbStore(replace(store.dsn, user="reader", password="reader"))) as as_reader:  # noqa: SIM117
            with closing(self.open(as_reader)) as denied, pytest.raises(DatabaseAccessError, match="denied"):
                denied.add()

    def test_a_server_that_went_away_is_our_error(self, client: Client, store: MariaDbStore) -> None:
        client.execute("select 1")
        store.end_other_sessions()
        with pytest.raises(DatabaseUnavailableError):
            client.add()

    def test_a_time_is_utc_whatever_the_sessions_time_zone_is(self, client: Client) -> None:
        client.execute("set time_zone = '+09:00'")
        event = client.add()
        assert event.created_at.tzinfo is UTC
        assert abs(event.created_at - datetime.now(UTC)) < timedelta(minutes=1)

    def test_texts_are_told_apart_by_each_byte(self, client: Client, store: MariaDbStore) -> None:
        names = ["a", "A", "a ", "ä", "a\u0308", "𝄞", "x" * 1000]
        for name in names:
            assert client.add(replace(ORDER, aggregate_id=name)).sequence == 1
        client.commit()
        assert sorted(names) == sorted(row[0] for row in store.query("select aggregateid from outbox"))

    def test_the_new_incarnations_numbers_start_at_one(self, client: Client, store: MariaDbStore) -> None:
        client.add()
        client.commit()
        try:
            for table in ("outbox", "outbox_heads"):
                store.query(f"alter table {table} alter column source set default 'orders.2'")
            assert [(event.source, event.sequence) for event in (client.add(), client.add())] == [
                *(("orders.2", 1), ("orders.2", 2))
            ]
            rising = client.add(
                replace(ORDER, aggregate_id="9", sequence=7), table=OutboxTable(), contract=NUMBERED_BY_CALLER
            )
            assert (rising.source, rising.sequence) == ("orders.2", 7)
            client.commit()
        finally:
            for table in ("outbox", "outbox_heads"):
                store.query(f"alter table {table} alter column source set default 'orders.1'")

    def test_a_payload_may_be_as_deep_as_the_dialect_says(self, client: Client, store: MariaDbStore) -> None:
        depth = Dialect.MYSQL.features.max_payload_depth
        client.add(replace(ORDER, payload="[" * depth + "]" * depth))
        with pytest.raises(EventError, match="nested too deeply, the limit is 31"):
            client.add(replace(ORDER, payload="[" * (depth + 1) + "]" * (depth + 1)))
        client.commit()
        assert store.numbers() == [("42", 1)]
        # And no deeper than the database takes it.
        with pytest.raises(Exception, match="CONSTRAINT"):
            store.query(
                "insert into outbox (id, aggregatetype, aggregateid, type, payload) "
                "values (uuid(), 'order', '1', 'X', concat(repeat('[', 32), repeat(']', 32)))"
            )

    def test_backslashes_are_kept_in_both_sql_modes(self, client: Client, store: MariaDbStore) -> None:
        headers = {"traceparent": "\\n' \\' \\\\ \" 𝄞"}
        client.execute("set sql_mode = 'ansi_quotes'")
        client.add(replace(ORDER, payload={"a": "\\n'\""}, headers=headers))
        client.commit()
        assert store.query("select json_value(payload, '$.a'), traceparent from outbox") == [
            ("\\n'\"", headers["traceparent"])
        ]
