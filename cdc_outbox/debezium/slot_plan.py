"""What becomes of a slot and its offsets, decided from values. Pure.

Slot and offsets are one thing: the slot keeps the WAL from a point on, Connect's offset says up to where it was
read. One without the other is a hole or a task that fails for good, so both are decided together, from what the
slot says, what Connect stored, and whether anything was written that nobody would ever publish.
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
_SKIP = "`cdc-outbox deploy-connector --earlier-events skip` leaves them out for good."
_REPUBLISH_OR_SKIP = (
    "`cdc-outbox deploy-connector --earlier-events republish` publishes every row that is still in the table "
    f"(consumers skip what they had). {_SKIP}"
)


class EarlierEvents(StrEnum):
    """What to do with events that were written before the slot, or between two slots."""

    REPUBLISH = "republish"
    """Publish every row that is still in the table, in order; consumers skip what they had."""
    SKIP = "skip"
    """Never publish them."""


class SlotStep(StrEnum):
    """What becomes of the slot."""

    KEEP = "keep"
    CREATE = "create"
    RECREATE = "recreate"


@dataclass(frozen=True, slots=True)
class SlotPlan:
    """What becomes of slot, offsets and the events before them."""

    step: SlotStep
    resets_offsets: bool = False
    republishes: bool = False

    @property
    def needs_stop(self) -> bool:
        """Whether the connector must not run meanwhile."""
        return self.resets_offsets or self.republishes or self.step is not SlotStep.KEEP

    @property
    def is_empty(self) -> bool:
        """Whether everything is as it should be."""
        return self == SlotPlan(SlotStep.KEEP)


@dataclass(frozen=True, slots=True)
class StoredOffset:
    """The position that Connect stored for a connector.

    Args:
        lsn: Up to where it lets the slot move.
        in_snapshot: It lies inside a snapshot, which nothing resumes.
    """

    lsn: Lsn
    in_snapshot: bool = False


def stored_offset(offsets: Sequence[Mapping[str, Any]], *, topic_prefix: str) -> StoredOffset | None:
    """Return the position that Connect stored for a PostgreSQL connector, ``None`` if it stored none."""
    offset = own_offset(offsets, topic_prefix=topic_prefix)
    return None if offset is None else StoredOffset(confirmed_lsn(offset) or Lsn(0), in_snapshot="snapshot" in offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotState:
    """Everything that decides about slot and offsets, read in this order.

    Args:
        slot: Read by nobody, or by this connector.
        stored: Connect's offset, which is never behind the slot that was read before.
        wal_end: Where the server's log ends, never behind the offset that was read before.
        republishing: The connector publishes the rows of the table, or was kept from coming to their end.
    """

    slot: SlotFacts | None
    stored: StoredOffset | None = None
    wal_end: Lsn | None = None
    written: WrittenFacts = field(default_factory=WrittenFacts)
    republishing: bool = False


def refuse_another_log(before: Mapping[str, str] | None, after: Mapping[str, str]) -> None:
    """Refuse a connector that would read messages where it read rows, or the other way round.

    Raises:
        UnpublishedEventsError: What it has not read yet would be left out.
    """
    if before is not None and reads_another_log(before, after):
        old, new = ("messages", "rows") if READS_MESSAGES in before else ("rows", "messages")
        raise UnpublishedEventsError(
            f"the connector reads {old} and would read {new}: the {old} that it has not read yet would be left out.",
            hint="Let the writers rest until the slot has confirmed everything, then run `cdc-outbox deploy-connector "
            "--earlier-events skip`.",
        )


def reads_another_log(before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """Tell whether one configuration reads messages, and the other rows."""
    return (READS_MESSAGES in before) != (READS_MESSAGES in after)


def plan_slot(name: str, state: SlotState, earlier: EarlierEvents | None) -> SlotPlan:
    """Return what to do about slot and offsets.

    Args:
        name: The slot's, for the message.
        earlier: The operator's decision. To publish the rows again needs no hole: rows may be in no topic though slot
            and offset look well, as after a time in which the publication lacked the table.

    Raises:
        UnpublishedEventsError: Events would be left out, and nobody decided that they may.
    """
    step, hole = _step(state), find_hole(name, state)
    if hole is None:
        republishes = earlier is EarlierEvents.REPUBLISH and bool(state.written.rows)
        return SlotPlan(step, resets_offsets=republishes and state.stored is not None, republishes=republishes)
    if earlier is None:
        raise UnpublishedEventsError(hole.text, hint=hole.hint)
    # A connector that republishes stores an offset when it is stopped, if it has none yet.
    resets = state.stored is not None or state.republishing
    return SlotPlan(step, resets_offsets=resets, republishes=earlier is EarlierEvents.REPUBLISH)


def _step(state: SlotState) -> SlotStep:
    if state.slot is None:
        return SlotStep.CREATE
    return SlotStep.RECREATE if state.slot.wal_status == "lost" else SlotStep.KEEP


@dataclass(frozen=True, slots=True)
class Hole:
    """Events that a connector which starts now would leave out.

    Args:
        code: Of the finding that it is.
        text: Which events, and why.
        hint: What may be done.
    """

    code: str
    text: str
    hint: str


def find_hole(name: str, state: SlotState) -> Hole | None:
    """Return which events a connector that starts now would leave out, ``None`` if none.

    Args:
        name: The slot's, for the text.
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
            "is there, but the rows of the table were being published, and what was left of them would not be.",
        )
    if stored is not None and state.wal_end is not None and stored.lsn > state.wal_end:
        return (
            "DB514",
            (
                f"is on a server whose log ends at {state.wal_end}, before Connect's offset {stored.lsn}: it is "
                "another server, or a restored one, and what is written until then would be lost."
            ),
        )
    # A slot that is read may be ahead: Connect stores an offset, and then Debezium confirms what was sent meanwhile too
    # (BaseSourceTask.commit). The next offset, up to a minute later, has caught up.
    if stored is not None and not slot.active and slot.confirmed is not None and slot.confirmed > stored.lsn:
        return (
            "DB513",
            (
                f"is at {slot.confirmed}, ahead of Connect's offset {stored.lsn}: it was made again or moved by hand, "
                "or a worker was killed before it stored its last offset. What was committed between the two may be in "
                "no topic."
            ),
        )
    # A connector that reads the slot was deployed on it, and what lies before was decided then; its first offset is
    # stored only seconds later.
    if stored is None and not slot.active and written.rows_outside_slot:
        where = " in the table" if written.keeps_rows else ""
        return (
            "DB511",
            (
                f"does not hold {_count(written.rows_outside_slot)}{where}, which were committed before the slot or "
                "its publication was made, and would not be published."
            ),
        )
    return "", ""


def _missing_without_slot(stored: StoredOffset | None, written: WrittenFacts) -> str:
    if stored is not None:
        return (
            f"while Connect's offset stands at {stored.lsn}: what was committed since then is lost with the slot, "
            f"and the task would fail for good. {_kept(written)}"
        )
    if written.rows:
        return f"and the table holds {_count(written.rows)} already, which would not be published."
    if written.has_heads:
        past = "written and pruned" if written.keeps_rows else "written"
        return f"and sequences were given out already: events were {past}, and would not be published."
    return ""


def _kept(written: WrittenFacts) -> str:
    if not written.keeps_rows:
        return "No rows are kept."
    return f"The table still holds {_count(written.rows)}." if written.rows else "No row of the table is known."


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
