"""A Kafka record as a value, free of any client library."""

from collections.abc import Sequence
from dataclasses import dataclass


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
    """

    topic: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int | None = None
    partition: int | None = None
    offset: int | None = None
    has_headers: bool = True

    @property
    def size(self) -> int:
        """How many bytes key, value and headers have."""
        return len(self.key or b"") + len(self.value or b"") + headers_size(self.headers)

    @property
    def position(self) -> str:
        """Where the record lies, as a person writes it: ``topic[partition]@offset``."""
        return f"{self.topic}[{self.partition}]@{self.offset}"


def headers_size(headers: Sequence[tuple[str, bytes | None]]) -> int:
    """Return how many bytes the names and the values of headers have."""
    # A plain loop: a consumer asks for every record, and a generator costs more than the bytes themselves.
    size = 0
    for name, value in headers:
        size += len(name) if name.isascii() else len(name.encode())
        if value is not None:
            size += len(value)
    return size
