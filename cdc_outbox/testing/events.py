"""What a user's test asks of events: which were written, and whether the right one is among them."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

from cdc_outbox.databases.drivers import Row
from cdc_outbox.event import Event, RecordedEvent
from cdc_outbox.writer.outbox_statements import Insertion, OutboxStatements


class OutboxEvents(list[RecordedEvent]):
    """Events in the order in which they were written."""

    @property
    def types(self) -> list[str]:
        """The events' types, for a short comparison."""
        return [event.type for event in self]


@contextmanager
def recorded_events() -> Iterator[OutboxEvents]:
    """Record the events of every outbox, driver and thread until the block ends.

    An event is recorded when its statement succeeds. A rollback does not remove it, so a test of a rollback must read
    the table.
    """
    events, written, written_alone = OutboxEvents(), OutboxStatements.written, OutboxStatements.written_alone

    def spy(statements: OutboxStatements, insertion: Insertion, rows: Sequence[Row]) -> list[RecordedEvent]:
        new = written(statements, insertion, rows)
        events.extend(new)
        return new

    def spy_alone(event: Event, event_id: str, rows: Sequence[Row]) -> RecordedEvent:
        new = written_alone(event, event_id, rows)
        events.append(new)
        return new

    with mock.patch.multiple(OutboxStatements, written=spy, written_alone=staticmethod(spy_alone)):
        yield events


def assert_event(
    events: Iterable[RecordedEvent],
    event_type: str,
    *,
    aggregate_type: str | None = None,
    aggregate_id: str | None = None,
    payload: Mapping[str, Any] | None = None,
    count: int = 1,
) -> RecordedEvent:
    """Assert that these events include a matching event, and return it; the last one if ``count`` is above 1.

    Args:
        aggregate_type: The required type, ``None`` for any; likewise ``aggregate_id``.
        payload: Keys and values that the payload must have; it may have more.
        count: The required number, at least 1; use ``assert not events`` for none.

    Raises:
        AssertionError: There are more or fewer; the message lists the events that were found.
        ValueError: The count is below 1.
    """
    if count < 1:
        raise ValueError("the count must be at least 1; use `assert not events` to check that there is none")
    wanted = {"type": event_type, "aggregate_type": aggregate_type, "aggregate_id": aggregate_id}
    asked = {name: value for name, value in wanted.items() if value is not None}
    all_events = list(events)
    found = [
        event
        for event in all_events
        if all(getattr(event, name) == value for name, value in asked.items()) and _has(event, payload or {})
    ]
    if len(found) != count:
        description = ", ".join(f"{name}={value!r}" for name, value in {**asked, "payload": payload or "any"}.items())
        there = "".join(f"\n  {event} {event.payload!r}" for event in all_events) or " nothing"
        raise AssertionError(f"{len(found)} events instead of {count} with {description}; found:{there}")
    return found[-1]


def _has(event: RecordedEvent, payload: Mapping[str, Any]) -> bool:
    content = json.loads(event.payload) if isinstance(event.payload, str) else event.payload
    if isinstance(content, Mapping):
        return all(key in content and content[key] == value for key, value in payload.items())
    return all(getattr(content, key, _MISSING) == value for key, value in payload.items())


_MISSING = object()
