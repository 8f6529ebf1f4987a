"""The position of a PostgreSQL connector's slot, and the offset that Connect stored."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.publishing import captured_tables, find_relayed
from cdc_outbox.databases.drivers import AnyConnection, TransactionDriver, translated_for_operator
from cdc_outbox.databases.facts import SlotFacts, WrittenFacts
from cdc_outbox.databases.introspection import Catalog
from cdc_outbox.databases.lsn import Lsn
from cdc_outbox.databases.slots import read_slots
from cdc_outbox.debezium.config import slot_of
from cdc_outbox.debezium.connector_offsets import READS_NOTHING
from cdc_outbox.debezium.render import owes_rows
from cdc_outbox.debezium.slot_plan import READS_MESSAGES, Hole, SlotState, StoredOffset, find_hole, stored_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Positions:
    """A connector's slot and its stored offset.

    Args:
        config: The connector's.
        slot: ``None`` if the server has no slot of that name.
        stored: ``None`` if Connect stored no offset.
        log_end: The end of the server's log.
        database: The queried database.
        rows: Rows of the captured tables; counted only without a readable slot and without an offset.
        relayed: Up to where relays published, ``None`` if none did or the role may not read it.
    """

    config: Mapping[str, str] = field(repr=False)
    slot: SlotFacts | None
    stored: StoredOffset | None
    log_end: Lsn
    database: str
    rows: int = 0
    relayed: Lsn | None = None

    @property
    def has_loss(self) -> bool:
        """Whether the offset is after the end of the log, or its slot does not exist or has lost its WAL."""
        if self.stored is None:
            return False
        return self.slot is None or self.slot.kept_bytes is None or self.stored.lsn > self.log_end

    def find_hole(self) -> Hole | None:
        """Return which events the connector would not publish if it started now, ``None`` if none are known.

        Does not check which rows a slot does not hold. A missing slot in another database than the connector's does
        not count.
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
            relayed=self.relayed,
        )
        return find_hole(slot_of(self.config), state)

    def _resumed_offset(self) -> StoredOffset | None:
        """Return the stored offset; a snapshot that the connector repeats from the start loses nothing."""
        if self.stored is None or _publishes_no_existing_rows(self.config):
            return self.stored
        return replace(self.stored, in_snapshot=False)


def find_positions(
    connection: AnyConnection,
    driver: TransactionDriver,
    client: ConnectClient,
    config: Mapping[str, str],
) -> Positions:
    """Return a connector's positions, read in an order that never shows a hole that does not exist."""
    # The slot may have advanced past an offset that was read before it, and an offset that is read after the log's
    # end may be of later events.
    slot = read_slots(connection, driver).find(slot_of(config))
    stored = stored_offset(client.find_offsets(config["name"]), topic_prefix=config.get("topic.prefix", ""))
    now = read_slots(connection, driver)
    relayed = find_relayed(connection, driver, config)
    found = Positions(
        config=config, slot=slot, stored=stored, log_end=now.log_end, database=now.database, relayed=relayed
    )
    if stored is None and (slot is None or slot.kept_bytes is None) and _publishes_no_existing_rows(config):
        catalog = Catalog(connection, driver)
        with translated_for_operator():
            return replace(found, rows=sum(map(catalog.count_visible_rows, captured_tables(config))))
    return found


def _publishes_no_existing_rows(config: Mapping[str, str]) -> bool:
    """Return whether a connector without an offset publishes no existing rows of its tables."""
    return config.get("snapshot.mode", "initial") in READS_NOTHING
