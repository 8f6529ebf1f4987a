"""In-memory parts of a relay: a server with one slot, routes, and a sink with room for a few messages."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import replace
from random import Random
from typing import Any

from cdc_outbox.databases.facts import SlotFacts
from cdc_outbox.databases.lsn import Lsn
from cdc_outbox.databases.pgoutput import Relation, keepalive_frame, wal_frame
from cdc_outbox.databases.publishers import LogIdentity, Publisher, PublisherKind
from cdc_outbox.debezium.event_router.column_values import Column
from cdc_outbox.debezium.event_router.compiled import Route
from cdc_outbox.debezium.event_router.produce import RoutedEvent
from cdc_outbox.errors import DatabaseUnavailableError
from cdc_outbox.relay.relay_errors import DeliveryError, MessageRefusedError, SlotInUseError
from cdc_outbox.relay.units import Unit
from cdc_outbox.relay.wal_source import StreamFacts
from tests.support.pgoutput_messages import begin, commit, insert, relation


class NamedRoutes:
    """Publishes a table whose columns have the outbox's names; the header ``moment`` is ``created_at`` as it came."""

    def find(self, relation: Relation) -> Route:
        at = {column.name: number for number, column in enumerate(relation.columns)}

        def route(values: Sequence[bytes | None]) -> RoutedEvent:
            moment = values[at["created_at"]] if "created_at" in at else None
            return ("topic", values[at["payload"]], values[at["aggregateid"]], -1, 1, [("moment", moment)])

        return route

    def drop(self, operation: str) -> None:
        pass


class MemoryServer:
    """A log of transactions, and a slot."""

    def __init__(self) -> None:
        self.facts = StreamFacts(
            log=LOG, publisher=publisher(), slot=slot_at(1), publishes=True, flushed=Lsn(1_000_000)
        )
        self.log: list[tuple[int, list[bytes]]] = []
        self.keepalives = True
        self.streams: list[MemoryStream] = []
        self.is_read = False
        self.told: list[int] = []
        self.noted: list[int] = []
        self.waits: list[float] = []
        self.answers = True
        self.fails = Failures()

    def write(self, *values: bytes) -> None:
        end = 100 * (len(self.log) + 1)
        messages = [begin(end - 10), relation(["aggregateid", "payload"])]
        messages += [insert([b"key", value]) for value in values]
        self.log.append((end, [wal_frame(message) for message in (*messages, commit(end - 10, end))]))

    @property
    def confirmed(self) -> int:
        assert self.facts.slot is not None
        assert self.facts.slot.confirmed is not None
        return self.facts.slot.confirmed.value

    def look(self) -> StreamFacts:
        self.fails.maybe(DatabaseUnavailableError("look"))
        return self.facts

    def claim(self, publisher: Publisher, confirmed: Lsn) -> int | None:
        self.fails.maybe(DatabaseUnavailableError("claim"))
        if publisher != self.facts.publisher:
            return None
        claimed = replace(publisher, epoch=publisher.epoch + 1, confirmed=confirmed, log=self.facts.log)
        self.facts = replace(self.facts, publisher=claimed)
        return claimed.epoch

    def confirm(self, epoch: int, position: Lsn) -> bool:
        self.fails.maybe(DatabaseUnavailableError("confirm"))
        if self.facts.publisher is None or self.facts.publisher.epoch != epoch:
            return False
        self.noted.append(position.value)
        self.facts = replace(self.facts, publisher=replace(self.facts.publisher, confirmed=position))
        return True

    def start(self, position: Lsn | None) -> "MemoryStream":
        if self.is_read:
            raise SlotInUseError("the slot is active", slot="slot")
        self.fails.maybe(DatabaseUnavailableError("start"))
        self.is_read = True
        self.streams.append(MemoryStream(self, position))
        return self.streams[-1]

    def read_columns(self, relation: Relation) -> Sequence[Column]:
        raise AssertionError("routes of a test know their columns")

    def close(self) -> None:
        pass

    def renewed(self) -> "MemoryServer":
        return self


LOG = LogIdentity("7", 3)


def publisher(**options: Any) -> Publisher:
    """Return the publisher of a relay that has confirmed nothing yet."""
    given: dict[str, Any] = {
        "kind": PublisherKind.WAL_RELAY,
        "slot": "slot",
        "epoch": 1,
        "confirmed": Lsn(1),
        "log": LOG,
        "instance": None,
    }
    return Publisher(**(given | options))


def slot_at(position: int, **options: Any) -> SlotFacts:
    given: dict[str, Any] = {
        "name": "slot",
        "plugin": "pgoutput",
        "database": "orders",
        "reader": 0,
        "wal_status": "reserved",
        "confirmed": Lsn(position),
        "log_end": Lsn(position),
    }
    return SlotFacts(**(given | options))


class ImmediateExecutor(Executor):
    """Does what it is given at once, on the caller's thread."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **options: Any) -> Future[Any]:
        future = Future[Any]()
        try:
            future.set_result(fn(*args, **options))
        except Exception as error:  # noqa: BLE001 - as an executor
            future.set_exception(error)
        return future


class HeldExecutor(ImmediateExecutor):
    """Does what it is given at :meth:`run`, once it holds."""

    def __init__(self) -> None:
        self._held: list[Callable[[], None]] = []
        self.holds = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **options: Any) -> Future[Any]:
        if not self.holds:
            return super().submit(fn, *args, **options)
        future = Future[Any]()
        self._held.append(lambda: future.set_result(fn(*args, **options)))
        return future

    def run(self) -> None:
        for work in self._held:
            work()
        self._held.clear()


class MemoryStream:
    """Sends what the slot has not confirmed, with keepalives between and within transactions."""

    branches: Mapping[int, Lsn] = {2: Lsn(50)}
    process = 0

    def __init__(self, server: MemoryServer, position: Lsn | None) -> None:
        sent = max(server.confirmed, position.value if position else 0)
        self._server, self._sent, self._frames = server, sent, list[bytes]()
        self._ended = False

    def receive(self) -> bytes | None:
        self._server.fails.maybe(DatabaseUnavailableError("receive"))
        if not self._frames:
            self._frames = self._next()
        return self._frames.pop(0) if self._frames else None

    def _next(self) -> list[bytes]:
        for end, frames in self._server.log:
            if end > self._sent:
                before, self._sent = self._sent, end
                if not self._server.keepalives:
                    return list(frames)
                return [keepalive_frame(before), *frames[:3], keepalive_frame(end - 10, wants_reply=True), *frames[3:]]
        return []

    def wait(self, seconds: float) -> None:
        self._server.waits.append(seconds)

    def tell(self, confirmed: int) -> None:
        self._server.fails.maybe(DatabaseUnavailableError("tell"))
        assert confirmed >= self._server.confirmed
        assert self._server.facts.slot is not None
        row = self._server.facts.publisher
        assert row is not None
        assert row.confirmed is not None
        assert row.confirmed.value >= confirmed
        self._server.told.append(confirmed)
        if self._server.answers:
            self._frames.append(keepalive_frame(0))
        slot = replace(self._server.facts.slot, confirmed=Lsn(confirmed))
        self._server.facts = replace(self._server.facts, slot=slot)

    def end(self, seconds: float) -> None:
        self._ended = True

    def finish(self) -> None:
        self._server.is_read = False


class Failures:
    """Raises at random."""

    def __init__(self, random: Random | None = None, share: float = 0.0) -> None:
        self.random, self.share = random or Random(0), share  # noqa: S311 - of a test

    def maybe(self, error: Exception) -> None:
        if self.random.random() < self.share:
            raise error


class Reported(Unit[int]):
    """A unit that counts its reports."""

    __slots__ = ("reports",)

    def __init__(self, events: Sequence[RoutedEvent]) -> None:
        super().__init__(events)
        self.reports = 0

    def delivered(self, error: object = None, record: object = None) -> None:
        self.reports += 1
        super().delivered(error, record)


class MemoryTopic:
    """What all sinks delivered, and how they fail."""

    def __init__(self) -> None:
        self.values: list[bytes | None] = []
        self.fails = Failures()
        self.room = 2
        self.is_down = False
        self.refused: bytes | None = None

    def open(self) -> "MemorySink":
        return MemorySink(self)


class MemorySink:
    """Takes what there is room for, and delivers it in a later poll; after a failure nothing."""

    def __init__(self, topic: MemoryTopic) -> None:
        self._topic, self._taken = topic, list[tuple[Unit[Any], bytes | None]]()
        self._failed = False

    def send(self, unit: Unit[Any], start: int) -> int:
        self._topic.fails.maybe(DeliveryError("send"))
        unit.translate = self._translate  # as a client's, which the unit keeps
        events = unit.events[start : start + max(0, self._topic.room - len(self._taken))]
        self._taken += [(unit, event[1]) for event in events]
        return len(events)

    def poll(self, seconds: float) -> None:
        if self._topic.is_down:
            return
        if self._failed:
            raise DeliveryError("the sink has failed")
        count = self._topic.fails.random.randrange(len(self._taken) + 1) if seconds == 0 else len(self._taken)
        for _ in range(count):
            unit, value = self._taken[0]
            if value is not None and value == self._topic.refused:
                # As librdkafka's fatal errors: the report comes after them.
                self._failed = True
                raise DeliveryError("the sink has failed")
            del self._taken[0]
            try:
                self._topic.fails.maybe(DeliveryError("poll"))
            except DeliveryError as error:
                self._failed = True
                unit.delivered(error)
                return
            self._topic.values.append(value)
            unit.delivered()

    def _translate(self, error: object, _: object) -> Exception:
        assert isinstance(error, Exception)
        return error

    def close(self, seconds: float) -> None:
        taken, self._taken = self._taken, []
        for unit, value in taken:
            is_refused = value is not None and value == self._topic.refused
            unit.delivered(MessageRefusedError("too large") if is_refused else DeliveryError("purged"))
