"""The database's facts against what the connector needs. Pure."""

from collections.abc import Iterator

from cdc_outbox.connect.facts import DatabaseFacts, PublicationFacts, SlotFacts, TableFacts
from cdc_outbox.finding import Finding, Place, Severity
from cdc_outbox.spec import Spec
from cdc_outbox.table import OutboxMode

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
"""What each column may be for StringConverter and for the EventRouter."""


def check_database(spec: Spec, facts: DatabaseFacts) -> tuple[Finding, ...]:
    """Return what is wrong with a database, in the order in which one would mend it."""
    return (
        *_check_server(spec, facts),
        *_check_role(spec, facts),
        *_check_table(spec, facts.table),
        *_check_publication(spec, facts.publication),
        *_check_slot(spec, facts.slot),
    )


def _check_server(spec: Spec, facts: DatabaseFacts) -> Iterator[Finding]:
    if facts.database != spec.database.name:
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
    if table.persistence != "p":
        yield _error(
            "DB302",
            name,
            "the table is unlogged or temporary, so nothing is decoded from it.",
            "alter table … set logged",
        )
    wanted = {column: _TYPES[role] for role, column in spec.outbox.columns.names().items()}
    for column, types in {**wanted, **dict.fromkeys(spec.outbox.header_columns, _TEXT)}.items():
        place, found = f"{name}.{column}", table.columns.get(column)
        if found is None:
            yield _error("DB303", place, "the column does not exist.", "Run `cdc-outbox init`, or correct the spec.")
        elif found not in types:
            yield _error("DB304", place, f"its type is {found}.", f"It must be {' or '.join(types)}.")


def _check_heads(spec: Spec, heads: TableFacts | None) -> Iterator[Finding]:
    name = str(spec.outbox.heads)
    if heads is None:
        yield _error("DB305", name, "the head table does not exist.", "Run `cdc-outbox init`, or correct the spec.")
    elif heads.persistence != "p":
        yield _error(
            "DB306",
            name,
            "the head table is unlogged or temporary, so numbers start again after a crash.",
            "alter table … set logged",
        )


def _check_publication(spec: Spec, publication: PublicationFacts | None) -> Iterator[Finding]:
    name = spec.database.publication
    if publication is None:
        yield _error("DB401", name, "the publication does not exist.", "Run `cdc-outbox init`.")
        return
    if spec.outbox.mode is OutboxMode.MESSAGE:  # messages pass any publication, also an empty one
        return
    if not publication.covers_table:
        yield _error(
            "DB402",
            name,
            f"the publication does not cover {spec.outbox.table}.",
            "alter publication … add table …",
        )
    if not publication.publishes_inserts:
        yield _error(
            "DB403",
            name,
            "the publication publishes no inserts.",
            "alter publication … set (publish = 'insert')",
        )


def _check_slot(spec: Spec, slot: SlotFacts | None) -> Iterator[Finding]:
    name = spec.database.slot
    if slot is None:
        return
    if slot.plugin != "pgoutput":
        yield _error("DB501", name, f"the slot's plugin is {slot.plugin}.", "Choose another slot: pgoutput is needed.")
    if slot.database != spec.database.name:
        yield _error("DB502", name, f"the slot belongs to the database {slot.database!r}.", "Choose another slot name.")


def _error(code: str, path: str, message: str, remedy: str) -> Finding:
    place = Place(document="database", path=path)
    return Finding(code=code, severity=Severity.ERROR, place=place, message=message, remedy=remedy)
