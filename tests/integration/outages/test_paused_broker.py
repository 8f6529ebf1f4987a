"""What is committed while the broker does not answer."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from cdc_outbox import Event, Outbox
from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.cluster import Cluster
from cdc_outbox.errors import ConnectUnavailableError
from cdc_outbox.testing import Stack
from tests.support.mariadb_pruning import Orders, running_orders
from tests.support.pipeline import Pipeline
from tests.support.rig import Connection, eventually, one
from tests.support.timings import QUICK_TIMINGS

PLACED = Event(aggregate_type="order", aggregate_id="1", type="OrderPlaced", payload={})


def ids(connection: Connection) -> set[str]:
    return {event_id for (event_id,) in connection.execute("select id::text from outbox")}


def arrived(pipeline: Pipeline) -> set[str | None]:
    return {pipeline.spec.contract.event_of(message).id for message in pipeline.messages()}


def test_a1_c1_what_is_committed_while_the_broker_is_down_is_published_afterwards(deployed: Pipeline) -> None:
    """A1: stored in the business data's own transaction, published by another process, never lost while the broker is
    down. C1: at least once, by the same transaction.

    The other process is Debezium, which reads the log instead of the table.
    """
    broker = deployed.stack.broker
    with deployed.connect() as connection:
        connection.execute("create table orders (id int primary key)")
        deployed.write(1)
        eventually(lambda: len(deployed.messages()) == 1, "the pipeline to run")
        broker.pause()
        try:
            assert broker.state() == "paused"
            for number in range(20):
                with connection.transaction(force_rollback=number % 5 == 4):
                    connection.execute("insert into orders values (%s)", (number,))
                    Outbox(contract=deployed.spec.contract).add(connection, PLACED)
        finally:
            broker.resume()
        committed = ids(connection)
        assert (one(connection, "select count(*) from orders"), len(committed)) == (16, 17)
        eventually(lambda: arrived(deployed) >= committed, "every committed event", seconds=60)
        assert arrived(deployed) == committed


@pytest.fixture
def orders(outbox_stack: Stack) -> Iterator[Orders]:
    with running_orders(outbox_stack) as made:
        made.wait_for_messages()
        made.query("delete from outbox")
        yield made


def test_nothing_is_pruned_while_the_broker_does_not_answer(orders: Orders) -> None:
    timings = replace(QUICK_TIMINGS, reach_seconds=1.0, answer_seconds=1.0)
    client = ConnectClient(Cluster(urls=(orders.stack.connect_url,), patience_seconds=0, timings=timings))
    orders.stack.broker.pause()
    try:
        orders.write(3)
        with pytest.raises(ConnectUnavailableError):
            orders.run(client=client, wait_seconds=1)
        assert orders.rows == 3
    finally:
        orders.stack.broker.resume()
    orders.wait_for_messages()
