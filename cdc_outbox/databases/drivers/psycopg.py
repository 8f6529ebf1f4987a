"""psycopg 3, synchronous and asynchronous."""

import re
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager, suppress
from selectors import EVENT_READ, BaseSelector, DefaultSelector
from typing import Any, TypeVar, overload

import psycopg
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Conninfo, PipelineStatus, TransactionStatus
from psycopg.waiting import Wait

from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.drivers import (
    AsyncDriver,
    Driver,
    Parameters,
    Row,
    TransactionState,
    sqlstate,
    translated,
    wrong_kind,
)
from cdc_outbox.databases.drivers.immediate import Meanwhile
from cdc_outbox.databases.drivers.psycopg_cursors import ListDumper, cursor_of, kept_cursors, not_owned
from cdc_outbox.databases.drivers.transactions import (
    ANSWER_SECONDS,
    AsyncSendsAtOnce,
    SendsAtOnce,
    already_open,
    async_transaction,
    other_isolation,
    refuse_commit,
    session_settings,
    transaction,
)
from cdc_outbox.databases.sql import PYFORMAT
from cdc_outbox.errors import (
    ConfigError,
    DatabaseAccessError,
    DatabaseError,
    DatabaseUnavailableError,
    OutboxError,
    TransactionEndedError,
)
from cdc_outbox.text_files.document import did_you_mean

Connectable = psycopg.Connection[Any] | psycopg.Cursor[Any]
AsyncConnectable = psycopg.AsyncConnection[Any] | psycopg.AsyncCursor[Any]
AnyConnection = psycopg.Connection[Any] | psycopg.AsyncConnection[Any]
Block = TypeVar("Block")

_QUESTION = re.compile(r"\s*Is the server running [^?]*\?")
"""A question of libpq's, which our hint answers, and which no full stop may follow."""
_HINT = (
    "In a postgresql:// URI write %25 for %, %40 for @, %2F for / and %20 for a space of the password; "
    "in host=… dbname=… put it in single quotes. "
    "Keys are libpq's: host, port, dbname, user, password, sslmode …"
)
_UNKNOWN_KEY = re.compile(r'invalid (?:connection option|URI query parameter:) "([^"]*)"')
"""libpq's words about a key of a DSN; a part of a password may stand where the key does."""
_CUT_LOGIN = re.compile("unexpectedly|could not|SYSCALL|terminating connection")  # by libpq, or by a dying server
_UNENDED = {TransactionState.OPEN, TransactionState.ABORTED}


def connect(dsn: str, **options: Any) -> psycopg.Connection[Row]:
    """Open a connection in autocommit mode.

    Raises:
        ConfigError: The DSN cannot be read, or not as it was meant.
        DatabaseUnavailableError: No server answers, within ten seconds unless the DSN says otherwise.
        DatabaseAccessError: The server refused the role, the password or the database.
    """
    _refuse_misread(dsn)
    with translated():
        # Said, because a database of SQL_ASCII has an encoding in which psycopg returns bytes for every text.
        chosen: dict[str, Any] = {"connect_timeout": 10, "client_encoding": "UTF8"} | options
        return psycopg.connect(dsn, autocommit=True, **chosen)


def _refuse_misread(dsn: str) -> None:
    """Refuse what libpq cannot read, and what it reads as host or port but is the rest of a password.

    A password with a % or a space is an error of libpq's that quotes it; with an @ or a / in it, a part of it becomes
    the host or the port, which the error of the attempt to connect would quote. So no such error is passed on, not
    even as a cause; of a key that libpq does not know, the nearest that it knows is named.
    """
    offer = ""
    try:
        read = conninfo_to_dict(dsn)
    # Percent-encoded bytes that are no UTF-8 are a part of the password, which the error would hold.
    except (psycopg.ProgrammingError, UnicodeDecodeError) as error:
        read = None
        if unknown := _UNKNOWN_KEY.search(str(error)):
            keys = [option.keyword.decode() for option in Conninfo.get_defaults()]
            offer = did_you_mean(unknown[1], keys)
    # In front, @ is an abstract socket. An empty port between commas is the default one.
    if read is None or "@" in str(read.get("host", ""))[1:] or re.search(r"[^0-9, ]", str(read.get("port", ""))):
        raise ConfigError("the DSN cannot be read", field="dsn", hint=f"{offer} {_HINT}".strip())


def translate(error: BaseException) -> DatabaseError | None:
    """Return our error for one of psycopg's, ``None`` where an operator can do nothing about it."""
    # A pipeline is aborted by a statement before this one, whose own error is the one to look at.
    if not isinstance(error, psycopg.Error) or isinstance(error, psycopg.errors.PipelineAborted):
        return None
    if error.sqlstate is not None:
        return sqlstate.translate(error.sqlstate, _sentence(error))
    return _without_sqlstate(error) if isinstance(error, psycopg.OperationalError) else None


def sqlstate_of(error: BaseException) -> str:
    """Return the server's code."""
    return (isinstance(error, psycopg.Error) and error.sqlstate) or ""


def _without_sqlstate(error: psycopg.OperationalError) -> DatabaseError:
    # libpq keeps the SQLSTATE of a refused login to itself. Where the server speaks another language than English, a
    # missing database looks like a wrong password.
    if re.search(r'database "[^"]*" does not exist', str(error)):
        return DatabaseAccessError(_sentence(error), hint=sqlstate.NO_DATABASE)
    # That a password was asked for in vain tells a refusal, in any language.
    attempt = error.pgconn
    refused = attempt is not None and (attempt.used_password or attempt.needs_password) and not attempt.server_version
    refused = refused and not _CUT_LOGIN.search(str(error))
    return (DatabaseAccessError if refused else DatabaseUnavailableError)(_sentence(error))


def _sentence(error: psycopg.Error) -> str:
    """Return the server's message without its detail, which may quote a row."""
    text = error.diag.message_primary or _QUESTION.sub("", str(error))
    return " ".join(text.split())


class _Psycopg:
    serves_type = True
    dialect = Dialect.POSTGRESQL
    style = PYFORMAT
    transaction_hint = (
        "Open a transaction first, with psycopg `with connection.transaction():`, and add the event inside it."
    )

    def state(self, connection: AnyConnection) -> TransactionState:
        """Ask libpq, which knows from the server's last answer."""
        # The usual status first: this runs after every handler. A broken connection has the status UNKNOWN.
        status, in_pipeline = connection.pgconn.transaction_status, connection.pgconn.pipeline_status
        if status == TransactionStatus.INTRANS and not in_pipeline:
            return TransactionState.OPEN
        if connection.broken:
            return TransactionState.LOST
        # It stays ACTIVE where psycopg sees the end of the socket before libpq does.
        if status == TransactionStatus.ACTIVE or in_pipeline:
            return TransactionState.UNKNOWN
        return TransactionState.ABORTED if status == TransactionStatus.INERROR else TransactionState.ENDED

    async def answers(self, connection: AnyConnection) -> bool:
        """Have the server cancel what is open, and look whether it has closed this connection."""
        with suppress(psycopg.Error), DefaultSelector() as selector:
            if (cancelled := connection.cancel_safe(timeout=ANSWER_SECONDS)) is not None:
                await cancelled
            selector.register(connection.fileno(), EVENT_READ)
            while selector.select(0):  # the server's last words come before the end
                connection.pgconn.consume_input()
            return True
        return False


class Psycopg(_Psycopg, SendsAtOnce):
    """The synchronous driver, for connections and cursors."""

    def __init__(self) -> None:
        self._block: AbstractContextManager[object] | None = None

    def joins_transaction(self, connectable: Connectable) -> bool:
        """Ask libpq; see :class:`~cdc_outbox.databases.drivers.Driver`."""
        return _joins(connectable)

    def fetch(self, connectable: Connectable, sql: str, parameters: Parameters = None) -> list[Row]:
        """Execute and fetch on a cursor of our own: the user's factories must not reach our statements and rows."""
        cursor = cursor_of(psycopg.Cursor, _connection(connectable))
        # The dumpers of a cursor of its own are a copy of the connection's, which costs as much as an event's checks.
        if parameters and list in map(type, parameters.values()):
            cursor.adapters.register_dumper(list, ListDumper)
        with translated():
            cursor.execute(sql, parameters)
            return cursor.fetchall() if _returns_rows(cursor) else []

    def fetch_often(self, connectable: Connectable, sql: str, parameters: Parameters = None) -> list[Row]:
        """Execute and fetch on a cursor that is kept for the statement."""
        connection = _connection(connectable)
        with translated():
            kept, key = kept_cursors(connection, sql)
            cursor = kept.pop(key, None) or cursor_of(psycopg.Cursor, not_owned(connection))
            cursor.execute(sql, parameters)
            rows = cursor.fetchall() if _returns_rows(cursor) else []
            kept[key] = cursor
        return rows

    @contextmanager
    def overlapping(self, connection: psycopg.Connection[Any], meanwhile: Meanwhile) -> Iterator[None]:
        """Have psycopg wait for the server's answers only while there is nothing else to do.

        Not by a pipeline: in one PostgreSQL bounds no idling, so that a process which is paused in it could keep its
        transaction, and all who wait for that, for as long as it likes.
        """
        wait, is_registered = connection.wait, False
        with DefaultSelector() as selector:  # one for the block: it costs a statement more than all else here

            def work() -> bool:
                is_more = meanwhile()
                if not is_more:
                    vars(connection).pop("wait", None)  # the block's other statements need not check
                return is_more

            def wait_later(steps: PQGen[Any], *arguments: Any, **options: Any) -> Any:  # noqa: ANN401
                nonlocal is_registered
                if not is_registered:
                    selector.register(connection.fileno(), EVENT_READ)
                    is_registered = True
                return wait(_later(steps, selector, work), *arguments, **options)

            # Should psycopg once wait in another way, nothing is lost but time.
            vars(connection)["wait"] = wait_later
            try:
                yield
            finally:
                vars(connection).pop("wait", None)

    def prepare(self, connection: psycopg.Connection[Any], *, idle_seconds: float) -> None:
        """Set the session, and refuse a level that psycopg would put into each BEGIN."""
        settings = _settings(connection, idle_seconds)
        with transaction(connection, self):
            for sql in settings:
                self.fetch(connection, sql)

    def begin(self, connection: psycopg.Connection[Any]) -> None:
        """Enter psycopg's own block: in it ``commit()``, ``rollback()`` and ``with connection`` raise."""
        _refuse_open(connection)
        block = connection.transaction()
        with translated():
            block.__enter__()
        self._block = block

    def commit(self, connection: psycopg.Connection[Any]) -> None:
        """Leave the block, after a look at what the server said last: the block keeps COMMIT's answer to itself."""
        block, self._block = _leave(self._block, self.state(connection)), None
        with translated():
            block.__exit__(None, None, None)

    def rollback(self, connection: psycopg.Connection[Any]) -> None:
        """Undo what is open, if anything is."""
        if self.state(connection) is TransactionState.UNKNOWN:
            return  # with the block: at its end it would wait for the lock that a COPY or a stream has
        block, self._block = self._block, None
        with suppress(psycopg.Error):  # the server is gone, and so is the transaction
            if block is not None:
                block.__exit__(psycopg.Rollback, psycopg.Rollback(), None)
        with suppress(psycopg.Error):  # a block that a handler left open keeps psycopg from ending the outer one
            if self.state(connection) in _UNENDED:
                connection.execute("rollback")


class AsyncPsycopg(_Psycopg, AsyncSendsAtOnce):
    """The asynchronous driver, for connections and cursors; each step as the twin does it."""

    def __init__(self) -> None:
        self._block: AbstractAsyncContextManager[object] | None = None

    async def joins_transaction(self, connectable: AsyncConnectable) -> bool:
        """Ask libpq; see :class:`~cdc_outbox.databases.drivers.AsyncDriver`."""
        return _joins(connectable)

    async def fetch(self, connectable: AsyncConnectable, sql: str, parameters: Parameters = None) -> list[Row]:
        """Execute and fetch on a cursor of our own."""
        with translated():
            cursor = cursor_of(psycopg.AsyncCursor, _connection(connectable))
            if parameters and list in map(type, parameters.values()):
                cursor.adapters.register_dumper(list, ListDumper)
            await cursor.execute(sql, parameters)
            return await cursor.fetchall() if _returns_rows(cursor) else []

    async def fetch_often(self, connectable: AsyncConnectable, sql: str, parameters: Parameters = None) -> list[Row]:
        """Execute and fetch on a cursor that is kept for the statement."""
        connection = _connection(connectable)
        with translated():
            kept, key = kept_cursors(connection, sql)
            cursor = kept.pop(key, None) or cursor_of(psycopg.AsyncCursor, not_owned(connection))
            await cursor.execute(sql, parameters)
            rows = await cursor.fetchall() if _returns_rows(cursor) else []
            kept[key] = cursor
        return rows

    async def prepare(self, connection: psycopg.AsyncConnection[Any], *, idle_seconds: float) -> None:
        """Set the session, and refuse a level that psycopg would put into each BEGIN."""
        settings = _settings(connection, idle_seconds)
        async with async_transaction(connection, self):
            for sql in settings:
                await self.fetch(connection, sql)

    async def begin(self, connection: psycopg.AsyncConnection[Any]) -> None:
        """Enter psycopg's own block."""
        _refuse_open(connection)
        block = connection.transaction()
        with translated():
            await block.__aenter__()
        self._block = block

    async def commit(self, connection: psycopg.AsyncConnection[Any]) -> None:
        """Leave the block, after a look at what the server said last."""
        block, self._block = _leave(self._block, self.state(connection)), None
        with translated():
            await block.__aexit__(None, None, None)

    async def rollback(self, connection: psycopg.AsyncConnection[Any]) -> None:
        """Undo what is open, if anything is."""
        if self.state(connection) is TransactionState.UNKNOWN:
            return
        block, self._block = self._block, None
        with suppress(psycopg.Error):
            if block is not None:
                await block.__aexit__(psycopg.Rollback, psycopg.Rollback(), None)
        with suppress(psycopg.Error):
            if self.state(connection) in _UNENDED:
                await connection.execute("rollback")


def find(connectable: object) -> Driver:
    """Return the driver for a synchronous connection or cursor."""
    if isinstance(connectable, psycopg.Connection | psycopg.Cursor):
        return Psycopg()
    raise wrong_kind(connectable, asynchronous=False)


def find_async(connectable: object) -> AsyncDriver:
    """Return the driver for an asynchronous connection or cursor."""
    if isinstance(connectable, psycopg.AsyncConnection | psycopg.AsyncCursor):
        return AsyncPsycopg()
    raise wrong_kind(connectable, asynchronous=True)


def _later(steps: PQGen[Any], selector: BaseSelector, meanwhile: Meanwhile) -> PQGen[Any]:
    """Do something else whenever these steps wait for what the server has not sent yet."""
    try:
        wanted, is_more = next(steps), True
        while True:
            while is_more and wanted is Wait.R and not selector.select(0):
                is_more = meanwhile()
            wanted = steps.send((yield wanted))
    except StopIteration as end:
        return end.value


def _returns_rows(cursor: psycopg.Cursor[Row] | psycopg.AsyncCursor[Row]) -> bool:
    # `description` describes every column before it tells the same.
    return cursor.pgresult is not None and cursor.pgresult.nfields > 0


@overload
def _connection(connectable: Connectable) -> psycopg.Connection[Any]: ...
@overload
def _connection(connectable: AsyncConnectable) -> psycopg.AsyncConnection[Any]: ...
def _connection(connectable: Connectable | AsyncConnectable) -> AnyConnection:
    return connectable.connection if isinstance(connectable, psycopg.Cursor | psycopg.AsyncCursor) else connectable


def _joins(connectable: Connectable | AsyncConnectable) -> bool:
    connection = _connection(connectable)
    if connection.pgconn.pipeline_status != PipelineStatus.OFF:
        # In a pipeline, whether a transaction is open is unknown until the server has answered.
        raise OutboxError(
            "the connection is in pipeline mode, in which a write cannot be refused",
            hint="Add events before the pipeline begins or after it has ended.",
        )
    # Outside autocommit psycopg opens a transaction before the first statement, and the caller ends it.
    if not connection.autocommit:
        return True
    return connection.pgconn.transaction_status in {TransactionStatus.INTRANS, TransactionStatus.INERROR}


def _refuse_open(connection: AnyConnection) -> None:
    # A closed connection has another status, and says so itself.
    if not connection.closed and connection.info.transaction_status is not TransactionStatus.IDLE:
        raise already_open()


def _leave(block: Block | None, state: TransactionState) -> Block:
    refuse_commit(state)
    if block is None:
        raise TransactionEndedError("there is no transaction to commit")
    return block


def _settings(connection: AnyConnection, idle_seconds: float) -> tuple[str, ...]:
    level = connection.isolation_level
    if level not in {None, psycopg.IsolationLevel.READ_COMMITTED}:
        raise other_isolation(psycopg.IsolationLevel(level).name.replace("_", " "))
    return session_settings(Dialect.POSTGRESQL, idle_seconds=idle_seconds)
