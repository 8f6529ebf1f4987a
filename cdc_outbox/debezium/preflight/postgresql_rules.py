"""Rules about the PostgreSQL server, role and heartbeat, and all rules about a database together. Pure."""

from collections.abc import Iterator
from dataclasses import replace

from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.facts import ConnectorRoleFacts, DatabaseFacts, PublicationFacts, TableFacts, WrittenFacts
from cdc_outbox.databases.quoting import literal, quote
from cdc_outbox.databases.source import check_source
from cdc_outbox.debezium.preflight.findings import another_database, error, warning
from cdc_outbox.debezium.preflight.publication_rules import check_publication
from cdc_outbox.debezium.preflight.slot_rules import check_slot
from cdc_outbox.debezium.preflight.table_rules import check_table, check_table_warnings
from cdc_outbox.finding import Finding
from cdc_outbox.spec import Spec

_HEARTBEAT = "heartbeat.action.query"


def check_database(spec: Spec, facts: DatabaseFacts) -> tuple[Finding, ...]:
    """Return the findings about a database, in the order in which to fix them."""
    return (
        *_check_server(spec, facts),
        *_check_standby(spec, facts),
        *_check_role(spec, facts.role),
        *check_table(spec, facts.table, facts.publication),
        *check_publication(spec, facts.table, facts.publication, facts.slot),
        *check_source(spec.outbox, spec.first_source, facts.source, Dialect.POSTGRESQL),
        *_check_heartbeat(spec, facts),
        *check_table_warnings(spec, facts.table),
        *check_slot(spec, facts),
    )


def check_outbox(spec: Spec, table: TableFacts | None, publication: PublicationFacts | None) -> tuple[Finding, ...]:
    """Return the findings about the table and its publication alone."""
    return *check_table(spec, table, publication), *check_publication(spec, table, publication)


def check_republish(spec: Spec, facts: DatabaseFacts) -> tuple[Finding, ...]:
    """Return what prevents the table's rows from being published again, in addition to :func:`check_database`."""
    return (*_check_reading(spec, facts.role), *_check_horizon(spec, facts.written))


def _check_heartbeat(spec: Spec, facts: DatabaseFacts) -> Iterator[Finding]:
    """Yield why the connector cannot write heartbeats: its slot would not advance while the outbox is idle."""
    function, user = spec.outbox.heartbeat, spec.database.user
    if facts.table is None or spec.overrides.keys() & {_HEARTBEAT}:
        return
    if not facts.has_heartbeat:
        message = f"the function {function}, which the connector calls to write heartbeats, does not exist."
        yield error("DB344", str(function), message, "Run `cdc-outbox init`.")
    elif not facts.may_write_heartbeat:
        message = f"the role {user!r} cannot execute {function}."
        remedy = f"grant execute on function {function.quoted} to {quote(user)}"
        yield error("DB209", user, message, remedy)


def _check_reading(spec: Spec, role: ConnectorRoleFacts | None) -> Iterator[Finding]:
    user, table = spec.database.user, spec.outbox.table
    if role is None:
        return
    if not role.can_select:
        message = f"the role {user!r} cannot read {table}, so its rows cannot be published again."
        schema = quote(table.schema or "public")
        remedy = f"grant usage on schema {schema} to {quote(user)}; grant select on {table.quoted} to {quote(user)}"
        yield error("DB203", user, message, remedy)
    if not role.sees_all_rows:
        message = f"row level security hides rows of {table} from {user!r}: these rows would not be published again."
        yield error("DB206", user, message, f"alter role {quote(user)} bypassrls")


def _check_horizon(spec: Spec, written: WrittenFacts) -> Iterator[Finding]:
    """Yield rows that consumers cannot recognize as applied: without a sequence number, and older than the horizon."""
    if not written.forgotten:
        return
    days, table = spec.topics.horizon_days, spec.outbox.table
    message = (
        f"{written.forgotten:,} rows of types without sequence numbers are older than {days} days, and consumers no "
        "longer remember their ids: applied events would be parked as expired, or applied again."
    )
    # Not `prune`, which proves delivery by the slot: rows are published again after the slot was lost.
    columns, forgotten = spec.outbox.names(), replace(table, name=f"{table.name}_forgotten").quoted
    unnumbered = (name for name, mode in spec.contract.aggregates.items() if not mode.is_numbered)
    types = ", ".join(literal(name) for name in sorted(unnumbered))
    remedy = (
        f"create table if not exists {forgotten} (like {table.quoted}); "  # noqa: S608 - quoted names, and literals
        f"with moved as (delete from {table.quoted} where cast({columns['aggregate_type']} as text) in ({types}) "
        f"and {columns['created_at']} < (now() at time zone 'UTC') - interval '{days} days' returning *) "
        f"insert into {forgotten} select * from moved; "
        "-- or raise topics.horizon, if no consumer has deleted their ids"
    )
    yield error("DB519", str(table), message, remedy)


def _check_server(spec: Spec, facts: DatabaseFacts) -> Iterator[Finding]:
    server = facts.server
    yield from another_database(facts.database, spec.database.name)
    if facts.wal_level != "logical":
        message = f"wal_level is {facts.wal_level}."
        yield error("DB102", "wal_level", message, "alter system set wal_level = logical, and restart PostgreSQL.")
    if facts.version < 140_000:
        remedy = "Upgrade PostgreSQL: Debezium 3.5 and later require 14."
        yield error("DB103", "server_version", "PostgreSQL is older than 14.", remedy)
    if facts.slot is None and facts.free_slots < 1:
        remedy = "Drop an unused slot, or raise max_replication_slots and restart the server."
        yield error("DB104", "max_replication_slots", "all replication slots are in use.", remedy)
    if server.free_senders < 1 and not (facts.slot and facts.slot.active):
        remedy = "Disconnect an unneeded replication client, or raise max_wal_senders and restart the server."
        yield error("DB105", "max_wal_senders", "all WAL senders are in use.", remedy)
    if server.slot_plugins is not None and "pgoutput" not in server.slot_plugins:
        remedy = "alter system set output_plugin_libraries = 'pgoutput', 'test_decoding', and reload the configuration."
        yield error(
            "DB110", "output_plugin_libraries", "the server does not allow slots with the plugin pgoutput.", remedy
        )
    if not server.sender_timeout_seconds:
        message = "wal_sender_timeout is off: the connection of a failed connector keeps the slot active."
        remedy = "alter system set wal_sender_timeout = '60s', and reload the configuration."
        yield warning("DB108", "wal_sender_timeout", message, remedy)
    if server.encoding != "UTF8":
        message = f"the database encoding is {server.encoding}, which lacks characters or does not validate text."
        yield warning("DB109", facts.database, message, "Create a database with the encoding UTF8.")
    if server.idle_slot_seconds:
        message = (
            f"the server invalidates slots that are inactive for {server.idle_slot_seconds:,.0f} s: events are lost."
        )
        remedy = (
            "alter system set idle_replication_slot_timeout = 0, and reload the configuration; "
            "max_slot_wal_keep_size protects the disk."
        )
        yield warning("DB111", "idle_replication_slot_timeout", message, remedy)
    yield from _check_open_transactions(facts)


def _check_open_transactions(facts: DatabaseFacts) -> Iterator[Finding]:
    if facts.slot is not None:
        return
    for found in facts.server.open_for_long:
        kind, verb = ("the prepared transaction ", "prepared") if found.is_prepared else ("", "open")
        message = (
            f"{kind}{found.name} has been {verb} since {found.since:%Y-%m-%d %H:%M:%S%z}, "
            "and no slot can be created until it ends."
        )
        name = found.name.replace("'", "''")
        ending = f"rollback prepared '{name}'" if found.is_prepared else "select pg_terminate_backend(…)"
        yield warning("DB112", found.name, message, f"End it: commit it, or {ending}.")


def _check_standby(spec: Spec, facts: DatabaseFacts) -> Iterator[Finding]:
    if not facts.server.is_standby:
        return
    remedy = "Correct the spec and the DSN so that they lead to the primary server."
    if facts.version < 160_000:
        yield error(
            "DB106",
            facts.database,
            "this is a standby, which supports logical slots from PostgreSQL 16 on only.",
            remedy,
        )
    elif spec.overrides.get(_HEARTBEAT) is None:
        message = "this is a standby: the connector's heartbeat cannot write, so its slot would not advance."
        yield error("DB107", facts.database, message, remedy)


def _check_role(spec: Spec, role: ConnectorRoleFacts | None) -> Iterator[Finding]:
    user = spec.database.user
    if user.startswith("${"):
        return
    if role is None:
        remedy = "Run the statements that `cdc-outbox init SPEC --grants` prints, and set the role's password."
        yield error("DB201", user, f"the role {user!r} does not exist.", remedy)
        return
    if not role.can_login or not role.can_replicate:
        missing = "LOGIN" if not role.can_login else "REPLICATION"
        remedy = f"alter role {quote(user)} login replication"
        yield error("DB202", user, f"the role {user!r} lacks {missing}.", remedy)
    if not role.can_connect:
        database = spec.database.name
        # A name that the worker resolves cannot be quoted.
        target = "…" if database.startswith("${") else quote(database)
        message = f"the role {user!r} cannot connect to the database."
        yield error("DB204", user, message, f"grant connect on database {target} to {quote(user)}")
    if role.expired:
        message = f"the password of the role {user!r} has expired."
        yield error("DB205", user, message, f"alter role {quote(user)} valid until 'infinity'")
