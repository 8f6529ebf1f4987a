"""What is not pruned on MariaDB while a server does not answer, or is another one."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.errors import ConnectUnavailableError
from cdc_outbox.testing import MariaDb, Stack
from tests.support.mariadb_pruning import NAME, Orders, running_orders
from tests.support.timings import QUICK_TIMINGS


@pytest.fixture(scope="module")
def orders(outbox_stack: Stack) -> Iterator[Orders]:
    with running_orders(outbox_stack) as made:
        made.wait_for_messages()
        made.query("delete from outbox")
        yield made


def test_nothing_is_pruned_while_the_broker_does_not_answer(orders: Orders) -> None:
    timings = replace(QUICK_TIMINGS, reach_seconds=1.0, answer_seconds=1.0)
    client = ConnectClient(replace(orders.stack.connect_cluster, patience_seconds=0, timings=timings))
    orders.stack.broker.pause()
    try:
        orders.write(3)
        with pytest.raises(ConnectUnavailableError):
            orders.run(client=client, wait_seconds=1)
        assert orders.rows == 3
    finally:
        orders.stack.broker.resume()
    orders.wait_for_messages()


def test_another_server_with_the_same_tables_is_not_pruned(orders: Orders, mariadb: MariaDb) -> None:
    dsn = mariadb.create_database(NAME)
    other = replace(orders, server=mariadb, dsn=dsn, reports=[])
    other.make_tables()
    other.write(3)
    # Its binlog may be shorter than the connector's position, and longer later; neither may prove anything.
    [(file, size, *_)] = orders.query("show master status")
    assert file == "binlog.000001"
    other.query("reset master")  # else it may have come to another file by now
    other.query("create table filler (content longblob)")
    other.query(f"insert into filler values (repeat('x', {size}))")  # noqa: S608 - a number
    pruned = other.run(dsn=dsn, wait_seconds=1)
    assert (pruned.deleted, other.rows) == (0, 3)
    assert "no connection of the user 'connector' reads this server's binlog" in pruned.verdict.held_back
    other.query(f"drop database {NAME}")
