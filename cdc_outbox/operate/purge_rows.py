"""Forget ids where they lie in one table: on MariaDB, MySQL and SQLite, page by page."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import partial

from cdc_outbox.operate.horizon import Horizon
from cdc_outbox.operate.purge import Old, Purge

_PAGE_CLAIMS = 5_000
"""Looked at in one transaction: some tens of milliseconds in which nobody else can claim those that are old."""
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

        Killed at any point it leaves whole pages done; the next run goes on.

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
