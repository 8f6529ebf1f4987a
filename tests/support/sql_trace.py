"""Statements as they are sent to a database, with the shapes of their parameters, and what a trace is made of."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from cdc_outbox import (
    AsyncOutbox,
    Event,
    EventFormat,
    Outbox,
    OutboxMode,
    OutboxTable,
    PayloadType,
    RecordedEvent,
    SequenceMode,
    WireContract,
)
from cdc_outbox.consumer import AsyncInbox, Inbox
from cdc_outbox.databases.drivers.immediate import finish
from tests.contract.inbox_contract import AWAY, CONSUMER, HOME, A, B, Opened, failed, gap
from tests.support.events import make_event
from tests.support.golden import neutral
from tests.support.writer_clients import NUMBERED_BY_CALLER, ORDER

ID = "0198c0de-0000-7000-8000-000000000001"
CONTRACT = WireContract(aggregates={"order": SequenceMode.GAPLESS})
MIXED = WireContract(
    aggregates={"order": SequenceMode.GAPLESS, "metric": SequenceMode.NONE, "cart": SequenceMode.INCREASING}
)
DELETING = OutboxTable(name="outbox_deleting", mode=OutboxMode.DELETE)
OF_BYTES = OutboxTable(name="outbox_of_bytes", payload_type=PayloadType.BYTES)
OF_CLOUDEVENTS = OutboxTable(name="outbox_of_cloudevents", format=EventFormat.CLOUDEVENTS_STRUCTURED)
TABLES = (DELETING, OF_BYTES, OF_CLOUDEVENTS)
MESSAGES = OutboxTable(mode=OutboxMode.MESSAGE)
METRIC = Event(aggregate_type="metric", aggregate_id="cpu", type="Measured", payload=1)
CART = Event(aggregate_type="cart", aggregate_id="1", type="Filled", payload={}, sequence=7)
OTHER_CART = replace(CART, aggregate_id="2")
CALLERS_NUMBERS = {"table": OutboxTable(), "contract": NUMBERED_BY_CALLER}
ALL_MODES = {"table": OutboxTable(), "contract": MIXED}
WITH_HEADERS = replace(ORDER, headers={"traceparent": "00-1"})

Options = dict[str, Any]
Under = Callable[[str], AbstractContextManager[None]]
WRITES: tuple[tuple[str, Options, list[Event]], ...] = (
    ("add", {}, [ORDER]),
    ("add with an id and headers", {}, [replace(WITH_HEADERS, id=ID)]),
    (
        "add, numbered by the caller",
        CALLERS_NUMBERS,
        [replace(ORDER, sequence=30, aggregate_id="c")],
    ),
    ("add, not numbered", ALL_MODES, [METRIC]),
    ("add to rows that are deleted", {"table": DELETING}, [ORDER]),
    ("add bytes", {"table": OF_BYTES}, [replace(ORDER, payload=b"\0")]),
    ("add a CloudEvent", {"table": OF_CLOUDEVENTS}, [ORDER]),
    ("add_all", {}, [ORDER, WITH_HEADERS, replace(ORDER, aggregate_id="other")]),
    (
        "add_all of every mode",
        ALL_MODES,
        [ORDER, METRIC, CART, ORDER, replace(CART, sequence=9)],
    ),
    ("add_all to rows that are deleted", {"table": DELETING}, [ORDER, ORDER]),
    ("add_all of bytes", {"table": OF_BYTES}, [replace(ORDER, payload=b"\0")] * 2),
    ("add_all of none", {}, []),
)
MESSAGE_WRITES: tuple[tuple[str, Options, list[Event]], ...] = (
    ("add as a logical message", {"table": MESSAGES}, [ORDER]),
    ("add_all as logical messages", {"table": MESSAGES, "contract": MIXED}, [ORDER, METRIC, OTHER_CART]),
)


@dataclass
class SqlTrace:
    """What was sent; a statement's text stands where it is sent first, and only its number after that."""

    _lines: list[str] = field(default_factory=list)
    _known: dict[str, int] = field(default_factory=dict)
    _shown: str = ""

    def heading(self, text: str) -> None:
        self._lines += ["", f"== {text}"]

    @contextmanager
    def under(self, heading: str) -> Iterator[None]:
        """Put what is sent in the block under a heading."""
        self.heading(heading)
        yield

    def add(self, sql: Any, parameters: Any = None) -> None:
        text = neutral(sql.decode() if isinstance(sql, bytes) else str(sql)).strip()
        known = text in self._known
        number = self._known.setdefault(text, len(self._known) + 1)
        self._lines += [f"[{number}]"] if known else [f"[{number}] {text}"]
        shown = f"    <- {shape(parameters)}" if parameters else ""
        if shown:
            self._lines.append("    <- the same" if shown == self._shown else shown)
        self._shown = shown

    def spy(self, monkeypatch: pytest.MonkeyPatch, owner: Any, method: str = "execute", *, skipped: int = 0) -> None:
        """Record what is passed to a method; ``skipped`` arguments stand in front of the statement."""
        original: Callable[..., Any] = getattr(owner, method)

        def spied(self: Any, *arguments: Any, **options: Any) -> Any:
            sql, *parameters = arguments[skipped:]
            trace.add(sql, parameters[0] if parameters else None)
            return original(self, *arguments, **options)

        trace = self
        monkeypatch.setattr(owner, method, spied)

    def clear(self) -> None:
        self._lines.clear()
        self._known.clear()

    def __str__(self) -> str:
        return "\n".join(self._lines)


def shape(value: Any) -> str:
    """Return types in place of values."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{name}: {shape(each)}' for name, each in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(shape, value))}]"
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        return f"({', '.join(map(shape, value))})"
    return "None" if value is None else type(value).__name__


def writes(*, messages: bool) -> Iterator[tuple[str, Options, Event | list[Event]]]:
    """Yield every way to write: a heading, an outbox's options, and what it is given, a list where ``add_all`` is."""
    for heading, options, events in (*WRITES, *(MESSAGE_WRITES if messages else ())):
        yield heading, options, events if heading.startswith("add_all") else events[0]


def use(trace: SqlTrace, connection: Any, *, messages: bool) -> None:
    """Write and receive on a connection that is in a transaction."""
    for heading, options, given in writes(messages=messages):
        trace.heading(heading)
        outbox = Outbox(**options)
        outbox.add_all(connection, given) if isinstance(given, list) else outbox.add(connection, given)
    inbox = Inbox(name=CONSUMER, contract=CONTRACT)
    for heading, each in received():
        trace.heading(heading)
        with inbox.receiving(connection, each):
            pass


async def use_async(trace: SqlTrace, connection: Any) -> None:
    """Do the same on an asynchronous connection to PostgreSQL."""
    for heading, options, given in writes(messages=True):
        trace.heading(heading)
        outbox = AsyncOutbox(**options)
        await (outbox.add_all(connection, given) if isinstance(given, list) else outbox.add(connection, given))
    inbox = AsyncInbox(name=CONSUMER, contract=CONTRACT)
    for heading, each in received():
        trace.heading(heading)
        async with inbox.receiving(connection, each):
            pass


def received() -> Iterator[tuple[str, RecordedEvent]]:
    """Yield what a consumer receives: the first event of an aggregate, it again, the second one."""
    first = make_event(1, ORDER.aggregate_id, event_id=ID, payload=ORDER.payload)
    yield "receive the first event", first
    yield "receive it again", first
    yield "receive the second event", replace(first, id=ID.replace("01", "02"), sequence=2)


def trace_stores(trace: SqlTrace, opened: Opened) -> None:
    """Call every statement of a consumer's inbox, park and epochs."""
    _trace_inbox(trace.under, opened)
    _trace_park(trace.under, opened)
    _trace_epochs(trace.under, opened)


def _trace_inbox(under: Under, opened: Opened) -> None:
    connection, inbox = opened.connection, opened.inbox
    with under("claim ids"):
        claims = finish(inbox.claim(connection, ["1", ID]))
    with under("claim the ids of events that are next"):
        finish(inbox.claim_next(connection, ["2", "3"], {A: range(1), B: range(2)}, {HOME: 1}))
    with under("look for claims"):
        finish(inbox.find_claims(connection, ["1", "2"]))
    with under("identify the transaction"):
        finish(inbox.identify(connection))
    with under("find the last purge"):
        finish(inbox.find_purge(connection))
    with under("find watermarks"):
        opened.watermarks(A, B)
    with under("lock watermarks"):
        finish(inbox.lock_watermarks(connection, [A, B]))
    with under("release claims"):
        finish(inbox.release(connection, ["1"]))
    with under("take claims back"):
        finish(inbox.take_back(connection, claims))


def _trace_park(under: Under, opened: Opened) -> None:
    connection, park = opened.connection, opened.park
    with under("park events"):
        opened.add(2, failed())
        opened.add(3, gap(), key=None, value=None, headers=(("id", b"1"),), timestamp_ms=1)
        opened.add(None, failed(None), aggregate=B, partition=AWAY.partition)
    with under("find parked ids"):
        finish(park.find_parked(connection, ["1", "2"]))
    with under("find due events"):
        [first, *_] = opened.due(HOME, AWAY)
    with under("fail again"):
        finish(park.fail(connection, first.parked_id, failed(3600.0, attempts=2)))
    with under("let wait"):
        finish(park.rest(connection, [first.parked_id]))
    with under("wake"):
        opened.wake({A: 3, B: None})
    with under("count"):
        opened.counts()
    with under("find the topic-partitions of parked events"):
        finish(park.find_partitions(connection))
    with under("remove"):
        finish(park.remove(connection, [first.parked_id]))


def _trace_epochs(under: Under, opened: Opened) -> None:
    connection, epochs = opened.connection, opened.epochs
    with under("own partitions"):
        tenures = opened.issue(HOME, AWAY)
    held = {HOME: tenures[HOME].epoch, AWAY: tenures[AWAY].epoch}
    with under("find stale partitions"):
        finish(epochs.find_stale(connection, held))
    with under("store offsets"):
        opened.store_offsets(held, {HOME: 8, AWAY: 1})
    with under("note that work gets done"):
        finish(epochs.finish(connection, held))
    with under("begin an event"):
        finish(epochs.start(connection, ID))
    with under("end an event"):
        finish(epochs.forget_start(connection, ID))
