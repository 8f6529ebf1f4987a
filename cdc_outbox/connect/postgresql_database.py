"""PostgreSQL as a deployment and a preflight ask it."""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, TypeGuard

from cdc_outbox.contract.outbox_options import OutboxMode
from cdc_outbox.databases.drivers import AnyConnection, Row, TransactionDriver, translated_for_operator
from cdc_outbox.databases.facts import (
    COUNTED_ROWS,
    DatabaseFacts,
    OpenTransaction,
    ServerFacts,
    SlotFacts,
    WrittenFacts,
)
from cdc_outbox.databases.introspection import Catalog
from cdc_outbox.databases.lsn import Lsn
from cdc_outbox.databases.pgoutput import Begin, Insert, LogicalMessage, PgoutputMessage, read_message
from cdc_outbox.databases.publishers import Publishers
from cdc_outbox.databases.quoting import quote
from cdc_outbox.databases.slots import ReplicationSlots, read_slots
from cdc_outbox.databases.source import read_source
from cdc_outbox.databases.sql import load
from cdc_outbox.errors import DatabaseAccessError, DatabaseError, TransactionConflictError
from cdc_outbox.spec import Spec

PEEKED_CHANGES = 1_000_000
"""Changes of a slot that are looked at: some hundred megabytes of WAL, a few seconds, and of memory for the ids."""
LONG_OPEN_SECONDS = 60.0
"""A transaction of this age is longer than a deployment waits by itself; a prepared one has no session that ends it."""
_LOOK_SECONDS = 0.1
"""Between two looks whether older transactions have ended."""
_PATIENCE_SECONDS = 30.0
"""What a preflight gives a statement: it also looks into the slot, which may hold the log of days."""

_HINTS = {
    "42710": "If another deployment is under way, wait for it and run the command again.",
    "53400": "Drop an unused replication slot, or raise max_replication_slots.",
    "55006": "Another connector or tool reads the slot: stop it, or choose another slot.",
    "57014": "A transaction that was open before the slot delays its creation; pg_stat_activity shows which one.",
}
"""What to do about errors of the server that a deployment may meet, by SQLSTATE."""


class PostgresqlDatabase:
    """The pipeline's database, through a connection in autocommit mode whose role may create slots.

    Attributes:
        publishers: Who publishes the outbox.
    """

    def __init__(self, connection: AnyConnection, driver: TransactionDriver, spec: Spec) -> None:
        self._connection = connection
        self._driver = driver
        self._spec = spec
        self._statements = load(driver.dialect, "preflight")
        self._catalog = Catalog(connection, driver)
        self.publishers = Publishers(connection, driver, spec.outbox.publishers)

    def refuse_changes(self) -> None:
        """Let nothing that is asked from now on change anything, nor take long; for all of the connection's life."""
        self._ask("read_only")
        self._ask("limit_time", milliseconds=str(int(_PATIENCE_SECONDS * 1000)))

    def read_facts(self) -> DatabaseFacts:
        """Read the facts, each by a statement of its own: they are looked at again before anything depends on one."""
        facts = self.read_surroundings()
        return replace(facts, written=self.read_written()) if facts.table and facts.table.has_log else facts

    def read_surroundings(self) -> DatabaseFacts:
        """Read all but the outbox's contents, which not every role may read."""
        spec, outbox = self._spec, self._spec.outbox
        [(version, wal_level)] = self._ask("server")
        slots = self.read_slots()
        with translated_for_operator():
            role = self._catalog.find_connector_role(spec.database.user, outbox.table)
            table = self._catalog.find_table(outbox.heads if outbox.mode is OutboxMode.MESSAGE else outbox.table)
            publication = self._catalog.find_publication(outbox, spec.database.publication)
            source = read_source(outbox, self._catalog)
        return DatabaseFacts(
            version=version,
            wal_level=wal_level,
            database=slots.database,
            free_slots=slots.free,
            role=role,
            table=table,
            publication=publication,
            slot=slots.find(spec.database.slot),
            written=WrittenFacts(keeps_rows=outbox.mode.keeps_rows),
            server=self._read_server(slots),
            source=source,
            **self._read_heartbeat(),
        )

    def _read_heartbeat(self) -> dict[str, bool]:
        spec = self._spec
        if spec.heartbeat_topic is None:
            return {}
        with translated_for_operator():
            there, callable_ = self._catalog.find_function(spec.outbox.heartbeat, spec.database.user)
        return {"has_heartbeat": there, "may_write_heartbeat": callable_}

    def _read_server(self, slots: ReplicationSlots) -> ServerFacts:
        [(standby, senders, encoding, plugins, idle, timeout, wal, slot_wal, awaits)] = self._ask("server_state")
        return ServerFacts(
            is_standby=standby,
            free_senders=senders,
            encoding=encoding,
            slot_plugins=None if plugins is None else [name.strip() for name in plugins.split(",")],
            idle_slot_seconds=idle or 0,
            sender_timeout_seconds=timeout,
            max_wal_bytes=wal,
            max_slot_wal_bytes=slot_wal,
            awaits_standbys=awaits,
            wal_end=slots.log_end,
            idle_slots=slots.idle(self._spec.database.slot),
            open_for_long=[
                OpenTransaction(name=name, since=since, is_prepared=prepared)
                for name, since, prepared in self._ask("open_for_long", seconds=LONG_OPEN_SECONDS)
            ],
        )

    def read_slots(self) -> ReplicationSlots:
        """Return the server's slots as they are now."""
        return read_slots(self._connection, self._driver)

    def find_slot(self) -> SlotFacts | None:
        """Return the pipeline's slot as it is now."""
        return self.read_slots().find(self._spec.database.slot)

    def take_turn(self, *, timeout_seconds: float) -> None:
        """Wait until no other session creates or checks the slot; then others wait, for as long as this one lasts."""
        with self._limited(timeout_seconds):
            self._ask("take_turn", slot=self._spec.database.slot)

    def create_slot(self, *, timeout_seconds: float) -> Lsn:
        """Create the slot and return where it starts: what commits from here on will be published.

        What was committed before is visible then. Standbys keep a copy of the slot where slots are configured to wait
        for standbys.

        Raises:
            DatabaseError: A transaction that was open already did not end within the time; there is no slot then.
        """
        server = self._read_server(self.read_slots())
        create = "create_failover_slot" if server.awaits_standbys else "create_slot"
        with self._limited(timeout_seconds):
            [(lsn,)] = self._ask(create, slot=self._spec.database.slot)
        try:
            self.await_older(timeout_seconds=timeout_seconds)
        except BaseException:
            with suppress(DatabaseError):
                self.drop_slot()
            raise
        return Lsn.parse(lsn)

    def await_older(self, *, timeout_seconds: float) -> None:
        """Wait until every transaction that has a number now has ended.

        The log has a commit before others see it, while it waits for the disk or a standby: a new slot may begin behind
        it, and who looks for the rows that the slot lacks does not find those.

        Raises:
            TransactionConflictError: One of them did not end within the time.
        """
        deadline = time.monotonic() + timeout_seconds
        [(number,)] = self._ask("number")
        while self._ask("older_ended", number=number) != [(True,)]:
            if time.monotonic() >= deadline:
                message = "a transaction that was open when the slot was created has not ended"
                raise TransactionConflictError(message, hint=_HINTS["57014"])
            time.sleep(_LOOK_SECONDS)

    @contextmanager
    def _limited(self, seconds: float) -> Iterator[None]:
        self._ask("limit_time", milliseconds=str(max(1, int(seconds * 1000))))
        try:
            yield
        finally:
            self._ask("unlimit_time")

    def check_may_read_slot(self) -> None:
        """Check whether this role may read and drop the slot, which may be in use.

        Raises:
            DatabaseAccessError: It may not.
        """
        try:
            slot, publication = self._spec.database.slot, quote(self._spec.database.publication)
            self._ask("may_read_slot", slot=slot, publication=publication)
        except DatabaseError as error:
            # The server checks privileges before it refuses a slot that is in use, or has lost its WAL.
            if isinstance(error, DatabaseAccessError):
                raise

    def drop_slot(self) -> None:
        """Drop the slot, which must not be in use."""
        self._ask("drop_slot", slot=self._spec.database.slot)

    def read_written(self) -> WrittenFacts:
        """Return what the outbox holds now."""
        outbox = self._spec.outbox
        with translated_for_operator():
            rows = 0 if outbox.mode is OutboxMode.MESSAGE else self._catalog.count_rows(outbox.table)
            heads_exist = self._catalog.exists(outbox.heads)
        has_heads = heads_exist and self._ask("heads")[0][0]
        return WrittenFacts(rows, has_heads, keeps_rows=outbox.mode.keeps_rows)

    def count_forgotten(self) -> int:
        """Return how many rows without a number are older than what consumers remember, up to :data:`COUNTED_ROWS`.

        0 where the spec declares no horizon, or the table has no column for when its rows were written.
        """
        spec, days = self._spec, self._spec.topics.horizon_days
        unnumbered = [name for name, mode in spec.contract.aggregates.items() if not mode.is_numbered]
        if days is None or not unnumbered or spec.outbox.columns.created_at is None:
            return 0
        [(rows,)] = self._ask("older", aggregate_types=unnumbered, days=days, limit=COUNTED_ROWS)
        return int(rows)

    def count_events_outside_slot(self, columns: Sequence[str]) -> int:
        """Return how many events the connector's inactive slot would not deliver: by rows, or else by numbers.

        Args:
            columns: Those that are published, in their order.
        """
        outbox = self._spec.outbox
        if outbox.mode.keeps_rows or not outbox.is_numbered:
            return self._count_rows_outside_slot(columns)
        return self._count_numbers_outside_slot(columns)

    def count_undelivered(self, delivered: Lsn | None, last: Lsn | None) -> int:
        """Return how many events an inactive slot holds that were not published; nothing is consumed.

        Args:
            delivered: Up to where Connect has stored that the connector read; the slot may be confirmed later.
            last: The last change that was published, by Connect: its transaction may be read no further.
        """
        emits = self._spec.outbox.mode is OutboxMode.MESSAGE
        count, is_delivered = 0, False
        for lsn, change in self._peek_rows("peek_transactions"):
            message = read_message(change)
            if isinstance(message, Begin):
                # Connect's position is the end of a commit record, this one its beginning.
                is_delivered = delivered is not None and message.commit_lsn < delivered.value
            elif not is_delivered:
                count += self._is_ours(message) if emits else isinstance(message, Insert)
                if last is not None and int(lsn) == last.value:
                    count = 0
        return count

    def _count_numbers_outside_slot(self, columns: Sequence[str]) -> int:
        """Count the numbers that were given out below the first that the slot holds, aggregate by aggregate.

        Of numbers with holes it is known only that one is missing where the slot holds none. The heads are read first:
        an event that is committed meanwhile is then in the slot, and above them.
        """
        heads = self._ask("last_numbers", limit=COUNTED_ROWS)
        first: dict[tuple[str, ...], int] = {}
        for *aggregate, sequence in self._numbers_in_slot(list(columns)):
            first.setdefault(tuple(aggregate), int(sequence))
        aggregates = self._spec.contract.aggregates
        missing = 0
        for aggregate_type, aggregate_id, source, last in heads:
            held = first.get((aggregate_type, aggregate_id, source))
            mode = aggregates.get(aggregate_type)
            if mode is not None and mode.is_given_by_caller:
                missing += held is None
            else:
                missing += (last + 1 if held is None else held) - 1
        return missing

    def _numbers_in_slot(self, order: list[str]) -> Iterator[tuple[str, ...]]:
        """Yield type, id, source and sequence of the numbered events in the slot."""
        outbox = self._spec.outbox
        names = outbox.columns.names()
        wanted = [names[role] for role in ("aggregate_type", "aggregate_id", "source", "sequence") if role in names]
        emits = outbox.mode is OutboxMode.MESSAGE
        for message in self._peek("peek_messages" if emits else "peek"):
            event: list[object] = [None]
            if self._is_ours(message):
                event = [json.loads(message.content).get(column) for column in wanted]
            # A table that shares the publication may have other columns.
            elif isinstance(message, Insert) and len(message.values) == len(order):
                event = [message.values[order.index(column)] for column in wanted]
            if None not in event:
                yield tuple(value.decode() if isinstance(value, bytes) else str(value) for value in event)

    def _count_rows_outside_slot(self, columns: Sequence[str]) -> int:
        """Return how many rows the connector's inactive slot would not deliver, up to :data:`COUNTED_ROWS`.

        By their ids: neither transaction ids (a savepoint has its own, another slot holds back the horizon) nor times
        show what was committed before a slot. Nothing is consumed. More changes than :data:`PEEKED_CHANGES` are not
        looked at, and rows behind them are counted, though the slot may hold them.

        Args:
            columns: Those that are published, in their order.
        """
        held = self._ids_in_slot(list(columns).index(self._spec.outbox.columns.id))
        [(rows,)] = self._ask("outside", held=held, limit=COUNTED_ROWS)
        return int(rows)

    def _ids_in_slot(self, position: int) -> list[str]:
        """Return the ids among the slot's changes."""
        held: list[str] = []
        for message in self._peek("peek"):
            values = message.values if isinstance(message, Insert) else []
            # A table that shares the publication may have fewer columns.
            if position < len(values) and (value := values[position]) is not None:
                held.append(value.decode())
        return held

    def _is_ours(self, message: PgoutputMessage) -> TypeGuard[LogicalMessage]:
        """Return whether a message is an event that was emitted with the outbox's prefix."""
        return isinstance(message, LogicalMessage) and message.prefix == self._spec.outbox.message_prefix.encode()

    def _peek(self, statement: str) -> Iterator[PgoutputMessage]:
        """Yield the slot's changes."""
        return (read_message(change) for *_, change in self._peek_rows(statement))

    def _peek_rows(self, statement: str) -> Iterator[tuple[Any, ...]]:
        """Yield the slot's changes, and what stands before them; by a cursor, for a million payloads take memory."""
        slot, publication = self._spec.database.slot, quote(self._spec.database.publication)
        self._driver.begin(self._connection)
        try:
            self._ask(statement, slot=slot, publication=publication, limit=PEEKED_CHANGES)
            while changes := self._ask("next_changes"):
                yield from ((*before, bytes(change)) for *before, change in changes)
        finally:
            self._driver.rollback(self._connection)

    def _ask(self, statement: str, **parameters: object) -> list[Row]:
        sql = self._statements[statement].render(self._spec.outbox.names(), self._driver.style)
        with translated_for_operator(_HINTS):
            return self._driver.fetch(self._connection, sql, parameters)
