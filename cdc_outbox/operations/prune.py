"""Delete what is proven delivered from an outbox: take a checkpoint, wait, decide, delete in batches.

Each database has its own proof of what was delivered, and of which rows a checkpoint saw: see
:mod:`~cdc_outbox.operations.prune_by_slot` for PostgreSQL and :mod:`~cdc_outbox.operations.prune_by_offset` for MariaDB
and MySQL.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Generic, Protocol

from cdc_outbox.databases.drivers import Row
from cdc_outbox.databases.table import TableName
from cdc_outbox.errors import ConfigError
from cdc_outbox.operations.comparison import TopicComparison
from cdc_outbox.operations.delivery_proof import Checkpoint, DeliveryProof, PositionT, PruneVerdict, decide

Report = Callable[[str, str], None]
"""Takes a step's name and what happened in it."""

_POLL_SECONDS = 0.5
"""Between two looks at the delivery, which moves once in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneOptions:
    """What stays, and how gently the rest goes.

    Args:
        keep_seconds: Events younger than this stay though they were delivered; by ``created_at``, which the database
            gave, for an id may be the caller's own. ``None`` keeps none: pruned events cannot be published again.
        archive: Where the rows go instead; it is made if it does not exist.
        batch_rows: Rows looked at in one transaction. A thousand take milliseconds, and do not hold back vacuum.
        limit_rows: Delete no more than so many.
        max_seconds: Begin no batch later than this after the first one.
        wait_seconds: How long the delivery may take to pass this run's checkpoint. On an idle outbox a heartbeat comes
            every 10 seconds, and Connect stores offsets once a minute by default.
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
                raise ConfigError(f"{name} must be between 1 and 2,147,483,647", field=f"PruneOptions.{name}")


@dataclass(frozen=True, slots=True)
class Counts:
    """Rows that were looked at: what goes, what is delivered and young, and what nothing proves yet."""

    gone: int = 0
    young: int = 0
    unproven: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(self.gone + other.gone, self.young + other.young, self.unproven + other.unproven)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned(Generic[PositionT]):
    """What a run did, or would do.

    Args:
        verdict: What the rows were judged by.
        counts: Those that went, into the archive if there is one; those that were delivered and stayed for their age;
            those that stayed because nothing proves their delivery yet.
        stopped_early: A limit was reached, and the rows behind it were not looked at.
    """

    verdict: PruneVerdict[PositionT]
    counts: Counts = Counts()
    stopped_early: bool = False

    @property
    def deleted(self) -> int:
        """How many went."""
        return self.counts.gone

    @property
    def young(self) -> int:
        """How many stayed for their age."""
        return self.counts.young

    @property
    def unproven(self) -> int:
        """How many stayed because nothing proves their delivery yet."""
        return self.counts.unproven


class ProofSource(Protocol[PositionT]):
    """The source that knows how far delivery has come."""

    def check(self) -> None:
        """Refuse a pipeline that leaves rows out, whatever its position says.

        Raises:
            UnprovenDeliveryError: It does.
        """

    def find_delivery(self) -> DeliveryProof[PositionT]:
        """Return how far it has come, and then who delivers.

        Raises:
            UnprovenDeliveryError: Nothing can be proven.
        """

    def look(self, reader: str) -> Checkpoint[PositionT]:
        """Take a checkpoint, after which ``reader`` may be gone; a row is committed before it, or not seen by it."""

    def refuse_doubt(self, checkpoint: Checkpoint[PositionT]) -> None:
        """Refuse rows that a checkpoint saw and that may have been left out, where no topics are compared.

        Raises:
            UnprovenDeliveryError: There are such rows.
        """

    def find_remarks(self, checkpoint: Checkpoint[PositionT], counts: Counts) -> Iterator[tuple[str, str]]:
        """Yield what else an operator wants to know about a checkpoint that was passed: a step's name and a text."""


class CheckpointStore(Protocol[PositionT]):
    """Checkpoints that outlive a run."""

    def find(self) -> list[Checkpoint[PositionT]]:
        """Return the checkpoints of earlier runs, in the order in which they were taken."""

    def find_compared(self) -> Checkpoint[PositionT] | None:
        """Return the newest checkpoint of which everything that it saw was found in the topics."""

    def record(self, checkpoint: Checkpoint[PositionT], *, compared: bool = False) -> None:
        """Keep a checkpoint for later runs.

        Args:
            compared: Everything that it saw was found in the topics.
        """

    def forget_before(self, checkpoint: Checkpoint[PositionT]) -> None:
        """Forget those that prove less, and those of another reader, which prove nothing any more.

        What one reading found in the topics stays found; of those checkpoints the newest stays.
        """


class Rows(Protocol[PositionT]):
    """The rows of an outbox, distinguished by whether a checkpoint saw them.

    ``before`` makes a row young that was created then or later; with ``None`` none is.
    """

    def archive_to(self, archive: TableName) -> bool:
        """Let what is deleted from now on go to a table, and return whether it had to be made."""

    def count(self, checkpoint: Checkpoint[PositionT], before: datetime | None) -> Counts:
        """Count them all."""

    def seen(self, checkpoint: Checkpoint[PositionT], since: Checkpoint[PositionT] | None) -> Iterator[Row]:
        """Return id, aggregate type, aggregate id, source and sequence number of the rows that a checkpoint saw.

        Args:
            since: Rows that this earlier checkpoint saw are left out, where that is known.
        """

    def delete(
        self,
        checkpoint: Checkpoint[PositionT],
        before: datetime | None,
        first: Any,  # noqa: ANN401 - the type of the table's ids
        rows: int,
    ) -> tuple[Counts, Any]:
        """Delete in one transaction what may go of the next rows.

        Args:
            first: The id to begin with, ``None`` for the first of all.
            rows: How many to look at.

        Returns:
            The counts of the batch, and the id to continue with, ``None`` at the end.
        """


class Parts(Protocol[PositionT]):
    """The partitions of an outbox that may go as a whole."""

    def drop(self, checkpoint: Checkpoint[PositionT], before: datetime | None) -> Iterator[int]:
        """Drop one after the other of those that are over, and yield how many rows went with it."""


class Pruning(Generic[PositionT]):
    """One outbox to prune.

    Args:
        comparison: With the topics; ``None`` relies on the position alone.
        memory: Checkpoints of earlier runs; ``None`` where a checkpoint cannot outlive its run.
        parts: ``None`` where the outbox has none.
    """

    def __init__(
        self,
        source: ProofSource[PositionT],
        rows: Rows[PositionT],
        options: PruneOptions,
        report: Report,
        *,
        comparison: TopicComparison | None = None,
        memory: CheckpointStore[PositionT] | None = None,
        parts: Parts[PositionT] | None = None,
    ) -> None:
        self._source = source
        self._rows = rows
        self._options = options
        self._report = report
        self._comparison = comparison
        self._memory = memory
        self._parts = parts

    def dry_run(self) -> Pruned[PositionT]:
        """Count what :meth:`run` would delete, and write nothing.

        Raises:
            UnprovenDeliveryError: Nothing can be proven.
        """
        verdict, before = self._judge(records=False)
        if verdict.checkpoint is None:
            return Pruned(verdict=verdict)
        counts = self._rows.count(verdict.checkpoint, before)
        self._remark(verdict.checkpoint, counts)
        limit = self._options.limit_rows
        if limit is None or counts.gone <= limit:
            return Pruned(verdict=verdict, counts=counts)
        return Pruned(verdict=verdict, counts=replace(counts, gone=limit), stopped_early=True)

    def run(self) -> Pruned[PositionT]:
        """Delete what is proven delivered, each batch in a transaction of its own.

        Killed at any point it leaves whole batches done; the next run continues.

        Raises:
            UnprovenDeliveryError: Nothing can be proven; nothing was deleted.
        """
        verdict, before = self._judge(records=True)
        checkpoint = verdict.checkpoint
        if checkpoint is None:
            return Pruned(verdict=verdict)
        started, archive = time.monotonic(), self._options.archive
        if archive is not None and self._rows.archive_to(archive):
            self._report("archive", f"{archive} created")
        counts = Counts()
        # A partition goes as a whole, whatever the limit.
        if self._parts is not None and self._options.limit_rows is None:
            counts = sum((Counts(gone=gone) for gone in self._parts.drop(checkpoint, before)), counts)
        counts, stopped_early = self._delete(counts, checkpoint, before, started)
        if self._memory is not None:
            self._memory.forget_before(checkpoint)
        self._remark(checkpoint, counts)
        return Pruned(verdict=verdict, counts=counts, stopped_early=stopped_early)

    def _judge(self, *, records: bool) -> tuple[PruneVerdict[PositionT], datetime | None]:
        """Take a checkpoint, wait for the delivery to pass it; return what is proven and since when a row is young."""
        keep, ends = self._options.keep_seconds, self._ends()
        delivery = self._source.find_delivery()
        self._source.check()
        self._report(
            delivery.kind, f"{delivery.name} at {delivery.confirmed}, read by {delivery.read_by or 'no process'}"
        )
        earlier = self._memory.find() if self._memory is not None else []
        checkpoint = replace(self._source.look(delivery.reader), ends=ends)
        if records and self._memory is not None:
            self._memory.record(checkpoint)
        verdict = self._wait([*earlier, checkpoint], delivery)
        if verdict.checkpoint is not None:
            self._compare(verdict.checkpoint, records=records)
        return verdict, None if keep is None else checkpoint.taken_at - timedelta(seconds=keep)

    def _ends(self) -> Mapping[str, int] | None:
        return None if self._comparison is None else self._comparison.ends()

    def _compare(self, checkpoint: Checkpoint[PositionT], *, records: bool) -> None:
        """Refuse what is not in the topics of the rows that a checkpoint saw and no earlier run has found there."""
        if self._comparison is None:
            self._source.refuse_doubt(checkpoint)
            return
        since = None if self._memory is None else self._memory.find_compared()
        starts = None if since is None or since.ends is None else self._comparison.find_starts(since.ends)
        if starts is None:
            since = None  # rows that were found once may be there no more
        self._report("topics", f"reading {'all messages' if since is None else 'messages since the last run'}")
        self._comparison.refuse_missing(lambda: self._rows.seen(checkpoint, since), starts)
        if records and self._memory is not None:
            self._memory.record(checkpoint, compared=True)

    def _wait(
        self, checkpoints: list[Checkpoint[PositionT]], delivery: DeliveryProof[PositionT]
    ) -> PruneVerdict[PositionT]:
        verdict = decide(checkpoints, delivery)
        wait = self._options.wait_seconds if delivery.reader else 0
        deadline = time.monotonic() + wait
        if verdict.held_back and wait:
            self._report("wait", f"up to {wait:g} s for the {delivery.kind} to pass {checkpoints[-1].position}")
        while verdict.held_back and time.monotonic() < deadline:
            time.sleep(min(_POLL_SECONDS, wait))
            delivery = self._source.find_delivery()
            if delivery.reader and delivery.reader != checkpoints[-1].reader:
                # The connector was restarted, and only a checkpoint of its own time can prove what it delivered. No
                # earlier one counts again, though its reader should come back: there is one snapshot at a time.
                ends = self._ends()
                checkpoints = [replace(self._source.look(delivery.reader), ends=ends)]
            verdict = decide(checkpoints, delivery)
        return verdict

    def _delete(
        self, counts: Counts, checkpoint: Checkpoint[PositionT], before: datetime | None, started: float
    ) -> tuple[Counts, bool]:
        following = None
        while True:
            rows = self._rows_left(counts)
            if rows == 0 or self._is_late(started):
                return counts, True
            batch, following = self._rows.delete(checkpoint, before, following, rows)
            counts += batch
            if following is None:
                return counts, False

    def _rows_left(self, counts: Counts) -> int:
        batch, limit = self._options.batch_rows, self._options.limit_rows
        return batch if limit is None else min(batch, limit - counts.gone)

    def _is_late(self, started: float) -> bool:
        limit = self._options.max_seconds
        return limit is not None and time.monotonic() - started >= limit

    def _remark(self, checkpoint: Checkpoint[PositionT], counts: Counts) -> None:
        for step, text in self._source.find_remarks(checkpoint, counts):
            self._report(step, text)


def refuse_nonsense(options: PruneOptions, outbox: TableName, *, tells_age: bool) -> None:
    """Refuse what an outbox cannot do.

    Raises:
        ConfigError: Its rows do not tell their age, or it would be its own archive.
    """
    if options.keep_seconds is not None and not tells_age:
        raise ConfigError(f"{outbox} has no created_at, so the age of its rows is unknown", field="keep_seconds")
    if options.archive == outbox:
        raise ConfigError("the outbox cannot be its own archive", field="archive")
