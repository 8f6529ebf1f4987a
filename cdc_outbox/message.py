"""A Kafka record as a value, free of any client library."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import overload

from cdc_outbox.event import fast_init

Header = tuple[str, bytes | None]


class Headers(Sequence[Header]):
    """Headers as two tuples, names and values: fewer objects than a tuple for each. Equal to a tuple of pairs."""

    __slots__ = ("names", "values")

    def __init__(self, names: tuple[str, ...] = (), values: tuple[bytes | None, ...] = ()) -> None:
        self.names, self.values = names, values

    @classmethod
    def of(cls, pairs: Iterable[Header]) -> "Headers":
        """Return pairs as columns."""
        # Asked of every message: isinstance would look at the abstract classes.
        return pairs if type(pairs) is cls else cls(*zip(*pairs, strict=True))

    def __iter__(self) -> Iterator[Header]:
        return zip(self.names, self.values, strict=True)

    def __len__(self) -> int:
        return len(self.names)

    @overload
    def __getitem__(self, place: int) -> Header: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Header, ...]: ...
    def __getitem__(self, place: int | slice) -> Header | tuple[Header, ...]:
        return tuple(self)[place]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Headers | tuple | list) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))

    @property
    def size(self) -> int:
        """How many bytes names and values have."""
        return len("".join(self.names).encode()) + len(b"".join(filter(None, self.values)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One Kafka record.

    Args:
        partition: ``None`` until one is chosen.
        offset: ``None`` for a record that was not read from a topic.
        headers: In order; Kafka allows a key to repeat and a value to be null.
        timestamp_ms: Milliseconds since 1970, UTC.
        has_headers: Whether the headers are known; the Kafka client cannot return them where a name is not UTF-8, and
            ``headers`` is empty then.
        leader_epoch: The number of the partition's leader that took the record; ``None`` where it is not known.
    """

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] = ()
    timestamp_ms: int | None = None
    partition: int | None = None
    offset: int | None = None
    has_headers: bool = True
    leader_epoch: int | None = field(default=None, compare=False)

    @property
    def size(self) -> int:
        """How many bytes key, value and headers have."""
        return len(self.key or b"") + len(self.value or b"") + Headers.of(self.headers).size

    @property
    def position(self) -> str:
        """Where the record lies, as a person writes it: ``topic[partition]@offset``."""
        return f"{self.topic}[{self.partition}]@{self.offset}"


new_message = fast_init(Message)
"""Makes a :class:`Message`; the consumer and the commands make one of every record that they read."""
