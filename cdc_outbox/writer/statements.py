"""An event as SQL and parameters, and the event again from the row that came back. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any
from uuid import UUID

from cdc_outbox import payload
from cdc_outbox.errors import ConfigError, EventError
from cdc_outbox.event import Event, SequenceMode, new_event_id
from cdc_outbox.sql import load
from cdc_outbox.table import OutboxTable
from cdc_outbox.wire import WireContract

_HEADER_COLUMNS = frozenset({"traceparent", "tracestate"})
"""The headers that the table has a column for."""


@dataclass(frozen=True, kw_only=True)
class OutboxStatements:
    """What an outbox writes, for one dialect.

    Args:
        contract: ``None`` numbers every aggregate type gaplessly and sends it to the default topic.
        max_payload_bytes: Of the encoded payload, ``None`` for no limit.
        parameter: How the driver's statements refer to a parameter.
    """

    table: OutboxTable
    contract: WireContract | None
    max_payload_bytes: int | None
    dialect: str
    parameter: Callable[[str], str]

    @cached_property
    def _add(self) -> str:
        return load(self.dialect, "outbox")["add"].render(self.table.names(), self.parameter)

    @cached_property
    def _add_unsequenced(self) -> str:
        return load(self.dialect, "outbox")["add_unsequenced"].render(self.table.names(), self.parameter)

    def add(self, event: Event) -> tuple[str, Mapping[str, Any]]:
        """Return the one statement that writes an event, and its parameters.

        Raises:
            EventError: The event cannot be written.
        """
        mode = self._mode(event)
        if mode is SequenceMode.INCREASING:
            raise EventError(f"{event.aggregate_type} has sequence: increasing, which this release cannot write")
        if event.sequence is not None:
            raise EventError("the sequence is the writer's to give", hint="Leave Event.sequence out.")
        return (self._add if mode is SequenceMode.GAPLESS else self._add_unsequenced), self._parameters(event)

    def written(self, event: Event, parameters: Mapping[str, Any], row: tuple[Any, ...]) -> Event:
        """Return the event with what the writer and the database added: id, sequence, source, created_at."""
        sequence, source, created_at = row
        moment: datetime = created_at.replace(tzinfo=UTC)
        return replace(event, id=parameters["id"], sequence=sequence, source=source, created_at=moment)

    def _mode(self, event: Event) -> SequenceMode:
        try:
            contract = self.contract or WireContract(aggregates={event.aggregate_type: SequenceMode.GAPLESS})
            return contract.mode_of(event.aggregate_type)
        except ConfigError as error:
            raise EventError(str(error), hint=error.hint) from error

    def _parameters(self, event: Event) -> dict[str, Any]:
        unknown = event.headers.keys() - _HEADER_COLUMNS
        if unknown:
            raise EventError(
                f"the table has no column for the header {min(unknown)!r}",
                hint=f"Headers with a column are {', '.join(sorted(_HEADER_COLUMNS))}.",
            )
        encoded = payload.encode(event.payload)
        size = len(encoded.encode() if isinstance(encoded, str) else encoded or b"")
        if self.max_payload_bytes is not None and size > self.max_payload_bytes:
            raise EventError(
                f"the payload has {size:,} bytes, the limit is {self.max_payload_bytes:,}",
                hint="Store the large part elsewhere and put a reference into the payload.",
            )
        return {
            "id": _checked_id(event.id),
            "aggregate_type": _checked_text("aggregate_type", event.aggregate_type),
            "aggregate_id": _checked_text("aggregate_id", event.aggregate_id),
            "type": _checked_text("type", event.type),
            "payload": encoded,
            "traceparent": event.headers.get("traceparent"),
            "tracestate": event.headers.get("tracestate"),
        }


def _checked_id(event_id: str | None) -> str:
    if event_id is None:
        return new_event_id()
    try:
        return str(UUID(event_id))
    except (ValueError, AttributeError, TypeError) as error:
        raise EventError(f"the id {event_id!r} is not a UUID") from error


def _checked_text(field: str, value: object) -> str:
    """Refuse what the database would refuse later, or what would make a message that nobody can read."""
    if not isinstance(value, str) or not value:
        raise EventError(f"{field} must be a text that is not empty, not {value!r}")
    if "\0" in value:
        raise EventError(f"{field} contains a NUL, which PostgreSQL does not store")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise EventError(f"{field} contains a lone surrogate") from error
    return value
