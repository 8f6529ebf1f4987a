"""What a replication slot proves, and the marks it has to pass: pruning on PostgreSQL."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.facts import Database, SlotFacts
from cdc_outbox.connect.lint.config import slot_of
from cdc_outbox.connect.plan import SlotState, find_hole, stored_offset
from cdc_outbox.connect.preflight.look import ask_connect
from cdc_outbox.connect.preflight.publication import check_publication
from cdc_outbox.drivers import AnyConnection, TransactionDriver
from cdc_outbox.errors import UnprovenDeliveryError
from cdc_outbox.finding import errors_in
from cdc_outbox.lsn import Lsn
from cdc_outbox.operate.binlog import captures
from cdc_outbox.operate.comparison import REPUBLISH, TopicComparison
from cdc_outbox.operate.database import OpenDatabase
from cdc_outbox.operate.marks import Delivery, Mark
from cdc_outbox.operate.prune import Counts, PruneOptions, Pruning, Report, refuse_nonsense
from cdc_outbox.operate.transactions import PartsByTransaction, RowsByTransaction
from cdc_outbox.safe_text import counted
from cdc_outbox.spec import Spec


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A replication slot, as far as it can prove anything.

    Args:
        plugin: Empty for a physical slot.
        database: Empty for a physical slot.
        wal_status: ``lost`` when it was invalidated, most often because the WAL that it needs is gone.
        reason: Why it was invalidated, where the server says so.
        confirmed: ``None`` where it confirms nothing.
        reader: The connection that reads it, empty for none.
    """

    plugin: str
    database: str
    wal_status: str
    reason: str
    confirmed: Lsn | None
    reader: str


def delivery_of(name: str, slot: Slot | None, *, database: str) -> Delivery[Lsn]:
    """Return how far a slot has come.

    Args:
        database: The one that the outbox is in.

    Raises:
        UnprovenDeliveryError: It can prove nothing.
    """
    defect = _defect(slot, database)
    if slot is None or slot.confirmed is None or defect:
        raise UnprovenDeliveryError(f"the slot {name} {defect or 'confirms nothing'}; nothing was deleted")
    return Delivery(kind="slot", name=name, confirmed=slot.confirmed, reader=slot.reader, read_by=_read_by(slot.reader))


def _defect(slot: Slot | None, database: str) -> str:
    if slot is None:
        return "does not exist"
    if slot.plugin != "pgoutput":
        return f"is one of the plugin {slot.plugin}, not of pgoutput" if slot.plugin else "is a physical one"
    if slot.database != database:
        return f"belongs to the database {slot.database!r}, not to {database!r}"
    if slot.wal_status == "lost" or slot.reason:
        return f"is lost ({slot.reason})" if slot.reason else "is lost: WAL that it needs is gone"
    return ""


_OTHER_SLOT = "what is deleted it has in the WAL and still delivers, but it cannot be published again from the table"


class SlotWitness:
    """The slot that a spec names, asked through a connection to the outbox's database.

    As a member of pg_read_all_stats its role can tell more of what holds it back, and two readers of a slot apart that
    share a process number.
    """

    def __init__(
        self, spec: Spec, database: OpenDatabase, facts: Database, client: ConnectClient | None = None
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
                hint=f"{error.remedy.rstrip('.')}. What was written meanwhile is in no topic: {REPUBLISH}",
            )
        if self._client is not None:
            self._check_connector(self._client, facts.slot)

    def _check_connector(self, client: ConnectClient, slot: SlotFacts | None) -> None:
        if slot is None or slot.wal_status == "lost":
            return  # which the delivery tells
        name, outbox = self._spec.name, self._spec.outbox.table
        connected = ask_connect(name, client)
        found = None if connected is None else connected.connector
        if connected is None or found is None:
            raise UnprovenDeliveryError(
                f"the connector {name} does not exist; nothing was deleted",
                hint="Is this the Connect cluster that it runs on? `cdc-outbox deploy-connector` creates it.",
            )
        table = f"{outbox.schema}.{outbox.name}"
        if slot_of(found.config) != self._name or not captures(table, found.config):
            raise UnprovenDeliveryError(
                f"the connector {name} does not read {table} from the slot {self._name}; nothing was deleted",
                hint=f"`cdc-outbox plan` shows how it differs from the spec. Deploy it, and then: {REPUBLISH}",
            )
        stored = stored_offset(connected.offsets, topic_prefix=found.config.get("topic.prefix", ""))
        wal_end, owes = self._facts.find_wal_end(), found.is_republishing
        hole = find_hole(self._name, SlotState(slot=slot, stored=stored, wal_end=wal_end, republishing=owes))
        if hole is not None:
            raise UnprovenDeliveryError(f"{hole.text.rstrip('.')}; nothing was deleted", hint=hole.hint)

    def refuse_doubt(self, mark: Mark[Lsn]) -> None:
        """Refuse rows that were written before the publication became what it is."""
        spec = self._spec
        [(rows,)] = self._ask(
            "older_than_publication",
            oldest=mark.oldest,
            table=spec.outbox.table.quoted,
            publication=spec.database.publication,
        )
        if rows:
            raise UnprovenDeliveryError(
                f"{counted(rows, 'event')} older than the last change of the publication {spec.database.publication}, "
                "which may have left them out; nothing was deleted",
                hint="Compare them with their topics: give --bootstrap-servers in place of --without-topics.",
            )

    def find_delivery(self) -> Delivery[Lsn]:
        """Return how far the slot has come."""
        rows = self._ask("slot", slot=self._name)
        if not rows:
            return delivery_of(self._name, None, database="")
        *texts, confirmed, reader, database = rows[0]
        slot = Slot(
            plugin=texts[0],
            database=texts[1],
            wal_status=texts[2],
            reason=texts[3],
            confirmed=Lsn.parse(confirmed) if confirmed else None,
            reader=reader,
        )
        return delivery_of(self._name, slot, database=database)

    def look(self, reader: str) -> Mark[Lsn]:
        """Take a mark; it costs nothing, and holds nothing back."""
        [(position, oldest, taken_at)] = self._ask("look")
        return Mark(position=Lsn.parse(position), oldest=oldest, reader=reader, taken_at=taken_at)

    def find_remarks(self, mark: Mark[Lsn], counts: Counts) -> Iterator[tuple[str, str]]:
        """Yield which transaction was the oldest at the mark and still runs, and which other slots are behind it."""
        if counts.unproven:
            for name, since in self._ask("running", oldest=mark.oldest):
                yield "held back", f"{name} has been running since {since:%Y-%m-%d %H:%M:%S%z}"
        if counts.gone:
            for name, confirmed in self._ask("behind", slot=self._name, position=str(mark.position)):
                yield "also", f"the slot {name} is at {confirmed}, behind the mark; {_OTHER_SLOT}"


class MarkTable:
    """The marks of a slot, in a table beside the outbox; its role may select, insert and delete there."""

    def __init__(self, slot: str, database: OpenDatabase) -> None:
        self._slot = slot
        self._ask = database.ask

    def find(self) -> list[Mark[Lsn]]:
        """Return those of earlier runs."""
        return [mark for mark, compared in self._read() if not compared]

    def find_compared(self) -> Mark[Lsn] | None:
        """Return the newest of which everything that it saw was found in the topics."""
        return next((mark for mark, compared in reversed(self._read()) if compared), None)

    def _read(self) -> list[tuple[Mark[Lsn], bool]]:
        return [
            (
                Mark(
                    position=Lsn.parse(position),
                    oldest=oldest,
                    reader=reader,
                    taken_at=taken_at,
                    ends=None if ends is None else json.loads(ends),
                ),
                compared,
            )
            for position, oldest, reader, taken_at, ends, compared in self._ask("marks", slot=self._slot)
        ]

    def record(self, mark: Mark[Lsn], *, compared: bool = False) -> None:
        """Insert one."""
        self._ask(
            "record",
            slot=self._slot,
            reader=mark.reader,
            position=str(mark.position),
            oldest=mark.oldest,
            taken_at=mark.taken_at,
            ends=None if mark.ends is None else json.dumps(mark.ends),
            compared=compared,
        )

    def forget_before(self, mark: Mark[Lsn]) -> None:
        """Delete those that are of no use any more."""
        self._ask("forget", slot=self._slot, reader=mark.reader, position=str(mark.position))


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

    Its role may select from the outbox and delete from it, and select, insert and delete in the table of marks; to
    drop partitions it owns them and the outbox.

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
        SlotWitness(spec, database, Database(connection, driver, spec), client),
        RowsByTransaction(database, outbox),
        options,
        report,
        comparison=comparison,
        memory=MarkTable(slot, database),
        parts=PartsByTransaction(database, outbox, report),
    )


def _read_by(reader: str) -> str:
    """Say who reads a slot; when its connection began is nobody's interest."""
    return f"process {reader.split(maxsplit=1)[0]}" if reader else ""
