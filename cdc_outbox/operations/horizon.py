"""Which claims are old enough to be forgotten, and the partitions that they lie in: a week of ids each. Pure.

A week, because statements look into every partition that they cannot rule out: with a horizon of a month there are ten
of them, and not forty. What it costs is that an id is kept for up to six days longer than it need be.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cdc_outbox.consumer.inbox_tables import InboxTable
from cdc_outbox.consumer.ordering import bound_at
from cdc_outbox.databases.facts import PartitionFacts
from cdc_outbox.databases.table import TableName

WEEK = timedelta(days=7)
WEEKS_AHEAD = 4
"""Beside the present one: a month in which the partitions need no maintenance."""

_AFTER_ALL = "\U0010ffff"
"""An end behind every key."""
_BOUNDS = re.compile(r"FOR VALUES FROM \((?:'([^']*)'|MINVALUE)\) TO \((?:'([^']*)'|MAXVALUE)\)")


@dataclass(frozen=True, slots=True)
class Part:
    """A partition of the claims: the keys from ``start`` to below ``end``."""

    table: TableName
    start: str
    end: str

    def overlaps(self, other: "Part") -> bool:
        """Return whether a key could lie in both."""
        return self.start < other.end and other.start < self.end


@dataclass(frozen=True, slots=True, kw_only=True)
class Horizon:
    """Up to where ids are forgotten.

    Args:
        claimed_before: When a claim was made that is old enough, where the id does not tell its time.
        made_before: Ids that contain their time are forgotten if it is before this one; always the start of a week.
    """

    claimed_before: datetime
    made_before: datetime

    @classmethod
    def at(cls, now: datetime, *, days: float) -> "Horizon":
        """Return the horizon that lies so many days back."""
        before = now - timedelta(days=days)
        return cls(claimed_before=before, made_before=week_of(before))

    @property
    def bound(self) -> str:
        """The key before which the ids lie that were made before the horizon."""
        return bound_at(self.made_before)

    def over(self, parts: Iterable[Part]) -> list[Part]:
        """Return those partitions all of whose ids lie before the horizon, the oldest first."""
        return sorted((part for part in parts if part.end <= self.bound), key=lambda part: part.end)


def week_of(moment: datetime) -> datetime:
    """Return the Monday, at midnight UTC, that a moment's week begins with."""
    day = moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return day - timedelta(days=day.weekday())


def missing_parts(inbox: InboxTable, parts: Iterable[Part], now: datetime) -> Iterator[Part]:
    """Yield the partitions of this week and the next ones as far as no other takes any of their ids."""
    known = list(parts)
    monday = week_of(now)
    for _ in range(WEEKS_AHEAD + 1):
        table = inbox.table.sibling(f"{monday:%Y_%m_%d}")
        part = Part(table, bound_at(monday), bound_at(monday + WEEK))
        if not any(part.overlaps(other) for other in known):
            yield part
        monday += WEEK


def parts_of(partitions: Iterable[PartitionFacts]) -> list[Part]:
    """Return the partitions but the one that takes the rest."""
    bounded = ((partition, _BOUNDS.fullmatch(partition.bounds)) for partition in partitions)
    return [Part(partition.table, match[1] or "", match[2] or _AFTER_ALL) for partition, match in bounded if match]
