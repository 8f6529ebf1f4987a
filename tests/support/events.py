"""Events as an outbox writes them."""

import os
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from cdc_outbox.event import RecordedEvent, new_event_id

SOURCE = "orders.1"
"""The source of every event, unless a test names another."""


def make_event(
    sequence: int | None,
    aggregate_id: str = "1",
    *,
    event_type: str = "OrderPlaced",
    aggregate_type: str = "order",
    event_id: str | None = None,
    source: str = SOURCE,
    payload: Any = None,
) -> RecordedEvent:
    """Return an event as an outbox writes it; its id is a new one by default, and its payload an empty object."""
    return RecordedEvent(
        aggregate_type=aggregate_type,
        aggregate_id=aggregate_id,
        type=event_type,
        payload={} if payload is None else payload,
        id=new_event_id() if event_id is None else event_id,
        sequence=sequence,
        source=source,
        created_at=datetime.now(UTC),
    )


def id_made_at(moment: datetime) -> str:
    """Return a new UUIDv7 of a time."""
    milliseconds = int(moment.timestamp() * 1000)
    random = int.from_bytes(os.urandom(10), "big")
    number = milliseconds << 80 | 0x7 << 76 | (random >> 68 & 0xFFF) << 64 | 0b10 << 62 | random & (1 << 62) - 1
    return str(UUID(int=number))
