"""Preflight: read database and Connect without changing anything, and report checks that could not run."""

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cdc_outbox.connect.binlog_database import BinlogDatabase
from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.plan import Found
from cdc_outbox.connect.postgresql_database import PostgresqlDatabase
from cdc_outbox.connect.spec_checks import another_outbox
from cdc_outbox.contract.outbox_options import OutboxMode
from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.databases.drivers import AnyConnection, TransactionDriver
from cdc_outbox.databases.drivers.sqlstate import UNDEFINED_OBJECT
from cdc_outbox.databases.facts import DatabaseFacts, SlotFacts, WrittenFacts
from cdc_outbox.debezium.preflight.binlog_rules import check_binlog_database, check_buffer, check_stored
from cdc_outbox.debezium.preflight.findings import note
from cdc_outbox.debezium.preflight.postgresql_rules import check_database, check_republish
from cdc_outbox.debezium.preflight.slot_rules import check_health, check_hole, slot_in_use, slot_older_than_publication
from cdc_outbox.debezium.slot_plan import SlotState, stored_offset
from cdc_outbox.errors import ConnectorNotFoundError, DatabaseAccessError, DatabaseError
from cdc_outbox.finding import Finding, Severity, errors_in
from cdc_outbox.spec import Spec

_NOT_LOOKED_AT = {
    "42501": "this role lacks REPLICATION",
    "55006": "another process is reading the slot",
    "57014": "reading it takes more than half a minute, or waits for a standby (synchronized_standby_slots)",
}
"""Why a slot cannot be read, by SQLSTATE."""
_DECODES_ANY_SLOT = 180_000
"""From this version on, PostgreSQL leaves out what was written before the publication, and does not fail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connected:
    """Connect's state of a pipeline.

    Args:
        connector: ``None`` if it does not exist; offsets may still exist, and Connect does not return them.
        offsets: As Connect returns them.
    """

    connector: Found | None
    offsets: list[dict[str, Any]]


AskConnect = Callable[[], Connected | None]
"""Returns Connect's current state; ``None`` without an address of Connect."""
Looked = Generator[Finding, None, SlotFacts | None]
"""The findings of a preflight, which returns the slot that it read, ``None`` if there is none."""


def ask_connect(name: str, client: ConnectClient | None) -> Connected | None:
    """Return Connect's state of a connector; ``None`` without an address of Connect."""
    if client is None:
        return None
    config = client.find_config(name)
    if config is None:
        return Connected(connector=None, offsets=[])
    try:
        return Connected(connector=Found(config, client.find_status(name)), offsets=client.find_offsets(name))
    except ConnectorNotFoundError:  # not known yet, or deleted
        return Connected(connector=None, offsets=[])


def what_connect_hides(name: str, connected: Connected | None) -> Iterator[Finding]:
    """Yield notes about state that Connect did not return."""
    if connected is None:
        message = "Connect was not queried, so the offsets that it stores for the connector were not checked."
        yield note("DB601", name, message, "Set --connect-url.")
    elif connected.connector is None:
        message = (
            f"the connector {name} does not exist yet: Connect does not show the offsets that an earlier connector of "
            "this name may have left."
        )
        yield note("DB601", name, message, "Run preflight again after the deployment.")


def look_at_postgresql(
    spec: Spec,
    connection: AnyConnection,
    driver: TransactionDriver,
    ask: AskConnect,
) -> Looked:
    """Yield the findings about a pipeline's database, through a connection that becomes read-only.

    Connect is queried after the slot was read: a running connector advances its offset first, and its slot later.
    """
    database = PostgresqlDatabase(connection, driver, spec)
    database.refuse_changes()
    facts, unread = _read(spec, database)
    connected = ask()
    yield from _check_outbox(spec, connected)
    yield from check_database(spec, facts)
    if facts.table is not None and spec.outbox.mode.keeps_rows:
        # Needed only to publish rows again.
        yield from (replace(finding, severity=Severity.WARNING) for finding in check_republish(spec, facts))
    yield from check_health(spec, facts)
    yield from _check_reader(facts.slot, connected)
    facts, unseen = _look_into_slot(spec, database, facts, connected)
    yield from unseen
    # If the rows are not known, an offset may still show a hole.
    if not errors_in(tuple(unseen)) and (not unread or (connected is not None and connected.offsets)):
        yield from _check_hole(spec, database, facts, connected)
    yield from unread
    yield from what_connect_hides(spec.name, connected)
    return facts.slot


def look_at_binlog(
    spec: Spec,
    connection: AnyConnection,
    driver: TransactionDriver,
    ask: AskConnect,
) -> Looked:
    """Yield the findings about a pipeline's MariaDB or MySQL database, like :func:`look_at_postgresql`."""
    database = BinlogDatabase(connection, driver, spec)
    database.refuse_changes()
    # Connect's offset is read first: its binlog file then exists, unless it was purged.
    connected = ask()
    facts = database.read_facts()
    yield from _check_outbox(spec, connected)
    yield from check_binlog_database(spec, facts)
    yield from check_stored(spec, facts, connected.offsets if connected else ())
    if connected is not None and connected.connector is not None:
        yield from check_buffer(spec, connected.connector.config)
    yield from what_connect_hides(spec.name, connected)
    return None


def _check_outbox(spec: Spec, connected: Connected | None) -> Iterator[Finding]:
    """Yield whether the connector reads another outbox; all other findings would be about the wrong one."""
    connector = None if connected is None else connected.connector
    yield from another_outbox(spec, None if connector is None else connector.config)


def _read(spec: Spec, database: PostgresqlDatabase) -> tuple[DatabaseFacts, list[Finding]]:
    facts = database.read_surroundings()
    if facts.table is None or not facts.table.has_log:
        return facts, []
    try:
        return replace(facts, written=database.read_written()), []
    except DatabaseAccessError:
        message = "this role cannot read the table, so events from before the slot were not checked."
        remedy = "Set --dsn to a role with SELECT on outbox and heads."
        return facts, [note("DB602", str(spec.outbox.table), message, remedy)]


def _check_reader(slot: SlotFacts | None, connected: Connected | None) -> Iterator[Finding]:
    if slot is None or not slot.active or connected is None:
        return
    if connected.connector is None or not connected.connector.may_read(slot):
        yield slot_in_use(slot)


def _look_into_slot(
    spec: Spec, database: PostgresqlDatabase, facts: DatabaseFacts, connected: Connected | None
) -> tuple[DatabaseFacts, list[Finding]]:
    """Return the facts with the events that a slot does not hold, and findings if they cannot be read."""
    slot = facts.slot
    fits = slot is not None and slot.is_unread and slot.plugin == "pgoutput" and slot.database == facts.database
    if not fits or facts.table is None or not facts.table.has_log or facts.publication is None:
        return facts, []
    if spec.outbox.mode is not OutboxMode.MESSAGE and not {*spec.outbox.columns.names().values()} <= {*facts.published}:
        return facts, []  # rules about the table or the publication report the missing column
    # A slot does not contain what its connector has read; the offset shows the rest. Whether the server can decode it
    # is a question before PostgreSQL 18 only.
    has_offset = connected is not None and bool(connected.offsets)
    if has_offset and facts.version >= _DECODES_ANY_SLOT:
        return facts, []
    try:
        outside = database.count_events_outside_slot(facts.published)
    except DatabaseError as error:
        if error.sqlstate == UNDEFINED_OBJECT:
            return facts, [slot_older_than_publication(spec)]
        return facts, [] if has_offset else [_not_looked_at(spec, error)]
    return (facts if has_offset else replace(facts, written=replace(facts.written, rows_outside_slot=outside))), []


def _not_looked_at(spec: Spec, error: DatabaseError) -> Finding:
    """Return the note about a slot that cannot be read now; raise any other error."""
    reason = _NOT_LOOKED_AT.get(error.sqlstate or "")
    if reason is None:
        raise error
    message = f"events from before the slot were not checked: {reason}."
    return note("DB602", spec.database.slot, message, "`cdc-outbox deploy-connector` checks again.")


def _check_hole(
    spec: Spec, database: PostgresqlDatabase, facts: DatabaseFacts, connected: Connected | None
) -> Iterator[Finding]:
    known = connected is not None and connected.connector is not None
    state = SlotState(
        slot=facts.slot,
        stored=stored_offset(connected.offsets, topic_prefix=spec.topic_prefix) if connected else None,
        wal_end=database.read_slots().log_end,
        written=facts.written if facts.table else WrittenFacts(),
        republishing=bool(connected and connected.connector and connected.connector.is_republishing),
        relayed=database.publishers.find_relayed(spec.database.slot),
    )
    # Without a slot, offsets only add a problem.
    yield from check_hole(spec, state, is_certain=known or facts.slot is None)


Look = Callable[[Spec, Any, TransactionDriver, AskConnect], Looked]

LOOKS: Mapping[DatabaseKind, Look] = {
    DatabaseKind.POSTGRESQL: look_at_postgresql,
    DatabaseKind.MARIADB: look_at_binlog,
    DatabaseKind.MYSQL: look_at_binlog,
}
"""The preflight of each supported database."""
