"""The database's facts against what the connector needs. Pure."""

from collections.abc import Iterator

from cdc_outbox.connect.facts import DatabaseFacts, PublicationFacts, SlotFacts, TableFacts
from cdc_outbox.finding import Finding, Place, Severity
from cdc_outbox.modes import OutboxMode, PayloadType
from cdc_outbox.spec import Spec

_TEXT = ("text", "character varying")
_TYPES = {
    "id": ("uuid", *_TEXT),
    "aggregate_type": _TEXT,
    "aggregate_id": (*_TEXT, "uuid"),
    "type": _TEXT,
    "payload": ("json", "jsonb", *_TEXT),
    "sequence": ("bigint", "integer"),
    "source": _TEXT,
    # `timestamp with time zone` reaches the router as text, and the task fails on the first row.
    "created_at": ("timestamp without time zone",),
}
"""What each column may be for the EventRouter, and for the converter of a payload of JSON."""

_PARTITIONED = "p"
_TABLES = ("r", _PARTITIONED)


def check_database(spec: Spec, facts: DatabaseFacts) -> tuple[Finding, ...]:
    """Return what is wrong with a database, in the order in which one would mend it."""
    return (
        *_check_server(spec, facts),
        *_check_role(spec, facts),
        *_check_table(spec, facts.table),
        *_check_publication(spec, facts.table, facts.publication),
        *_check_slot(spec.database.slot, facts),
    )


def check_republish(spec: Spec, facts: DatabaseFacts) -> tuple[Finding, ...]:
    """Return what keeps the rows of the table from being published again, beside :func:`check_database`."""
    if facts.role is None or facts.role.can_select:
        return ()
    user, table = spec.database.user, spec.outbox.table
    message = f"the role {user!r} may not read {table}, so its rows cannot be published again."
    return (_error("DB203", user, message, f'grant select on {table.quoted} to "{user}"'),)


def slot_in_use(spec: Spec, slot: SlotFacts) -> Finding:
    """Return the finding for a slot that somebody else reads: two readers would each get a part of the events."""
    return _error(
        "DB503",
        spec.database.slot,
        f"another connector or tool reads the slot (process {slot.reader} of the server).",
        "Choose another slot name, or stop what reads it.",
    )


def slot_older_than_publication(spec: Spec) -> Finding:
    """Return the finding for a slot that PostgreSQL before 18 cannot decode: it looks for the publication back then."""
    return _error(
        "DB504",
        spec.database.slot,
        f"the slot is older than the publication {spec.database.publication}, and cannot be read.",
        "Drop it with pg_drop_replication_slot, and run this again: it makes another one.",
    )


def check_outbox(spec: Spec, facts: DatabaseFacts) -> tuple[Finding, ...]:
    """Return what is wrong with the table and its publication alone."""
    return (*_check_table(spec, facts.table), *_check_publication(spec, facts.table, facts.publication))


def _check_server(spec: Spec, facts: DatabaseFacts) -> Iterator[Finding]:
    # Where the worker resolves the name, that the connector reads the slot will tell.
    if facts.database != spec.database.name and not spec.database.name.startswith("${"):
        yield _error(
            "DB101",
            facts.database,
            f"this is the database {facts.database!r}; the spec speaks of {spec.database.name!r}.",
            "Correct the DSN or database.name in the spec.",
        )
    if facts.wal_level != "logical":
        yield _error(
            "DB102",
            "wal_level",
            f"wal_level is {facts.wal_level}.",
            "Set wal_level = logical and restart PostgreSQL.",
        )
    if facts.version < 140_000:
        yield _error(
            "DB103",
            "server_version",
            "PostgreSQL is older than 14.",
            "Debezium 3.5 and later need PostgreSQL 14.",
        )
    if facts.slot is None and facts.free_slots < 1:
        yield _error(
            "DB104",
            "max_replication_slots",
            "no replication slot is left.",
            "Drop one that is not used, or raise max_replication_slots.",
        )


def _check_role(spec: Spec, facts: DatabaseFacts) -> Iterator[Finding]:
    user = spec.database.user
    if user.startswith("${"):
        return
    if facts.role is None:
        yield _error("DB201", user, f"the role {user!r} does not exist.", f'create role "{user}" login replication')
        return
    if not facts.role.can_login or not facts.role.can_replicate:
        missing = "LOGIN" if not facts.role.can_login else "REPLICATION"
        yield _error("DB202", user, f"the role {user!r} has no {missing}.", f'alter role "{user}" login replication')


def _check_table(spec: Spec, table: TableFacts | None) -> Iterator[Finding]:
    if spec.outbox.mode is OutboxMode.MESSAGE:
        yield from _check_heads(spec, table)
        return
    name = str(spec.outbox.table)
    if table is None:
        yield _error("DB301", name, "the outbox table does not exist.", "Run `cdc-outbox init`, or correct the spec.")
        return
    if table.kind not in _TABLES:
        yield _error("DB305", name, "it is a view or a foreign table.", "The outbox must be a table.")
        return
    if table.persistence != "p":
        yield _error(
            "DB302",
            name,
            "the table is unlogged or temporary, so nothing is decoded from it.",
            "alter table … set logged",
        )
    wanted = {column: _TYPES[role] for role, column in spec.outbox.columns.names().items()}
    if spec.outbox.payload_type is PayloadType.BYTES:
        wanted[spec.outbox.columns.payload] = ("bytea",)
    if spec.outbox.mode is OutboxMode.DELETE:  # rows that go are found by their ids, as what they are
        wanted[spec.outbox.columns.id] = ("uuid",)
    for column, types in {**wanted, **dict.fromkeys(spec.outbox.header_columns, _TEXT)}.items():
        place, found = f"{name}.{column}", table.columns.get(column)
        if found is None:
            yield _error("DB303", place, "the column does not exist.", "Run `cdc-outbox init`, or correct the spec.")
        elif found not in types:
            yield _error("DB304", place, f"its type is {found}.", f"It must be {' or '.join(types)}.")


def _check_heads(spec: Spec, heads: TableFacts | None) -> Iterator[Finding]:
    name = str(spec.outbox.heads)
    if heads is None:
        yield _error("DB321", name, "the head table does not exist.", "Run `cdc-outbox init`, or correct the spec.")
    elif heads.persistence != "p":
        yield _error(
            "DB323",
            name,
            "the head table is unlogged or temporary, so numbers start again after a crash.",
            "alter table … set logged",
        )


def _check_publication(spec: Spec, table: TableFacts | None, publication: PublicationFacts | None) -> Iterator[Finding]:
    name = spec.database.publication
    if publication is None:
        yield _error("DB401", name, "the publication does not exist.", "Run `cdc-outbox init`.")
        return
    if spec.outbox.mode is OutboxMode.MESSAGE:  # messages pass any publication, also an empty one
        return
    if not publication.covers_table:
        # Without that setting a partitioned table's rows are published as those of its partitions.
        partitioned = table is not None and table.kind == _PARTITIONED
        yield _error(
            "DB402",
            name,
            f"the publication does not cover {spec.outbox.table}{', which is partitioned' if partitioned else ''}.",
            "alter publication … set (publish_via_partition_root = true)"
            if partitioned
            else "alter publication … add table …",
        )
    if not publication.publishes_inserts:
        yield _error(
            "DB403",
            name,
            "the publication publishes no inserts.",
            "alter publication … set (publish = 'insert')",
        )
    if publication.row_filter:
        yield _error(
            "DB404",
            name,
            f"the publication has a row filter, and what does not meet {publication.row_filter} would never leave.",
            "alter publication … set table …, without a where",
        )
    placed = (*spec.outbox.columns.names().values(), *spec.outbox.header_columns)
    published = placed if publication.columns is None else publication.columns
    missing = [column for column in placed if column not in published and (table is None or column in table.columns)]
    if missing and publication.covers_table:
        yield _error(
            "DB405",
            name,
            f"the publication leaves out the column{'s' * (len(missing) > 1)} {', '.join(missing)}.",
            "alter publication … set table …, without a column list",
        )


def _check_slot(name: str, facts: DatabaseFacts) -> Iterator[Finding]:
    slot = facts.slot
    if slot is None:
        return
    if slot.plugin != "pgoutput":
        yield _error("DB501", name, f"the slot's plugin is {slot.plugin}.", "Choose another slot: pgoutput is needed.")
    if slot.database != facts.database:
        yield _error("DB502", name, f"the slot belongs to the database {slot.database!r}.", "Choose another slot name.")


def _error(code: str, path: str, message: str, remedy: str) -> Finding:
    place = Place(document="database", path=path)
    return Finding(code=code, severity=Severity.ERROR, place=place, message=message, remedy=remedy)
