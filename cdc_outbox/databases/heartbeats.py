"""The chain of heartbeats, which shows the history of the database that wrote them. Pure.

A connector or a relay writes a heartbeat through its outbox at its start and once a minute: a number, an id, and the
id of the heartbeat before it. They take the events' own way into a topic of one partition that is kept for ever. Slot,
system identifier, timeline and every table go back together with a server that is restored; the topic does not, and
there its heartbeats do not continue what is known. An acceptance is a record of the same topic: an operator saw the
findings.

The chain says nothing of events that were lost while the connector was down and no heartbeat was written: a slot that
was recreated or moved is found by comparing it with the offset that Connect stored.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from cdc_outbox.databases.lsn import Lsn
from cdc_outbox.message import Message
from cdc_outbox.redaction import counted

GRACE = timedelta(minutes=3)
"""How old a heartbeat may become before the next one is there, or before it is in the topic: three times its pause."""
_REMEMBERED = 100_000
"""Heartbeats that are known: some 70 days, and 40 MB."""
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_BREAK = re.compile(_ID.pattern + "[+!]?")
_SYSTEM = re.compile("[0-9]{0,20}")
_LAST_NUMBER = 2**63 - 1
"""The table's column is a bigint."""


class HeartbeatKind(StrEnum):
    """The kinds of breaks of a chain."""

    WENT_BACK = "went back"
    """The database continues from an older state."""
    NONE = "none there"
    """The database contains no heartbeat, and the topic does."""
    GAP = "gap"
    """Heartbeats are missing, and events that were committed at that time."""
    TWO = "two databases"
    """Two databases continue from the same state."""
    ANEW = "no start"
    """The topic does not contain the first heartbeat: it was created again, or the heartbeat did not arrive."""
    SILENT = "silent"
    """No heartbeat is written, or none arrives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """One heartbeat.

    Args:
        number: Within the chain, from 1.
        previous: The id of the one before it, ``None`` for the first.
        at: When it was written, by the server's clock.
        system: The server's system identifier, as the topic tells it.
        offset: In the topic, -1 for one that was read from the database.
        lsn: Where the server's log ended before it was committed; ``None`` where that is not known.
    """

    number: int
    id: str
    previous: str | None
    at: datetime
    system: str = ""
    offset: int = -1
    lsn: Lsn | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """An operator's acceptance of breaks.

    Args:
        ids: The ids of the heartbeats that broke the chain.
        by: The operator.
        found: The texts of the findings.
    """

    ids: frozenset[str]
    by: str
    at: datetime
    found: tuple[str, ...] = ()

    def content(self) -> dict[str, Any]:
        """Return it as the payload of its record."""
        return {"accepted": sorted(self.ids), "by": self.by, "at": self.at.isoformat(), "found": [*self.found]}


@dataclass(frozen=True, slots=True)
class Break:
    """A heartbeat that does not continue the chain.

    Args:
        id: The id of the heartbeat, which an acceptance names.
        text: A sentence without a full stop.
    """

    kind: HeartbeatKind
    id: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """The heartbeats in the database, read after the topic.

    Args:
        heartbeats: The heartbeats of the last day, in order.
        now: The server's clock.
        runs: Whether the connector runs, so that heartbeats must arrive; ``None`` if it is not known.
        table: The name of their table.
    """

    heartbeats: Sequence[Heartbeat]
    now: datetime
    runs: bool | None = None
    table: str = "the database"


def read_record(message: Message) -> Heartbeat | Acceptance | None:
    """Parse a record of the topic, in any format of an outbox; return ``None`` for other records.

    Who may write to the topic may write anything, so every identifier, number and time is checked here.
    """
    try:
        return _record(message)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None


def _record(message: Message) -> Heartbeat | Acceptance | None:
    content = _content(message.value)
    if content is None:
        return None
    at = _time(content.get("at"))
    if "accepted" in content:
        ids, found = (_texts(content.get(name, [])) for name in ("accepted", "found"))
        by = str(content.get("by", ""))
        return Acceptance(ids=frozenset(_checked(_BREAK, each) for each in ids), by=by, at=at, found=found)
    number, previous = content.get("number"), content.get("previous")
    if type(number) is not int or not 0 < number <= _LAST_NUMBER:  # `True` is an int, too
        return None
    return Heartbeat(
        number=number,
        id=_checked(_ID, next((value.decode() for name, value in message.headers if name == "id" and value), "")),
        previous=None if previous is None else _checked(_ID, previous),
        at=at,
        system=_checked(_SYSTEM, content.get("system", "")),
        offset=-1 if message.offset is None else message.offset,
    )


def _checked(pattern: re.Pattern[str], text: Any) -> str:  # noqa: ANN401 - whatever JSON has
    if pattern.fullmatch(text) is None:
        raise ValueError
    return str(text)


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError
    return tuple(map(str, value))


def _content(value: object) -> Mapping[str, Any] | None:
    """Return the object of a heartbeat or an acceptance: the value itself, or the content of an envelope."""
    if isinstance(value, bytes | str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    if not isinstance(value, dict):
        return None
    if "previous" in value or "accepted" in value:
        return value
    return next((found for inner in value.values() if (found := _content(inner)) is not None), None)


def _time(text: Any) -> datetime:  # noqa: ANN401 - whatever JSON has
    at = datetime.fromisoformat(text)
    if at.tzinfo is None:  # no other time can be compared with it
        raise ValueError
    return at.astimezone(UTC)


@dataclass
class Chain:
    """The heartbeats of a topic, in its order; :meth:`add` takes them one by one, also later ones.

    Args:
        starts_at: The topic's first offset.
    """

    starts_at: int = 0
    head: Heartbeat | None = None
    newest: Heartbeat | None = field(default=None, init=False)
    """The last one of the database that publishes: of several copies the one that wrote first after the copy. After an
    acceptance, the one that writes next."""
    acceptances: list[Acceptance] = field(default_factory=list)
    _breaks: list[Break] = field(default_factory=list)
    _known: dict[str, Heartbeat] = field(default_factory=dict)
    """By id, in the topic's order."""
    _tips: set[str] = field(default_factory=set)
    """Ids of the last heartbeats of each branch."""
    _turn: Break | None = None

    def add(self, record: Heartbeat | Acceptance) -> None:
        """Add the next record."""
        if isinstance(record, Acceptance):
            self.acceptances.append(record)
            self.newest = None
            return
        if record.id in self._known:  # published at least once
            return
        if self._goes_on(record):
            self.newest = record
        found = self._judge(record, self.head)
        if found is not None and found.kind is HeartbeatKind.TWO:
            self._turn = found  # they alternate each minute: the last one represents all
        elif found is not None:
            self._breaks.append(found)
        self._tips.discard(record.previous or "")
        self._tips.add(record.id)
        self._known[record.id] = record
        if len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]
        self.head = record

    def breaks(self, stored: Stored | None = None) -> list[Break]:
        """Return the breaks that were not accepted.

        Args:
            stored: The heartbeats in the database; without them a restored database is detected only when its
                heartbeats arrive.
        """
        found = [*self._breaks, *([self._turn] if self._turn is not None else ())]
        known = {each.id for each in found}
        found += [each for each in self._compare(stored) if each.id not in known] if stored is not None else ()
        accepted = {heartbeat for acceptance in self.acceptances for heartbeat in acceptance.ids}
        return [each for each in found if each.id not in accepted]

    def published_until(self, stored: Stored) -> Lsn | None:
        """Return a position in the server's log before which every commit is in the topics.

        A heartbeat that topic and database have in common was written before the restore, and earlier commits were
        published before it. ``None`` if there is none, or if the topic itself shows a break that was not accepted:
        commits before the heartbeats after the break may be missing.
        """
        joint = self._joint(stored)
        return None if joint is None or self.breaks() else joint.lsn

    def _joint(self, stored: Stored) -> Heartbeat | None:
        """Return the last heartbeat that topic and database have in common."""
        return next((each for each in reversed(stored.heartbeats) if each.id in self._known), None)

    def _goes_on(self, new: Heartbeat) -> bool:
        """Return whether a heartbeat follows the newest one, also where some in between did not arrive."""
        last = self.newest
        if last is None or new.previous == last.id:
            return True
        return new.number > last.number and new.previous not in self._known

    def _judge(self, new: Heartbeat, head: Heartbeat | None) -> Break | None:
        if head is None:
            if new.previous is None or self.starts_at > 0:
                return None
            return Break(HeartbeatKind.ANEW, new.id, _beginning(new.number))
        return None if new.previous == head.id else self._explain(new, head)

    def _explain(self, new: Heartbeat, head: Heartbeat) -> Break:
        other = " of another server" if new.system != head.system else ""
        if new.previous in self._tips:
            text = f"heartbeats{other} of two histories alternate; the last one is number {new.number} of {_at(new)}"
            return Break(HeartbeatKind.TWO, new.id, text)
        if new.previous in self._known:
            return Break(HeartbeatKind.WENT_BACK, new.id, _went_back(self._known[new.previous], head, new))
        if new.number > head.number + 1:  # otherwise the database has another heartbeat with the head's number
            text = (
                f"{_named(head.number + 1, new.number - 1)}{other} did not arrive: events that were committed between "
                f"{_at(head)} and {_at(new)} were not published, or not all of them"
            )
            return Break(HeartbeatKind.GAP, new.id, text)
        text = (
            f"heartbeat {new.number} of {_at(new)}{other} follows {head.number} and belongs to an unknown history: "
            f"events committed between its backup and {_at(new)} were not published, or are missing in the database"
        )
        return Break(HeartbeatKind.WENT_BACK, new.id, text)

    def _compare(self, stored: Stored) -> Iterator[Break]:
        """Yield breaks that the database shows and the topic does not show yet."""
        head, there = self.head, stored.heartbeats
        if not there:
            if head is not None:
                text = f"the topic contains {counted(head.number, 'heartbeat')}, and {stored.table} contains none"
                yield Break(HeartbeatKind.NONE, head.id + "+", text)
            return
        last, joint = there[-1], self._joint(stored)
        broken = _restored_break(there, joint, head)
        accepted_at = None if broken is None else self._accepted_at(broken.id)
        if broken is not None:
            yield broken
        # An acceptance covers earlier heartbeats; later ones must arrive.
        awaited = next((each for each in _after(there, joint) if accepted_at is None or each.at > accepted_at), None)
        if (broken is None or accepted_at is not None) and awaited is not None and stored.now - awaited.at > GRACE:
            text = f"heartbeat {awaited.number} of {_at(awaited)} did not arrive on the topic"
            yield Break(HeartbeatKind.SILENT, f"{awaited.id}!", text)
        if stored.runs and stored.now - last.at > GRACE:
            yield Break(HeartbeatKind.SILENT, f"{last.id}!", f"no heartbeat was written since {_at(last)}")

    def _accepted_at(self, heartbeat: str) -> datetime | None:
        """Return when a break was accepted for the last time, ``None`` if it was not."""
        return max((each.at for each in self.acceptances if heartbeat in each.ids), default=None)


def _restored_break(there: Sequence[Heartbeat], joint: Heartbeat | None, head: Heartbeat | None) -> Break | None:
    """Return whether the database's heartbeats continue an older state than the topic's last heartbeat."""
    if head is None:
        return None
    if joint is not None and joint.id != head.id:
        following = next(_after(there, joint), None)
        # Without a later heartbeat there is none yet that could be accepted.
        key = following.id if following else f"{joint.id}+"
        return Break(HeartbeatKind.WENT_BACK, key, _went_back(joint, head, following))
    if joint is None and there[0].previous != head.id and there[0].number <= head.number:
        text = f"the topic contains none of the database's heartbeats, and ends with number {head.number}"
        return Break(HeartbeatKind.WENT_BACK, there[0].id, text)
    return None


def _after(heartbeats: Iterable[Heartbeat], joint: Heartbeat | None) -> Iterator[Heartbeat]:
    """Yield the heartbeats after one of them, or all."""
    number = 0 if joint is None else joint.number
    return (each for each in heartbeats if each.number > number)


def _went_back(joint: Heartbeat, head: Heartbeat, new: Heartbeat | None) -> str:
    """Describe a database whose heartbeats continue an older one than the topic's last.

    Args:
        new: The first heartbeat since the restore, if there is one.
    """
    # A heartbeat that is not newer than the head was in the backup, and does not show the time of the restore.
    until = "the restore" if new is None or new.at <= head.at else _at(new)
    return (
        f"the database was restored to heartbeat {joint.number}, and the topic contains {head.number} of {_at(head)}: "
        f"events committed between {_at(joint)} and {until} may be missing in the database, and events committed since "
        "the restore may not be published"
    )


def _beginning(number: int) -> str:
    return (
        f"the topic begins with heartbeat {number}: either it was created again, or {_named(1, number - 1)} did not "
        "arrive, and earlier events were not published, or not all of them"
    )


def _named(first: int, last: int) -> str:
    return f"heartbeat {first}" if first == last else f"heartbeats {first} to {last}"


def _at(heartbeat: Heartbeat) -> str:
    return f"{heartbeat.at:%Y-%m-%d %H:%M:%S%z}"
