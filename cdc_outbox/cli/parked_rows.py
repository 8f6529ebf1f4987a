"""Parked events as text and as JSON."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from cdc_outbox.cli.output import bytes_as_json, in_columns
from cdc_outbox.message import Message
from cdc_outbox.operations.parked_rules import ParkedRow

_TITLES = (
    "PARKED_ID", "STATE", "REASON", "AGGREGATE", "SEQUENCE", "TYPE", "ATTEMPTS", "PARKED_AT", "TRIED_AT", "RETRY_AT",
    "ERROR",
)  # fmt: skip


def table_of(rows: Mapping[str, Sequence[ParkedRow]], *, names_consumers: bool) -> Iterator[str]:
    """Yield a line for each parked event of some consumers, under a line of titles."""
    lines = [("CONSUMER", *_TITLES), *((name, *_cells(row)) for name, parked in rows.items() for row in parked)]
    return in_columns(lines if names_consumers else [cells for _, *cells in lines])


def details_of(row: ParkedRow, consumer: str, message: Message, *, payload: bool) -> Iterator[tuple[str, str]]:
    """Yield what is known of one: a name and what to say."""
    yield "consumer", consumer
    yield "parked_id", str(row.parked_id)
    yield "state", f"{row.state}{', forced' if row.forced else ''}"
    yield "reason", row.reason
    yield "error", row.error
    yield "aggregate", name_of(row)
    yield "source", row.aggregate.source
    yield "sequence", _number(row.sequence)
    yield "type", row.type
    yield "event_id", row.event_id
    yield "attempts", str(row.attempts)
    yield "parked_at", _time(row.parked_at)
    yield "tried_at", _time(row.tried_at)
    yield "retry_at", _time(row.retry_at)
    yield "message", message.position
    if message.timestamp_ms is not None:
        yield "timestamp", _time(datetime.fromtimestamp(message.timestamp_ms / 1000, UTC))
    yield "key", _octets(message.key)
    if not message.has_headers:
        yield "headers", "unreadable: a name is not UTF-8; see the record in the topic"
    for name, value in message.headers:
        yield f"header {name}", _octets(value)
    if payload:
        yield "payload", _octets(message.value)


def name_of(row: ParkedRow) -> str:
    """Return the aggregate as the options take it, empty where it is not known."""
    return f"{row.aggregate.aggregate_type}/{row.aggregate.aggregate_id}" if row.aggregate.aggregate_type else ""


def json_of(row: ParkedRow, consumer: str) -> dict[str, Any]:
    """Return an event without its message."""
    return {
        "consumer": consumer,
        "parked_id": row.parked_id,
        "state": row.state,
        "reason": row.reason,
        "error": row.error or None,
        "aggregate": name_of(row) or None,
        "source": row.aggregate.source,
        "aggregate_type": row.aggregate.aggregate_type,
        "aggregate_id": row.aggregate.aggregate_id,
        "sequence": row.sequence,
        "type": row.type,
        "event_id": row.event_id,
        "attempts": row.attempts,
        "forced": row.forced,
        "parked_at": _time(row.parked_at),
        "tried_at": _time(row.tried_at),
        "retry_at": _time(row.retry_at) or None,
        "topic": row.topic,
        "partition": row.partition,
        "offset": row.offset,
    }


def json_of_message(message: Message, *, payload: bool) -> dict[str, Any]:
    """Return a message: bytes as text where they are UTF-8, and else as an object with ``base64``."""
    found = {
        "timestamp_ms": message.timestamp_ms,
        "key": bytes_as_json(message.key),
        "headers": [[name, bytes_as_json(value)] for name, value in message.headers] if message.has_headers else None,
    }
    return found | {"payload": bytes_as_json(message.value)} if payload else found


def _cells(row: ParkedRow) -> tuple[str, ...]:
    return (
        str(row.parked_id),
        row.state,
        row.reason,
        name_of(row),
        _number(row.sequence),
        row.type,
        str(row.attempts),
        _time(row.parked_at),
        _time(row.tried_at),
        _time(row.retry_at),
        row.error.partition("\n")[0],
    )


def _octets(value: bytes | None) -> str:
    return "" if value is None else str(bytes_as_json(value))


def _number(sequence: int | None) -> str:
    return "" if sequence is None else str(sequence)


def _time(moment: datetime | None) -> str:
    return "" if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
