"""What a connector's stored offset proves, and the snapshot whose rows it has to pass: pruning on MariaDB and MySQL."""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from cdc_outbox.connect.client import ConnectClient, ConnectorStatus
from cdc_outbox.databases.binlog import BinlogPosition, Log, read_log
from cdc_outbox.databases.drivers import Row, TransactionDriver
from cdc_outbox.databases.table import TableName
from cdc_outbox.errors import ConnectorNotFoundError, UnprovenDeliveryError
from cdc_outbox.operations.comparison import TopicComparison
from cdc_outbox.operations.connections import OpenDatabase
from cdc_outbox.operations.delivery_proof import Checkpoint, DeliveryProof, captures, log_end, stored_position
from cdc_outbox.operations.prune import Counts, PruneOptions, Pruning, Report, refuse_nonsense
from cdc_outbox.operations.stages import OutboxStage
from cdc_outbox.spec import Spec

_IDS = 500
"""In one statement. MariaDB does not look for each of a thousand or more, but reads every row instead."""


class Snapshot:
    """A view of the outbox as it was once, on a connection of its own; while it is held, the server keeps old rows."""

    def __init__(self, database: OpenDatabase) -> None:
        self._database = database

    def take(self) -> datetime:
        """Look at the rows as they are now, and no longer as they were; return the server's time, in UTC."""
        # Under any other isolation level the server would take no snapshot, and only warn about it.
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
    """Rows that were seen by a checkpoint if they are in its snapshot, which is the last that was taken.

    No id or time shows which rows were committed before others: ids are the writers' own, and so are their clocks.

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
        made = not database.catalog.exists(archive)
        if made:
            database.ask("create_archive")
        database.names["archived_columns"] = database.catalog.insertable_columns(self._outbox)
        self._archives = True
        return made

    def count(self, checkpoint: Checkpoint[BinlogPosition], before: datetime | None) -> Counts:
        """Count them all."""
        del checkpoint  # the snapshot is its
        seen, young = self._snapshot.count(_naive(before))
        [(present,)] = self._database.ask("count", first=None, following=None)
        return Counts(seen - young, young, max(0, present - seen))

    def seen(self, checkpoint: Checkpoint[BinlogPosition], since: Checkpoint[BinlogPosition] | None) -> Iterator[Row]:
        """Return all rows of the snapshot."""
        del checkpoint, since  # the snapshot is its, and of earlier ones nothing is left
        return self._read_rows()

    def delete(
        self,
        checkpoint: Checkpoint[BinlogPosition],
        before: datetime | None,
        first: Any,  # noqa: ANN401 - an id's own type
        rows: int,
    ) -> tuple[Counts, Any]:
        """Delete what may go of the next rows, in the order of their ids."""
        del checkpoint  # the snapshot is its
        seen = self._snapshot.find(_naive(before), first, rows + 1)  # one more, where the next batch begins
        following = seen[rows][0] if len(seen) > rows else None
        ids = [row_id for row_id, is_young in seen[:rows] if not is_young]
        young = len(seen[:rows]) - len(ids)
        with self._database.transaction():
            gone = sum(self._move(ids[start : start + _IDS]) for start in range(0, len(ids), _IDS))
            [(present,)] = self._database.ask("count", first=first, following=following)
        return Counts(gone, young, max(0, present - young)), following

    def _move(self, ids: Sequence[Any]) -> int:
        database = self._database
        # Only the run that holds the lock archives and deletes a row, so no row is archived twice.
        held = [row_id for (row_id,) in database.ask("hold", ids=tuple(ids))]
        if held:
            if self._archives:
                database.ask("archive", ids=tuple(held))
            database.ask("delete", ids=tuple(held), rows=len(held))
        return len(held)


def _naive(time: datetime | None) -> datetime | None:
    """Return a time in UTC as the column created_at has it, which knows no zone."""
    return None if time is None else time.replace(tzinfo=None)


_READING = {"RUNNING", "PAUSED"}
"""States in which a task keeps its connections; a paused one reads on, and sends nothing."""


class OffsetProofSource:
    """The connector of a spec's name, asked through Connect, and its connections to the outbox's server.

    An offset may be changed while the connector is stopped, and then has passed what was never sent. Only the
    connections show that: a connector that was stopped comes back with others. The connection that reads the binlog
    is not enough, for the server is slow to notice that its reader is gone; so all of the user's connections count.
    """

    def __init__(self, spec: Spec, client: ConnectClient, database: OpenDatabase, snapshot: Snapshot) -> None:
        self._name = spec.name
        self._user = spec.database.user
        self._outbox = spec.outbox.table_in(database.dialect)
        self._client = client
        self._database = database
        self._snapshot = snapshot

    def find_delivery(self) -> DeliveryProof[BinlogPosition]:
        """Return how far the connector has come, by what Connect has stored."""
        config = self._client.find_config(self._name)
        if config is None:
            raise UnprovenDeliveryError(
                f"the connector {self._name} does not exist; nothing was deleted",
                hint="Check that this is the connector's Connect cluster. The connector has the spec's name.",
            )
        schema = self._find_schema()
        if not captures(f"{schema}.{self._outbox.name}", config):
            raise UnprovenDeliveryError(
                f"the connector {self._name} does not read {schema}.{self._outbox.name}; nothing was deleted",
                hint="Compare its table.include.list with the spec, and the DSN with both.",
            )
        offsets = self._client.find_offsets(self._name)
        # The log is read after the offset, or it might end before it; who reads it comes last.
        log = self._find_log()
        log_end(log, database=schema)
        confirmed = stored_position(self._name, offsets, topic_prefix=config.get("topic.prefix", ""), log=log)
        state = _state(self._client, self._name)
        reader = self._find_reader() if state in _READING else ""
        return DeliveryProof(
            kind="connector",
            name=self._name if state == "RUNNING" else f"{self._name} ({state})",
            confirmed=confirmed,
            reader=reader,
            read_by=f"connection {reader.partition(' ')[0]}" if reader else "",
            idle_because=self._explain_idle(state),
        )

    def look(self, reader: str) -> Checkpoint[BinlogPosition]:
        """Take a snapshot in place of the one before, and then the end of the log: it holds whatever the snapshot sees.

        A transaction is written to the binlog before any snapshot sees it.
        """
        taken_at = self._snapshot.take()
        position = log_end(self._find_log(), database=self._find_schema())
        return Checkpoint(position=position, reader=reader, taken_at=taken_at.replace(tzinfo=UTC))

    def check(self) -> None:
        """Refuse nothing: a connector that does not read the table has no delivery."""

    def refuse_doubt(self, checkpoint: Checkpoint[BinlogPosition]) -> None:
        """Refuse nothing: offset and connections have shown what they can."""

    def find_remarks(self, checkpoint: Checkpoint[BinlogPosition], counts: Counts) -> Iterator[tuple[str, str]]:
        """Yield nothing: a transaction that runs holds back its own rows only."""
        del checkpoint, counts
        yield from ()

    def _find_schema(self) -> str:
        """Return the database that the outbox is in."""
        catalog = self._database.catalog
        settings = catalog.find_settings(self._outbox)
        if not settings:
            raise UnprovenDeliveryError(
                f"there is no table {self._outbox} here; nothing was deleted",
                hint="Check that the DSN names the outbox's database, and that this role may select from the table.",
            )
        engine = settings["engine"] or "none"
        if engine != "InnoDB":
            raise UnprovenDeliveryError(
                f"{self._outbox} has the engine {engine}, which has no snapshots; nothing was deleted",
                hint="Convert it to InnoDB: without transactions an outbox keeps no promise.",
            )
        return self._outbox.schema or str(catalog.find_database())

    def _find_log(self) -> Log:
        ask = self._database.of("binlog").ask
        [(version, on, written)] = ask("log")
        return read_log(ask, version, written) if on else Log(on=False, format="")

    def _find_reader(self) -> str:
        """Return the user's connections, the one that reads the binlog first; empty if none does."""
        found = self._database.ask("connections", user=self._user)
        dumps = [str(number) for number, dumps in found if dumps]
        return " ".join(dumps + [str(number) for number, dumps in found if not dumps]) if dumps else ""

    def _explain_idle(self, state: str) -> str:
        if state not in _READING:
            return f"the connector {self._name} does not run ({state})"
        return (
            f"no connection of the user {self._user!r} reads this server's binlog. Check that the connector reads "
            "this server, and that this role may see connections of others (PROCESS)"
        )


def offset_pruning(
    spec: Spec,
    connections: tuple[Any, Any],
    driver: TransactionDriver,
    *,
    client: ConnectClient,
    options: PruneOptions,
    report: Report,
    comparison: TopicComparison | None = None,
) -> Pruning[BinlogPosition]:
    """Return the pruning of an outbox on MariaDB or MySQL.

    Its role may select from the outbox and delete from it, and see every connection and the binlog's position:
    ``PROCESS`` and ``BINLOG MONITOR``, on MySQL ``REPLICATION CLIENT``.

    Args:
        connections: Two of them in autocommit mode: one keeps the snapshot, the other deletes.
        comparison: With the topics; ``None`` relies on the offset alone.
    """
    outbox = spec.outbox.table_in(driver.dialect)
    refuse_nonsense(options, outbox, tells_age=spec.outbox.columns.created_at is not None)
    # A table that does not tell its rows' age has none that is young.
    names = {"created_at": "cast(null as datetime)"} | dict(spec.outbox.names(driver.dialect))
    snapshot = Snapshot(OpenDatabase(connections[0], driver, names))
    database = OpenDatabase(connections[1], driver, names)
    # On the connection that holds the snapshot, so that it reads the same rows.
    viewed = OutboxStage(connections[0], driver, spec.outbox)
    rows = RowsInSnapshot(database, snapshot, outbox, viewed.rows)
    source = OffsetProofSource(spec, client, database, snapshot)
    return Pruning(source, rows, options, report, comparison=comparison)


def _state(client: ConnectClient, name: str) -> str:
    """Return the connector's state, or its tasks' where that is another one."""
    try:
        status = client.find_status(name)
    except ConnectorNotFoundError:  # not known yet
        return "UNASSIGNED"
    return state_of(status)


def state_of(status: ConnectorStatus) -> str:
    """Return what a connector and its tasks amount to: one that does not read, or the least that they do."""
    states = [status.state, *(task.state for task in status.tasks)]
    if not status.tasks and status.state in _READING:
        return "UNASSIGNED"
    return next((state for state in states if state not in _READING), "PAUSED" if "PAUSED" in states else "RUNNING")
