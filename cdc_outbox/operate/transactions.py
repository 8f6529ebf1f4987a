"""An outbox's rows on PostgreSQL, told apart by the transactions that wrote them."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from cdc_outbox.drivers import Row
from cdc_outbox.errors import TransactionConflictError
from cdc_outbox.lsn import Lsn
from cdc_outbox.operate.database import OpenDatabase
from cdc_outbox.operate.marks import Mark
from cdc_outbox.operate.prune import Counts, Report
from cdc_outbox.table import TableName, quote

_PAGE = 10_000
"""Rows that are looked at together for a comparison: some megabytes, and few enough questions."""


class RowsByTransaction:
    """Rows that were seen by a mark if an older transaction wrote them than the mark's oldest."""

    def __init__(self, database: OpenDatabase, outbox: TableName) -> None:
        self._database = database
        self._outbox = outbox
        database.names["and_archive"] = ""

    def archive_to(self, archive: TableName) -> bool:
        """Let what is deleted be kept by the same statement: neither twice nor nowhere."""
        database = self._database
        database.names["archive"] = archive.quoted
        [(exists,)] = database.ask("table_exists", table=archive.quoted)
        if not exists:
            database.ask("create_archive")
        columns = [quote(column) for (column,) in database.ask("columns", table=self._outbox.quoted)]
        database.names["archived_columns"] = ", ".join(columns)
        database.names["and_archive"] = database.render("archive")
        return not exists

    def count(self, mark: Mark[Lsn], before: datetime | None) -> Counts:
        """Count them all."""
        [counts] = self._database.ask("count", oldest=mark.oldest, before=_utc(before))
        return Counts(*counts)

    def seen(self, mark: Mark[Lsn], since: Mark[Lsn] | None) -> Iterator[Row]:
        """Return the rows that a mark saw, and an earlier one did not, in the order of their ids."""
        bounds = {"oldest": mark.oldest, "since": None if since is None else since.oldest, "rows": _PAGE}
        page = self._database.ask("first_seen", **bounds)
        while page:
            yield from (row for _, *row in page)  # type: ignore[misc]
            page = self._database.ask("next_seen", after=page[-1][0], **bounds)

    def delete(
        self, mark: Mark[Lsn], before: datetime | None, first: str | None, rows: int
    ) -> tuple[Counts, str | None]:
        """Delete what may go of the next rows, looked at in the order of their ids."""
        database = self._database
        if first is None:
            found = database.ask("first")
            if not found:
                return Counts(), None
            first = found[0][0]
        with database.transaction():
            # Two prunings at once take turns, so that they cannot wait for each other's rows crosswise.
            database.ask("lock", table=self._outbox.quoted)
            [(*counts, following)] = database.ask(
                "delete_batch", oldest=mark.oldest, before=_utc(before), first=first, batch_rows=rows
            )
        return Counts(*counts), following


class PartsByTransaction:
    """The partitions of a partitioned outbox; other outboxes have none."""

    def __init__(self, database: OpenDatabase, outbox: TableName, report: Report) -> None:
        self._database = database
        self._outbox = outbox
        self._report = report

    def drop(self, mark: Mark[Lsn], before: datetime | None) -> Iterator[int]:
        """Drop the partitions that are over and hold nothing but what may go; of others the rows go one by one."""
        for schema, name, bound in self._database.ask("partitions", table=self._outbox.quoted):
            end = ends_at(bound)
            # Those of days to come may be as empty, and the writers will need them.
            if end is None or end > mark.taken_at:
                continue
            partition = TableName(schema=schema, name=name)
            try:
                gone = self._drop(partition, mark, before)
            except TransactionConflictError:
                self._report("partition", f"{partition} is in use; its rows go one by one")
                continue
            if gone is not None:
                self._report("partition", f"{partition} dropped with {gone:,} event{'s' * (gone != 1)}")
                yield gone

    def _drop(self, partition: TableName, mark: Mark[Lsn], before: datetime | None) -> int | None:
        """Return how many rows went with a partition, ``None`` if it stays.

        Raises:
            TransactionConflictError: Transactions that use the outbox were not waited for: writers would wait too.
        """
        database = self._database
        names = database.names | {"outbox": partition.quoted}
        with database.transaction():
            database.ask("limit_locks")
            # Nobody adds a row between the look and the end.
            database.ask("lock_partition", names)
            [(gone, young, unproven)] = database.ask("count", names, oldest=mark.oldest, before=_utc(before))
            if young or unproven:
                return None
            if names["and_archive"]:
                database.ask("archive_partition", names)
            database.ask("drop_partition", names)
        return int(gone)


_UPPER_BOUND = re.compile(r"TO \('([0-9a-f]{8})-([0-9a-f]{4})-[07][0-9a-f-]{21}'\)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def ends_at(bound: str) -> datetime | None:
    """Return when a partition ends that is a range of UUIDv7 ids, ``None`` where it has no such end.

    Args:
        bound: As ``pg_get_expr`` shows it: ``FOR VALUES FROM ('…') TO ('…')``, with the version's digit or without.
    """
    upper = _UPPER_BOUND.search(bound)
    return _EPOCH + timedelta(milliseconds=int(upper[1] + upper[2], 16)) if upper else None


def _utc(time: datetime | None) -> datetime | None:
    """Return a time as the column created_at has it, which knows no zone."""
    return None if time is None else time.astimezone(UTC).replace(tzinfo=None)
