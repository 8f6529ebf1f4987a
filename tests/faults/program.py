"""A consumer as a process of its own, which stops where it is told to: ``python -m tests.faults.program '{…}'``.

It says on its standard output where it is, and takes orders from its standard input.
"""

import asyncio
import json
import logging
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import wraps
from typing import Any, ClassVar

import psycopg
from psycopg.conninfo import make_conninfo

from cdc_outbox.consumer import AsyncConsumer, Consumer, Limits, RecordedEvent, Retry, SequenceMode, WireContract
from cdc_outbox.consumer.delivery import Delivery
from cdc_outbox.consumer.fencing import TopicPartition
from cdc_outbox.consumer.item import Item
from tests.faults.commander import AT, READY, Commander
from tests.faults.points import Point, stop_at

_POISON = "this event is poison"
_RECORD = """
    insert into ledger (consumer, member, aggregate, sequence, event_id, held, owned)
    select %s, %s, %s, %s, %s, %s, epoch
    from inbox_epochs
    where consumer = %s and topic = %s and "partition" = %s"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What a process is to be.

    Args:
        consumer: The consumer's name.
        member: This process's name.
        port: Where the database is reached, past what may cut the line.
        point: Where it stops, the ``occurrence``-th time that it comes there.
        handler_seconds: What :class:`Limits` calls so.
        settings: librdkafka's.
        asynchronous: Whether it is an :class:`AsyncConsumer`.
    """

    program: ClassVar = "tests.faults.program"

    consumer: str
    member: str
    topic: str
    brokers: str
    dsn: str
    port: int | None = None
    point: Point | None = None
    occurrence: int = 1
    batch_events: int = 5
    handler_seconds: float = 60.0
    settings: Mapping[str, Any] = field(default_factory=dict)
    asynchronous: bool = False

    def text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, text: str) -> "Orders":
        fields = json.loads(text)
        return cls(**{**fields, "point": fields["point"] and Point(fields["point"])})


def contract_of(topic: str) -> WireContract:
    return WireContract(aggregates={"order": SequenceMode.GAPLESS}, topic=topic)


class Service:
    """The consumer with its handler."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._left = orders.occurrence
        self._held: dict[str, tuple[TopicPartition, int | None]] = {}
        self._loop = asyncio.new_event_loop()
        self._consumer = self._asynchronous_consumer() if orders.asynchronous else self._synchronous_consumer()
        self._commander = Commander(self._stop, orders.brokers)
        self._know_epochs()
        if orders.point is not None:
            stop_at(orders.point, self._reach)

    def run(self) -> None:
        self._commander.say(READY)
        self._commander.wait()
        if isinstance(self._consumer, Consumer):
            self._consumer.run()
        else:
            self._loop.run_until_complete(self._consumer.run())

    def _stop(self) -> None:
        if isinstance(self._consumer, Consumer):
            self._consumer.stop()
        else:
            self._loop.call_soon_threadsafe(self._consumer.stop)

    def _synchronous_consumer(self) -> Consumer:
        consumer = Consumer(database=lambda: psycopg.connect(self._dsn), **self._options)

        @consumer.on("OrderPlaced")
        def record(event: RecordedEvent, connection: psycopg.Connection[Any]) -> None:
            connection.execute(_RECORD, self._recorded(event))
            self._go_on(event)

        return consumer

    def _asynchronous_consumer(self) -> AsyncConsumer:
        consumer = AsyncConsumer(database=lambda: psycopg.AsyncConnection.connect(self._dsn), **self._options)

        @consumer.on("OrderPlaced")
        async def record(event: RecordedEvent, connection: psycopg.AsyncConnection[Any]) -> None:
            await connection.execute(_RECORD, self._recorded(event))
            self._go_on(event)

        return consumer

    @property
    def _dsn(self) -> str:
        return make_conninfo(self._orders.dsn, port=self._orders.port)

    @property
    def _options(self) -> dict[str, Any]:
        orders = self._orders
        return {
            "name": orders.consumer,
            "contract": contract_of(orders.topic),
            "kafka": {"bootstrap.servers": orders.brokers, **orders.settings},
            "limits": Limits(batch_events=orders.batch_events, handler_seconds=orders.handler_seconds),
            # A poison event is dead after the first attempt.
            "retry": Retry(inline_retry_seconds=0, max_attempts=1),
        }

    def _recorded(self, event: RecordedEvent) -> Sequence[Any]:
        """Return what tells which event had its effect, and under which epoch; the database adds which one was its."""
        orders, (place, held) = self._orders, self._held[event.id]
        effect = (orders.consumer, orders.member, event.aggregate_id, event.sequence, event.id, held)
        return (*effect, orders.consumer, *place)

    def _go_on(self, event: RecordedEvent) -> None:
        if event.payload["poison"]:
            raise ValueError(_POISON)
        time.sleep(event.payload["seconds"])
        if self._orders.point is Point.IN_HANDLER:
            self._reach()

    def _reach(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._commander.say(AT)
            self._commander.wait()

    def _know_epochs(self) -> None:
        """Have the handler know what it is applied under."""
        apply, known = Delivery.apply, self._held

        @wraps(apply)
        async def spied(
            delivery: Delivery,
            items: Sequence[Item],
            connection: Any,
            held: Mapping[TopicPartition, int],
            *rest: Any,
            **options: Any,
        ) -> Any:
            known.update({item.event_id: (item.topic_partition, held.get(item.topic_partition)) for item in items})
            return await apply(delivery, items, connection, held, *rest, **options)

        setattr(Delivery, "apply", spied)  # noqa: B010 - mypy would not have it otherwise


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s", stream=sys.stderr)
    Service(Orders.of(sys.argv[1])).run()
