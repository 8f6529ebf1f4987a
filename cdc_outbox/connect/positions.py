"""Where the slot of a connector on PostgreSQL is, beside the offset that Connect stored."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.facts import SlotFacts, WrittenFacts
from cdc_outbox.connect.facts.lag import SlotLag, find_lag, find_log
from cdc_outbox.connect.lint.config import slot_of
from cdc_outbox.connect.moves import READS_NOTHING
from cdc_outbox.connect.plan import READS_MESSAGES, Hole, SlotState, StoredOffset, find_hole, stored_offset
from cdc_outbox.connect.render import owes_rows
from cdc_outbox.drivers import TransactionDriver
from cdc_outbox.lsn import Lsn


@dataclass(frozen=True, slots=True, kw_only=True)
class Positions:
    """A connector's slot and its stored offset.

    Args:
        config: The connector's.
        slot: ``None`` where the server has none of that name.
        stored: ``None`` where Connect stored no offset.
        log_end: Where the server's log ends.
        database: The one that was asked.
    """

    config: Mapping[str, str] = field(repr=False)
    slot: SlotLag | None
    stored: StoredOffset | None
    log_end: Lsn
    database: str

    @property
    def has_loss(self) -> bool:
        """Whether the offset is behind the log's end, or its slot is gone or has lost its WAL."""
        if self.stored is None:
            return False
        return self.slot is None or self.slot.kept_bytes is None or self.stored.lsn > self.log_end

    def find_hole(self) -> Hole | None:
        """Return which events the connector would leave out if it started now, ``None`` if none are known.

        What the outbox holds is not looked at. A slot that is missing in another database than the connector's shows
        nothing.
        """
        name = self.config.get("database.dbname", "")
        if self.slot is None and name != self.database and not name.startswith("${"):
            return None
        state = SlotState(
            slot=None if self.slot is None else _facts_of(self.slot, self.database),
            stored=self._resumed_offset(),
            wal_end=self.log_end,
            written=WrittenFacts(keeps_rows=READS_MESSAGES not in self.config),
            republishing=owes_rows(self.config),
        )
        return find_hole(slot_of(self.config), state)

    def _resumed_offset(self) -> StoredOffset | None:
        """Return the stored offset; a snapshot that the connector takes again from its beginning leaves nothing out."""
        if self.stored is None or self.config.get("snapshot.mode", "initial") in READS_NOTHING:
            return self.stored
        return replace(self.stored, in_snapshot=False)


def find_positions(
    connection: Any,  # noqa: ANN401 - any driver's connection
    driver: TransactionDriver,
    client: ConnectClient,
    config: Mapping[str, str],
) -> Positions:
    """Return a connector's positions, read in an order in which none shows a hole that is not there."""
    # An offset that was read before the slot may have been passed by it since, and one that is read behind the log's
    # end may be of what was written since.
    slot = find_lag(connection, driver, slot_of(config))
    stored = stored_offset(client.find_offsets(config["name"]), topic_prefix=config.get("topic.prefix", ""))
    database, log_end = find_log(connection, driver)
    return Positions(config=config, slot=slot, stored=stored, log_end=log_end, database=database)


def _facts_of(slot: SlotLag, database: str) -> SlotFacts:
    return SlotFacts(
        plugin="pgoutput",
        database=database,
        reader=int(slot.active),
        wal_status="lost" if slot.kept_bytes is None else "reserved",
        confirmed=slot.confirmed,
    )
