"""Delete what is proven delivered from an outbox on PostgreSQL: mark, wait, decide, delete in batches."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from cdc_outbox.drivers import Row, TransactionDriver, translated_for_operator
from cdc_outbox.errors import ConfigError, TransactionConflictError
from cdc_outbox.lsn import Lsn
from cdc_outbox.operate.marks import Delivery, Mark, Slot, Verdict, decide, delivery_of, ends_at
from cdc_outbox.spec import Spec
from cdc_outbox.sql import load
from cdc_outbox.table import TableName, quote

Report = Callable[[str, str], None]
"""Takes a step's name and what happened in it."""

_NO_AGE = "infinity"
"""Younger than nothing."""
_POLL_SECONDS = 0.5
"""Between two looks at the slot, which moves once in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneOptions:
    """What stays, and how gently the rest goes.

    Args:
        keep_seconds: Events younger than this stay though they were delivered; by ``created_at``, which the database
            gave, for an id may be the caller's own. ``None`` keeps none: what is pruned cannot be published again.
        archive: Where the rows go instead; it is made if it does not exist.
        batch_rows: Rows looked at in one transaction. A thousand take milliseconds, and hold back nobody's vacuum.
        limit_rows: Delete no more than so many.
        max_seconds: Begin no batch later than this after the first one.
        wait_seconds: How long the slot may take to pass this run's mark. On an idle outbox a heartbeat comes every 10
            seconds, and Connect stores offsets once a minute unless it is told otherwise.
    """

    keep_seconds: float | None = None
    archive: TableName | None = None
    batch_rows: int = 1000
    limit_rows: int | None = None
    max_seconds: float | None = None
    wait_seconds: float = 90.0

    def __post_init__(self) -> None:
        for name in ("keep_seconds", "max_seconds", "wait_seconds"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < float("inf"):
                raise ConfigError("a time must not be negative", field=f"PruneOptions.{name}")
        for name in ("batch_rows", "limit_rows"):
            value = getattr(self, name)
            if value is not None and not 1 <= value < 2**31:
                raise ConfigError("it takes at least one row", field=f"PruneOptions.{name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """What a run did, or would do.

    Args:
        deleted: Rows that went, into the archive if there is one.
        young: Rows that were delivered and stayed for their age.
        unproven: Rows that stayed because nothing proves their delivery yet.
        verdict: What they were judged by.
        stopped_early: A limit was reached, and the rows behind it were not looked at.
    """

    verdict: Verdict[Lsn]
    deleted: int = 0
    young: int = 0
    unproven: int = 0
    stopped_early: bool = False


class Pruning:
    """One outbox to prune, through a connection in autocommit mode.

    Its role may select from the outbox and delete from it, and select, insert and delete in the table of marks; to
    drop partitions it owns them and the outbox. As a member of pg_read_all_stats it can tell more of what holds it
    back, and two readers of a slot apart that share a process number.
    """

    def __init__(
        self,
        spec: Spec,
        connection: Any,  # noqa: ANN401 - any driver's connection
        driver: TransactionDriver,
        options: PruneOptions,
        report: Report,
    ) -> None:
        if options.keep_seconds is not None and spec.outbox.columns.created_at is None:
            raise ConfigError(f"{spec.outbox.table} has no created_at to tell its rows' age", field="keep_seconds")
        if options.archive == spec.outbox.table:
            raise ConfigError("the outbox cannot be its own archive", field="archive")
        self._spec = spec
        self._connection = connection
        self._driver = driver
        self._options = options
        self._report = report
        self._statements = load(driver.dialect, "prune")
        # A table that does not tell its rows' age has none that is young.
        self._names = {"created_at": "cast(null as timestamp)", "and_archive": ""} | dict(spec.outbox.names())
        self._slot = spec.database.slot

    def dry_run(self) -> Pruned:
        """Count what :meth:`run` would delete, and write nothing.

        Raises:
            UnprovenDeliveryError: The slot can prove nothing.
        """
        verdict, before = self._judge(records=False)
        if verdict.mark is None:
            return Pruned(verdict=verdict)
        [(gone, young, unproven)] = self._ask("count", oldest=verdict.mark.oldest, before=before)
        limit = self._options.limit_rows
        stops = limit is not None and gone > limit
        return Pruned(
            verdict=verdict,
            deleted=min(gone, limit) if limit is not None else gone,
            young=young,
            unproven=unproven,
            stopped_early=stops,
        )

    def run(self) -> Pruned:
        """Delete what is proven delivered, each batch in a transaction of its own.

        Killed at any point it leaves whole batches done; the next run goes on.

        Raises:
            UnprovenDeliveryError: The slot can prove nothing; nothing was deleted.
        """
        verdict, before = self._judge(records=True)
        if verdict.mark is None:
            return Pruned(verdict=verdict)
        started = time.monotonic()
        if self._options.archive is not None:
            self._prepare_archive(self._options.archive)
        pruned = self._drop_partitions(Pruned(verdict=verdict), verdict.mark, before)
        pruned = self._delete(pruned, verdict.mark, before, started)
        # Older marks prove less than this one did; those of another reader prove nothing any more.
        self._ask("forget", slot=self._slot, reader=verdict.mark.reader, position=str(verdict.mark.position))
        return pruned

    def find_running(self, mark: Mark[Lsn]) -> str:
        """Say which transaction was the oldest at a mark and still runs, empty if it ended or may not be seen."""
        rows = self._ask("running", oldest=mark.oldest)
        return f"{rows[0][0]} has been running since {rows[0][1]:%Y-%m-%d %H:%M:%S%z}" if rows else ""

    def _judge(self, *, records: bool) -> tuple[Verdict[Lsn], str]:
        """Take a mark, give the slot time to pass it, and return what is proven and when what is young was written."""
        delivery = self._find_delivery()
        self._report("slot", f"{self._slot} at {delivery.confirmed}, {_read_by(delivery.reader)}")
        marks = self._find_marks()
        mark, before = self._look(delivery.reader)
        marks.append(mark)
        if records:
            self._record(mark)
        verdict = decide(marks, delivery)
        wait = self._options.wait_seconds if delivery.reader else 0
        deadline = time.monotonic() + wait
        if verdict.held_back and wait:
            self._report("wait", f"up to {wait:g} s for the slot to pass {mark.position}")
        while verdict.held_back and time.monotonic() < deadline:
            time.sleep(min(_POLL_SECONDS, wait))
            delivery = self._find_delivery()
            if delivery.reader and delivery.reader != marks[-1].reader:
                # The connector was started anew, and only a mark of its own time can tell what it delivered.
                marks.append(self._look(delivery.reader)[0])
            verdict = decide(marks, delivery)
        return verdict, before

    def _find_delivery(self) -> Delivery[Lsn]:
        rows = self._ask("slot", slot=self._slot)
        if not rows:
            return delivery_of(self._slot, None, database="")
        *texts, confirmed, reader, database = rows[0]
        slot = Slot(
            plugin=texts[0],
            database=texts[1],
            wal_status=texts[2],
            reason=texts[3],
            confirmed=Lsn.parse(confirmed) if confirmed else None,
            reader=reader,
        )
        return delivery_of(self._slot, slot, database=database)

    def _look(self, reader: str) -> tuple[Mark[Lsn], str]:
        keep = self._options.keep_seconds
        [(position, oldest, taken_at, before)] = self._ask("look", keep_seconds=keep or 0)
        mark = Mark(position=Lsn.parse(position), oldest=oldest, reader=reader, taken_at=taken_at)
        return mark, _NO_AGE if keep is None else before

    def _find_marks(self) -> list[Mark[Lsn]]:
        return [
            Mark(position=Lsn.parse(position), oldest=oldest, reader=reader, taken_at=taken_at)
            for position, oldest, reader, taken_at in self._ask("marks", slot=self._slot)
        ]

    def _record(self, mark: Mark[Lsn]) -> None:
        self._ask(
            "record",
            slot=self._slot,
            reader=mark.reader,
            position=str(mark.position),
            oldest=mark.oldest,
            taken_at=mark.taken_at,
        )

    def _prepare_archive(self, archive: TableName) -> None:
        names = self._names
        names["archive"] = archive.quoted
        [(exists,)] = self._ask("table_exists", table=archive.quoted)
        if not exists:
            self._run("create_archive", names, {})
            self._report("archive", f"{archive} created")
        columns = [quote(column) for (column,) in self._ask("columns", table=self._spec.outbox.table.quoted)]
        names["archived_columns"] = ", ".join(columns)
        # Deleted and kept by one statement: neither twice nor nowhere.
        self._names["and_archive"] = self._statements["archive"].render(names)

    def _drop_partitions(self, pruned: Pruned, mark: Mark[Lsn], before: str) -> Pruned:
        """Drop the partitions that are over and hold nothing but what may go; of others the rows go one by one."""
        if self._options.limit_rows is not None:
            return pruned  # a partition goes as a whole
        for schema, name, bound in self._ask("partitions", table=self._spec.outbox.table.quoted):
            end = ends_at(bound)
            # Those of days to come may be as empty, and the writers will need them.
            if end is None or end > mark.taken_at:
                continue
            partition = TableName(schema=schema, name=name)
            try:
                gone = self._drop_partition(partition, mark, before)
            except TransactionConflictError:
                self._report("partition", f"{partition} is in use; its rows go one by one")
                continue
            if gone is not None:
                self._report("partition", f"{partition} dropped with {gone:,} event{'s' * (gone != 1)}")
                pruned = replace(pruned, deleted=pruned.deleted + gone)
        return pruned

    def _drop_partition(self, partition: TableName, mark: Mark[Lsn], before: str) -> int | None:
        """Return how many rows went with a partition, ``None`` if it stays.

        Raises:
            TransactionConflictError: Transactions that use the outbox were not waited for: writers would wait too.
        """
        names = self._names | {"outbox": partition.quoted}
        self._driver.begin(self._connection)
        try:
            self._ask("limit_locks")
            # Nobody adds a row between the look and the end.
            self._run("lock_partition", names, {})
            [(gone, young, unproven)] = self._run("count", names, {"oldest": mark.oldest, "before": before})
            if young or unproven:
                self._driver.rollback(self._connection)
                return None
            if self._options.archive is not None:
                self._run("archive_partition", names, {})
            self._run("drop_partition", names, {})
            self._driver.commit(self._connection)
        except BaseException:
            self._driver.rollback(self._connection)
            raise
        return int(gone)

    def _delete(self, pruned: Pruned, mark: Mark[Lsn], before: str, started: float) -> Pruned:
        first = self._ask("first")
        following = first[0][0] if first else None
        while following is not None:
            rows = self._rows_left(pruned)
            if rows == 0 or self._is_late(started):
                return replace(pruned, stopped_early=True)
            gone, young, unproven, following = self._delete_batch(mark, before, following, rows)
            pruned = replace(
                pruned,
                deleted=pruned.deleted + gone,
                young=pruned.young + young,
                unproven=pruned.unproven + unproven,
            )
        return pruned

    def _delete_batch(self, mark: Mark[Lsn], before: str, first: str, rows: int) -> Row:
        self._driver.begin(self._connection)
        try:
            # Two prunings at once take turns, so that they cannot wait for each other's rows crosswise.
            self._ask("lock", table=self._spec.outbox.table.quoted)
            [done] = self._ask("delete_batch", oldest=mark.oldest, before=before, first=first, batch_rows=rows)
            self._driver.commit(self._connection)
        except BaseException:
            self._driver.rollback(self._connection)
            raise
        return done

    def _rows_left(self, pruned: Pruned) -> int:
        options = self._options
        return (
            options.batch_rows
            if options.limit_rows is None
            else min(options.batch_rows, options.limit_rows - pruned.deleted)
        )

    def _is_late(self, started: float) -> bool:
        limit = self._options.max_seconds
        return limit is not None and time.monotonic() - started >= limit

    def _ask(self, statement: str, **parameters: Any) -> list[Row]:  # noqa: ANN401 - SQL's own variety
        return self._run(statement, self._names, parameters)

    def _run(self, statement: str, names: dict[str, str], parameters: dict[str, Any]) -> list[Row]:
        sql = self._statements[statement].render(names, self._driver.style)
        with translated_for_operator():
            return self._driver.fetch(self._connection, sql, parameters)


def _read_by(reader: str) -> str:
    """Say who reads a slot; when its connection began is nobody's interest."""
    return f"read by process {reader.split(maxsplit=1)[0]}" if reader else "read by nobody"
