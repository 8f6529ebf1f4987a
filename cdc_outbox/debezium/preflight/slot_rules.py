"""Rules about the PostgreSQL slot, by itself and compared with Connect's offset. Pure."""

from collections.abc import Iterator
from dataclasses import replace

from cdc_outbox.databases.facts import DatabaseFacts, ServerFacts, SlotFacts
from cdc_outbox.databases.quoting import literal
from cdc_outbox.debezium.preflight.findings import error, warning
from cdc_outbox.debezium.slot_plan import SlotState, find_hole
from cdc_outbox.finding import Finding, Severity
from cdc_outbox.spec import Spec

_UNSAFE_BYTES = 256 * 1024**2
"""A busy server writes this much WAL within minutes, so the operator must act at once."""


def check_slot(spec: Spec, facts: DatabaseFacts) -> Iterator[Finding]:
    """Yield why the connector cannot use a slot; a slot that has lost its WAL can be created again."""
    slot, name = facts.slot, spec.database.slot
    if slot is None:
        return
    another = "Choose another slot name: database.slot."
    if slot.plugin != "pgoutput":
        found = f"the slot's plugin is {slot.plugin}." if slot.plugin else "it is a physical slot."
        yield error("DB501", name, found, f"{another} A connector needs a slot with pgoutput.")
    if slot.database != facts.database:
        yield error("DB502", name, f"the slot belongs to the database {slot.database!r}.", another)
    if slot.is_temporary:
        yield error(
            "DB508", name, "the slot is temporary: the server drops it when the session that created it ends.", another
        )
    if slot.is_two_phase:
        message = "the slot sends prepared transactions before they are committed, which the connector cannot read."
        yield error("DB509", name, message, f"{_drop(spec)}, and deploy again.")
    if slot.is_copy and facts.server.is_standby:
        message = "the slot is a standby's copy, which cannot be read before the standby becomes the primary."
        yield error("DB516", name, message, "Correct the spec and the DSN so that they lead to the primary server.")


def check_health(spec: Spec, facts: DatabaseFacts) -> Iterator[Finding]:
    """Yield whether a slot is invalidated, about to be, or retains much WAL; and which other slots are inactive."""
    yield from _check_idle(facts.server)
    slot, name = facts.slot, spec.database.slot
    if slot is None:
        return
    if slot.wal_status == "lost" or slot.invalidation:
        reason = (
            f"invalidated ({slot.invalidation})" if slot.invalidation else "lost: the server removed WAL that it needs"
        )
        remedy = "`cdc-outbox deploy-connector` creates it again, and reports what to do about the lost events."
        yield error("DB505", name, f"the slot is {reason}.", remedy)
        return
    if slot.wal_status == "unreserved" or (slot.safe_bytes is not None and slot.safe_bytes < _UNSAFE_BYTES):
        left = slot.safe_bytes or 0  # negative if the next checkpoint is late
        when = "at the next checkpoint" if left <= 0 else f"after {_size(left)} more WAL"
        message = f"the server invalidates the slot {when}, unless the connector first reads to the end of the log."
        remedy = (
            "Raise max_slot_wal_keep_size and reload the configuration. Or start the connector; until it has read to "
            "the end of the log and for 15 s more, a checkpoint still invalidates the slot."
        )
        yield warning("DB506", name, message, remedy)
    yield from _check_lag(name, slot, facts.server)
    if slot.outlives_failover is False and facts.server.awaits_standbys:
        message = "the server's standbys do not copy this slot: it is lost in a failover."
        remedy = f"On a replication connection: ALTER_REPLICATION_SLOT {name} (FAILOVER true)"
        yield warning("DB510", name, message, remedy)
    if slot.outlives_failover and not facts.server.awaits_standbys:
        message = (
            "the slot survives a failover, and does not wait for standbys: the connector may publish transactions that "
            "a standby has not received yet."
        )
        remedy = (
            "Replace … with the physical slots of the standbys: alter system set synchronized_standby_slots = '…'; "
            "select pg_reload_conf()"
        )
        yield warning("DB517", name, message, remedy)


def _check_idle(server: ServerFacts) -> Iterator[Finding]:
    for name, kept in server.idle_slots.items():
        message = f"another slot of this database retains {_size(kept)} of WAL, and is inactive."
        remedy = f"If its connector no longer exists: select pg_drop_replication_slot({literal(name)})"
        yield warning("DB518", name, message, remedy)


def _check_lag(name: str, slot: SlotFacts, server: ServerFacts) -> Iterator[Finding]:
    if slot.restart is None or server.wal_end is None:
        return
    behind = server.wal_end.value - slot.restart.value
    limit = server.max_slot_wal_bytes
    # The server itself keeps up to max_wal_size. Half of max_slot_wal_keep_size leaves time to act.
    bound = server.max_wal_bytes if limit is None else min(server.max_wal_bytes, limit // 2)
    if behind <= bound:
        return
    end = "until the disk is full" if limit is None else f"and is invalidated at {_size(limit)}"
    read = f"process {slot.reader} reads it" if slot.active else "no process reads it"
    message = f"the slot retains {_size(behind)} of WAL, {end}; {read}."
    remedy = "Start the connector so that it reads on, or drop an unneeded slot with pg_drop_replication_slot."
    yield warning("DB507", name, message, remedy)


def check_hole(spec: Spec, state: SlotState, *, is_certain: bool) -> Iterator[Finding]:
    """Yield which events a connector that starts now would not publish.

    Args:
        is_certain: Whether Connect's offsets are known, or do not matter.
    """
    hole = find_hole(spec.database.slot, state)
    if hole is None:
        return
    found = error(hole.code, spec.database.slot, hole.text, hole.hint)
    if is_certain:
        yield found
        return
    message = f"{hole.text} No event is missing if Connect's offset, which is not known here, is after them."
    remedy = "`cdc-outbox deploy-connector` compares slot and offset, and changes nothing if events would be lost."
    yield replace(found, severity=Severity.WARNING, message=message, remedy=remedy)


def slot_in_use(slot: SlotFacts) -> Finding:
    """Return the finding for a slot that another process reads: each reader would receive a part of the events."""
    if slot.is_relayed:
        return error(
            "DB503",
            slot.name,
            f"a relay publishes from the slot ({slot.reader_name}, process {slot.reader} of the server).",
            "Deploy no connector beside it. To publish with Debezium instead, stop every relay of the spec first.",
        )
    name = f", {slot.reader_name}" if slot.reader_name else ""
    return error(
        "DB503",
        slot.name,
        f"another connector or tool reads the slot (process {slot.reader} of the server{name}).",
        "Choose another slot name, or stop the other process.",
    )


def slot_older_than_publication(spec: Spec) -> Finding:
    """Return the finding for a slot older than its publication, which PostgreSQL before 18 cannot decode."""
    return error(
        "DB504",
        spec.database.slot,
        f"the slot is older than the publication {spec.database.publication}, so it cannot be read.",
        f"{_drop(spec)}, and deploy again, which creates another slot.",
    )


def _drop(spec: Spec) -> str:
    return f"select pg_drop_replication_slot({literal(spec.database.slot)})"


def _size(count: int) -> str:
    return f"{count / 1024**2:,.0f} MB"
