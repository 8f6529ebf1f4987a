"""What a replication slot proves, and the transactions that it has to pass: pruning on PostgreSQL."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.postgresql_database import PostgresqlDatabase
from cdc_outbox.connect.preflight import ask_connect
from cdc_outbox.databases.drivers import AnyConnection, Row, TransactionDriver
from cdc_outbox.databases.facts import SlotFacts
from cdc_outbox.databases.lsn import Lsn
from cdc_outbox.databases.table import TableName
from cdc_outbox.debezium.config import slot_of
from cdc_outbox.debezium.preflight.publication_rules import check_publication
from cdc_outbox.debezium.slot_plan import SlotState, find_hole, stored_offset
from cdc_outbox.errors import TransactionConflictError, UnprovenDeliveryError
from cdc_outbox.finding import errors_in
from cdc_outbox.operations.comparison import REPUBLISH, TopicComparison
from cdc_outbox.operations.connections import OpenDatabase
from cdc_outbox.operations.delivery_proof import Checkpoint, DeliveryProof, captures
from cdc_outbox.operations.prune import Counts, PruneOptions, Pruning, Report, refuse_nonsense
from cdc_outbox.redaction import counted
from cdc_outbox.spec import Spec

_PAGE = 10_000
"""Rows that are looked at together for a comparison: some megabytes, and few enough questions."""


class RowsByTransaction:
    """Rows that were seen by a checkpoint if an older transaction wrote them than the checkpoint's oldest."""

    def __init__(self, database: OpenDatabase, outbox: TableName) -> None:
        self._database = database
        self._outbox = outbox
        database.names["archive"] = ""

    def archive_to(self, archive: TableName) -> bool:
        """Let what is deleted be kept by the same statement: neither twice nor nowhere."""
        database = self._database
        database.names["archive"] = archive.quoted
        exists = database.catalog.exists(archive)
        if not exists:
            database.ask("create_archive")
        database.names["archived_columns"] = database.catalog.insertable_columns(self._outbox)
        return not exists

    def count(self, checkpoint: Checkpoint[Lsn], before: datetime | None) -> Counts:
        """Count them all."""
        [counts] = self._database.ask("count", oldest=checkpoint.oldest, before=_utc(before))
        return Counts(*counts)

    def seen(self, checkpoint: Checkpoint[Lsn], since: Checkpoint[Lsn] | None) -> Iterator[Row]:
        """Return the rows that a checkpoint saw, and an earlier one did not, in the order of their ids."""
        bounds = {"oldest": checkpoint.oldest, "since": None if since is None else since.oldest, "rows": _PAGE}
        page = self._database.ask("first_seen", **bounds)
        while page:
            yield from (row for _, *row in page)  # type: ignore[misc]
            page = self._database.ask("next_seen", after=page[-1][0], **bounds)

    def delete(
        self, checkpoint: Checkpoint[Lsn], before: datetime | None, first: str | None, rows: int
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
                "delete_batch", oldest=checkpoint.oldest, before=_utc(before), first=first, batch_rows=rows
            )
        return Counts(*counts), following


class PartsByTransaction:
    """The partitions of a partitioned outbox; other outboxes have none."""

    def __init__(self, database: OpenDatabase, outbox: TableName, report: Report) -> None:
        self._database = database
        self._outbox = outbox
        self._report = report

    def drop(self, checkpoint: Checkpoint[Lsn], before: datetime | None) -> Iterator[int]:
        """Drop the partitions that are over and hold nothing but what may go; of others the rows go one by one."""
        for part in self._database.catalog.find_partitions(self._outbox):
            end = ends_at(part.bounds)
            # Those of days to come may be as empty, and the writers will need them.
            if end is None or end > checkpoint.taken_at or not part.may_drop:
                continue
            partition = part.table
            try:
                gone = self._drop(partition, checkpoint, before)
            except TransactionConflictError:
                self._report("partition", f"{partition} is in use; its rows are deleted one by one")
                continue
            if gone is not None:
                self._report("partition", f"{partition} dropped with {gone:,} event{'s' * (gone != 1)}")
                yield gone

    def _drop(self, partition: TableName, checkpoint: Checkpoint[Lsn], before: datetime | None) -> int | None:
        """Return how many rows went with a partition, ``None`` if it stays.

        Raises:
            TransactionConflictError: Transactions that use the outbox were not waited for: writers would wait too.
        """
        database = self._database
        names = database.names | {"outbox": partition.quoted}
        with database.transaction():
            database.ask("limit_locks")
            # No writer adds a row between the count and the drop.
            database.ask("lock_partition", names)
            [(gone, young, unproven)] = database.ask("count", names, oldest=checkpoint.oldest, before=_utc(before))
            if young or unproven:
                return None
            if names["archive"]:
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


def delivery_of(name: str, slot: SlotFacts | None, *, database: str) -> DeliveryProof[Lsn]:
    """Return how far a slot has come.

    Args:
        database: The one that the outbox is in.

    Raises:
        UnprovenDeliveryError: It can prove nothing.
    """
    defect = _defect(slot, database)
    if slot is None or slot.confirmed is None or defect:
        raise UnprovenDeliveryError(f"the slot {name} {defect or 'confirms nothing'}; nothing was deleted")
    process = str(slot.reader) if slot.active else ""
    return DeliveryProof(
        kind="slot",
        name=name,
        confirmed=slot.confirmed,
        # A number alone could be that of an earlier process.
        reader=f"{process} {slot.reader_since}".strip(),
        read_by=f"process {process}" if process else "",
    )


def _defect(slot: SlotFacts | None, database: str) -> str:
    if slot is None:
        return "does not exist"
    if slot.plugin != "pgoutput":
        return f"has the plugin {slot.plugin}, not pgoutput" if slot.plugin else "is a physical slot"
    if slot.database != database:
        return f"belongs to the database {slot.database!r}, not to {database!r}"
    if slot.wal_status == "lost" or slot.invalidation:
        return f"is lost ({slot.invalidation})" if slot.invalidation else "is lost: WAL that it needs was removed"
    return ""


_OTHER_SLOT = "deleted events are in its WAL and are still delivered, but cannot be published again from the table"


class SlotProofSource:
    """The slot that a spec names, asked through a connection to the outbox's database.

    As a member of pg_read_all_stats its role can tell more of what holds it back, and two readers of a slot apart that
    share a process number.
    """

    def __init__(
        self, spec: Spec, database: OpenDatabase, facts: PostgresqlDatabase, client: ConnectClient | None = None
    ) -> None:
        self._spec = spec
        self._name = spec.database.slot
        self._ask = database.ask
        self._facts = facts
        self._client = client

    def check(self) -> None:
        """Refuse a publication or a connector that leaves rows out, or a connector that has not published all rows."""
        spec, facts = self._spec, self._facts.read_surroundings()
        for error in errors_in(tuple(check_publication(spec, facts.table, facts.publication))):
            raise UnprovenDeliveryError(
                f"{error.message.rstrip('.')} ({error.code}, {spec.database.publication}); nothing was deleted",
                hint=f"{error.remedy.rstrip('.')}. Events written in the meantime are in no topic: {REPUBLISH}",
            )
        if self._client is not None:
            self._check_connector(self._client, facts.slot)

    def _check_connector(self, client: ConnectClient, slot: SlotFacts | None) -> None:
        if slot is None or slot.wal_status == "lost":
            return  # which the delivery tells
        name, outbox = self._spec.name, self._spec.outbox.table
        connected = ask_connect(name, client)
        found = None if connected is None else connected.connector
        if found is None and self._is_relayed(slot):
            return
        if connected is None or found is None:
            raise UnprovenDeliveryError(
                f"the connector {name} does not exist; nothing was deleted",
                hint="Check that this is the connector's Connect cluster. `cdc-outbox deploy-connector` creates "
                "the connector. If a relay publishes, leave --connect-url out.",
            )
        table = f"{outbox.schema}.{outbox.name}"
        if slot_of(found.config) != self._name or not captures(table, found.config):
            raise UnprovenDeliveryError(
                f"the connector {name} does not read {table} from the slot {self._name}; nothing was deleted",
                hint="`cdc-outbox plan` shows the differences from the spec. Deploy the connector, and then: "
                f"{REPUBLISH}",
            )
        stored = stored_offset(connected.offsets, topic_prefix=found.config.get("topic.prefix", ""))
        wal_end, owes = self._facts.read_slots().log_end, found.is_republishing
        relayed = self._facts.publishers.find_relayed(self._name)
        state = SlotState(slot=slot, stored=stored, wal_end=wal_end, republishing=owes, relayed=relayed)
        hole = find_hole(self._name, state)
        if hole is not None:
            raise UnprovenDeliveryError(f"{hole.text.rstrip('.')}; nothing was deleted", hint=hole.hint)

    def _is_relayed(self, slot: SlotFacts) -> bool:
        """Return whether a relay publishes the outbox, and nothing else has moved its slot."""
        publisher = self._facts.publishers.find()
        if publisher is None or not publisher.kind.is_relay or publisher.slot != self._name:
            return False
        return SlotState(slot=slot, relayed=publisher.confirmed).is_relayed

    def refuse_doubt(self, checkpoint: Checkpoint[Lsn]) -> None:
        """Refuse rows that were written before the publication became what it is."""
        spec = self._spec
        [(rows,)] = self._ask(
            "older_than_publication",
            oldest=checkpoint.oldest,
            table=spec.outbox.table.quoted,
            publication=spec.database.publication,
        )
        if rows:
            raise UnprovenDeliveryError(
                f"{counted(rows, 'event')} older than the last change of the publication {spec.database.publication}, "
                "which may not have published them; nothing was deleted",
                hint="Compare them with their topics: give --bootstrap-servers instead of --without-topics.",
            )

    def find_delivery(self) -> DeliveryProof[Lsn]:
        """Return how far the slot has come."""
        slots = self._facts.read_slots()
        return delivery_of(self._name, slots.find(self._name), database=slots.database)

    def look(self, reader: str) -> Checkpoint[Lsn]:
        """Take a checkpoint; it costs nothing, and holds nothing back."""
        [(position, oldest, taken_at)] = self._ask("look")
        return Checkpoint(position=Lsn.parse(position), oldest=oldest, reader=reader, taken_at=taken_at)

    def find_remarks(self, checkpoint: Checkpoint[Lsn], counts: Counts) -> Iterator[tuple[str, str]]:
        """Yield the transaction that was the oldest at the checkpoint and still runs, and other slots behind it."""
        if counts.unproven:
            for name, since in self._ask("running", oldest=checkpoint.oldest):
                yield "held back", f"{name} has been running since {since:%Y-%m-%d %H:%M:%S%z}"
        if counts.gone:
            for slot in self._facts.read_slots().others(self._name):
                if slot.confirmed is not None and slot.confirmed < checkpoint.position:
                    yield "also", f"the slot {slot.name} is at {slot.confirmed}, behind the checkpoint; {_OTHER_SLOT}"


class CheckpointTable:
    """The checkpoints of a slot, in a table beside the outbox; its role may select, insert and delete there."""

    def __init__(self, slot: str, database: OpenDatabase) -> None:
        self._slot = slot
        self._ask = database.ask

    def find(self) -> list[Checkpoint[Lsn]]:
        """Return those of earlier runs."""
        return [checkpoint for checkpoint, compared in self._read() if not compared]

    def find_compared(self) -> Checkpoint[Lsn] | None:
        """Return the newest of which everything that it saw was found in the topics."""
        return next((checkpoint for checkpoint, compared in reversed(self._read()) if compared), None)

    def _read(self) -> list[tuple[Checkpoint[Lsn], bool]]:
        return [
            (
                Checkpoint(
                    position=Lsn.parse(position),
                    oldest=oldest,
                    reader=reader,
                    taken_at=taken_at,
                    ends=None if ends is None else json.loads(ends),
                ),
                compared,
            )
            for position, oldest, reader, taken_at, ends, compared in self._ask("checkpoints", slot=self._slot)
        ]

    def record(self, checkpoint: Checkpoint[Lsn], *, compared: bool = False) -> None:
        """Insert one."""
        self._ask(
            "record",
            slot=self._slot,
            reader=checkpoint.reader,
            position=str(checkpoint.position),
            oldest=checkpoint.oldest,
            taken_at=checkpoint.taken_at,
            ends=None if checkpoint.ends is None else json.dumps(checkpoint.ends),
            compared=compared,
        )

    def forget_before(self, checkpoint: Checkpoint[Lsn]) -> None:
        """Delete those that are of no use any more."""
        self._ask("forget", slot=self._slot, reader=checkpoint.reader, position=str(checkpoint.position))


def slot_pruning(
    spec: Spec,
    connection: AnyConnection,
    driver: TransactionDriver,
    options: PruneOptions,
    report: Report,
    *,
    comparison: TopicComparison | None = None,
    client: ConnectClient | None = None,
) -> Pruning[Lsn]:
    """Return the pruning of an outbox on PostgreSQL, through a connection in autocommit mode.

    Its role may select from the outbox and delete from it, and select, insert and delete in the table of checkpoints;
    to drop partitions it owns them and the outbox.

    Args:
        comparison: With the topics; ``None`` relies on the slot alone.
        client: Connect is asked which table the connector reads, and from where; ``None`` does not ask.
    """
    outbox, slot = spec.outbox.table, spec.database.slot
    refuse_nonsense(options, outbox, tells_age=spec.outbox.columns.created_at is not None)
    # A table that does not tell its rows' age has none that is young.
    lacking = {"created_at": "cast(null as timestamp)", "source": "null", "sequence": "null"}
    names = lacking | dict(spec.outbox.names())
    database = OpenDatabase(connection, driver, names)
    return Pruning(
        SlotProofSource(spec, database, PostgresqlDatabase(connection, driver, spec), client),
        RowsByTransaction(database, outbox),
        options,
        report,
        comparison=comparison,
        memory=CheckpointTable(slot, database),
        parts=PartsByTransaction(database, outbox, report),
    )
