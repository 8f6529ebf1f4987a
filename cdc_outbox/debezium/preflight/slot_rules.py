"""PostgreSQL's slot by itself, and beside what Connect stored. Pure."""

from collections.abc import Iterator
from dataclasses import replace

from cdc_outbox.databases.facts import DatabaseFacts, ServerFacts, SlotFacts
from cdc_outbox.databases.quoting import literal
from cdc_outbox.debezium.preflight.findings import error, warning
from cdc_outbox.debezium.slot_plan import SlotState, find_hole
from cdc_outbox.finding import Finding, Severity
from cdc_outbox.spec import Spec

_UNSAFE_BYTES = 256 * 1024**2
"""So little room is used up within minutes on a busy server: too little to look the next morning."""


def check_slot(spec: Spec, facts: DatabaseFacts) -> Iterator[Finding]:
    """Yield why a slot can never be this connector's; one that has lost its WAL can be made again."""
    slot, name = facts.slot, spec.database.slot
    if slot is None:
        return
    another = "Choose another slot name: database.slot."
    if slot.plugin != "pgoutput":
        found = f"the slot's plugin is {slot.plugin}." if slot.plugin else "it is a physical slot."
        yield error("DB501", name, found, f"{another} A connector needs one of pgoutput.")
    if slot.database != facts.database:
        yield error("DB502", name, f"the slot belongs to the database {slot.database!r}.", another)
    if slot.is_temporary:
        yield error("DB508", name, "the slot is temporary, and goes with the session that made it.", another)
    if slot.is_two_phase:
        message = "the slot sends prepared transactions before they are committed, which the connector cannot read."
        yield error("DB509", name, message, f"{_drop(spec)}, and deploy again.")
    if slot.is_copy and facts.server.is_standby:
        message = "the slot is a standby's copy, which cannot be read before the standby is the primary."
        yield error("DB516", name, message, "Let spec and DSN lead to the primary server.")


def check_health(spec: Spec, facts: DatabaseFacts) -> Iterator[Finding]:
    """Yield how a slot is: lost, about to be, or far behind; and which others nobody reads."""
    yield from _check_idle(facts.server)
    slot, name = facts.slot, spec.database.slot
    if slot is None:
        return
    if slot.wal_status == "lost" or slot.invalidation:
        reason = f"given up ({slot.invalidation})" if slot.invalidation else "lost: WAL that it needs is gone"
        remedy = "`cdc-outbox deploy-connector` makes it again, and says what is to be done about the events."
        yield error("DB505", name, f"the slot is {reason}.", remedy)
        return
    if slot.wal_status == "unreserved" or (slot.safe_bytes is not None and slot.safe_bytes < _UNSAFE_BYTES):
        left = slot.safe_bytes or 0  # below nothing where the next checkpoint is late
        when = "at the next checkpoint" if left <= 0 else f"after {_size(left)} more WAL"
        message = f"the slot is given up {when}, unless it is read on."
        remedy = "Let the connector read on, or raise max_slot_wal_keep_size, and reload."
        yield warning("DB506", name, message, remedy)
    yield from _check_lag(name, slot, facts.server)
    if slot.outlives_failover is False and facts.server.awaits_standbys:
        message = "the server's standbys keep copies of slots, and not of this one: it is lost in a failover."
        remedy = f"With a replication connection: ALTER_REPLICATION_SLOT {name} (FAILOVER true)"
        yield warning("DB510", name, message, remedy)
    if slot.outlives_failover and not facts.server.awaits_standbys:
        message = (
            "the slot outlives a failover, and does not wait for standbys: the connector publishes what a standby may "
            "not have yet."
        )
        remedy = (
            "With the physical slots of the standbys for …: alter system set synchronized_standby_slots = '…'; "
            "select pg_reload_conf()"
        )
        yield warning("DB517", name, message, remedy)


def _check_idle(server: ServerFacts) -> Iterator[Finding]:
    for name, kept in server.idle_slots.items():
        message = f"another slot of this database keeps {_size(kept)} of WAL, and has no reader."
        remedy = f"If its connector is gone: select pg_drop_replication_slot({literal(name)})"
        yield warning("DB518", name, message, remedy)


def _check_lag(name: str, slot: SlotFacts, server: ServerFacts) -> Iterator[Finding]:
    if slot.restart is None or server.wal_end is None:
        return
    behind = server.wal_end.value - slot.restart.value
    limit = server.max_slot_wal_bytes
    # Less the server keeps for itself; half of what it keeps for a slot is a time to look, whoever else needs it.
    bound = server.max_wal_bytes if limit is None else min(server.max_wal_bytes, limit // 2)
    if behind <= bound:
        return
    end = "until the disk is full" if limit is None else f"and the slot is given up at {_size(limit)}"
    read = f"process {slot.reader} reads it" if slot.active else "no process reads it"
    message = f"the slot keeps {_size(behind)} of WAL, {end}; {read}."
    remedy = "Let the connector read on; a slot that will not be read again is dropped with pg_drop_replication_slot."
    yield warning("DB507", name, message, remedy)


def check_hole(spec: Spec, state: SlotState, *, is_certain: bool) -> Iterator[Finding]:
    """Yield which events a connector that starts now would leave out.

    Args:
        is_certain: Whether Connect's offsets are known, or change nothing about it.
    """
    hole = find_hole(spec.database.slot, state)
    if hole is None:
        return
    found = error(hole.code, spec.database.slot, hole.text, hole.hint)
    if is_certain:
        yield found
        return
    message = f"{hole.text} If Connect's offset, which is not known here, is past them, none is left out."
    remedy = "`cdc-outbox deploy-connector` compares the two, and asks before it leaves anything out."
    yield replace(found, severity=Severity.WARNING, message=message, remedy=remedy)


def slot_in_use(spec: Spec, slot: SlotFacts) -> Finding:
    """Return the finding for a slot that somebody else reads: two readers would each get a part of the events."""
    return error(
        "DB503",
        spec.database.slot,
        f"another connector or tool reads the slot (process {slot.reader} of the server).",
        "Choose another slot name, or stop what reads it.",
    )


def slot_older_than_publication(spec: Spec) -> Finding:
    """Return the finding for a slot that PostgreSQL before 18 cannot decode: it looks for the publication back then."""
    return error(
        "DB504",
        spec.database.slot,
        f"the slot is older than the publication {spec.database.publication}, and cannot be read.",
        f"{_drop(spec)}, and deploy again: that makes another one.",
    )


def _drop(spec: Spec) -> str:
    return f"select pg_drop_replication_slot({literal(spec.database.slot)})"


def _size(count: int) -> str:
    return f"{count / 1024**2:,.0f} MB"
