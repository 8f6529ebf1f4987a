"""A preflight: everything is read, nothing is changed, and what could not be read is said."""

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cdc_outbox.connect.binlog_database import BinlogDatabase
from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.plan import Found
from cdc_outbox.connect.postgresql_database import UNDEFINED_OBJECT, PostgresqlDatabase
from cdc_outbox.connect.spec_checks import another_outbox
from cdc_outbox.contract.outbox_options import OutboxMode
from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.databases.drivers import AnyConnection, TransactionDriver
from cdc_outbox.databases.facts import DatabaseFacts, SlotFacts, WrittenFacts
from cdc_outbox.debezium.preflight.binlog_rules import check_binlog_database, check_stored
from cdc_outbox.debezium.preflight.findings import note
from cdc_outbox.debezium.preflight.postgresql_rules import check_database, check_republish
from cdc_outbox.debezium.preflight.slot_rules import check_health, check_hole, slot_in_use, slot_older_than_publication
from cdc_outbox.debezium.slot_plan import SlotState, stored_offset
from cdc_outbox.errors import ConnectorNotFoundError, DatabaseAccessError, DatabaseError
from cdc_outbox.finding import Finding, Severity, errors_in
from cdc_outbox.spec import Spec

_NOT_LOOKED_AT = {
    "42501": "this role may not: it takes REPLICATION",
    "55006": "another process reads it just now",
    "57014": "it holds too much for a look of half a minute, or waits for a standby (synchronized_standby_slots)",
}
"""Why the server does not let us look into a slot, by SQLSTATE."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connected:
    """What Connect knows of a pipeline.

    Args:
        connector: ``None`` where it does not exist; its offsets may, and are shown to nobody.
        offsets: As Connect shows them.
    """

    connector: Found | None
    offsets: list[dict[str, Any]]


AskConnect = Callable[[], Connected | None]
"""Returns what Connect knows now; ``None`` without an address of Connect."""
Looked = Generator[Finding, None, SlotFacts | None]
"""What a look yields; it returns the slot that it saw, ``None`` where there is none."""


def ask_connect(name: str, client: ConnectClient | None) -> Connected | None:
    """Return what Connect knows of a connector; ``None`` without an address of Connect."""
    if client is None:
        return None
    config = client.find_config(name)
    if config is None:
        return Connected(connector=None, offsets=[])
    try:
        return Connected(connector=Found(config, client.find_status(name)), offsets=client.find_offsets(name))
    except ConnectorNotFoundError:  # not known yet, or no more
        return Connected(connector=None, offsets=[])


def what_connect_hides(name: str, connected: Connected | None) -> Iterator[Finding]:
    """Yield what could not be learned of Connect."""
    if connected is None:
        message = "Connect was not asked, so nothing is known of the offsets that it has stored."
        yield note("DB601", name, message, "Give --connect-url.")
    elif connected.connector is None:
        message = (
            f"there is no connector {name}. Offsets left by an earlier connector of that name can be seen only when "
            "the connector exists."
        )
        yield note("DB601", name, message, "Run it again once the connector exists.")


def look_at_postgresql(
    spec: Spec,
    connection: AnyConnection,
    driver: TransactionDriver,
    ask: AskConnect,
) -> Looked:
    """Yield what is wrong with a pipeline's database, through a connection that changes nothing from now on.

    Connect is asked after the slot was read: a connector that runs meanwhile moves its offset on first, and its slot
    later.
    """
    database = PostgresqlDatabase(connection, driver, spec)
    database.refuse_changes()
    facts, unread = _read(spec, database)
    connected = ask()
    yield from _check_outbox(spec, connected)
    yield from check_database(spec, facts)
    if facts.table is not None and spec.outbox.mode.keeps_rows:
        # Only who publishes again needs it.
        yield from (replace(finding, severity=Severity.WARNING) for finding in check_republish(spec, facts))
    yield from check_health(spec, facts)
    yield from _check_reader(spec, facts.slot, connected)
    facts, unseen = _look_into_slot(spec, database, facts, connected)
    yield from unseen
    # Where the rows are not known, an offset may still tell.
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
    """Yield the same of MariaDB or MySQL."""
    database = BinlogDatabase(connection, driver, spec)
    database.refuse_changes()
    # Connect's offset first: a binlog that it names is there then, unless it was purged.
    connected = ask()
    facts = database.read_facts()
    yield from _check_outbox(spec, connected)
    yield from check_binlog_database(spec, facts)
    yield from check_stored(spec, facts, connected.offsets if connected else ())
    yield from what_connect_hides(spec.name, connected)
    return None


def _check_outbox(spec: Spec, connected: Connected | None) -> Iterator[Finding]:
    """Yield first that the connector reads another outbox: everything else would be about the wrong one."""
    connector = None if connected is None else connected.connector
    yield from another_outbox(spec, None if connector is None else connector.config)


def _read(spec: Spec, database: PostgresqlDatabase) -> tuple[DatabaseFacts, list[Finding]]:
    facts = database.read_surroundings()
    if facts.table is None or not facts.table.has_log:
        return facts, []
    try:
        return replace(facts, written=database.read_written()), []
    except DatabaseAccessError:
        message = "this role may not read it, so nothing is known of what was written before the slot."
        remedy = "Give a --dsn whose role may select from outbox and heads."
        return facts, [note("DB602", str(spec.outbox.table), message, remedy)]


def _check_reader(spec: Spec, slot: SlotFacts | None, connected: Connected | None) -> Iterator[Finding]:
    if slot is None or not slot.active or connected is None:
        return
    if connected.connector is None or not connected.connector.may_read(spec.database.slot):
        yield slot_in_use(spec, slot)


def _look_into_slot(
    spec: Spec, database: PostgresqlDatabase, facts: DatabaseFacts, connected: Connected | None
) -> tuple[DatabaseFacts, list[Finding]]:
    """Return the facts with what a slot does not hold, and what could not be seen of that."""
    slot = facts.slot
    fits = slot is not None and slot.is_unread and slot.plugin == "pgoutput" and slot.database == facts.database
    # What a connector has read is gone from its slot, and its offset tells the rest.
    has_offset = connected is not None and bool(connected.offsets)
    if not fits or has_offset or facts.table is None or not facts.table.has_log or facts.publication is None:
        return facts, []
    if spec.outbox.mode is not OutboxMode.MESSAGE and not {*spec.outbox.columns.names().values()} <= {*facts.published}:
        return facts, []  # which column is missing is told of the table or the publication
    try:
        outside = database.count_events_outside_slot(facts.published)
    except DatabaseError as error:
        if error.sqlstate == UNDEFINED_OBJECT:
            return facts, [slot_older_than_publication(spec)]
        reason = _NOT_LOOKED_AT.get(error.sqlstate or "")
        if reason is None:
            raise
        message = f"it was not looked which events the slot does not hold: {reason}."
        remedy = "`cdc-outbox deploy-connector` looks again."
        return facts, [note("DB602", spec.database.slot, message, remedy)]
    return replace(facts, written=replace(facts.written, rows_outside_slot=outside)), []


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
    )
    # Without a slot, offsets only make it worse.
    yield from check_hole(spec, state, is_certain=known or facts.slot is None)


Look = Callable[[Spec, Any, TransactionDriver, AskConnect], Looked]

LOOKS: Mapping[DatabaseKind, Look] = {
    DatabaseKind.POSTGRESQL: look_at_postgresql,
    DatabaseKind.MARIADB: look_at_binlog,
    DatabaseKind.MYSQL: look_at_binlog,
}
"""Whose databases can be looked at."""
