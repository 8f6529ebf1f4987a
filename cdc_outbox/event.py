"""One fact about one aggregate: as a service writes it, and as it was recorded."""

import os
import time
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar, cast

from cdc_outbox.redaction import shortened


class SequenceMode(StrEnum):
    """How the events of one aggregate type are numbered, and so which losses a consumer can notice.

    Attributes:
        is_numbered: Whether events have a sequence.
        is_gapless: Whether each sequence follows the one before it, so that a missing event is noticed.
        is_given_by_caller: Whether the service gives the sequence, and not the writer.
        statement_suffix: What the names of the statements that write such events end with.
    """

    GAPLESS = "gapless"
    """1, 2, 3 … per source and aggregate, given by the writer: a missing event is noticed."""
    INCREASING = "increasing"
    """The caller's own version number, growing with holes: a replayed or overtaken event is noticed."""
    NONE = "none"
    """No number: only the id tells a duplicate."""

    def __init__(self, mode: str) -> None:
        # Kept on each member, and not properties: the writer and the consumer ask for every event.
        self.is_numbered = mode != "none"
        self.is_gapless = mode == "gapless"
        self.is_given_by_caller = mode == "increasing"
        self.statement_suffix = mode if self.is_numbered else "unsequenced"

    def successor(self, last: int) -> int | None:
        """Return the one sequence that may follow ``last``, ``None`` where any later one may."""
        return last + 1 if self.is_gapless else None

    def predecessor(self, sequence: int) -> int | None:
        """Return the sequence that was given before this one, 0 if it is the first, ``None`` where none is known."""
        return sequence - 1 if self.is_gapless else None

    def is_passed(self, last: int, sequence: int) -> bool:
        """Return whether a watermark at ``last`` proves that the event of this sequence was applied."""
        return self.is_gapless and sequence <= last

    def known_sequences(self, last: int) -> range:
        """Return the sequences that were given for certain when ``last`` was the last one; 0 is none."""
        return range(1 if self.is_gapless else max(last, 1), last + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One fact about one aggregate, as a service gives it to an outbox.

    Args:
        aggregate_type: The kind of thing that the fact is about; it determines the topic.
        aggregate_id: The thing's id; it becomes the message's key, so that its events share a partition.
        type: The kind of fact, for example ``OrderPlaced``; it determines the handler.
        payload: Anything that JSON can express, including models; :mod:`cdc_outbox.formats.payload` has the list. A
            ``str`` must be JSON text and is stored verbatim, bytes are stored unchanged, and ``TOMBSTONE`` gives a
            message without a value.
        id: Unique for ever. Default: a UUIDv7. Set it to write the same event again after a commit whose outcome is
            unknown; the mode determines what happens to the second one (``docs/writing.md``).
        sequence: The service's own version number, from 1, if the aggregate type is ``increasing``; otherwise ``None``.
        headers: Further text headers of the message; the table must have a column for each.
    """

    aggregate_type: str
    aggregate_id: str
    type: str
    payload: Any
    id: str | None = None
    sequence: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return _name(self)

    def recorded(
        self,
        event_id: str,
        created_at: datetime,
        *,
        sequence: int | None,
        source: str | None = None,
        is_written: bool = True,
    ) -> "RecordedEvent":
        """Return what ``add`` returns of this event."""
        return new_recorded_event(
            aggregate_type=self.aggregate_type,
            aggregate_id=self.aggregate_id,
            type=self.type,
            payload=self.payload,
            id=event_id,
            created_at=created_at,
            sequence=sequence,
            source=source,
            headers=self.headers,
            is_written=is_written,
        )


class KafkaRecord(NamedTuple):
    """The Kafka record of a received event.

    Args:
        offset: In the partition, from 0.
        attempt: From 1; increases each time the event is parked because its handler failed. Immediate retries belong to
            the same attempt.
    """

    topic: str
    partition: int
    offset: int
    attempt: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedEvent:
    """A written event, as ``Outbox.add`` returns it, or a received event, as handlers get it.

    Args:
        aggregate_type, aggregate_id, type, headers: The values of :class:`Event`.
        payload: The payload passed to ``add``; for a consumer, the message's value, or ``None`` if it has none.
        id: Unique for ever; a UUID as text where an :class:`Outbox` wrote the event.
        created_at: When the row was inserted, by the database's clock, in UTC. If the table has no column for it,
            ``add`` uses this machine's time, and a consumer the record's timestamp.
        sequence: Position within the aggregate, from 1; ``None`` if the aggregate type is not numbered.
        source: The outbox and its incarnation, for example ``orders.1``; may be ``None`` if the aggregate type is not
            numbered.
        is_written: ``False`` if ``add`` has not inserted the event: a policy declined it, or a consumer's handler added
            it, in which case it is written at the end of the handler's transaction. Then ``created_at`` is this
            machine's time, ``source`` is ``None``, and ``sequence`` is ``None`` unless the service set it.
        record: The Kafka record; ``None`` for an event that was not read from a topic. It is ignored when events are
            compared.
    """

    aggregate_type: str
    aggregate_id: str
    type: str
    payload: Any
    id: str
    created_at: datetime
    sequence: int | None = None
    source: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    is_written: bool = True
    record: KafkaRecord | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return _name(self)


ClassT = TypeVar("ClassT")


def fast_init(cls: type[ClassT]) -> type[ClassT]:
    """Return a function that makes instances of a frozen dataclass in a quarter of the time.

    A frozen dataclass sets each field by a call. The function sets them in an instance of another class with the same
    slots, and then changes that instance's class. Arguments are passed by name.

    Args:
        cls: It has slots, no base class and no ``__post_init__``.

    Raises:
        TypeError: It is another one.
    """
    if cls.__bases__ != (object,) or "__slots__" not in vars(cls) or hasattr(cls, "__post_init__"):
        raise TypeError(f"{cls.__name__} has no slots, or a base class or a __post_init__")
    twin = type(cls.__name__, (), {"__slots__": cls.__slots__})  # type: ignore[attr-defined]
    known: dict[str, Any] = {"_twin": twin, "_new": object.__new__, "_cls": cls, "_MISSING": MISSING}
    parameters, lines = ["*"], ["_made = _new(_twin)"]
    for each in fields(cast("Any", cls)):
        name, value = each.name, each.name
        if each.default_factory is not MISSING:
            known[f"_make_{name}"], value = each.default_factory, f"_make_{name}() if {name} is _MISSING else {name}"
        elif each.default is not MISSING:
            known[f"_default_{name}"] = each.default
        default = "_MISSING" if value != name else f"_default_{name}"
        parameters.append(f"{name}={default}" if default in known else name)
        lines.append(f"_made.{name} = {value}")
    body = "\n    ".join([*lines, "_made.__class__ = _cls", "return _made"])
    exec(f"def make({', '.join(parameters)}):\n    {body}", known)  # noqa: S102 - dataclasses are made like this, too
    made = known["make"]
    made.__qualname__ = cls.__name__  # the name in a TypeError
    return cast("type[ClassT]", made)


new_recorded_event = fast_init(RecordedEvent)
"""Makes a :class:`RecordedEvent`; the writer and the consumer make one for every event."""

EventT = TypeVar("EventT", Event, RecordedEvent)
"""An event on one of the two sides."""


def _name(event: Event | RecordedEvent) -> str:
    number = f" #{event.sequence}" if event.sequence is not None else ""
    # Its texts are as long as its writer likes, and this stands in errors and logs.
    kind, of, aggregate = map(shortened, (event.type, event.aggregate_type, event.aggregate_id))
    return f"{kind} {of}/{aggregate}{number} ({shortened(str(event.id))})"


def new_event_id() -> str:
    """Return a UUIDv7: time-ordered, so that an index on it grows at one end.

    The twelve bits after the version are the fraction of the millisecond (RFC 9562, section 6.2, method 3), so
    that ids made one after the other by one process nearly always sort in that order.
    """
    milliseconds, fraction = divmod(time.time_ns(), 1_000_000)
    high = milliseconds << 16 | 0x7000 | fraction * 4096 // 1_000_000
    # Put together by hand: `UUID` would check what is right by construction, and costs more than all the rest.
    low = int.from_bytes(os.urandom(8)) & 0x3FFF_FFFF_FFFF_FFFF | 0x8000_0000_0000_0000
    digits = f"{high:016x}{low:016x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
