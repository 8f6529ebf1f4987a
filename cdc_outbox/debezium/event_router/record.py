"""A record on its way through Connect: what the connector hands to the EventRouter, and what that hands on."""

from collections.abc import Mapping
from dataclasses import dataclass

from cdc_outbox.debezium.event_router.values import ConnectStruct, ConnectValue

ENVELOPE_SUFFIX = ".Envelope"
"""What the name of a change's schema ends with, by which the EventRouter knows one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Debezium's envelope around a row.

    Args:
        row: The row afterwards, ``None`` for a deleted or truncated one.
        operation: ``c``, ``r``, ``u``, ``d`` or ``t``.
        connector_time_ms: The envelope's ``ts_ms``, the timestamp where no column gives one.
        row_schema: The name of the row's schema, ``<prefix>.<schema>.<table>.Value``; an event's envelope is named
            after it.
        document: What MongoDB has in the place of a row, as Extended JSON.
    """

    row: Mapping[str, ConnectValue] | None
    operation: str = "c"
    connector_time_ms: int | None = None
    row_schema: str | None = None
    document: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectRecord:
    """A record with typed values, before the converters.

    Args:
        key: ``None`` for neither a key nor a schema of one.
        value: A change, or anything else that a connector sends; ``None`` for a tombstone.
        headers: In order.
    """

    topic: str
    value: Change | ConnectStruct | ConnectValue | None
    key: ConnectStruct | ConnectValue | None = None
    headers: tuple[tuple[str, ConnectValue], ...] = ()
    timestamp_ms: int | None = None
    partition: int | None = None
