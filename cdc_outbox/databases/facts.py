"""What a database says about a pipeline, as values; ``None`` for what does not exist."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from cdc_outbox.contract.outbox_options import OutboxMode
from cdc_outbox.databases.lsn import Lsn
from cdc_outbox.databases.table import OutboxTable, TableName

COUNTED_ROWS = 100_000
"""Rows are counted up to here; beyond it "at least" says enough, and an outbox may hold billions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction that has been open for long.

    Args:
        name: The server's process, or the name of a prepared one.
        since: When it was begun, or prepared.
    """

    name: str
    since: datetime
    is_prepared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """The server's settings and state, as far as they decide about slots; the defaults are PostgreSQL's.

    Args:
        is_standby: Whether it follows another server.
        free_senders: How many more readers of the log there may be.
        encoding: The database's.
        slot_plugins: The plugins that slots may have; ``None`` where the server does not restrict them, or does not
            tell this role.
        idle_slot_seconds: How long a slot may go unread until it is given up, 0 for ever.
        sender_timeout_seconds: After what time a reader that is silent counts as gone, 0 for never.
        max_wal_bytes: The WAL that is kept for the server's own sake, roughly.
        max_slot_wal_bytes: The WAL that is kept for a slot, ``None`` for all.
        awaits_standbys: Whether slots are configured to wait for standbys, as those that outlive a failover are.
        wal_end: Where the log ends; on a standby, where it has come to.
        open_for_long: The transactions that a new slot must wait for.
        idle_slots: The database's other slots without a reader, each with the bytes of WAL that it keeps.
    """

    is_standby: bool = False
    free_senders: int = 10
    encoding: str = "UTF8"
    slot_plugins: Sequence[str] | None = None
    idle_slot_seconds: float = 0
    sender_timeout_seconds: float = 60
    max_wal_bytes: int = 1024**3
    max_slot_wal_bytes: int | None = None
    awaits_standbys: bool = False
    wal_end: Lsn | None = None
    open_for_long: Sequence[OpenTransaction] = ()
    idle_slots: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConnectorRoleFacts:
    """The connector's role; ``can_select`` is about the outbox, whose rows only publishing them again reads.

    Args:
        can_connect: To the database.
        sees_all_rows: Whether no policy hides rows of the outbox from it.
        expired: Whether its password has expired.
    """

    can_login: bool
    can_replicate: bool
    can_select: bool = True
    can_connect: bool = True
    sees_all_rows: bool = True
    expired: bool = False


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """One column.

    Args:
        type: As the database spells it, without a length; of a domain, the type below it.
        length: Of a ``varchar`` that has one; on MariaDB and MySQL of every text, in characters.
        not_null: Whether it refuses nulls.
        is_generated: Whether the server computes it.
        is_enum: Whether its type is an enum.
        declared: The type as it was declared, on MariaDB and MySQL as our statements spell it.
        default: As the database spells it, there likewise as our statements do; empty for none.
        charset: Of MariaDB or MySQL, empty where it holds no text.
    """

    type: str
    length: int | None = None
    not_null: bool = True
    is_generated: bool = False
    is_enum: bool = False
    declared: str = ""
    default: str = ""
    charset: str = ""


@dataclass(frozen=True, slots=True)
class IndexFacts:
    """One index.

    Args:
        is_whole: Whether it leaves out no row, and has columns only.
        columns: Those that are indexed; of a prefix with its length, such as ``id(10)``.
    """

    name: str
    is_primary: bool
    is_unique: bool
    is_valid: bool
    is_whole: bool
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """One partition.

    Args:
        bounds: As PostgreSQL spells them.
        may_drop: Whether it holds rows itself, and this role may drop it.
    """

    schema: str
    name: str
    bounds: str
    may_drop: bool

    @property
    def table(self) -> TableName:
        """Its name, as a :class:`TableName`.

        Raises:
            ConfigError: It holds a control character.
        """
        return TableName(schema=self.schema, name=self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """One table; of a view as far as it has the like.

    Args:
        kind: On PostgreSQL ``r`` for a table, ``p`` for a partitioned one (``pg_class.relkind``); on MariaDB and MySQL
            ``BASE TABLE``.
        is_transactional: Whether a transaction that fails leaves nothing in it.
        persistence: ``p`` for permanent; nothing else reaches PostgreSQL's log (``pg_class.relpersistence``).
        indexes: In the order of their names.
        settings: By name: PostgreSQL's storage parameters; elsewhere the engine, or whether types are held.
        partition_key: ``RANGE (id)``, empty for a table that is not partitioned.
        partitions: Those that it has.
        partition_of: The table that it is a partition of, empty for none.
        children: Tables that inherit from it.
        refuses_deletes: Whether a publication sends deletes, and the table has nothing that identifies the row.
        rules: Rules that do something else instead of an insert, quoted.
        triggers: Triggers that may return null before a row is inserted, so that none is, quoted.
    """

    columns: Mapping[str, ColumnFacts]
    kind: str = ""
    is_transactional: bool = True
    persistence: str = ""
    indexes: Sequence[IndexFacts] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    partition_key: str = ""
    partitions: Sequence[PartitionFacts] = ()
    partition_of: str = ""
    children: Sequence[str] = ()
    refuses_deletes: bool = False
    rules: Sequence[str] = ()
    triggers: Sequence[str] = ()

    @property
    def has_log(self) -> bool:
        """Whether its rows are its own, and may be in the log: it is a table, and no view."""
        return self.kind == "r" or self.is_partitioned

    @property
    def is_partitioned(self) -> bool:
        """Whether its rows are in partitions of it."""
        return self.kind == "p"

    @property
    def bounds(self) -> Mapping[str, str]:
        """Partition → its bounds as PostgreSQL spells them."""
        return {partition.name: partition.bounds for partition in self.partitions}

    @property
    def keys(self) -> Sequence[tuple[str, ...]]:
        """The columns of each unique index that is valid and leaves out no row.

        Of a prefix that is unique the whole column is unique too.
        """
        return [
            tuple(_PREFIX.sub("", column) for column in index.columns)
            for index in self.indexes
            if index.is_unique and index.is_valid and index.is_whole
        ]


_PREFIX = re.compile(r"\([0-9]+\)\Z")


@dataclass(frozen=True, slots=True)
class PublicationFacts:
    """The publication.

    Args:
        row_filter: The condition that rows must meet to be published, empty if there is none.
        columns: Those of the outbox that are published, in the order in which they come; ``None`` for all.
        carries: What else is in it by itself: ``all tables``, ``all tables of a schema``, or nothing.
        also_publishes: What it sends beside inserts.
        outboxes: Other tables that were put into it and are outboxes.
        tables: Those that are none.
    """

    publishes_inserts: bool
    covers_table: bool
    row_filter: str = ""
    columns: Sequence[str] | None = None
    carries: str = ""
    also_publishes: Sequence[str] = ()
    outboxes: Sequence[str] = ()
    tables: Sequence[str] = ()

    @property
    def publishes_each_insert(self) -> bool:
        """Whether every row that is inserted into the outbox is published."""
        return self.publishes_inserts and self.covers_table and not self.row_filter

    def has(self, outbox: OutboxTable) -> bool:
        """Return whether an outbox is in it, or needs not to be: messages in the log are sent anyway."""
        return self.covers_table or outbox.mode is OutboxMode.MESSAGE


RELAY = "cdc-outbox relay "
"""What a relay's connections call themselves begins with it; the spec's name follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotFacts:
    """A replication slot, and where the server's log ended when it was read.

    Args:
        plugin: Empty for a physical slot.
        database: Empty for a physical slot.
        reader: The id of the server process that reads it for a client, 0 if it has no reader.
        reader_since: When that process began, as the server spells it; empty where it does not tell this role.
        reader_name: The ``application_name`` of that process, which every role sees.
        wal_status: ``lost`` when the WAL it needs is gone.
        confirmed: What lies before it was confirmed and is never sent again.
        restart: The WAL from here on is kept for it.
        log_end: On a standby, where the log has come to.
        invalidation: Why it cannot be read any more, where the server says so.
        safe_bytes: How much may still be written until it is given up, ``None`` for any amount.
        is_temporary: Whether it goes with the session that made it.
        is_two_phase: Whether prepared transactions are sent before they are committed.
        outlives_failover: Whether standbys keep a copy of it; ``None`` where the server knows nothing of that.
        is_copy: Whether it is a standby's copy.
        lag_seconds: How long its reader needed for its last confirmation, or how long it has had no reader;
            ``None`` where the server does not tell: it rests, is older than PostgreSQL 17, or the role may not see it.
    """

    name: str
    plugin: str
    database: str
    reader: int
    reader_since: str = ""
    reader_name: str = ""
    wal_status: str
    confirmed: Lsn | None
    restart: Lsn | None = None
    log_end: Lsn
    invalidation: str = ""
    safe_bytes: int | None = None
    is_temporary: bool = False
    is_two_phase: bool = False
    outlives_failover: bool | None = None
    is_copy: bool = False
    lag_seconds: float | None = None

    @property
    def active(self) -> bool:
        """Whether it has a reader now."""
        return self.reader != 0

    @property
    def is_relayed(self) -> bool:
        """Whether a relay reads it now."""
        return self.active and self.reader_name.startswith(RELAY)

    @property
    def is_unread(self) -> bool:
        """Whether it has no reader now, and could be read."""
        return not self.active and self.wal_status != "lost"

    @property
    def unconfirmed_bytes(self) -> int | None:
        """How much of the log its reader has not confirmed; ``None`` before the first time."""
        return None if self.confirmed is None else max(0, self.log_end.value - self.confirmed.value)

    @property
    def kept_bytes(self) -> int | None:
        """How much of the log the server keeps on its disk for it; ``None`` if it keeps none any more."""
        if self.wal_status in {"", "lost"}:
            return None
        return 0 if self.restart is None else max(0, self.log_end.value - self.restart.value)


@dataclass(frozen=True, slots=True)
class WrittenFacts:
    """What the outbox holds.

    Args:
        rows: Rows in the table; the count ends at :data:`COUNTED_ROWS`.
        has_heads: Whether a sequence was ever given out, also if its row was pruned since.
        rows_outside_slot: Events that a slot which was never read does not hold, because they were committed
            before it; 0 until they are counted.
        keeps_rows: Whether what was written can be published again.
        forgotten: Rows without a number that are older than what consumers remember; 0 until they are counted.
    """

    rows: int = 0
    has_heads: bool = False
    rows_outside_slot: int = 0
    keeps_rows: bool = True
    forgotten: int = 0

    @property
    def has_events(self) -> bool:
        """Whether there is anything to look for in a slot."""
        return bool(self.rows or (self.has_heads and not self.keeps_rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseFacts:
    """Everything that preflight and plan look at; ``None`` for what does not exist.

    Args:
        has_heartbeat: Whether the function that writes heartbeats is there, or none is wanted.
        may_write_heartbeat: Whether the connector's role may execute it.
        source: Under which events are numbered; ``None`` also where none are.
    """

    version: int
    wal_level: str
    database: str
    free_slots: int
    role: ConnectorRoleFacts | None
    table: TableFacts | None
    publication: PublicationFacts | None
    slot: SlotFacts | None
    written: WrittenFacts
    server: ServerFacts = field(default_factory=ServerFacts)
    has_heartbeat: bool = True
    may_write_heartbeat: bool = True
    source: str | None = None

    @property
    def published(self) -> Sequence[str]:
        """The outbox's columns that are published, in their order; one that the server computes only if it is named."""
        if self.publication is not None and self.publication.columns is not None:
            return self.publication.columns
        return [name for name, facts in (self.table.columns if self.table else {}).items() if not facts.is_generated]
