"""What a connector's stored offset proves, and the snapshot whose rows it has to pass: pruning on MariaDB and MySQL."""

from collections.abc import Iterator
from datetime import UTC
from typing import Any

from cdc_outbox.binlog import BinlogPosition, Log, names_in, status_statement
from cdc_outbox.connect.client import ConnectClient, ConnectorStatus
from cdc_outbox.drivers import TransactionDriver
from cdc_outbox.errors import ConnectorNotFoundError, UnprovenDeliveryError
from cdc_outbox.operate.binlog import captures, log_end, stored_position
from cdc_outbox.operate.comparison import TopicComparison
from cdc_outbox.operate.database import OpenDatabase
from cdc_outbox.operate.marks import Delivery, Mark
from cdc_outbox.operate.prune import Counts, PruneOptions, Pruning, Report, refuse_nonsense
from cdc_outbox.operate.snapshot import RowsInSnapshot, Snapshot
from cdc_outbox.operate.stages import OutboxStage
from cdc_outbox.spec import Spec

_READING = {"RUNNING", "PAUSED"}
"""States in which a task keeps its connections; a paused one reads on, and sends nothing."""


class OffsetWitness:
    """The connector of a spec's name, asked through Connect, and its connections to the outbox's server.

    An offset may be changed while the connector is stopped, and then has passed what was never sent. Of that nothing
    tells but the connections: a connector that was stopped comes back with others. The connection that reads the
    binlog is not enough, for the server notices only by and by that nobody reads any more; so all of the user's count.
    """

    def __init__(self, spec: Spec, client: ConnectClient, database: OpenDatabase, snapshot: Snapshot) -> None:
        self._name = spec.name
        self._user = spec.database.user
        self._outbox = spec.outbox.table_in(database.dialect)
        self._client = client
        self._database = database
        self._snapshot = snapshot

    def find_delivery(self) -> Delivery[BinlogPosition]:
        """Return how far the connector has come, by what Connect has stored."""
        config = self._client.find_config(self._name)
        if config is None:
            raise UnprovenDeliveryError(
                f"the connector {self._name} does not exist; nothing was deleted",
                hint="Is this the Connect cluster that it runs on? The connector has the spec's name.",
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
        return Delivery(
            kind="connector",
            name=self._name if state == "RUNNING" else f"{self._name} ({state})",
            confirmed=confirmed,
            reader=reader,
            read_by=f"connection {reader.partition(' ')[0]}" if reader else "",
            idle_because=self._explain_idle(state),
        )

    def look(self, reader: str) -> Mark[BinlogPosition]:
        """Take a snapshot in place of the one before, and then the end of the log: it holds whatever the snapshot sees.

        A transaction is written to the binlog before any snapshot sees it.
        """
        taken_at = self._snapshot.take()
        position = log_end(self._find_log(), database=self._find_schema())
        return Mark(position=position, reader=reader, taken_at=taken_at.replace(tzinfo=UTC))

    def check(self) -> None:
        """Refuse nothing: a connector that does not read the table has no delivery."""

    def refuse_doubt(self, mark: Mark[BinlogPosition]) -> None:
        """Refuse nothing: offset and connections have told what they can."""

    def find_remarks(self, mark: Mark[BinlogPosition], counts: Counts) -> Iterator[tuple[str, str]]:
        """Yield nothing: a transaction that runs holds back its own rows only."""
        del mark, counts
        yield from ()

    def _find_schema(self) -> str:
        """Return the database that the outbox is in."""
        found = self._database.ask("engine", schema=self._outbox.schema, table=self._outbox.name)
        if not found:
            raise UnprovenDeliveryError(
                f"there is no table {self._outbox} here; nothing was deleted",
                hint="Does the DSN name the outbox's database, and may this role select from the table?",
            )
        [(schema, engine)] = found
        if engine != "InnoDB":
            raise UnprovenDeliveryError(
                f"{self._outbox} has the engine {engine}, which has no snapshots; nothing was deleted",
                hint="Make it an InnoDB table: without transactions an outbox promises nothing.",
            )
        return str(schema)

    def _find_log(self) -> Log:
        [(version, on, written)] = self._database.ask("log")
        if not on:
            return Log(on=False, format="")
        [(file, offset, only, without, *_)] = self._database.ask(status_statement(version))
        return Log(
            on=True,
            format=written,
            end=BinlogPosition.of(file, int(offset)),
            sizes={name: int(size) for name, size, *_ in self._database.ask("files")},
            only=names_in(only),
            without=names_in(without),
        )

    def _find_reader(self) -> str:
        """Return the user's connections, the one that reads the binlog first; empty if none does."""
        found = self._database.ask("connections", user=self._user)
        dumps = [str(number) for number, dumps in found if dumps]
        return " ".join(dumps + [str(number) for number, dumps in found if not dumps]) if dumps else ""

    def _explain_idle(self, state: str) -> str:
        if state not in _READING:
            return f"the connector {self._name} does not run ({state})"
        return (
            f"no connection of the user {self._user!r} reads this server's binlog: is it the server that the connector "
            "reads, and may this role see the connections of others (PROCESS)?"
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
    witness = OffsetWitness(spec, client, database, snapshot)
    return Pruning(witness, rows, options, report, comparison=comparison)


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
