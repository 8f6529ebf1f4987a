"""What a deployment would change, decided from values. Pure.

Slot and offsets are one thing: the slot keeps the WAL from a point on, Connect's offset says up to where it was read.
One without the other is a hole or a task that fails for good, so both are decided together, from what the slot says,
what Connect stored, and whether anything was written that nobody would ever publish.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from cdc_outbox.connect.facts import COUNTED_ROWS, SlotFacts, WrittenFacts
from cdc_outbox.errors import UnpublishedEventsError
from cdc_outbox.lsn import Lsn

_SECRET = re.compile(r"password|passphrase|secret|token|credential|jaas|(private|keystore)\.key", re.IGNORECASE)
_REFERENCE = re.compile(r"\$\{[^}]+\}")


_READS_MESSAGES = "message.prefix.include.list"
_SKIP = "Run again with --earlier-events skip, which leaves them out for good."
_REPUBLISH_OR_SKIP = (
    "Run again with --earlier-events republish, which publishes every row that is still in the table "
    "(consumers skip what they had), or with --earlier-events skip, which leaves them out for good."
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
        return self.resets_offsets or self.republishes or self.step is SlotStep.RECREATE

    @property
    def is_empty(self) -> bool:
        """Whether everything is as it should be."""
        return self == SlotPlan(SlotStep.KEEP)


@dataclass(frozen=True, slots=True)
class Change:
    """One option of the configuration, before and after; ``None`` where it is not set. Secrets are masked."""

    option: str
    before: str | None
    after: str | None

    def __str__(self) -> str:
        if self.before is None:
            return f"+ {self.option} = {_masked(self.option, self.after)}"
        if self.after is None:
            return f"- {self.option} = {_masked(self.option, self.before)}"
        return f"~ {self.option} = {_masked(self.option, self.before)} -> {_masked(self.option, self.after)}"


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that a deployment would change.

    Args:
        creates: The connector does not exist yet.
        slot: ``None`` while it cannot be known: offsets may be stored under the name of a connector that is gone,
            and Connect shows them only once a connector of that name exists.
    """

    creates: bool
    changes: tuple[Change, ...]
    slot: SlotPlan | None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.creates and not self.changes and self.slot is not None and self.slot.is_empty


def changes_between(before: Mapping[str, str] | None, after: Mapping[str, str]) -> tuple[Change, ...]:
    """Return the differences of two configurations, by option."""
    known = before or {}
    return tuple(
        Change(option, known.get(option), after.get(option))
        for option in sorted(known.keys() | after.keys())
        if known.get(option) != after.get(option)
    )


def stored_lsn(offsets: Sequence[Mapping[str, Any]], *, topic_prefix: str) -> Lsn | None:
    """Return the position that Connect stored for a PostgreSQL connector, ``None`` if it stored none."""
    for entry in offsets:
        offset = entry.get("offset")
        if offset and entry.get("partition", {}).get("server") == topic_prefix:
            return Lsn(int(offset.get("lsn") or 0))
    return None


def has_finished_snapshot(offsets: Sequence[Mapping[str, Any]], *, topic_prefix: str) -> bool:
    """Tell whether Connect stored a position that lies behind a snapshot."""
    return any(
        entry.get("offset") and "snapshot" not in entry["offset"]
        for entry in offsets
        if entry.get("partition", {}).get("server") == topic_prefix
    )


def refuse_another_log(before: Mapping[str, str] | None, after: Mapping[str, str]) -> None:
    """Refuse a connector that would read messages where it read rows, or the other way round.

    Raises:
        UnpublishedEventsError: What it has not read yet would be left out.
    """
    if before is not None and (_READS_MESSAGES in before) != (_READS_MESSAGES in after):
        old, new = ("messages", "rows") if _READS_MESSAGES in before else ("rows", "messages")
        raise UnpublishedEventsError(
            f"the connector reads {old} and would read {new}: the {old} that it has not read yet would be left out.",
            hint="Let the writers rest until the slot has confirmed everything, then run again with "
            "--earlier-events skip.",
        )


def plan_slot(
    name: str,
    slot: SlotFacts | None,
    stored: Lsn | None,
    written: WrittenFacts,
    earlier: EarlierEvents | None,
) -> SlotPlan:
    """Return what to do about slot and offsets.

    Args:
        name: The slot's, for the message.
        stored: Connect's offset; it must have been read after the slot, which never is ahead of it.
        earlier: The operator's decision, where one is needed.

    Raises:
        UnpublishedEventsError: Events would be left out, and nobody decided that they may.
    """
    step = SlotStep.KEEP if slot is not None else SlotStep.CREATE
    if slot is not None and slot.wal_status == "lost":
        step = SlotStep.RECREATE
    hole = _hole(step, slot, stored, written)
    if not hole:
        return SlotPlan(step)
    if earlier is None:
        raise UnpublishedEventsError(
            f"{_state(name, step)} {hole}", hint=_REPUBLISH_OR_SKIP if written.keeps_rows else _SKIP
        )
    return SlotPlan(step, resets_offsets=stored is not None, republishes=earlier is EarlierEvents.REPUBLISH)


def _hole(step: SlotStep, slot: SlotFacts | None, stored: Lsn | None, written: WrittenFacts) -> str:
    """Say which events a connector that starts now would leave out, empty if none."""
    if slot is None or step is not SlotStep.KEEP:
        return _hole_without_slot(stored, written)
    if stored is not None and slot.confirmed is not None and slot.confirmed > stored:
        return (
            f"is at {slot.confirmed}, ahead of Connect's offset {stored}: it was made again or moved by hand, "
            "and what was committed between the two would be lost."
        )
    # A connector that reads the slot was deployed on it, and what lies before was decided then; its first offset is
    # stored only seconds later.
    if stored is None and not slot.active and written.rows_outside_slot:
        place = " in the table" if written.keeps_rows else ""
        return f"is younger than {_count(written.rows_outside_slot)}{place}, which would not be published."
    return ""


def _hole_without_slot(stored: Lsn | None, written: WrittenFacts) -> str:
    if stored is not None:
        return (
            f"while Connect's offset stands at {stored}: what was committed since then is lost with the slot, "
            f"and the task would fail for good. {_kept(written)}"
        )
    if written.rows:
        return f"and the table holds {_count(written.rows)} already, which would not be published."
    if written.has_heads:
        past = "written and pruned" if written.keeps_rows else "written"
        return f"and sequences were given out already: events were {past}, and would not be published."
    return ""


def _kept(written: WrittenFacts) -> str:
    return f"The table still holds {_count(written.rows)}." if written.keeps_rows else "No rows are kept."


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


def _masked(option: str, value: str | None) -> str:
    if value is not None and _SECRET.search(option) and not _REFERENCE.fullmatch(value):
        return "********"
    return str(value)
