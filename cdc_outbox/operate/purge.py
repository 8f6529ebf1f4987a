"""Forget what an inbox need not remember any more, and make the partitions in which it goes on remembering.

Watermarks, holes and parked events are never forgotten: they are what still tells a stale event when its id is not
known any more.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TypeVar

from cdc_outbox.consumer.table import InboxTable
from cdc_outbox.drivers import AnyConnection, Row, TransactionDriver
from cdc_outbox.errors import OutboxError, TransactionConflictError
from cdc_outbox.operate.database import OpenDatabase
from cdc_outbox.operate.horizon import Horizon, Part, missing_parts, parts_of
from cdc_outbox.sql import load
from cdc_outbox.table import TableName
from cdc_outbox.writer.catalog import Catalog

ResultT = TypeVar("ResultT")
Report = Callable[[str, str], None]
"""Takes a step's name and what happened in it."""

_PAGES = 500
"""Of the rest, looked at in one transaction: 4 MB, some 40,000 claims."""
_MOST_MOVED = 10_000
"""Claims that are moved out of the rest while nobody can claim there: a tenth of a second."""
_PAUSE_SECONDS = 0.5
"""Between two attempts at a lock, so that those who wait for us get on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Old:
    """What is old enough.

    Args:
        parts: Partitions, each with how many claims it has.
        timed: Claims, in no such partition, of ids that tell their time.
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
        literals = {
            "table_literal": inbox.dialect.literal(inbox.table.quoted),
            "rest_literal": inbox.dialect.literal(inbox.rest.quoted),
        }
        self._database = OpenDatabase(connection, driver, {**inbox.names(), **literals}, "horizon")
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

        Killed at any point it leaves whole steps done; the next run goes on.

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

        Killed at any point it leaves whole steps done; the next run goes on.

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

        Claims of such a week that lie in the rest already are moved. Where they are too many for that, the week is left
        out; nothing is lost by it, but that its ids are deleted one by one.

        Raises:
            TransactionConflictError: The rest was in use for longer than it was to wait.
        """
        for part in list(missing_parts(self._inbox, self._parts(), now)):
            obstacle = self._alone(partial(self._make, part, now))
            self._report("left out" if obstacle else "made", f"{part.table}{obstacle and ': '}{obstacle}")

    def _drop(self, part: Part, horizon: Horizon) -> int:
        """Drop a partition, and return how many claims it had; few are as new as that nobody counted them."""
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
            return ""  # somebody else made it meanwhile
        if Catalog(self._connection, self._driver).exists(part.table):
            return "a table of its name is there, and is no partition"
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
        rows = self._ask("partitions")
        if not rows:
            raise OutboxError(
                f"{self._inbox.table} has no partitions, not even one for the rest",
                hint="Create the inbox with `cdc-outbox init --inbox`, or say which one with --inbox-schema.",
            )
        return parts_of([(schema, name, bounds) for schema, name, bounds in rows], self._inbox)

    def _alone(self, step: Callable[[], ResultT]) -> ResultT:
        """Run a step in a transaction in which nobody else changes the inbox's tables."""

        def alone() -> ResultT:
            self._driver.fetch(self._connection, load(self._driver.dialect, "versions")["lock"].text)
            return step()

        return self._patiently(alone)
