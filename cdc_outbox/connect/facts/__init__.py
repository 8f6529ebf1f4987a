"""What a database says about a pipeline, read once and kept as values."""

from cdc_outbox.connect.facts.database import UNDEFINED_OBJECT, Database
from cdc_outbox.connect.facts.postgresql import (
    COUNTED_ROWS,
    ColumnFacts,
    DatabaseFacts,
    OpenTransaction,
    PublicationFacts,
    RoleFacts,
    ServerFacts,
    SlotFacts,
    TableFacts,
    WrittenFacts,
)

__all__ = [
    "COUNTED_ROWS",
    "UNDEFINED_OBJECT",
    "ColumnFacts",
    "Database",
    "DatabaseFacts",
    "OpenTransaction",
    "PublicationFacts",
    "RoleFacts",
    "ServerFacts",
    "SlotFacts",
    "TableFacts",
    "WrittenFacts",
]
