"""The one reader of PostgreSQL's replication slots."""

from collections.abc import Mapping
from dataclasses import dataclass

from cdc_outbox.databases.drivers import AnyConnection, Row, TransactionDriver, translated_for_operator
from cdc_outbox.databases.facts import SlotFacts
from cdc_outbox.databases.lsn import Lsn
from cdc_outbox.databases.sql import load


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationSlots:
    """All slots of a server at one moment.

    Args:
        database: The one that was asked.
        log_end: Where the server's log ends; on a standby, where it has come to.
        limit: How many slots the server may have.
        slots: By name, in the order of names.
    """

    database: str
    log_end: Lsn
    limit: int
    slots: Mapping[str, SlotFacts]

    @property
    def free(self) -> int:
        """How many more slots there may be."""
        return self.limit - len(self.slots)

    def find(self, name: str) -> SlotFacts | None:
        """Return the slot of a name."""
        return self.slots.get(name)

    def others(self, name: str) -> list[SlotFacts]:
        """Return the database's other slots that a connector could read."""
        return [
            slot
            for slot in self.slots.values()
            if slot.name != name and slot.plugin == "pgoutput" and slot.database == self.database
        ]

    def idle(self, name: str) -> Mapping[str, int]:
        """Return those of the others that have no reader and keep WAL, each with the bytes of it."""
        return {
            slot.name: slot.kept_bytes
            for slot in self.others(name)
            if slot.kept_bytes is not None and not slot.active and not slot.is_temporary
        }


def read_slots(connection: AnyConnection, driver: TransactionDriver) -> ReplicationSlots:
    """Return PostgreSQL's slots as they are now."""
    statement = load(driver.dialect, "slots")["slots"].render({}, driver.style)
    with translated_for_operator():
        rows = driver.fetch(connection, statement, {})
    database, end, limit = rows[0][:3]
    log_end = Lsn.parse(end)
    found = [_slot(row[3:], log_end) for row in rows if row[3] is not None]
    return ReplicationSlots(database=database, log_end=log_end, limit=limit, slots={slot.name: slot for slot in found})


def _slot(row: Row, log_end: Lsn) -> SlotFacts:
    name, plugin, database, reader, since, application, wal_status, confirmed, restart, *kinds, seconds = row
    invalidation, safe_bytes, temporary, two_phase, failover, synced = kinds
    return SlotFacts(
        name=name,
        plugin=plugin,
        database=database,
        reader=reader,
        reader_since=since,
        reader_name=application,
        wal_status=wal_status,
        confirmed=Lsn.parse(confirmed) if confirmed else None,
        restart=Lsn.parse(restart) if restart else None,
        log_end=log_end,
        invalidation=invalidation,
        safe_bytes=safe_bytes,
        is_temporary=temporary,
        is_two_phase=two_phase,
        outlives_failover=failover,
        is_copy=synced,
        lag_seconds=None if seconds is None else max(0.0, seconds),
    )
