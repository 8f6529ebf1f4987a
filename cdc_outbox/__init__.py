"""Transactional outbox on Debezium: this is the writing side.

The consuming side is ``cdc_outbox.consumer``; connectors are deployed by the ``cdc-outbox`` command.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cdc_outbox.contract.contract_file import load_contract
    from cdc_outbox.contract.outbox_options import OutboxMode, Partitions
    from cdc_outbox.contract.wire import WireContract
    from cdc_outbox.databases.table import OutboxColumns, OutboxTable
    from cdc_outbox.errors import (
        CdcOutboxError,
        ConfigError,
        DatabaseAccessError,
        DatabaseError,
        DatabaseUnavailableError,
        DuplicateEventError,
        EventError,
        MessageError,
        NotInTransactionError,
        OutboxError,
        StaleSequenceError,
        TableNotFoundError,
        TransactionAbortedError,
        TransactionConflictError,
        TransactionEndedError,
        TransactionTimeoutError,
    )
    from cdc_outbox.event import Event, RecordedEvent, SequenceMode
    from cdc_outbox.formats.attributes import HeaderNames
    from cdc_outbox.formats.event_format import EventFormat, PayloadType
    from cdc_outbox.formats.foreign import ForeignOutbox
    from cdc_outbox.formats.payload import TOMBSTONE, Tombstone
    from cdc_outbox.formats.schemas import EventSchemas
    from cdc_outbox.spec import load_spec
    from cdc_outbox.writer import AsyncOutbox, Outbox, PublicationPolicy, execute_with_events

_HOMES = {
    "contract.contract_file": ("load_contract",),
    "contract.outbox_options": ("OutboxMode", "Partitions"),
    "formats.attributes": ("HeaderNames",),
    "contract.wire": ("WireContract",),
    "databases.table": ("OutboxColumns", "OutboxTable"),
    "errors": (
        "CdcOutboxError",
        "ConfigError",
        "DatabaseAccessError",
        "DatabaseError",
        "DatabaseUnavailableError",
        "DuplicateEventError",
        "EventError",
        "MessageError",
        "NotInTransactionError",
        "OutboxError",
        "StaleSequenceError",
        "TableNotFoundError",
        "TransactionAbortedError",
        "TransactionConflictError",
        "TransactionEndedError",
        "TransactionTimeoutError",
    ),
    "event": ("Event", "RecordedEvent", "SequenceMode"),
    "formats.event_format": ("EventFormat", "PayloadType"),
    "formats.foreign": ("ForeignOutbox",),
    "formats.payload": ("TOMBSTONE", "Tombstone"),
    "formats.schemas": ("EventSchemas",),
    "spec": ("load_spec",),
    "writer": ("AsyncOutbox", "Outbox", "PublicationPolicy", "execute_with_events"),
}
"""Where each name lives. It is imported when it is asked for: the command, which needs few, starts in half the time."""

_HOME_OF = {name: f"{__name__}.{home}" for home, names in _HOMES.items() for name in names}

__all__ = [
    "TOMBSTONE",
    "AsyncOutbox",
    "CdcOutboxError",
    "ConfigError",
    "DatabaseAccessError",
    "DatabaseError",
    "DatabaseUnavailableError",
    "DuplicateEventError",
    "Event",
    "EventError",
    "EventFormat",
    "EventSchemas",
    "ForeignOutbox",
    "HeaderNames",
    "MessageError",
    "NotInTransactionError",
    "Outbox",
    "OutboxColumns",
    "OutboxError",
    "OutboxMode",
    "OutboxTable",
    "Partitions",
    "PayloadType",
    "PublicationPolicy",
    "RecordedEvent",
    "SequenceMode",
    "StaleSequenceError",
    "TableNotFoundError",
    "Tombstone",
    "TransactionAbortedError",
    "TransactionConflictError",
    "TransactionEndedError",
    "TransactionTimeoutError",
    "WireContract",
    "execute_with_events",
    "load_contract",
    "load_spec",
]


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value  # found without this the next time
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
