"""The PostgreSQL server that a relay reads from: an ordinary connection that looks, and one that replicates."""

import os
import socket

from cdc_outbox.databases.drivers import AnyConnection, translated_for_operator
from cdc_outbox.databases.drivers.psycopg import Psycopg
from cdc_outbox.databases.drivers.psycopg_bounded import connect_bounded
from cdc_outbox.databases.drivers.sqlstate import OBJECT_IN_USE, UNDEFINED_OBJECT
from cdc_outbox.databases.introspection import Catalog
from cdc_outbox.databases.lsn import Lsn
from cdc_outbox.databases.pgoutput import Relation
from cdc_outbox.databases.publishers import LogIdentity, Publisher, PublisherKind, Publishers, ServerIdentity
from cdc_outbox.databases.replication import ReplicationConnection
from cdc_outbox.databases.slots import read_slots
from cdc_outbox.databases.table import OutboxTable
from cdc_outbox.debezium.event_router.column_values import Column
from cdc_outbox.debezium.event_router.outbox_rows import relation_columns
from cdc_outbox.errors import DatabaseError, DatabaseUnavailableError
from cdc_outbox.kafka.own_heartbeats import OwnHeartbeats
from cdc_outbox.relay.relay_errors import RelayError, ServerChangedError, SlotInUseError, SlotNotFoundError
from cdc_outbox.relay.wal_source import SILENCE_SECONDS, StreamFacts

_LOOK_MILLISECONDS = 5_000
"""A look takes a few; a server that takes longer is in no state to be read from."""
_SLOT_ERRORS = {OBJECT_IN_USE: SlotInUseError, UNDEFINED_OBJECT: SlotNotFoundError}


class PostgresqlServer:
    """Reads slot and publication, and starts the stream.

    Args:
        dsn: Of the outbox's database; the role needs REPLICATION.
        outbox: The table that the publication publishes.
        name: What ``pg_stat_replication`` calls the relay.
        heartbeats: Those of the outbox; ``None`` where none are published.
        silence_seconds: How long the server may be silent before it counts as lost.
    """

    def __init__(
        self,
        dsn: str,
        outbox: OutboxTable,
        *,
        slot: str,
        publication: str,
        name: str,
        heartbeats: OwnHeartbeats | None = None,
        silence_seconds: float = SILENCE_SECONDS,
    ) -> None:
        self._dsn, self._outbox, self._name, self._silence_seconds = dsn, outbox, name, silence_seconds
        self._slot, self._publication = slot, publication
        self._driver = Psycopg()
        self._heartbeats = heartbeats
        self._is_reading = False
        self._connection: AnyConnection | None = None
        self._stream: ReplicationConnection | None = None
        self._server = ServerIdentity(LogIdentity("", None), None, "")
        self._instance = f"{socket.gethostname()}/{os.getpid()}"

    def look(self) -> StreamFacts:
        """Return server, slot and publication as they are now.

        Raises:
            DatabaseError: The server cannot be reached, or refuses the role.
            BrokerError: The heartbeats cannot be read.
        """
        connection, publishers = self._connected(), self._publishers()
        with translated_for_operator():
            publication = Catalog(connection, self._driver).find_publication(self._outbox, self._publication)
        # Before the row, which is written before the slot confirms: a relay that reads the slot meanwhile moves both.
        slot = read_slots(connection, self._driver).find(self._slot)
        foreign = None
        if self._heartbeats is not None and self._is_reading:  # a standby would ask the brokers again and again
            foreign = self._heartbeats.find_foreign(connection, self._driver)
        publisher = publishers.find()
        # After the row: another relay may write a position that the log had not reached before.
        self._server = server = publishers.identify()
        return StreamFacts(
            log=server.log,
            flushed=server.flushed,
            publisher=publisher,
            slot=slot,
            publishes=publication is not None and publication.publishes_each_insert,
            foreign=foreign,
            warning=self._heartbeats.warning if self._heartbeats else "",
        )

    def claim(self, publisher: Publisher, confirmed: Lsn) -> int | None:
        """Write that this relay publishes after another one, and return its epoch; ``None`` if another one did.

        Raises:
            DatabaseUnavailableError: The stream has ended, so that another relay may have read the slot meanwhile.
        """
        epoch = self._publishers().declare(
            PublisherKind.WAL_RELAY,
            slot=self._slot,
            confirmed=confirmed,
            instance=self._instance,
            after=publisher,
            reader=None if self._stream is None else self._stream.process,
        )
        if epoch is None and self._publishers().find() == publisher:
            raise DatabaseUnavailableError("the server ended the replication stream")
        if self._heartbeats is not None and epoch is not None:
            self._heartbeats.write(self._connected(), self._driver)
        return epoch

    def confirm(self, epoch: int, position: Lsn) -> bool:
        """Write what is about to be confirmed, and return whether the epoch is still the publisher's."""
        return self._publishers().confirm(epoch, position)

    def _publishers(self) -> Publishers:
        return Publishers(self._connected(), self._driver, self._outbox.publishers)

    def read_columns(self, relation: Relation) -> tuple[Column, ...]:
        """Return the outbox's columns as Debezium reads them.

        Raises:
            RelayError: A type was dropped.
            DatabaseError: The server cannot be reached, or refuses the role.
        """
        with translated_for_operator():
            facts = Catalog(self._connected(), self._driver).find_streamed_columns(self._outbox.table, relation)
        for column in relation.columns:
            if column.name not in facts:
                raise RelayError(
                    f"the type of the column {column.name} was dropped after rows were written with it",
                    hint="Run `cdc-outbox verify SPEC` to list the events that were not published.",
                )
        return relation_columns(facts, facts)

    def _connected(self) -> AnyConnection:
        if self._connection is None:
            # What is confirmed is written before the slot confirms it: it has to last, and not to wait for standbys.
            options = f"-c statement_timeout={_LOOK_MILLISECONDS} -c synchronous_commit=local"
            name = f"{self._name} (look)"
            self._connection = connect_bounded(self._dsn, self._silence_seconds, application_name=name, options=options)
        return self._connection

    def start(self, position: Lsn | None) -> ReplicationConnection:
        """Connect and read the slot from a position, or from where it was confirmed.

        Raises:
            SlotInUseError: Another connection reads the slot.
            SlotNotFoundError: There is no such slot.
            ServerChangedError: The DSN leads to another server than a moment ago.
            DatabaseError: The server cannot be reached, or refuses the role; or it was started, or the DSN led to
                another server of the same system, since the last look.
        """
        self._stream = stream = ReplicationConnection(self._dsn, self._name, self._silence_seconds)
        try:
            self._require_looked_at(stream)
            stream.start(self._slot, self._publication, position)
        except BaseException as error:
            stream.finish()
            if isinstance(error, DatabaseError) and error.sqlstate in _SLOT_ERRORS:
                raise _SLOT_ERRORS[error.sqlstate](str(error), slot=self._slot) from error
            raise
        self._is_reading = True
        return stream

    def _require_looked_at(self, stream: ReplicationConnection) -> None:
        """Check that the stream's server is the one of the look, to which positions are written and belong."""
        known, log = self._server, stream.identify()
        if log.system != known.log.system:
            message = f"the DSN leads to two servers, {known.log.system} and {log.system}"
            raise ServerChangedError(message, expected=known.log.system, found=log.system)
        if (log, stream.find_started()) != (known.log, known.started):
            raise DatabaseUnavailableError("the server was restarted, or the DSN leads to two servers of one system")

    def close(self) -> None:
        """Close the connections, and that to the heartbeats."""
        connection, self._connection = self._connection, None
        stream, self._stream = self._stream, None
        self._is_reading = False
        if connection is not None:
            connection.close()
        if stream is not None:
            stream.finish()
        if self._heartbeats is not None:
            self._heartbeats.close()

    def renewed(self) -> "PostgresqlServer":
        """Return the server as if nothing was opened, for a caller that leaves this object to a thread that hangs."""
        return PostgresqlServer(
            self._dsn,
            self._outbox,
            slot=self._slot,
            publication=self._publication,
            name=self._name,
            heartbeats=self._heartbeats and self._heartbeats.renewed(),
            silence_seconds=self._silence_seconds,
        )
