"""A delivery over a database in memory that writes down what it is asked."""

from collections.abc import Callable, Mapping
from typing import Any

from cdc_outbox.consumer.delivery import Delivered, Delivery
from cdc_outbox.consumer.fencing import Assignment, TopicPartition
from cdc_outbox.consumer.handlers import BeforeCommit, Handler, HandlerRunner, Handlers
from cdc_outbox.consumer.item import Item
from cdc_outbox.consumer.limits import ENDLESS, Room
from cdc_outbox.consumer.ordering import Order
from cdc_outbox.consumer.parked_events import Failure
from cdc_outbox.databases.drivers import TransactionState
from cdc_outbox.databases.drivers.immediate import finish
from cdc_outbox.event import RecordedEvent, SequenceMode
from cdc_outbox.message import Message
from cdc_outbox.telemetry import HandlerTelemetry, Metrics, NoMetrics, NoSpans, Telemetry
from cdc_outbox.testing import MemoryDatabase

HOME = TopicPartition("orders", 0)
STEPS = {
    "begin": "begin",
    "claim": "claim",
    "claim_next": "claim next",
    "find_stale": "fence",
    "store_offsets": "store offsets",
    "find_watermarks": "look",
    "lock_watermarks": "lock",
    "add": "park",
    "release": "release",
    "remove": "unpark",
    "advance": "advance",
    "wake": "wake",
    "commit": "commit",
    "rollback": "rollback",
    "take_back": "take back",
}
"""What is written down, of the methods of a database and its stores; calls that do nothing are left out."""
UNTIL_THE_HANDLER = ["begin", "claim next"]
UNLESS_ALL_ARE_NEXT = [*UNTIL_THE_HANDLER, "claim", "fence", "look"]
FROM_THE_HANDLER = ["advance", "store offsets", "commit"]
UNDONE = ["rollback", "begin", "take back", "commit"]
"""How a failure ends: with a look for claims that the handler committed itself."""


class SpyDatabase(MemoryDatabase):
    """A database that writes down the steps, and that a handler can do things to."""

    def __init__(self) -> None:
        super().__init__()
        self.committed.epochs[HOME] = Assignment(1, 1)
        self.steps: list[str] = []
        self.within = False
        self.became: TransactionState | None = None
        self.commit_error: Exception | None = None

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in STEPS:
            return found

        async def spied(connection: Any, *arguments: Any) -> Any:
            if self.within:
                return await found(connection, *arguments)
            if not arguments or any(arguments):
                self.steps.append(STEPS[name])
            self.within = True
            try:
                return await found(connection, *arguments)
            finally:
                self.within = False

        return spied

    def state(self, connection: Any) -> TransactionState:
        return self.became or super().state(connection)

    async def commit(self, connection: Any) -> None:
        if self.commit_error:
            raise self.commit_error
        await super().commit(connection)


def item(one: RecordedEvent, offset: int = 0, failure: Failure | None = None) -> Item:
    message = Message(topic=HOME.topic, partition=HOME.partition, offset=offset, key=b"1", value=b"{}")
    return Item(event=one, message=message, failure=failure)


def deliver(
    *items: Item | RecordedEvent,
    handler: Handler | None = None,
    database: SpyDatabase | None = None,
    mode: SequenceMode = SequenceMode.GAPLESS,
    by_watermark: bool = False,
    held: Mapping[TopicPartition, int] | None = None,
    room: Room = ENDLESS,
    metrics: Metrics | None = None,
    before_commit: BeforeCommit | None = None,
    error_texts: bool = True,
) -> Delivered:
    database = database or SpyDatabase()
    handlers = Handlers()
    if handler:
        handlers.add(["OrderPlaced"], handler, takes_batch=False)
    delivery = Delivery(
        stores=database.stores,
        driver=database,
        calls=HandlerRunner(
            driver=database,
            handlers=handlers,
            telemetry=HandlerTelemetry("shipping", Telemetry(metrics=metrics or NoMetrics(), spans=NoSpans())),
            before_commit=before_commit,
            error_texts=error_texts,
        ),
        order_of=lambda _: Order(mode=mode, by_watermark=by_watermark),
    )
    wrapped = [item(one, place) if isinstance(one, RecordedEvent) else one for place, one in enumerate(items)]
    return finish(delivery.apply(wrapped, None, held or {HOME: 1}, room))


def noting(database: SpyDatabase) -> Callable[[RecordedEvent, Any], None]:
    return lambda _event, _connection: database.steps.append("handler")
