"""What the database says about a pipeline, read once and kept as values."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cdc_outbox.drivers import Row, TransactionDriver, translated_for_operator
from cdc_outbox.event import SequenceMode
from cdc_outbox.lsn import Lsn
from cdc_outbox.modes import OutboxMode
from cdc_outbox.pgoutput import emitted_content, inserted_values
from cdc_outbox.spec import Spec
from cdc_outbox.sql import load
from cdc_outbox.table import quote

PEEKED_CHANGES = 1_000_000
"""Changes of a slot that are looked at: some hundred megabytes of WAL, a few seconds, and of memory for the ids."""
COUNTED_ROWS = 100_000
"""Rows are counted up to here; beyond it "at least" says enough, and an outbox may hold billions."""


UNDEFINED_OBJECT = "42704"
"""The SQLSTATE of a slot's decoding that looks for the publication at a time when it was not there yet."""

_HINTS = {
    "42710": "If another deployment is under way, wait for it and run the command again.",
    "53400": "Drop a replication slot that is not used, or raise max_replication_slots.",
    "55006": "Another connector or tool reads the slot: stop it, or choose another slot.",
    "57014": "A transaction that was open before keeps the slot from being made; pg_stat_activity shows which.",
}
"""What to do about errors of the server that a deployment may meet, by SQLSTATE."""


@dataclass(frozen=True, slots=True)
class RoleFacts:
    """The connector's role; ``can_select`` is about the outbox, whose rows only publishing them again reads."""

    can_login: bool
    can_replicate: bool
    can_select: bool = True


@dataclass(frozen=True, slots=True)
class TableFacts:
    """The outbox table as it is; of events that are messages, the head table.

    Args:
        kind: ``r`` for a table, ``p`` for a partitioned one (``pg_class.relkind``).
        persistence: ``p`` for permanent; nothing else reaches the log (``pg_class.relpersistence``).
        columns: Column → type as PostgreSQL spells it.
    """

    kind: str
    persistence: str
    columns: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PublicationFacts:
    """The publication.

    Args:
        row_filter: The condition that rows must meet to be published, empty if there is none.
        columns: Those of the outbox that are published, in the order in which they come; ``None`` for all.
    """

    publishes_inserts: bool
    covers_table: bool
    row_filter: str = ""
    columns: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class SlotFacts:
    """The replication slot.

    Args:
        reader: The server's process that reads it for somebody, 0 if nobody does.
        wal_status: ``lost`` when the WAL it needs is gone.
        confirmed: What lies before it was confirmed and is never sent again.
    """

    plugin: str
    database: str
    reader: int
    wal_status: str
    confirmed: Lsn | None

    @property
    def active(self) -> bool:
        """Whether somebody reads it now."""
        return self.reader != 0

    @property
    def is_unread(self) -> bool:
        """Whether nobody reads it now, and it could be read."""
        return not self.active and self.wal_status != "lost"


@dataclass(frozen=True, slots=True)
class WrittenFacts:
    """What the outbox holds.

    Args:
        rows: Rows in the table; the count ends at :data:`COUNTED_ROWS`.
        has_heads: Whether a sequence was ever given out, also if its row was pruned since.
        rows_outside_slot: Events that a slot which nobody has read yet does not hold, because they were committed
            before it; 0 while nobody has looked.
        keeps_rows: Whether what was written can be published again.
    """

    rows: int = 0
    has_heads: bool = False
    rows_outside_slot: int = 0
    keeps_rows: bool = True

    @property
    def has_events(self) -> bool:
        """Whether there is anything to look for in a slot."""
        return bool(self.rows or (self.has_heads and not self.keeps_rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseFacts:
    """Everything that preflight and plan look at; ``None`` for what does not exist."""

    version: int
    wal_level: str
    database: str
    free_slots: int
    role: RoleFacts | None
    table: TableFacts | None
    publication: PublicationFacts | None
    slot: SlotFacts | None
    written: WrittenFacts


class Database:
    """The pipeline's database, through a connection in autocommit mode whose role may create slots."""

    def __init__(self, connection: Any, driver: TransactionDriver, spec: Spec) -> None:  # noqa: ANN401 - any driver's connection
        self._connection = connection
        self._driver = driver
        self._spec = spec
        self._statements = load(driver.dialect, "preflight")

    def read_facts(self) -> DatabaseFacts:
        """Read the facts, each by a statement of its own: they are looked at again before anything depends on one."""
        spec, outbox = self._spec, self._spec.outbox
        [(version, wal_level, database)] = self._ask("server")
        [(free_slots,)] = self._ask("free_slots")
        role = self._ask("role", role=spec.database.user, table=outbox.table.quoted)
        publication = self._ask(
            "publication", publication=spec.database.publication, schema=outbox.table.schema, table=outbox.name
        )
        looked_at = outbox.heads if outbox.mode is OutboxMode.MESSAGE else outbox.table
        table = self._ask("table", table=looked_at.quoted)
        columns: dict[str, str] = dict(self._ask("columns", table=looked_at.quoted))
        return DatabaseFacts(
            version=version,
            wal_level=wal_level,
            database=database,
            free_slots=free_slots,
            role=RoleFacts(*role[0]) if role else None,
            table=TableFacts(table[0][0], table[0][1], columns) if table else None,
            publication=PublicationFacts(*publication[0]) if publication else None,
            slot=self.find_slot(),
            written=self.read_written() if table else WrittenFacts(),
        )

    def find_slot(self) -> SlotFacts | None:
        """Return the slot as it is now."""
        rows = self._ask("slot", slot=self._spec.database.slot)
        if not rows:
            return None
        plugin, database, reader, wal_status, confirmed = rows[0]
        return SlotFacts(plugin, database, reader, wal_status, Lsn.parse(confirmed) if confirmed else None)

    def find_wal_end(self) -> Lsn:
        """Return where the server's log ends now; on a standby, where it has come to."""
        [(lsn,)] = self._ask("wal_end")
        return Lsn.parse(lsn)

    def create_slot(self, *, timeout_seconds: float) -> Lsn:
        """Create the slot and return where it starts: what commits from here on will be published.

        Raises:
            DatabaseError: A transaction that was open already did not end within the time; there is no slot then.
        """
        self._ask("limit_time", milliseconds=str(max(1, int(timeout_seconds * 1000))))
        try:
            [(lsn,)] = self._ask("create_slot", slot=self._spec.database.slot)
        finally:
            self._ask("unlimit_time")
        return Lsn.parse(lsn)

    def drop_slot(self) -> None:
        """Drop the slot, which must not be in use."""
        self._ask("drop_slot", slot=self._spec.database.slot)

    def read_written(self) -> WrittenFacts:
        """Return what the outbox holds now."""
        mode = self._spec.outbox.mode
        [(rows,)] = [(0,)] if mode is OutboxMode.MESSAGE else self._ask("written", limit=COUNTED_ROWS)
        [(heads_exist,)] = self._ask("heads_table", heads=self._spec.outbox.heads.quoted)
        has_heads = heads_exist and self._ask("heads")[0][0]
        return WrittenFacts(rows, has_heads, keeps_rows=mode.keeps_rows)

    def count_events_outside_slot(self, columns: Sequence[str]) -> int:
        """Return how many events an inactive slot of ours would not deliver: by the rows, or else by their numbers.

        Args:
            columns: Those that are published, in their order.
        """
        outbox = self._spec.outbox
        if outbox.mode.keeps_rows or not outbox.is_numbered:
            return self._count_rows_outside_slot(columns)
        return self._count_numbers_outside_slot(columns)

    def _count_numbers_outside_slot(self, columns: Sequence[str]) -> int:
        """Count the numbers that were given out below the first that the slot holds, aggregate by aggregate.

        Of numbers with holes it is known only that one is missing where the slot holds none. The heads are read first:
        an event that is committed meanwhile is then in the slot, and above them.
        """
        heads = self._ask("last_numbers", limit=COUNTED_ROWS)
        first: dict[tuple[str, ...], int] = {}
        for *aggregate, sequence in self._numbers_in_slot(list(columns)):
            first.setdefault(tuple(aggregate), int(sequence))
        aggregates = self._spec.contract.aggregates
        missing = 0
        for aggregate_type, aggregate_id, source, last in heads:
            held = first.get((aggregate_type, aggregate_id, source))
            if aggregates.get(aggregate_type) is SequenceMode.INCREASING:
                missing += held is None
            else:
                missing += (last + 1 if held is None else held) - 1
        return missing

    def _numbers_in_slot(self, order: list[str]) -> Iterator[tuple[str, ...]]:
        """Yield type, id, source and sequence of the numbered events in the slot."""
        outbox = self._spec.outbox
        names = outbox.columns.names()
        wanted = [names[role] for role in ("aggregate_type", "aggregate_id", "source", "sequence") if role in names]
        emits = outbox.mode is OutboxMode.MESSAGE
        for change in self._peek("peek_messages" if emits else "peek"):
            if emits:
                content = emitted_content(change, outbox.message_prefix)
                event = None if content is None else [json.loads(content).get(column) for column in wanted]
            else:
                row = inserted_values(change) or []
                # A table that shares the publication may have other columns.
                event = [row[order.index(column)] for column in wanted] if len(row) == len(order) else None
            if event is not None and None not in event:
                yield tuple(value.decode() if isinstance(value, bytes) else str(value) for value in event)

    def _count_rows_outside_slot(self, columns: Sequence[str]) -> int:
        """Return how many rows of the table an inactive slot of ours would not deliver, up to :data:`COUNTED_ROWS`.

        By their ids: neither transaction ids (a savepoint has its own, another slot holds back the horizon) nor times
        tell what was committed before a slot. Nothing is consumed. More changes than :data:`PEEKED_CHANGES` are not
        looked at, and rows behind them are counted, though the slot may hold them.

        Args:
            columns: Those that are published, in their order.
        """
        held = self._ids_in_slot(list(columns).index(self._spec.outbox.columns.id))
        [(rows,)] = self._ask("outside", held=held, limit=COUNTED_ROWS)
        return int(rows)

    def _ids_in_slot(self, position: int) -> list[str]:
        """Return the ids among the slot's changes."""
        held: list[str] = []
        for change in self._peek("peek"):
            values = inserted_values(change) or []
            # A table that shares the publication may have fewer columns.
            if position < len(values) and (value := values[position]) is not None:
                held.append(value.decode())
        return held

    def _peek(self, statement: str) -> Iterator[bytes]:
        """Yield the slot's changes; by a cursor, for a million payloads are no thing to hold."""
        slot, publication = self._spec.database.slot, quote(self._spec.database.publication)
        self._driver.begin(self._connection)
        try:
            self._ask(statement, slot=slot, publication=publication, limit=PEEKED_CHANGES)
            while changes := self._ask("next_changes"):
                yield from (bytes(change) for (change,) in changes)
        finally:
            self._driver.rollback(self._connection)

    def _ask(self, statement: str, **parameters: Any) -> list[Row]:  # noqa: ANN401 - SQL's own variety
        sql = self._statements[statement].render(self._spec.outbox.names(), self._driver.style)
        with translated_for_operator(_HINTS):
            return self._driver.fetch(self._connection, sql, parameters)
