"""A replication connection to PostgreSQL: the only module that speaks the replication protocol.

Once the stream has started, nothing blocks but :meth:`ReplicationConnection.wait`: ``get_copy_data(0)`` would hold the
interpreter's lock while it waits, and signals, threads and delivery reports would stand still.
"""

import time
from collections.abc import Mapping
from contextlib import suppress
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict
from psycopg.generators import execute

from cdc_outbox.databases.drivers import sqlstate, translated
from cdc_outbox.databases.drivers.psycopg_bounded import connect_bounded
from cdc_outbox.databases.lsn import Lsn
from cdc_outbox.databases.pgoutput import status_update
from cdc_outbox.databases.publishers import LogIdentity
from cdc_outbox.databases.quoting import literal, quote
from cdc_outbox.errors import DatabaseError, DatabaseUnavailableError

PINNED: Mapping[str, str] = {
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "bytea_output": "hex",
    "extra_float_digits": "3",
    "wal_sender_timeout": "15s",
}
"""What decides how the server spells values, whatever is set for the role; a vanished relay frees its slot in 15 s."""


def has_fast_client() -> bool:
    """Return whether psycopg has a C library: its Python implementation takes hundreds of microseconds for a frame."""
    return pq.__impl__ != "python"


class ReplicationConnection:
    """A connection that reads one slot.

    Args:
        dsn: Of the database that the slot belongs to.
        name: What ``pg_stat_replication`` calls the relay.
        silence_seconds: How long the server may take to answer a command before the stream.

    Attributes:
        process: The server's process for this connection.
        branches: Where each of the server's earlier timelines ended, once :meth:`identify` was called.

    Raises:
        ConfigError: The DSN cannot be read.
        DatabaseError: The server cannot be reached, or refuses the role; or the session does not have the settings of
            :data:`PINNED`.
    """

    def __init__(self, dsn: str, name: str, silence_seconds: float) -> None:
        self._connection = _open(dsn, name, silence_seconds)
        self._pgconn = self._connection.pgconn
        self._selector = DefaultSelector()
        self._is_flushed = True
        self._skipped = ""
        self._connection.add_notice_handler(self._note)
        self.branches: Mapping[int, Lsn] = {}
        try:
            self._check_settings()
        except BaseException:
            self.finish()
            raise

    def _check_settings(self) -> None:
        names = ", ".join(f"pg_catalog.current_setting({literal(name)})" for name in (*PINNED, "client_encoding"))
        # Not libpq's own number, which is a pooler's where one is between.
        *found, process = self._row(f"select {names}, pg_catalog.pg_backend_pid()")
        self.process = int(process)
        for (name, value), given in zip((*PINNED.items(), ("client_encoding", "UTF8")), found, strict=True):
            if given != value:
                raise DatabaseError(
                    f"the replication session has {name}={given}, not {value}",
                    hint="Connect to PostgreSQL itself: a pooler may drop the settings of a connection.",
                )

    def identify(self) -> LogIdentity:
        """Return which log the server writes."""
        system, timeline, *_ = self._row("IDENTIFY_SYSTEM")
        history = self._row(f"TIMELINE_HISTORY {timeline}")[1] if int(timeline) > 1 else ""
        lines = [line.split() for line in history.splitlines() if line.strip() and not line.startswith("#")]
        self.branches = {int(earlier): Lsn.parse(end) for earlier, end, *_ in lines}
        return LogIdentity(system, int(timeline))

    def find_started(self) -> str:
        """Return when the server was started, as ``ServerIdentity`` has it."""
        [started] = self._row("select extract(epoch from pg_catalog.pg_postmaster_start_time())")
        return started

    def start(self, slot: str, publication: str, position: Lsn | None = None) -> None:
        """Begin to read.

        Args:
            position: All that was committed before it is skipped, for ever; ``None`` for where the slot was confirmed.

        Raises:
            DatabaseError: The server refuses: ``OBJECT_IN_USE`` for a slot that is read, ``UNDEFINED_OBJECT`` for one
                that does not exist.
        """
        options = f"proto_version '1', publication_names {literal(quote(publication))}"
        self._execute(
            f"START_REPLICATION SLOT {quote(slot)} LOGICAL {position or Lsn(0)} ({options})", pq.ExecStatus.COPY_BOTH
        )
        self._pgconn.nonblocking = 1
        self._selector.register(self._pgconn.socket, EVENT_READ)

    def _note(self, diagnostic: psycopg.errors.Diagnostic) -> None:
        """Notice that PostgreSQL 18 leaves out rows of a publication that it does not find, with no more than this."""
        # The server says with the same code that it waits for a synchronized standby, and sends the rows afterwards.
        if diagnostic.sqlstate == sqlstate.NOT_READY and diagnostic.source_function != "StandbySlotsHaveCaughtup":
            self._skipped = diagnostic.message_primary or "the server skipped the publication"

    def receive(self) -> bytes | None:
        """Return the next frame that has arrived, ``None`` if none has.

        Raises:
            DatabaseUnavailableError: The connection broke.
            DatabaseError: The server ended the stream; ``UNDEFINED_OBJECT`` where the publication did not exist when
                the next row was written.
        """
        try:
            size, data = self._pgconn.get_copy_data(1)
            if size == 0:
                self._pgconn.consume_input()
                size, data = self._pgconn.get_copy_data(1)
        except psycopg.Error:
            with translated():  # not around each frame: that costs as much as the frame
                raise
        if self._skipped:
            hint = "Create the publication: `cdc-outbox init SPEC`."
            raise DatabaseError(self._skipped, sqlstate=sqlstate.UNDEFINED_OBJECT, hint=hint)  # as before PostgreSQL 18
        if size > 0:
            return bytes(data)
        if size < 0:
            self._raise_end()
        return None

    def _raise_end(self) -> None:
        while (result := self._pgconn.get_result()) is not None:
            if result.status == pq.ExecStatus.FATAL_ERROR:
                raise _error_of(result)
            if result.status == pq.ExecStatus.COPY_IN:  # the server ended its half of the stream, as in a shutdown
                break
        raise DatabaseUnavailableError("the server ended the replication stream")

    def wait(self, seconds: float) -> None:
        """Wait until something arrives, at most so long."""
        if not self._is_flushed:
            self._flush()
        self._selector.select(seconds)

    def tell(self, confirmed: int) -> None:
        """Send a status update, which the server answers: everything before this position was delivered.

        Raises:
            DatabaseUnavailableError: The connection broke.
        """
        with translated():
            self._pgconn.put_copy_data(status_update(confirmed, time.time_ns() // 1_000))
        self._flush()

    def _flush(self) -> None:
        with translated():
            self._is_flushed = self._pgconn.flush() == 0
        events = EVENT_READ if self._is_flushed else EVENT_READ | EVENT_WRITE
        self._selector.modify(self._pgconn.socket, events)

    def end(self, seconds: float) -> None:
        """End the stream so that the server reads the last status update, waiting at most so long.

        A socket that is closed while data lies unread in it is reset, and what was sent last may get lost.
        """
        deadline = time.monotonic() + seconds
        with suppress(psycopg.Error, DatabaseError):
            self._pgconn.put_copy_end()
            while (left := deadline - time.monotonic()) > 0:
                self._flush()
                size, _ = self._pgconn.get_copy_data(1)
                if size < 0:
                    break
                if size == 0:
                    self._selector.select(left)
                    self._pgconn.consume_input()

    def finish(self) -> None:
        """Close the connection."""
        self._selector.close()
        self._connection.close()

    def _row(self, command: str) -> list[str]:
        result = self._execute(command, pq.ExecStatus.TUPLES_OK)
        return [(result.get_value(0, column) or b"").decode(errors="replace") for column in range(result.nfields)]

    def _execute(self, command: str, wanted: pq.ExecStatus) -> pq.abc.PGresult:
        result: pq.abc.PGresult
        with translated():
            self._pgconn.send_query(command.encode())
            result = self._connection.wait(execute(self._pgconn))[-1]
        if result.status != wanted:
            raise _error_of(result)
        return result


def _open(dsn: str, name: str, silence_seconds: float) -> psycopg.Connection[tuple[object, ...]]:
    given: Mapping[str, object] = {}
    with suppress(psycopg.ProgrammingError, UnicodeDecodeError):  # `connect` refuses it, without quoting it
        given = conninfo_to_dict(dsn)
    settings = " ".join(f"-c {setting}={value.replace(' ', '')}" for setting, value in PINNED.items())
    return connect_bounded(
        dsn,
        silence_seconds,
        replication="database",
        application_name=name,
        options=f"{given.get('options') or ''} {settings}".strip(),
    )


def _error_of(result: pq.abc.PGresult) -> DatabaseError:
    state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
    message = (result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"").decode(errors="replace")
    message = message or "the server ended the connection"
    if not state:
        return DatabaseUnavailableError(message)
    return sqlstate.translate(state, message) or DatabaseError(
        message, sqlstate=state, hint="The server's log has more about it."
    )
