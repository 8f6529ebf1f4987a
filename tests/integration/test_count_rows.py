"""How many rows captured tables hold, as far as the role may see."""

import psycopg
import pytest

from cdc_outbox.databases.drivers.psycopg import Psycopg
from cdc_outbox.databases.introspection import Catalog
from cdc_outbox.databases.table import TableName
from cdc_outbox.errors import DatabaseAccessError
from cdc_outbox.testing import Stack


def test_rows_that_a_role_may_not_read_are_not_counted(outbox_stack: Stack) -> None:
    table = TableName(schema="public", name="counted")
    with psycopg.connect(outbox_stack.postgres.create_database("count_rows")) as connection:
        connection.execute("create table counted as select 1 as a")
        count_rows = Catalog(connection, Psycopg()).count_visible_rows
        assert count_rows(table) == 1
        connection.execute("create role counts_nothing")
        connection.execute("set local role counts_nothing")
        assert count_rows(table) == 0
        assert count_rows(TableName(schema="public", name="none")) == 0
        connection.execute("reset role")
        connection.execute("grant select on counted to counts_nothing")
        connection.execute("alter table counted enable row level security")
        assert count_rows(table) == 1, "of its owner"
        connection.execute("set local role counts_nothing")
        with pytest.raises(DatabaseAccessError, match="row-level security may hide rows"):
            count_rows(table)
        connection.rollback()
