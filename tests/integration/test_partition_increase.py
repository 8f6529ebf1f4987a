"""A topic got more partitions: two consumers have events of one aggregate at once, and none of them sleeps forever."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import psycopg
import pytest

from cdc_outbox.consumer import Order, Outcome, RecordedEvent, SequenceMode
from cdc_outbox.consumer.delivery import Delivery
from cdc_outbox.consumer.fencing import TopicPartition
from cdc_outbox.consumer.handlers import HandlerRunner, Handlers
from cdc_outbox.consumer.inbox_tables import InboxTable
from cdc_outbox.consumer.item import Item
from cdc_outbox.consumer.session import sql_stores
from cdc_outbox.databases.drivers.immediate import ImmediateTransactions, finish
from cdc_outbox.databases.drivers.psycopg import Psycopg
from cdc_outbox.message import Message
from tests.support.events import make_event
from tests.support.patience import patience
from tests.support.rig import Connection, eventually, one
from tests.support.service import Service, apply_effect, by_aggregate
from tests.support.threads import Threads

OLD, NEW = 0, 1
"""The partition that the aggregate's events were in, and the one that they are in now."""


class Gate:
    """A place at which a transaction waits until it is let through."""

    def __init__(self) -> None:
        self._reached, self._opened = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self._reached.set()
        assert self._opened.wait(patience())

    def wait_until_reached(self) -> None:
        assert self._reached.wait(patience())

    def open(self) -> None:
        self._opened.set()


class SlowCommit(ImmediateTransactions):
    """A driver that does something before it commits."""

    def __init__(self, before: Callable[[], None]) -> None:
        super().__init__(Psycopg())
        self._before = before

    async def commit(self, connection: Any) -> None:
        self._before()
        await super().commit(connection)


def nothing() -> None:
    """Go on."""


class Member:
    """A consumer of the group that has one partition, without a broker."""

    def __init__(
        self, service: Service, partition: int, *, in_handler: Any = nothing, before_commit: Any = nothing
    ) -> None:
        self.topic_partition = TopicPartition(service.pipeline.topic, partition)
        self._service, handlers = service, Handlers()
        self.driver = SlowCommit(before_commit)
        self.stores = sql_stores(table=InboxTable(), consumer=service.name, driver=self.driver)

        def handler(event: RecordedEvent, connection: Connection) -> None:
            apply_effect(event, connection)
            in_handler()

        handlers.add(["OrderPlaced"], handler, takes_batch=False)
        calls = HandlerRunner(driver=self.driver, handlers=handlers)
        order = Order(mode=SequenceMode.GAPLESS)
        self._delivery = Delivery(stores=self.stores, driver=self.driver, calls=calls, order_of=lambda _: order)

    def deliver(self, event: RecordedEvent) -> Outcome:
        topic, partition = self.topic_partition
        message = Message(topic=topic, partition=partition, offset=0, key=b"1", value=b"{}")
        with psycopg.connect(self._service.dsn) as connection:
            delivered = finish(self._delivery.apply([Item(event=event, message=message)], connection, {}))
        return delivered.outcomes[0]

    def due(self) -> list[str]:
        with psycopg.connect(self._service.dsn) as connection:
            return [row.event_id for row in finish(self.stores.park.find_due(connection, [self.topic_partition], 10))]


def wait_for_lock(service: Service, what: str) -> None:
    query = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = %s"
    with service.connect() as watcher:
        eventually(lambda: one(watcher, query, service.pipeline.name) == 1, what)


@pytest.fixture
def pool() -> Any:
    with Threads(2) as pool:
        yield pool


def test_the_later_is_parked_while_the_earlier_is_in_its_handler_and_woken_by_it(
    fed_service: Service, pool: Any
) -> None:
    gate, five, six = Gate(), make_event(1), make_event(2)
    earlier: Future[Outcome] = pool.submit(Member(fed_service, OLD, in_handler=gate).deliver, five)
    gate.wait_until_reached()
    later = Member(fed_service, NEW)
    assert later.deliver(six) is Outcome.PARKED
    assert later.due() == []
    gate.open()
    assert earlier.result() is Outcome.APPLIED
    assert later.due() == [six.id]


def test_the_later_waits_for_the_earlier_that_has_moved_the_watermark_and_is_next_then(
    fed_service: Service, pool: Any
) -> None:
    gate = Gate()
    earlier: Future[Outcome] = pool.submit(Member(fed_service, OLD, before_commit=gate).deliver, make_event(1))
    gate.wait_until_reached()
    later: Future[Outcome] = pool.submit(Member(fed_service, NEW).deliver, make_event(2))
    wait_for_lock(fed_service, "the later to wait for the watermark")
    gate.open()
    assert (earlier.result(), later.result()) == (Outcome.APPLIED, Outcome.APPLIED)
    assert fed_service.effects() == [("1", 1), ("1", 2)]
    assert fed_service.parked() == []


def test_the_earlier_waits_for_the_later_that_is_being_parked_and_wakes_it(fed_service: Service, pool: Any) -> None:
    gate, six = Gate(), make_event(2)
    later = Member(fed_service, NEW, before_commit=gate)
    parking: Future[Outcome] = pool.submit(later.deliver, six)
    gate.wait_until_reached()
    earlier: Future[Outcome] = pool.submit(Member(fed_service, OLD).deliver, make_event(1))
    wait_for_lock(fed_service, "the earlier to wait for the watermark")
    gate.open()
    assert (parking.result(), earlier.result()) == (Outcome.PARKED, Outcome.APPLIED)
    assert later.due() == [six.id]


def test_two_consumers_that_own_different_partitions_apply_everything_in_order(two_partition_service: Service) -> None:
    service, aggregates, half = two_partition_service, [str(number) for number in range(20)], 15
    with service.running(), service.running():
        for number in range(1, half + 1):
            # Both halves at once, so that each consumer has what the other waits for.
            service.send(*(make_event(number, aggregate_id) for aggregate_id in aggregates), partition=OLD)
            service.send(*(make_event(half + number, aggregate_id) for aggregate_id in aggregates), partition=NEW)
        eventually(lambda: len(service.effects()) >= 2 * half * len(aggregates), "all effects", seconds=60)
    assert by_aggregate(service.effects()) == {
        aggregate_id: list(range(1, 2 * half + 1)) for aggregate_id in aggregates
    }
    assert service.parked() == []
    assert set(service.rows("select last, parked from inbox_watermarks")) == {(2 * half, 0)}


def test_two_consumers_that_redo_one_chain_at_once_count_what_is_parked_once(fed_service: Service, pool: Any) -> None:
    """What the second of them read in the park is not there any more when its turn comes."""
    gate, one_, two = Gate(), make_event(1), make_event(2)
    member = Member(fed_service, OLD)
    assert member.deliver(two) is Outcome.PARKED
    assert member.deliver(one_) is Outcome.APPLIED
    with psycopg.connect(fed_service.dsn) as connection:
        [row] = finish(member.stores.park.find_due(connection, [member.topic_partition], 10))
    redone = Item(event=two, message=row.message, parked=row)

    def redo(member: Member) -> Outcome:
        with psycopg.connect(fed_service.dsn) as connection:
            return finish(member._delivery.apply([redone], connection, {})).outcomes[0]

    first: Future[Outcome] = pool.submit(redo, Member(fed_service, OLD, before_commit=gate))
    gate.wait_until_reached()
    second: Future[Outcome] = pool.submit(redo, Member(fed_service, OLD))
    wait_for_lock(fed_service, "the second to wait")
    gate.open()
    assert first.result() is Outcome.APPLIED
    assert second.result() is Outcome.PARKED, "it was passed over"
    assert fed_service.effects() == [("1", 1), ("1", 2)]
    assert fed_service.rows("select last, parked from inbox_watermarks") == [(2, 0)]
