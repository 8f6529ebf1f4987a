"""What a healthy database tells about an outbox, to be spoiled by a test."""

from cdc_outbox.databases.facts import (
    ColumnFacts,
    ConnectorRoleFacts,
    DatabaseFacts,
    IndexFacts,
    PublicationFacts,
    SlotFacts,
    TableFacts,
    WrittenFacts,
)
from cdc_outbox.databases.lsn import Lsn

TYPES = {
    "id": "uuid",
    "aggregatetype": "text",
    "aggregateid": "text",
    "type": "text",
    "payload": "json",
    "sequence": "bigint",
    "source": "text",
    "traceparent": "text",
    "tracestate": "text",
    "created_at": "timestamp without time zone",
}


COLUMNS = {name: ColumnFacts(kind) for name, kind in TYPES.items()}


INDEXES = [IndexFacts("outbox_pkey", is_primary=True, is_unique=True, is_valid=True, is_whole=True, columns=("id",))]


TABLE = TableFacts(kind="r", persistence="p", columns=COLUMNS, indexes=INDEXES)


PUBLICATION = PublicationFacts(publishes_inserts=True, covers_table=True)


GOOD = DatabaseFacts(
    version=180_006,
    wal_level="logical",
    database="orders",
    free_slots=1,
    role=ConnectorRoleFacts(can_login=True, can_replicate=True),
    table=TABLE,
    publication=PUBLICATION,
    slot=None,
    written=WrittenFacts(),
)


SLOT = SlotFacts(
    name="orders_outbox",
    plugin="pgoutput",
    database="orders",
    reader=0,
    wal_status="reserved",
    confirmed=Lsn(1),
    log_end=Lsn(1),
)
