"""PostgreSQL as the writer's contract needs it, and what every driver for it must do beside that."""

from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import psycopg
import pytest
from psycopg.types.string import TextLoader

from cdc_outbox import NotInTransactionError
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.table import OutboxTable
from cdc_outbox.errors import DatabaseAccessError, DatabaseUnavailableError, EventError, TableNotFoundError
from cdc_outbox.formats.event_format import PayloadType
from cdc_outbox.testing import Stack
from cdc_outbox.writer.outbox_schema import outbox_component
from tests.contract.row_lock_contract import RowLockContract
from tests.support.rig import run_upgrade
from tests.support.writer_clients import ORDER, Client, Store


class PostgresStore(Store):
    dialect = Dialect.POSTGRESQL

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self._connection = psycopg.connect(dsn, autocommit=True)
        # As Debezium reads it: json as the text that was written.
        self._connection.adapters.register_loader("json", TextLoader)

    @classmethod
    def create(cls, stack: Stack, name: str) -> "PostgresStore":
        store = cls(stack.postgres.create_database(name))
        store.make_tables(OutboxTable())
        store.query("create table customers (id int)")
        return store

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        cursor = self._connection.execute(sql.encode())
        return cursor.fetchall() if cursor.description else []

    def close(self) -> None:
        self._connection.close()

    def make_tables(self, table: OutboxTable) -> None:
        run_upgrade(self._connection, outbox_component(table, first_source="orders.1"))

    def count_sessions(self) -> int:
        [(count,)] = self.query(
            "select count(*) from pg_stat_activity "
            "where datname = current_database() and backend_type = 'client backend'"  # and not the server's own
        )
        return int(count)

    def end_other_sessions(self) -> None:
        self.query(
            "select pg_terminate_backend(pid, 10000) from pg_stat_activity "
            "where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'"
        )


class PostgresWriterContract(RowLockContract):
    """Subclasses say what the hint of a refusal calls their driver."""

    conflicts_when_repeatable = True
    library: ClassVar[str]

    def test_a_refusal_says_how_this_driver_opens_a_transaction(self, store: PostgresStore) -> None:
        with closing(self.open(store, autocommit=True)) as client:
            with pytest.raises(NotInTransactionError) as caught:
                client.add()
            assert self.library in caught.value.hint.split()

    @pytest.mark.parametrize("many", [False, True], ids=["add", "add_all"])
    def test_what_an_operator_can_mend_is_our_error(self, client: Client, *, many: bool) -> None:
        def add(**options: Any) -> object:
            return client.add_all([ORDER], **options) if many else client.add(**options)

        with pytest.raises(TableNotFoundError) as missing:
            add(table=OutboxTable(name="nowhere"))
        assert missing.value.sqlstate == "42P01"
        assert str(missing.value) == 'relation "public.nowhere_heads" does not exist'
        assert missing.value.__cause__ is not None
        client.rollback()
        client.execute("set local role pg_monitor")
        with pytest.raises(DatabaseAccessError, match="permission denied"):
            add()
        client.rollback()
        assert client.add().sequence == 1

    def test_bytes_arrive_as_they_are(self, client: Client, store: PostgresStore) -> None:
        table = OutboxTable(name="outbox_of_bytes", payload_type=PayloadType.BYTES)
        store.make_tables(table)
        store.query("delete from outbox_of_bytes")
        event = replace(ORDER, payload=b"\0\xff%s:x\\")
        client.add(event, table=table)
        client.add_all([event], table=table)
        client.commit()
        assert store.query("select payload from outbox_of_bytes") == [(event.payload,)] * 2

    def use_latin1(self, client: Any) -> None:
        client.execute("set client_encoding to 'latin1'")

    def test_an_encoding_that_cannot_carry_the_payload_is_our_error_before_anything_is_written(
        self, client: Client, store: PostgresStore
    ) -> None:
        self.use_latin1(client)
        event = replace(ORDER, payload={"price": "5 €"})
        for write in (client.add, lambda event: client.add_all([event])):
            with pytest.raises(EventError, match=r"encoding .+ cannot carry the event") as caught:
                write(event)
            assert "client_encoding=UTF8" in caught.value.hint
        assert client.add(replace(ORDER, payload='{"price":"5 \\u20ac"}')).sequence == 1
        client.commit()
        assert store.numbers() == [("42", 1)]

    def test_a_server_that_went_away_is_our_error(self, client: Client, store: PostgresStore) -> None:
        client.execute("select 1")
        store.end_other_sessions()
        with pytest.raises(DatabaseUnavailableError):
            client.add()

    def test_a_time_is_utc_however_the_session_shows_times(self, client: Client) -> None:
        client.execute("set datestyle = 'German, DMY'")
        client.execute("set timezone = 'Asia/Tokyo'")
        for event in (client.add(), *client.add_all([ORDER, ORDER])):
            assert event.created_at.tzinfo is UTC
            assert abs(event.created_at - datetime.now(UTC)) < timedelta(minutes=1)


OBJECTS = """
select relation.relname, attribute.attname, format_type(attribute.atttypid, attribute.atttypmod), attribute.attnotnull,
    pg_get_expr(value.adbin, value.adrelid), collat.collname
from pg_attribute as attribute
join pg_class as relation on relation.oid = attribute.attrelid
left join pg_attrdef as value on value.adrelid = relation.oid and value.adnum = attribute.attnum
left join pg_collation as collat on collat.oid = attribute.attcollation
where relation.relnamespace = 'public'::regnamespace and attribute.attnum > 0
union all
select conrelid::regclass::text, conname, pg_get_constraintdef(oid), true, '', ''
from pg_constraint where connamespace = 'public'::regnamespace
union all
select pubname, schemaname || '.' || tablename, '', true, '', '' from pg_publication_tables
union all
select pubname, 'publish', concat(pubinsert, pubupdate, pubdelete, pubtruncate), true, '', '' from pg_publication
union all
select 'version', component, version::text, true, '', '' from cdc_outbox_version
order by 1, 2, 3
"""


def objects(dsn: str) -> list[tuple[object, ...]]:
    with psycopg.connect(dsn) as connection:
        return connection.execute(OBJECTS.encode()).fetchall()
