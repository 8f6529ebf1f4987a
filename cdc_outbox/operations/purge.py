"""Forget what an inbox need not remember any more, and create the partitions for what it remembers next."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

from cdc_outbox.consumer.inbox_tables import InboxTable
from cdc_outbox.databases.drivers import AnyConnection, Row, TransactionDriver
from cdc_outbox.databases.introspection import Catalog
from cdc_outbox.databases.sql import load
from cdc_outbox.databases.table import TableName
from cdc_outbox.errors import OutboxError, TransactionConflictError
from cdc_outbox.operations.connections import OpenDatabase
from cdc_outbox.operations.horizon import Horizon, Part, missing_parts, parts_of

ResultT = TypeVar("ResultT")
Report = Callable[[str, str], None]
"""Takes a step's name and what happened in it."""

_PAGES = 500
"""Of the rest, looked at in one transaction: 4 MB, some 40,000 claims."""
_MOST_MOVED = 10_000
"""Claims that are moved out of the rest while no consumer can claim there: a tenth of a second."""
_PAUSE_SECONDS = 0.5
"""Between two attempts at a lock, so that those who wait for us get on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Old:
    """The claims and starts that are old enough.

    Args:
        parts: Partitions, each with how many claims it has.
        timed: Claims, in none of these partitions, of ids that tell their time.
        untimed: Claims of ids that do not.
        starts: Notes that an event was begun.
    """

    parts: tuple[tuple[Part, int], ...] = ()
    timed: int
    untimed: int
    starts: int

    @property
    def ids(self) -> int:
        """How many ids it is, wherever they lie."""
        return self.timed + self.untimed + sum(claims for _, claims in self.parts)


class Purge(ABC):
    """The purge of one inbox, of all its consumers.

    Args:
        connection: In autocommit mode, of a role that owns the inbox.
        wait_seconds: How long in all to try for a lock that others hold.
    """

    def __init__(
        self,
        connection: AnyConnection,
        driver: TransactionDriver,
        inbox: InboxTable,
        report: Report,
        *,
        wait_seconds: float = 60.0,
    ) -> None:
        self._connection, self._driver, self._inbox = connection, driver, inbox
        self._report = report
        self._wait_seconds = wait_seconds
        names = {**inbox.names(), "rest_literal": inbox.dialect.literal(inbox.rest.quoted)}
        self._database = OpenDatabase(connection, driver, names, "horizon")
        self._ask = self._database.ask

    def served(self) -> dict[str, set[str]]:
        """Return the topics that the inbox's consumers have read, each with the ids of its clusters as far as known."""
        topics: dict[str, set[str]] = {}
        for topic, cluster_id in self._ask("served"):
            topics.setdefault(topic, set()).update([cluster_id] if cluster_id else [])
        return topics

    @abstractmethod
    def find_old(self, horizon: Horizon) -> Old:
        """Return what :meth:`forget` would forget."""

    @abstractmethod
    def forget(self, horizon: Horizon) -> Old:
        """Forget what is old, and return how much it was.

        Killed at any point it leaves whole steps done; the next run continues.

        Raises:
            TransactionConflictError: Claims were in use for longer than it was to wait.
        """

    @abstractmethod
    def make_parts(self, now: datetime) -> None:
        """Make the partitions of this week and the next ones, where there are any."""

    def _patiently(self, step: Callable[[], ResultT]) -> ResultT:
        """Run a step in a transaction; where a lock is not to be had, let those who wait behind us pass, and repeat."""
        deadline = time.monotonic() + self._wait_seconds
        while True:
            try:
                with self._database.transaction():
                    self._ask("limit_locks")
                    return step()
            except TransactionConflictError as error:
                if time.monotonic() >= deadline:
                    error.hint = "A handler holds it; run the command again when consumers have less to do."
                    raise
            time.sleep(_PAUSE_SECONDS)


class PartPurge(Purge):
    """The purge of an inbox that has partitions, as those on PostgreSQL."""

    def find_old(self, horizon: Horizon) -> Old:
        """Return what :meth:`forget` would forget."""
        timed, untimed = self._count_rest(horizon)
        [(starts,)] = self._ask("count_starts", before=horizon.claimed_before)
        parts = tuple((part, self._count(part)) for part in horizon.over(self._parts()))
        return Old(parts=parts, timed=timed, untimed=untimed, starts=starts)

    def forget(self, horizon: Horizon) -> Old:
        """Drop partitions, delete what is old in the rest, and what was begun long ago; return how much it was.

        Killed at any point it leaves whole steps done; the next run continues.

        Raises:
            TransactionConflictError: The claims were in use for longer than it was to wait.
        """
        dropped = []
        for part in horizon.over(self._parts()):
            dropped.append((part, self._alone(partial(self._drop, part, horizon))))
            self._report("dropped", f"{part.table}: {dropped[-1][1]:,} ids")
        timed, untimed = self._count_rest(horizon)
        if timed or untimed:
            # Before the first of them is gone: a claim that finds it gone finds the note.
            self._note(self._inbox.rest, horizon, before=horizon.claimed_before)
        if timed or untimed:
            timed, untimed = self._forget_rest(horizon)
            self._report("deleted", f"{timed + untimed:,} ids in {self._inbox.rest}")
        [(starts,)] = self._ask("forget_starts", before=horizon.claimed_before)
        if starts:
            self._report("deleted", f"{starts:,} starts in {self._inbox.starts}")
        return Old(parts=tuple(dropped), timed=timed, untimed=untimed, starts=starts)

    def make_parts(self, now: datetime) -> None:
        """Make the partitions of this week and the next ones.

        Claims of these weeks that lie in the rest already are moved. Where they are too many for that, the week is left
        out; nothing is lost by it, but that its ids are deleted one by one.

        Raises:
            TransactionConflictError: The rest was in use for longer than it was to wait.
        """
        for part in list(missing_parts(self._inbox, self._parts(), now)):
            obstacle = self._alone(partial(self._make, part, now))
            self._report("left out" if obstacle else "made", f"{part.table}{obstacle and ': '}{obstacle}")

    def _drop(self, part: Part, horizon: Horizon) -> int:
        """Drop a partition, and return how many claims it had; a few that are new may be uncounted."""
        claims = self._count(part)
        self._ask("lock_claims")
        self._note(part.table, horizon)
        self._ask("drop_partition", {"partition": part.table.quoted})
        return claims

    def _note(self, claims: TableName, horizon: Horizon, *, before: datetime | None = None) -> None:
        """Note the purge for those consumers that forget claims of a table, made before a time or at any."""
        names = {"claims": claims.quoted}
        self._ask("note_purges", names, purged_before=horizon.made_before, before=before)

    def _make(self, part: Part, now: datetime) -> str:
        """Make a partition, and return what is in the way."""
        if part not in missing_parts(self._inbox, self._parts(), now):
            return ""  # another process made it meanwhile
        if Catalog(self._connection, self._driver).exists(part.table):
            return "a table with its name exists, but is not a partition"
        literal = self._inbox.dialect.literal
        names = {
            "partition": part.table.quoted,
            "from_literal": literal(part.start),
            "to_literal": literal(part.end),
        }
        self._ask("lock_rest")
        [(found,)] = self._ask("count_rest", names, most=_MOST_MOVED + 1)
        if found > _MOST_MOVED:
            return f"{self._inbox.rest} holds more than {_MOST_MOVED:,} claims of its week"
        for step in ("create_partition", "move_rest", "attach_partition"):
            self._ask(step, names)
        return ""

    def _forget_rest(self, horizon: Horizon) -> tuple[int, int]:
        [(pages,)] = self._ask("count_pages")
        gone = [0, 0]
        for first in range(0, pages, _PAGES):
            [counts] = self._ask(
                "forget_pages",
                first=f"({first},0)",
                last=f"({first + _PAGES},0)",
                before=horizon.claimed_before,
                bound=horizon.bound,
            )
            gone = [sum(each) for each in zip(gone, counts, strict=True)]
        return gone[0], gone[1]

    def _count_rest(self, horizon: Horizon) -> Row:
        [counts] = self._ask("count_old", before=horizon.claimed_before, bound=horizon.bound)
        return counts

    def _count(self, part: Part) -> int:
        [(claims,)] = self._ask("count_partition", {"partition": part.table.quoted})
        return int(claims)

    def _parts(self) -> list[Part]:
        found = Catalog(self._connection, self._driver).find_partitions(self._inbox.table)
        if not found:
            raise OutboxError(
                f"{self._inbox.table} has no partitions, not even the default one",
                hint="Create the inbox with `cdc-outbox init --inbox`, or give its schema with --inbox-schema.",
            )
        return parts_of(found)

    def _alone(self, step: Callable[[], ResultT]) -> ResultT:
        """Run a step in a transaction in which no other session changes the inbox's tables."""

        def alone() -> ResultT:
            self._driver.fetch(self._connection, load(self._driver.dialect, "versions")["lock"].text)
            return step()

        return self._patiently(alone)


_PAGE_CLAIMS = 5_000
"""Looked at in one transaction: some tens of milliseconds in which no consumer can claim those that are old."""
_BEFORE_UNTIMED, _BEHIND_UNTIMED = "}", "\x7f"
"""Between which the keys lie of ids that do not tell their time."""


class RowPurge(Purge):
    """The purge of an inbox that has no partitions; its role need only delete."""

    def make_parts(self, now: datetime) -> None:
        """Make nothing: there are no partitions."""

    def find_old(self, horizon: Horizon) -> Old:
        """Return what :meth:`forget` would forget."""
        before = _text(horizon.claimed_before)
        [(timed, untimed)] = self._ask("count_old", before=before, bound=horizon.bound)
        [(starts,)] = self._ask("count_starts", before=before)
        return Old(timed=int(timed), untimed=int(untimed), starts=starts)

    def forget(self, horizon: Horizon) -> Old:
        """Delete what is old, and return how much it was.

        Killed at any point it leaves whole pages done; the next run continues.

        Raises:
            TransactionConflictError: A claim was in use for longer than it was to wait.
        """
        ask, before, noted = self._ask, _text(horizon.claimed_before), _text(horizon.made_before)
        timed = untimed = 0
        for consumer in self._consumers():
            timed += self._forget(consumer, ("", horizon.bound), before, noted=noted)
            untimed += self._forget(consumer, (_BEFORE_UNTIMED, _BEHIND_UNTIMED), before, noted=noted)
        if timed or untimed:
            self._report("deleted", f"{timed + untimed:,} ids in {self._inbox.table}")
        [(starts,)] = self._patiently(partial(ask, "forget_starts", before=before))
        if starts:
            self._report("deleted", f"{starts:,} starts in {self._inbox.starts}")
        return Old(timed=timed, untimed=untimed, starts=starts)

    def _consumers(self) -> Iterator[str]:
        after = ""
        while (after := self._ask("next_consumer", after=after)[0][0]) is not None:
            yield after

    def _forget(self, consumer: str, keys: tuple[str, str], before: str, *, noted: str) -> int:
        """Delete a consumer's claims between two keys, as far as they were made before a time.

        Args:
            noted: Up to which time its ids are forgotten, by their own time or that of the event.
        """
        gone, (after, bound) = 0, keys
        while True:
            page = {"consumer": consumer, "after": after}
            [(last,)] = self._ask("find_page", **page, bound=bound, limit=_PAGE_CLAIMS)
            if last is None:
                return gone
            gone += self._patiently(partial(self._forget_page, {**page, "last": last, "before": before}, noted))
            after = last

    def _forget_page(self, page: Mapping[str, str], noted: str) -> int:
        [(claims,)] = self._ask("forget_page", **page)
        if claims:  # a claim that finds an id gone finds the note
            self._ask("note_purge", consumer=page["consumer"], purged_before=noted)
        return int(claims)


def _text(moment: datetime) -> str:
    """Return a time as all these databases compare it."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")
