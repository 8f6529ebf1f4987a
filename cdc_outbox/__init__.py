"""Transactional outbox on Debezium: this is the writing side.

The consuming side is ``cdc_outbox.consumer``; connectors are deployed by the ``cdc-outbox`` command.
"""

from cdc_outbox.errors import (
    CdcOutboxError,
    ConfigError,
    DatabaseError,
    EventError,
    NotInTransactionError,
    OutboxError,
    StaleSequenceError,
    TableNotFoundError,
)
from cdc_outbox.event import Event, SequenceMode
from cdc_outbox.modes import EventFormat, OutboxMode, Partitions, PayloadType
from cdc_outbox.payload import TOMBSTONE, Tombstone
from cdc_outbox.schemas import EventSchemas
from cdc_outbox.table import OutboxColumns, OutboxTable
from cdc_outbox.wire import HeaderNames, WireContract
from cdc_outbox.writer import AsyncOutbox, Outbox, PublicationPolicy, execute_with_events

__all__ = [
    "TOMBSTONE",
    "AsyncOutbox",
    "CdcOutboxError",
    "ConfigError",
    "DatabaseError",
    "Event",
    "EventError",
    "EventFormat",
    "EventSchemas",
    "HeaderNames",
    "NotInTransactionError",
    "Outbox",
    "OutboxColumns",
    "OutboxError",
    "OutboxMode",
    "OutboxTable",
    "Partitions",
    "PayloadType",
    "PublicationPolicy",
    "SequenceMode",
    "StaleSequenceError",
    "TableNotFoundError",
    "Tombstone",
    "WireContract",
    "execute_with_events",
]
