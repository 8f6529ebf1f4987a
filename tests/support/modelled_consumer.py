"""A consumer over a model of Kafka and a real database, on a thread of its own."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Self, cast

from cdc_outbox.consumer import (
    AsyncConsumer,
    Consumer,
    EffectsDatabase,
    Limits,
    RecordedEvent,
    Retry,
    SequenceMode,
    WireContract,
)
from cdc_outbox.consumer.fencing import Ownership, TopicPartition
from cdc_outbox.consumer.group import Membership, subscribe
from cdc_outbox.consumer.loop import Loop
from cdc_outbox.consumer.offsets import Offsets
from cdc_outbox.consumer.retries import RetryTracker
from cdc_outbox.consumer.session import Session
from cdc_outbox.consumer.waits import Blocking, Waits, Yielding
from cdc_outbox.databases.drivers.immediate import finish
from cdc_outbox.message import Message
from fuzz.consumer_group import Client, Group, Record
from fuzz.consumer_world import ModelPoller
from tests.support.driver_users import Users
from tests.support.threads import Threads

PLACE = TopicPartition("outbox.event.order", 0)
CONTRACT = WireContract(aggregates={"order": SequenceMode.GAPLESS})
NAME = "shipping"
Handle = Callable[[RecordedEvent, Any], Coroutine[Any, Any, object]]


class _Client(Client):
    """One that waits for the next message."""

    def poll(self, seconds: float) -> Record | None:
        record = super().poll(seconds)
        if record is None:
            threading.Event().wait(min(seconds, 0.005))
        return record


class ModelledConsumer:
    """One consumer of one partition.

    Args:
        handle: A coroutine function that never waits where the users' driver is synchronous.
    """

    def __init__(
        self,
        users: Users,
        address: Any,
        handle: Handle,
        *,
        limits: Limits | None = None,
        retry: Retry | None = None,
    ) -> None:
        self._group, self._asynchronous = Group([PLACE]), users.asynchronous
        self.connections = 0
        """How often it connected, or tried to."""

        def connect() -> Any:
            self.connections += 1
            return users.connect(address)

        self.consumer: Any = (AsyncConsumer if users.asynchronous else Consumer)(
            name=NAME,
            contract=CONTRACT,
            kafka="nowhere",
            database=EffectsDatabase(connect=connect, pipeline=users.pipeline),
            limits=limits,
            retry=retry,
        )
        self.consumer.on("OrderPlaced")(handle if users.asynchronous else lambda *given: finish(handle(*given)))
        self.error: BaseException | None = None
        """What ended it before it was to stop."""
        self._is_stopping = threading.Event()
        self._threads = Threads()

    def send(self, *events: RecordedEvent) -> None:
        """Write the events' messages into the partition."""
        log = self._group.logs[PLACE]
        for message in map(CONTRACT.message_of, events):
            fields: dict[str, Any] = {"key": message.key, "value": message.value, "headers": message.headers}
            log.append(Message(topic=PLACE.topic, partition=PLACE.partition, offset=len(log), **fields))

    @property
    def has_done_everything(self) -> bool:
        """Whether the offsets of all messages are committed."""
        return self._group.committed.get(PLACE, 0) == len(self._group.logs[PLACE])

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended by itself."""
        return not self._running.done()

    def __enter__(self) -> Self:
        self._running = self._threads.submit(self._run)
        return self

    def __exit__(self, *_: object) -> None:
        self._is_stopping.set()
        self._threads.shutdown()

    def _run(self) -> None:
        try:
            if self._asynchronous:
                asyncio.run(self._loop(Yielding(asyncio.Event())))
            else:
                finish(self._loop(Blocking(threading.Event())))
        except BaseException as error:  # noqa: BLE001 - told by who looks
            self.error = error

    async def _loop(self, waits: Waits) -> None:
        consumer = self.consumer
        offsets, ownership = Offsets(), Ownership()
        client = _Client(self._group, lambda _step: None, offsets.answered)
        untyped = cast("Any", client)
        member = Membership(
            client=untyped, poller=ModelPoller(untyped), offsets=offsets, ownership=ownership, partitions=client
        )
        session = Session(consumer._database.connect, consumer._know)
        loop = Loop(
            member,
            session,
            contract=CONTRACT,
            limits=consumer.limits,
            retries=RetryTracker(consumer._retry),
            stats=consumer._stats,
            waits=waits,
        )
        subscribe(member, CONTRACT.topics, consumer.limits, consumer._stats)
        self._group.give(PLACE, client)
        try:
            await loop.run(self._is_stopping.is_set)
        finally:
            await session.close()
