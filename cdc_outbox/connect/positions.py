"""Where the slot of a connector on PostgreSQL is, beside the offset that Connect stored."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.databases.drivers import AnyConnection, TransactionDriver, translated_for_operator
from cdc_outbox.databases.facts import SlotFacts, WrittenFacts
from cdc_outbox.databases.introspection import Catalog
from cdc_outbox.databases.lsn import Lsn
from cdc_outbox.databases.slots import read_slots
from cdc_outbox.databases.table import TableName
from cdc_outbox.debezium.config import listed, slot_of
from cdc_outbox.debezium.connector_offsets import READS_NOTHING
from cdc_outbox.debezium.java_regex import literal
from cdc_outbox.debezium.render import owes_rows
from cdc_outbox.debezium.slot_plan import READS_MESSAGES, Hole, SlotState, StoredOffset, find_hole, stored_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Positions:
    """A connector's slot and its stored offset.

    Args:
        config: The connector's.
        slot: ``None`` where the server has none of that name.
        stored: ``None`` where Connect stored no offset.
        log_end: Where the server's log ends.
        database: The one that was asked.
        rows: What the captured tables hold; counted only where there is no slot to read and no offset.
    """

    config: Mapping[str, str] = field(repr=False)
    slot: SlotFacts | None
    stored: StoredOffset | None
    log_end: Lsn
    database: str
    rows: int = 0

    @property
    def has_loss(self) -> bool:
        """Whether the offset is behind the log's end, or its slot is gone or has lost its WAL."""
        if self.stored is None:
            return False
        return self.slot is None or self.slot.kept_bytes is None or self.stored.lsn > self.log_end

    def find_hole(self) -> Hole | None:
        """Return which events the connector would leave out if it started now, ``None`` if none are known.

        Which rows a slot does not hold is not looked at. A slot that is missing in a database that is not the
        connector's shows nothing.
        """
        name = self.config.get("database.dbname", "")
        if self.slot is None and name != self.database and not name.startswith("${"):
            return None
        state = SlotState(
            slot=self.slot,
            stored=self._resumed_offset(),
            wal_end=self.log_end,
            written=WrittenFacts(self.rows, keeps_rows=READS_MESSAGES not in self.config),
            republishing=owes_rows(self.config),
        )
        return find_hole(slot_of(self.config), state)

    def _resumed_offset(self) -> StoredOffset | None:
        """Return the stored offset; a snapshot that the connector takes again from its beginning leaves nothing out."""
        if self.stored is None or _reads_no_rows(self.config):
            return self.stored
        return replace(self.stored, in_snapshot=False)


def find_positions(
    connection: AnyConnection,
    driver: TransactionDriver,
    client: ConnectClient,
    config: Mapping[str, str],
) -> Positions:
    """Return a connector's positions, read in an order in which none shows a hole that is not there."""
    # An offset that was read before the slot may have been passed by it since, and one that is read behind the log's
    # end may be of what was written since.
    slot = read_slots(connection, driver).find(slot_of(config))
    stored = stored_offset(client.find_offsets(config["name"]), topic_prefix=config.get("topic.prefix", ""))
    now = read_slots(connection, driver)
    found = Positions(config=config, slot=slot, stored=stored, log_end=now.log_end, database=now.database)
    if stored is None and (slot is None or slot.kept_bytes is None) and _reads_no_rows(config):
        with translated_for_operator():
            return replace(found, rows=sum(map(Catalog(connection, driver).count_visible_rows, _tables(config))))
    return found


def _reads_no_rows(config: Mapping[str, str]) -> bool:
    """Tell whether a connector without an offset publishes nothing that is in its tables already."""
    return config.get("snapshot.mode", "initial") in READS_NOTHING


def _tables(config: Mapping[str, str]) -> Iterator[TableName]:
    """Yield the captured tables, as far as their names can be told from patterns."""
    for pattern in listed(config.get("table.include.list", "")):
        schema, dot, name = (literal(pattern) or "").partition(".")
        if dot and "." not in name:
            yield TableName(schema=schema, name=name)
