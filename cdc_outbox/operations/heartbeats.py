"""The chain of heartbeats: what it tells of the history of the database that wrote them. Pure.

A connector writes a heartbeat through its outbox at its start and once a minute: a number, an id, and the id of the
heartbeat before it. They take the events' own way into a topic of one partition that is kept for ever. Slot, system
identifier, timeline and every table go back together with a server that is restored; the topic does not, and there its
heartbeats do not continue what is known. An acceptance is a record of the same topic: that an operator
saw what was found.

The chain says nothing of events that were lost while the connector was down and no heartbeat was written: a slot that
was made anew or moved is found by comparing it with the offset that Connect stored.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from cdc_outbox.databases.lsn import Lsn
from cdc_outbox.message import Message
from cdc_outbox.redaction import counted

GRACE = timedelta(minutes=3)
"""How old a heartbeat may become before the next one is there, or before it is in the topic: three times its pause."""
_REMEMBERED = 100_000
"""Heartbeats that are known: some 70 days, and 40 MB."""


class HeartbeatKind(StrEnum):
    """What a chain shows."""

    WENT_BACK = "went back"
    """The database goes on from an older state than it had."""
    NONE = "none there"
    """The database holds no heartbeat, and the topic does."""
    GAP = "gap"
    """Heartbeats are missing, and the events that were committed beside them."""
    TWO = "two databases"
    """Two databases go on from the same state."""
    ANEW = "no beginning"
    """The topic does not hold the first heartbeat: it was made anew, or that one never came."""
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
    """That an operator saw what was found.

    Args:
        ids: Of the heartbeats that broke the chain.
        by: Who accepted.
        found: The findings' texts.
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
    """Where a chain does not continue.

    Args:
        id: Of the heartbeat that shows it; an acceptance names it.
        text: What was found, a sentence without a full stop.
    """

    kind: HeartbeatKind
    id: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """What the database holds of the chain, read after the topic.

    Args:
        heartbeats: Of the last day, in order.
        now: The server's clock.
        runs: Whether the connector runs, so that heartbeats have to come; ``None`` where that is not known.
        table: The name of the table that holds them.
    """

    heartbeats: Sequence[Heartbeat]
    now: datetime
    runs: bool | None = None
    table: str = "the database"


def read_record(message: Message) -> Heartbeat | Acceptance | None:
    """Return what a record of the topic says, whatever the outbox's format is; ``None`` for any other record."""
    content = _content(message.value)
    if content is None:
        return None
    if "accepted" in content:
        ids, by = frozenset(map(str, content["accepted"])), str(content.get("by", ""))
        return Acceptance(ids=ids, by=by, at=_time(content.get("at")), found=tuple(map(str, content.get("found", ()))))
    event_id = next((value.decode() for name, value in message.headers if name == "id" and value), "")
    previous = content.get("previous")
    if not event_id or not isinstance(content.get("number"), int):
        return None
    return Heartbeat(
        number=content["number"],
        id=event_id,
        previous=None if previous is None else str(previous),
        at=_time(content.get("at")),
        system=str(content.get("system", "")),
        offset=-1 if message.offset is None else message.offset,
    )


def _content(value: object) -> Mapping[str, Any] | None:
    """Return the object that is a heartbeat's or an acceptance's: the value itself, or what an envelope has in it."""
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


def _time(text: object) -> datetime:
    return datetime.fromisoformat(str(text))


@dataclass
class Chain:
    """The heartbeats of a topic, in its order; :meth:`add` takes them one by one, also later ones.

    Args:
        starts_at: The topic's first offset.
    """

    starts_at: int = 0
    head: Heartbeat | None = None
    acceptances: list[Acceptance] = field(default_factory=list)
    _breaks: list[Break] = field(default_factory=list)
    _known: dict[str, Heartbeat] = field(default_factory=dict)
    """By id, in the topic's order."""
    _tips: set[str] = field(default_factory=set)
    """Ids of the last heartbeats of each branch."""
    _turn: Break | None = None

    def add(self, record: Heartbeat | Acceptance) -> None:
        """Take the next record."""
        if isinstance(record, Acceptance):
            self.acceptances.append(record)
            return
        if record.id in self._known:  # published at least once
            return
        found = self._judge(record, self.head)
        if found is not None and found.kind is HeartbeatKind.TWO:
            self._turn = found  # one takes its turn each minute: the last one stands for all
        elif found is not None:
            self._breaks.append(found)
        self._tips.discard(record.previous or "")
        self._tips.add(record.id)
        self._known[record.id] = record
        if len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]
        self.head = record

    def breaks(self, stored: Stored | None = None) -> list[Break]:
        """Return what was not accepted.

        Args:
            stored: What the database holds; without it a restored database shows only when its heartbeats arrive.
        """
        found = [*self._breaks, *([self._turn] if self._turn is not None else ())]
        known = {each.id for each in found}
        found += [each for each in self._compare(stored) if each.id not in known] if stored is not None else ()
        accepted = {heartbeat for acceptance in self.acceptances for heartbeat in acceptance.ids}
        return [each for each in found if each.id not in accepted]

    def published_until(self, stored: Stored) -> Lsn | None:
        """Return a position in the server's log before which every commit is in the topics.

        A heartbeat that topic and database have in common was written before the database went back, and what was
        committed before it was published before it. ``None`` where there is none, or where the topic itself shows a
        break that was not accepted: commits before the heartbeats behind it may be missing.
        """
        joint = self._joint(stored)
        return None if joint is None or self.breaks() else joint.lsn

    def _joint(self, stored: Stored) -> Heartbeat | None:
        """Return the last heartbeat that topic and database have in common."""
        return next((each for each in reversed(stored.heartbeats) if each.id in self._known), None)

    def _judge(self, new: Heartbeat, head: Heartbeat | None) -> Break | None:
        if head is None:
            if new.previous is None or self.starts_at > 0:
                return None
            return Break(HeartbeatKind.ANEW, new.id, _beginning(new.number))
        return None if new.previous == head.id else self._explain(new, head)

    def _explain(self, new: Heartbeat, head: Heartbeat) -> Break:
        other = " of another server" if new.system != head.system else ""
        if new.previous in self._tips:
            text = f"heartbeats{other} of two histories take turns, the last is number {new.number} of {_at(new)}"
            return Break(HeartbeatKind.TWO, new.id, text)
        if new.previous in self._known:
            return Break(HeartbeatKind.WENT_BACK, new.id, _went_back(self._known[new.previous], head, new))
        if new.number > head.number + 1:  # otherwise the database has another one under the head's number
            text = (
                f"{_named(head.number + 1, new.number - 1)} never came{other}: what was committed between "
                f"{_at(head)} and {_at(new)} was not published, or not all of it"
            )
            return Break(HeartbeatKind.GAP, new.id, text)
        text = (
            f"heartbeat {new.number} of {_at(new)}{other} came after {head.number}, of a history that is not known: "
            f"what was committed between its backup and {_at(new)} was not published, or is no longer in the database"
        )
        return Break(HeartbeatKind.WENT_BACK, new.id, text)

    def _compare(self, stored: Stored) -> Iterator[Break]:
        """Yield what the database shows that the topic does not show yet."""
        head, there = self.head, stored.heartbeats
        if not there:
            if head is not None:
                text = f"the topic has {counted(head.number, 'heartbeat')}, and {stored.table} has none"
                yield Break(HeartbeatKind.NONE, head.id + "+", text)
            return
        last, joint = there[-1], self._joint(stored)
        broken = _went_on(there, joint, head)
        accepted_at = None if broken is None else self._accepted_at(broken.id)
        if broken is not None:
            yield broken
        # What was written before an acceptance was looked at; what is written since has to come.
        awaited = next((each for each in _behind(there, joint) if accepted_at is None or each.at > accepted_at), None)
        if (broken is None or accepted_at is not None) and awaited is not None and stored.now - awaited.at > GRACE:
            text = f"heartbeat {awaited.number} of {_at(awaited)} did not come to the topic"
            yield Break(HeartbeatKind.SILENT, f"{awaited.id}!", text)
        if stored.runs and stored.now - last.at > GRACE:
            yield Break(HeartbeatKind.SILENT, f"{last.id}!", f"no heartbeat was written since {_at(last)}")

    def _accepted_at(self, heartbeat: str) -> datetime | None:
        """Return when a break was accepted for the last time, ``None`` if it was not."""
        return max((each.at for each in self.acceptances if heartbeat in each.ids), default=None)


def _went_on(there: Sequence[Heartbeat], joint: Heartbeat | None, head: Heartbeat | None) -> Break | None:
    """Return whether the database's heartbeats continue an older state than the topic's last heartbeat."""
    if head is None:
        return None
    if joint is not None and joint.id != head.id:
        following = next(_behind(there, joint), None)
        # Where nothing was written since, there is no heartbeat yet that could be accepted.
        key = following.id if following else f"{joint.id}+"
        return Break(HeartbeatKind.WENT_BACK, key, _went_back(joint, head, following))
    if joint is None and there[0].previous != head.id and there[0].number <= head.number:
        text = f"none of the database's heartbeats is in the topic, which has come to {head.number}"
        return Break(HeartbeatKind.WENT_BACK, there[0].id, text)
    return None


def _behind(heartbeats: Iterable[Heartbeat], joint: Heartbeat | None) -> Iterator[Heartbeat]:
    """Yield the heartbeats behind one of them, or all."""
    number = 0 if joint is None else joint.number
    return (each for each in heartbeats if each.number > number)


def _went_back(joint: Heartbeat, head: Heartbeat, new: Heartbeat | None) -> str:
    """Return what is known of a database whose heartbeats go on from an older one than the topic's last.

    Args:
        new: The first that it wrote since, as far as there is one.
    """
    # One that is no younger than what was lost was in the backup already, and tells nothing of the restore's time.
    until = "the restore" if new is None or new.at <= head.at else _at(new)
    return (
        f"the database went back to heartbeat {joint.number}, though {head.number} of {_at(head)} is in the topic: "
        f"what was committed between {_at(joint)} and {until} need not be in it any more, and what it has committed "
        "since the restore need not be published"
    )


def _beginning(number: int) -> str:
    return (
        f"the topic begins with heartbeat {number}: either it was made anew, or {_named(1, number - 1)} never came, "
        "and what was committed before was not published, or not all of it"
    )


def _named(first: int, last: int) -> str:
    return f"heartbeat {first}" if first == last else f"heartbeats {first} to {last}"


def _at(heartbeat: Heartbeat) -> str:
    return f"{heartbeat.at:%Y-%m-%d %H:%M:%S%z}"
