"""Plan what a deployment does with a slot and its offsets. Pure.

Slot and offsets belong together: the slot retains WAL from a position on, and Connect's offset is the position up to
which it was read. One without the other loses events or fails the task at every start. So both are planned together,
from the slot, the stored offset, and whether there are events that no connector would publish.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from cdc_outbox.databases.facts import COUNTED_ROWS, SlotFacts, WrittenFacts
from cdc_outbox.databases.lsn import Lsn
from cdc_outbox.debezium.connector_offsets import confirmed_lsn, own_offset
from cdc_outbox.errors import UnpublishedEventsError

READS_MESSAGES = "message.prefix.include.list"
_STREAMING = "Debezium Streaming"
"""The application_name of a connector that reads its slot, which no option changes; a pooler may append the host."""
_SKIP = "`cdc-outbox deploy-connector --earlier-events skip` never publishes them."
_REPUBLISH_OR_SKIP = (
    "`cdc-outbox deploy-connector --earlier-events republish` publishes every row that is still in the table "
    f"(consumers skip duplicates). {_SKIP}"
)


class EarlierEvents(StrEnum):
    """What to do with events that were written before the slot, or between two slots."""

    REPUBLISH = "republish"
    """Publish every row that is still in the table, in order; consumers skip duplicates."""
    SKIP = "skip"
    """Never publish them."""


class SlotStep(StrEnum):
    """What a deployment does with the slot."""

    KEEP = "keep"
    CREATE = "create"
    RECREATE = "recreate"


@dataclass(frozen=True, slots=True)
class SlotPlan:
    """What a deployment does with the slot, the offsets and earlier events."""

    step: SlotStep
    resets_offsets: bool = False
    republishes: bool = False

    @property
    def needs_stop(self) -> bool:
        """Whether the connector must be stopped for it."""
        return self.resets_offsets or self.republishes or self.step is not SlotStep.KEEP

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return self == SlotPlan(SlotStep.KEEP)


@dataclass(frozen=True, slots=True)
class StoredOffset:
    """The position that Connect stored for a connector.

    Args:
        lsn: The position up to which the connector may confirm the slot.
        in_snapshot: It is inside a snapshot, which cannot be resumed.
    """

    lsn: Lsn
    in_snapshot: bool = False


def is_read_by_other_tool(slot: SlotFacts) -> bool:
    """Return whether a process reads a slot that is not Debezium; other Debezium connectors are not detected."""
    return slot.active and slot.reader_name != "" and not slot.reader_name.startswith(_STREAMING)


def stored_offset(offsets: Sequence[Mapping[str, Any]], *, topic_prefix: str) -> StoredOffset | None:
    """Return the position that Connect stored for a PostgreSQL connector, ``None`` if it stored none."""
    offset = own_offset(offsets, topic_prefix=topic_prefix)
    return None if offset is None else StoredOffset(confirmed_lsn(offset) or Lsn(0), in_snapshot="snapshot" in offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotState:
    """The state from which slot and offsets are planned, read in this order.

    Args:
        slot: Inactive, or read by this connector.
        stored: Connect's offset, which is never behind the slot that was read before.
        wal_end: The end of the server's log, never behind the offset that was read before.
        republishing: The connector publishes the rows of the table, or was interrupted while it did.
        relayed: Up to where relays published what the slot held, ``None`` if none ever read it.
    """

    slot: SlotFacts | None
    stored: StoredOffset | None = None
    wal_end: Lsn | None = None
    written: WrittenFacts = field(default_factory=WrittenFacts)
    republishing: bool = False
    relayed: Lsn | None = None

    @property
    def is_ahead(self) -> bool:
        """Whether the slot was confirmed further than Connect's offset, and has no reader.

        An active slot may be: after Connect has stored an offset, Debezium also confirms what was sent meanwhile
        (BaseSourceTask.commit). The next offset, up to a minute later, catches up.
        """
        slot, stored = self.slot, self.stored
        if slot is None or stored is None or slot.active:
            return False
        return slot.confirmed is not None and slot.confirmed > stored.lsn

    @property
    def is_relayed(self) -> bool:
        """Whether relays published everything before the slot's position."""
        confirmed = None if self.slot is None else self.slot.confirmed
        return confirmed is not None and self.relayed is not None and confirmed <= self.relayed


def refuse_another_log(before: Mapping[str, str] | None, after: Mapping[str, str]) -> None:
    """Refuse a change from reading messages to reading rows, or the other way round.

    Raises:
        UnpublishedEventsError: Events that the connector has not read yet would not be published.
    """
    if before is not None and reads_another_log(before, after):
        old, new = ("messages", "rows") if READS_MESSAGES in before else ("rows", "messages")
        raise UnpublishedEventsError(
            f"the connector reads {old} and would read {new}: unread {old} would not be published.",
            hint="Stop the writers until the slot has confirmed everything, then run `cdc-outbox deploy-connector "
            "--earlier-events skip`.",
        )


def reads_another_log(before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """Return whether one configuration reads messages, and the other rows."""
    return (READS_MESSAGES in before) != (READS_MESSAGES in after)


def plan_slot(name: str, state: SlotState, earlier: EarlierEvents | None) -> SlotPlan:
    """Return what to do with slot and offsets.

    Args:
        name: The slot's name, for the message.
        earlier: The operator's decision. Rows can be published again without a hole too: they may be missing in the
            topics although slot and offset match, for example if the publication lacked the table for a time.

    Raises:
        UnpublishedEventsError: Events would not be published, and ``earlier`` is not set.
    """
    step, hole = _step(state), find_hole(name, state)
    if hole is None:
        republishes = earlier is EarlierEvents.REPUBLISH and bool(state.written.rows)
        # The task fails at an offset whose WAL the server has removed, which it may once the slot is ahead.
        resets = (state.is_ahead and state.is_relayed) or (republishes and state.stored is not None)
        return SlotPlan(step, resets_offsets=resets, republishes=republishes)
    if earlier is None:
        raise UnpublishedEventsError(hole.text, hint=hole.hint)
    # A republishing connector stores an offset when it is stopped, if it has none yet.
    resets = state.stored is not None or state.republishing
    return SlotPlan(step, resets_offsets=resets, republishes=earlier is EarlierEvents.REPUBLISH)


def _step(state: SlotState) -> SlotStep:
    if state.slot is None:
        return SlotStep.CREATE
    return SlotStep.RECREATE if state.slot.wal_status == "lost" else SlotStep.KEEP


@dataclass(frozen=True, slots=True)
class Hole:
    """Events that a connector would not publish if it started now.

    Args:
        code: The code of the finding.
        text: Which events, and why.
        hint: The remedy.
    """

    code: str
    text: str
    hint: str


def find_hole(name: str, state: SlotState) -> Hole | None:
    """Return which events a connector would not publish if it started now, ``None`` if none.

    Args:
        name: The slot's name, for the text.
    """
    step = _step(state)
    code, text = _missing(step, state)
    hint = _REPUBLISH_OR_SKIP if state.written.keeps_rows else _SKIP
    return Hole(code, f"{_state(name, step)} {text}", hint) if text else None


def _missing(step: SlotStep, state: SlotState) -> tuple[str, str]:
    slot, stored, written = state.slot, state.stored, state.written
    if slot is None or step is not SlotStep.KEEP:
        return ("DB511" if stored is None else "DB512"), _missing_without_slot(stored, written)
    if state.republishing or (stored is not None and stored.in_snapshot):
        return (
            "DB515",
            "exists, but publishing the rows of the table was interrupted: the remaining rows would not be published.",
        )
    if stored is not None and state.wal_end is not None and stored.lsn > state.wal_end:
        return (
            "DB514",
            (
                f"is on a server whose log ends at {state.wal_end}, before Connect's offset {stored.lsn}: it is "
                "another server, or a restored one, and events up to that offset would be lost."
            ),
        )
    if stored is not None and state.is_ahead and not state.is_relayed:
        return (
            "DB513",
            (
                f"is at {slot.confirmed}, ahead of Connect's offset {stored.lsn}: it was created again or advanced "
                "manually, or a worker was killed before it stored its last offset. Events that were committed between "
                "the two may be missing in the topics."
            ),
        )
    # The deployment of a connector that reads the slot decided about earlier events; the first offset is stored only
    # seconds later.
    if stored is None and not slot.active and written.rows_outside_slot and not state.is_relayed:
        where = " in the table" if written.keeps_rows else ""
        return (
            "DB511",
            (
                f"does not hold {_count(written.rows_outside_slot)}{where}, which were committed before the slot or "
                "its publication was created, and would not be published."
            ),
        )
    return "", ""


def _missing_without_slot(stored: StoredOffset | None, written: WrittenFacts) -> str:
    if stored is not None:
        return (
            f"and Connect's offset is {stored.lsn}: events that were committed after it are lost with the slot, "
            f"and the task would fail at every start. {_kept(written)}"
        )
    if written.rows:
        return f"and the table already contains {_count(written.rows)}, which would not be published."
    if written.has_heads:
        past = "written and pruned" if written.keeps_rows else "written"
        return f"and sequence numbers were already assigned: events were {past}, and would not be published."
    return ""


def _kept(written: WrittenFacts) -> str:
    if not written.keeps_rows:
        return "The outbox keeps no rows."
    return f"The table still contains {_count(written.rows)}." if written.rows else "The rows of the table are unknown."


def _state(name: str, step: SlotStep) -> str:
    match step:
        case SlotStep.KEEP:
            return f"the slot {name}"
        case SlotStep.CREATE:
            return f"the slot {name} does not exist,"
        case SlotStep.RECREATE:
            return f"the slot {name} has lost its WAL,"


def _count(rows: int) -> str:
    if rows >= COUNTED_ROWS:
        return f"at least {COUNTED_ROWS:,} events"
    return "1 event" if rows == 1 else f"{rows:,} events"
