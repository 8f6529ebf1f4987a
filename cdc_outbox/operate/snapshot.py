"""An outbox's rows on MariaDB and MySQL, told apart by a snapshot that is held until they are gone."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

from cdc_outbox.binlog import BinlogPosition
from cdc_outbox.drivers import Row
from cdc_outbox.operate.database import OpenDatabase
from cdc_outbox.operate.marks import Mark
from cdc_outbox.operate.prune import Counts
from cdc_outbox.table import TableName

_IDS = 500
"""In one statement. MariaDB does not look for each of a thousand or more, but reads every row instead."""


class Snapshot:
    """A view of the outbox as it was once, on a connection of its own; while it is held, the server keeps old rows."""

    def __init__(self, database: OpenDatabase) -> None:
        self._database = database

    def take(self) -> datetime:
        """Look at the rows as they are now, and no longer as they were; return the server's time, in UTC."""
        # Under any other isolation level the server would take no snapshot, and say so in a warning only.
        self._database.ask("repeatable")
        self._database.ask("snapshot")
        [(taken_at,)] = self._database.ask("time")
        return taken_at  # type: ignore[no-any-return]

    def find(self, before: datetime | None, first: Any, rows: int) -> list[Row]:  # noqa: ANN401 - an id's own type
        """Return ids in their order, each with whether its row is young."""
        return self._database.ask("page", before=before, first=first, rows=rows)

    def count(self, before: datetime | None) -> tuple[int, int]:
        """Count all rows, and the young ones."""
        [(rows, young)] = self._database.ask("count_seen", before=before)
        return rows, int(young)


class RowsInSnapshot:
    """Rows that were seen by a mark if they are in its snapshot, which is the last that was taken.

    No id or time tells which rows were committed before others: ids are the writers' own, and so are their clocks.

    Args:
        read_rows: Reads id, aggregate type, aggregate id, source and sequence number of each row in the snapshot.
    """

    def __init__(
        self, database: OpenDatabase, snapshot: Snapshot, outbox: TableName, read_rows: Callable[[], Iterator[Row]]
    ) -> None:
        # No gap is locked, into which a writer may want to insert.
        database.ask("committed")
        self._database = database
        self._snapshot = snapshot
        self._outbox = outbox
        self._read_rows = read_rows
        self._archives = False

    def archive_to(self, archive: TableName) -> bool:
        """Let what is deleted be inserted there in the same transaction."""
        database = self._database
        database.names["archive"] = archive.quoted
        made = not database.ask("engine", schema=archive.schema, table=archive.name)
        if made:
            database.ask("create_archive")
        quote = archive.dialect.quote
        columns = database.ask("columns", schema=self._outbox.schema, table=self._outbox.name)
        database.names["archived_columns"] = ", ".join(quote(column) for (column,) in columns)
        self._archives = True
        return made

    def count(self, mark: Mark[BinlogPosition], before: datetime | None) -> Counts:
        """Count them all."""
        del mark  # the snapshot is its
        seen, young = self._snapshot.count(_naive(before))
        [(present,)] = self._database.ask("count", first=None, following=None)
        return Counts(seen - young, young, max(0, present - seen))

    def seen(self, mark: Mark[BinlogPosition], since: Mark[BinlogPosition] | None) -> Iterator[Row]:
        """Return all rows of the snapshot."""
        del mark, since  # the snapshot is its, and of earlier ones nothing is left
        return self._read_rows()

    def delete(self, mark: Mark[BinlogPosition], before: datetime | None, first: Any, rows: int) -> tuple[Counts, Any]:  # noqa: ANN401 - an id's own type
        """Delete what may go of the next rows, in the order of their ids."""
        del mark  # the snapshot is its
        seen = self._snapshot.find(_naive(before), first, rows + 1)  # one more, to go on from
        following = seen[rows][0] if len(seen) > rows else None
        ids = [row_id for row_id, is_young in seen[:rows] if not is_young]
        young = len(seen[:rows]) - len(ids)
        with self._database.transaction():
            gone = sum(self._move(ids[start : start + _IDS]) for start in range(0, len(ids), _IDS))
            [(present,)] = self._database.ask("count", first=first, following=following)
        return Counts(gone, young, max(0, present - young)), following

    def _move(self, ids: Sequence[Any]) -> int:
        database = self._database
        # Whoever has the lock keeps and deletes a row, and nobody does so twice.
        held = [row_id for (row_id,) in database.ask("hold", ids=tuple(ids))]
        if held:
            if self._archives:
                database.ask("archive", ids=tuple(held))
            database.ask("delete", ids=tuple(held), rows=len(held))
        return len(held)


def _naive(time: datetime | None) -> datetime | None:
    """Return a time in UTC as the column created_at has it, which knows no zone."""
    return None if time is None else time.replace(tzinfo=None)
