"""Consumers, the topic they read and the database they write to, with a hook before every step of any of them."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from random import Random
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

from cdc_outbox.consumer import loop, offsets
from cdc_outbox.consumer.delivery import NOTHING_STORED, Delivered, Delivery, Stores
from cdc_outbox.consumer.fencing import Ownership, TopicPartition
from cdc_outbox.consumer.group import BackgroundPoller, Membership, subscribe
from cdc_outbox.consumer.handlers import HandlerRunner, Handlers
from cdc_outbox.consumer.item import Item
from cdc_outbox.consumer.limits import ENDLESS, Limits, Room
from cdc_outbox.consumer.loop import Loop
from cdc_outbox.consumer.offsets import Offsets
from cdc_outbox.consumer.ordering import Order, orders_of
from cdc_outbox.consumer.retries import Retry, RetryTracker
from cdc_outbox.consumer.session import Session
from cdc_outbox.consumer.stats import ConsumerStats
from cdc_outbox.contract.wire import WireContract
from cdc_outbox.databases.drivers.immediate import Meanwhile, finish, nothing_else
from cdc_outbox.event import RecordedEvent, SequenceMode
from cdc_outbox.formats.event_format import PayloadType
from cdc_outbox.message import Message
from cdc_outbox.telemetry import NoMetrics
from fuzz.consumer_database import Connected, Server
from fuzz.consumer_group import Client, Group

GAPLESS, INCREASING, NONE, LATEST, WATERMARK = "gapless", "increasing", "none", "latest", "watermark"
KINDS = (GAPLESS, INCREASING, NONE, LATEST, WATERMARK)
"""The aggregate types; each is named for what its events promise."""
CONTRACT = WireContract(
    aggregates={
        GAPLESS: SequenceMode.GAPLESS,
        INCREASING: SequenceMode.INCREASING,
        NONE: SequenceMode.NONE,
        LATEST: SequenceMode.GAPLESS,
        WATERMARK: SequenceMode.GAPLESS,
    },
    latest=(LATEST,),
    by_watermark=(WATERMARK,),
    topic="events",
)
MENDED = replace(CONTRACT, payload_type=PayloadType.BYTES)
"""Reads also what is no JSON."""
PLACES = tuple(TopicPartition("events", partition) for partition in range(3))
RETRY_ATTEMPTS = 3
_BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


class Crash(BaseException):
    """The process ends here."""


class HopelessError(Exception):
    """What a handler raises that another try cannot fix."""


@dataclass
class Fault:
    """What becomes of an event's handler.

    Args:
        times: How often it still fails.
        is_hopeless: Whether it says that another try cannot help.
    """

    times: int = 0
    is_hopeless: bool = False


class World:
    """All there is, and its clock."""

    def __init__(self) -> None:
        self.server = Server()
        self.group = Group(PLACES)
        self.consumers: list[Running] = []
        self.faults: dict[str, Fault] = {}
        self.away: Counter[str] = Counter()
        """How often the handlers of event types still find that a system is away, the same for all."""
        self.step: Callable[[Running, str], None] = lambda _running, _step: None
        """Called before each step of a consumer."""
        self.orders = orders_of(CONTRACT)
        self._ids = 0

    @property
    def moment(self) -> datetime:
        """The time by the clock."""
        return _BEGAN + timedelta(seconds=self.server.clock)

    def new_id(self) -> str:
        """Return a UUIDv7 by the clock."""
        self._ids += 1
        digits = f"{int(self.moment.timestamp() * 1000):012x}7{self._ids:03x}8000{0:012x}"
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    def append(self, place: TopicPartition, message: Message) -> Message:
        """Write a message into a partition and return it as it lies there."""
        log = self.group.logs[place]
        log.append(
            Message(
                topic=place.topic,
                partition=place.partition,
                offset=len(log),
                key=message.key,
                value=message.value,
                headers=message.headers,
            )
        )
        return log[-1]

    def start(self, *, batch_events: int, max_parked_events: int) -> None:
        """Start a consumer more; it has no partition yet."""
        limits = Limits(batch_events=batch_events, max_parked_events=max_parked_events)
        self.consumers.append(Running(self, limits))

    def restart(self, running: "Running") -> "Running":
        """End a consumer without a farewell, and start another in its place, which gets what it had."""
        number = self.consumers.index(running)
        successor = self.consumers[number] = Running(self, running.limits)
        self.group.evict(running.client, successor.client)
        running.connection.close()
        return successor

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.server.clock += seconds


class Running:
    """One consumer's process: all but the threads and the servers is what runs outside of this model."""

    def __init__(self, world: World, limits: Limits) -> None:
        self.world, self.limits = world, limits
        self.connection = Connected(world.server, self._step)
        self.begun: Counter[str] = Counter()
        self._handlers = Handlers()
        self._handlers.add([f"{kind}-done" for kind in KINDS], self._apply, takes_batch=False)
        clock = lambda: world.server.clock  # noqa: E731
        done, self.ownership = Offsets(), Ownership(clock=clock)
        self.client = Client(world.group, self._step, done.answered)
        client = cast("Any", self.client)
        self.poller = ModelPoller(client)
        self.stats = ConsumerStats(name="model", limits=limits, metrics=NoMetrics(), clock=clock)
        retry = Retry(max_attempts=RETRY_ATTEMPTS, park_at_once=(HopelessError,))
        member = Membership(
            client=client, poller=self.poller, offsets=done, ownership=self.ownership, partitions=self.client
        )
        self.loop = Loop(
            member,
            Session(self._connect, self._know),
            contract=CONTRACT,
            limits=limits,
            retries=RetryTracker(retry, random=Random(0), clock=clock),
            stats=self.stats,
            waits=_Waits(world),
        )
        subscribe(member, CONTRACT.topics, limits, self.stats)

    def turn(self) -> "Running":
        """Let the loop go round once, and return who goes on: another one, if this ends the process."""
        stopping = iter([False, True])
        try:
            finish(self.loop.run(lambda: next(stopping)))
        except Crash:
            return self.world.restart(self)
        return self

    def keep(self) -> None:
        """Let the poller poll once, as it does while a handler takes long."""
        self.poller.keep(self.client)

    def _connect(self) -> Connected:
        self.connection.close()
        self.connection = Connected(self.world.server, self._step)
        return self.connection

    def _know(self, connection: Connected) -> Any:
        return _Database(connection, self._handlers, self.world.orders.__getitem__)

    def _step(self, name: str) -> None:
        self.world.step(self, name)

    def _apply(self, event: RecordedEvent, connection: Connected) -> None:
        self.begun[event.id] += 1
        fault = self.world.faults.get(event.id)
        connection.effect(event)
        if self.world.away[event.type] > 0:
            self.world.away[event.type] -= 1
            raise ConnectionRefusedError(111, "Connect call failed ('10.0.0.7', 443)")
        if fault is not None and fault.times > 0:
            fault.times -= 1
            raise HopelessError if fault.is_hopeless else ValueError


class ModelPoller(BackgroundPoller):
    """The poller, whose thread's work is done when the model says so."""

    def keep(self, client: Client) -> None:
        """Poll once, if the loop is busy."""
        if self._is_busy:
            client.polled = self._ease
            kept: set[tuple[str, int]] = set()
            self._keep(kept)
            self._release(kept)
            client.polled = None
            self._is_busy = True

    def wait_until_idle(self, seconds: float) -> bool:  # noqa: ARG002
        """Take it that the handler is slower than one waits for."""
        return not self._is_busy

    def _ease(self) -> None:
        self._is_busy = False

    def _run(self) -> None:
        return


class _Database:
    """What a consumer's session knows of its connection."""

    def __init__(self, connection: Connected, handlers: Handlers, order_of: Callable[[str], Order]) -> None:
        self.driver = connection
        self.stores: Stores = connection.stores
        calls = HandlerRunner(driver=connection, handlers=handlers)
        self.delivery = _Delivery(stores=self.stores, driver=connection, calls=calls, order_of=order_of)

    async def prepare(self, connection: Any) -> None:
        """Nothing is to be set."""


class _Delivery(Delivery):
    """Delivery, which tells the connection under which epochs it works."""

    async def apply(
        self,
        items: Sequence[Item],
        connection: Connected,
        held: Mapping[TopicPartition, int],
        room: Room = ENDLESS,
        meanwhile: Meanwhile = nothing_else,
        *,
        stored: Mapping[TopicPartition, int] = NOTHING_STORED,
    ) -> Delivered:
        connection.held = held
        if len(items) % 2:  # else the server was quicker
            meanwhile()
        return await super().apply(items, connection, held, room, meanwhile, stored=stored)


class _Waits:
    def __init__(self, world: World) -> None:
        self._world = world

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    async def sleep(self, seconds: float) -> None:
        self._world.sleep(seconds)


@contextmanager
def told_by(world: World) -> Iterator[None]:
    """Have the modules that look at a clock look at the world's."""
    clock = SimpleNamespace(monotonic=lambda: world.server.clock)
    with mock.patch.object(loop, "time", clock), mock.patch.object(offsets, "time", clock):
        yield
