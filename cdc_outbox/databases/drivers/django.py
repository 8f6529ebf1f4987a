"""Django's database connections: ``connections["orders"]``, and the default one, ``django.db.connection``.

The outbox's table must be in the database of that alias, or the event would not share the fate of the business data.
A connection that is named by its alias is taken as it is; the default one is refused where routers write other rows
elsewhere.
"""

from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

from django.apps import apps
from django.db import DEFAULT_DB_ALIAS, router
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.transaction import Atomic, TransactionManagementError
from django.db.utils import Error
from django.utils.connection import ConnectionProxy

from cdc_outbox.databases import drivers
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.drivers import (
    AnyConnection,
    AsyncDriver,
    Driver,
    Parameters,
    Row,
    TransactionState,
    sqlstate,
    translated,
    wrong_kind,
)
from cdc_outbox.databases.drivers.listeners import AfterCommit, log_callback
from cdc_outbox.databases.drivers.transactions import (
    UNUSABLE,
    SendsAtOnce,
    other_isolation,
    raw_answers,
    raw_state,
    refuse_commit,
    session_settings,
)
from cdc_outbox.databases.sql import PYFORMAT, load
from cdc_outbox.errors import DatabaseError, OutboxError, TransactionAbortedError, TransactionEndedError

_DIALECTS = {
    "postgresql": Dialect.POSTGRESQL,
    "mysql": Dialect.MYSQL,
    "sqlite": Dialect.SQLITE,
}
"""By Django's word for the vendor; MariaDB's is mysql too."""

_KEPT = "_cdc_outbox_cursor"


def translate(error: BaseException) -> DatabaseError | None:
    """Return our error for the one that Django wrapped, by the table of the driver that raised it."""
    if not isinstance(error, Error) or error.__cause__ is None:
        return None
    return drivers.translate(error.__cause__)


def sqlstate_of(error: BaseException) -> str:
    """Return the code of the driver's error; Django itself refuses statements in a block that has failed."""
    if isinstance(error, TransactionManagementError):
        return sqlstate.FAILED_TRANSACTION
    origin = error.__cause__ or error.__context__  # with MySQL some are raised in place of the driver's
    return drivers.sqlstate_of(origin) if origin else ""


class Django(SendsAtOnce):
    """The driver, for one vendor.

    Its transaction is an ``atomic`` block of Django's, so that those of a handler are savepoints in it, callbacks of
    ``on_commit`` run after our commit, and ``transaction.commit()`` and ``rollback()`` are refused.
    """

    style = PYFORMAT
    transaction_hint = (
        "Open a transaction first, with Django `with transaction.atomic(using=alias):`, and add the event inside it."
    )

    def __init__(self, dialect: Dialect, *, serves_type: bool) -> None:
        self.dialect = dialect
        self.serves_type = serves_type
        self._keeps_cursor = serves_type and dialect is Dialect.POSTGRESQL
        self._statements = load(dialect, "session")
        self._idle_seconds: float | None = None
        self._prepared: object = None
        self._block: Atomic | None = None
        self._committed = False

    def joins_transaction(self, connection: AnyConnection) -> bool:
        """Ask Django, which knows every transaction that it must leave alone; open the connection if need be."""
        with translated():
            return bool(connection.in_atomic_block or not connection.get_autocommit())

    def fetch(self, connection: AnyConnection, sql: str, parameters: Parameters = None) -> list[Row]:
        """Execute and fetch on a cursor of Django's, which takes one style of parameters everywhere."""
        with translated(), connection.cursor() as cursor:
            cursor.execute(sql, None if parameters is None else dict(parameters))
            return list(map(tuple, cursor.fetchall())) if _returns_rows(cursor) else []

    def fetch_often(self, connection: AnyConnection, sql: str, parameters: Parameters = None) -> list[Row]:
        """Execute and fetch on a cursor that the connection keeps: a new one costs a quarter of the statement."""
        # Who logs queries gets a cursor that does so, and so does who has put a method of their own there.
        if not self._keeps_cursor or connection.queries_logged or "cursor" in connection.__dict__:
            return self.fetch(connection, sql, parameters)
        connection.validate_thread_sharing()
        # Out of the connection while it is used; it stays out if the statement fails.
        key, cursor = connection.__dict__.pop(_KEPT, (None, None))
        with translated():
            if key is None or key != _key(connection):
                cursor = connection.cursor()
            cursor.execute(sql, parameters if parameters is None else dict(parameters))
            rows = list(map(tuple, cursor.fetchall())) if _returns_rows(cursor) else []
        connection.__dict__[_KEPT] = _key(connection), cursor
        return rows

    def runs_blocks(self, connection: AnyConnection) -> bool:
        """Ask Django, which knows MariaDB from MySQL."""
        return bool(connection.mysql_is_mariadb)

    def prepare(self, connection: AnyConnection, *, idle_seconds: float) -> None:
        """Set the session, and remember what to set when Django reconnects."""
        _refuse_open(connection)
        self._idle_seconds, self._prepared = idle_seconds, None
        self.begin(connection)
        self.rollback(connection)

    def begin(self, connection: AnyConnection) -> None:
        """Enter the outermost of Django's blocks, in which no other code commits."""
        with translated():
            _refuse_open(connection)
            self._set_session(connection)
            if self.dialect is Dialect.SQLITE and not connection.transaction_mode:
                connection.transaction_mode = "IMMEDIATE"  # one that reads first cannot write after another one has
            block = Atomic(connection.alias, savepoint=True, durable=True)
            block.__enter__()
        self._block, self._committed = block, False
        try:
            connection.on_commit(self._note_commit)
            self._open(connection)
        except BaseException:
            self.rollback(connection)
            raise

    def state(self, connection: AnyConnection) -> TransactionState:
        """Ask Django, and behind it the database's driver, which sees what Django does not."""
        if self._block is None or self._block not in connection.atomic_blocks or connection.closed_in_transaction:
            return TransactionState.ENDED
        state = raw_state(connection.connection)
        if state is not TransactionState.OPEN:
            return state
        # mysqlclient does not tell that its connection is gone; an error may be the sign.
        if connection.errors_occurred and type(connection.connection).__module__.startswith("MySQLdb"):
            return TransactionState.UNKNOWN
        return TransactionState.ABORTED if connection.needs_rollback else TransactionState.OPEN

    async def answers(self, connection: AnyConnection) -> bool:
        """Ask the database's driver; mysqlclient waits for an answer as long as its ``read_timeout`` says."""
        if connection.vendor != "mysql":
            return await raw_answers(connection.connection)
        connection.errors_occurred = not connection.is_usable()
        return not connection.errors_occurred

    def handled(self, connection: AnyConnection, events: Sequence[object]) -> None:
        """Wrap the callbacks of ``on_commit`` that these events' handler registered: Django stops at one that fails."""
        waiting = connection.run_on_commit
        for place in reversed(range(len(waiting))):
            savepoints, call, *robust = waiting[place]
            if isinstance(call, AfterCommit):
                break
            waiting[place] = (savepoints, AfterCommit(call, events), *robust)

    def commit(self, connection: AnyConnection) -> None:
        """Leave the block, which without a look at it would roll back and say nothing."""
        state = self.state(connection)
        if state is not TransactionState.UNKNOWN or self.dialect is not Dialect.MYSQL:  # of which the answer tells
            refuse_commit(state)
        self._ask(connection)
        if connection.savepoint_ids:
            raise TransactionAbortedError(
                "an atomic block was left open", hint="Leave each `atomic` block in the handler that entered it."
            )
        assert self._block is not None  # noqa: S101 - the state says so
        self.handled(connection, ())
        block, self._block = self._block, None
        try:
            with translated():
                block.__exit__(None, None, None)
        except Exception as error:
            if not self._committed:
                raise
            log_callback(error, ())
        if not self._committed:
            raise TransactionEndedError("Django did not commit")

    def rollback(self, connection: AnyConnection) -> None:
        """Leave every block that is open, if any is."""
        block, self._block = self._block, None
        if block is None or block not in connection.atomic_blocks:
            return
        if raw_state(connection.connection) in UNUSABLE:
            connection.close()
        connection.savepoint_ids.clear()  # of blocks that a handler left open
        del connection.atomic_blocks[1:]
        connection.needs_rollback = True
        with suppress(Exception):  # the server is gone, and so is the transaction
            block.__exit__(None, None, None)

    def _set_session(self, connection: AnyConnection) -> None:
        connection.ensure_connection()
        if self._idle_seconds is None or connection.connection is self._prepared:
            return
        level = getattr(connection, "isolation_level", None)
        if level is not None and str(getattr(level, "name", level)).replace("_", " ").upper() != "READ COMMITTED":
            raise other_isolation(str(getattr(level, "name", level)).replace("_", " "))
        mariadb = getattr(connection, "mysql_is_mariadb", False)
        for sql in session_settings(self.dialect, idle_seconds=self._idle_seconds, mariadb=mariadb):
            self.fetch(connection, sql)
        self._prepared = connection.connection

    def _open(self, connection: AnyConnection) -> None:
        """Open the transaction now, as Django does with SQLite's only: else it would look as if there were none."""
        if self.dialect is not Dialect.SQLITE:
            self.fetch(connection, self._statements["begin"].text)

    def _ask(self, connection: AnyConnection) -> None:
        """Look again after an answer of the server: an error in between may have ended the transaction."""
        if self.dialect is Dialect.MYSQL:
            name = "ask_mariadb" if connection.mysql_is_mariadb else "ask"
            if self.fetch(connection, self._statements[name].text) == [(0,)]:
                refuse_commit(TransactionState.ENDED)
            connection.errors_occurred = False
            refuse_commit(self.state(connection))

    def _note_commit(self) -> None:
        self._committed = True


def find(connectable: object) -> Driver:
    """Return the driver for a connection, or for the proxy that stands for each thread's own."""
    # Caches have proxies too, and no vendor.
    vendor = (
        getattr(connectable, "vendor", None) if isinstance(connectable, BaseDatabaseWrapper | ConnectionProxy) else None
    )
    if vendor is None:
        raise wrong_kind(connectable, asynchronous=False)
    if vendor not in _DIALECTS:
        raise OutboxError(
            f"{vendor} cannot have an outbox here", hint=f"Supported databases: {', '.join(sorted(_DIALECTS))}."
        )
    if isinstance(connectable, ConnectionProxy) and (elsewhere := _routed_elsewhere(tuple(router.routers))):
        raise OutboxError(
            f"the project's routers write {elsewhere}, and events would be written to {DEFAULT_DB_ALIAS}",
            hint="Pass the connection of the row: `connections[router.db_for_write(Order)]`.",
        )
    # A proxy's type says nothing about the database.
    return Django(_DIALECTS[vendor], serves_type=isinstance(connectable, BaseDatabaseWrapper))


@lru_cache(maxsize=8)
def _routed_elsewhere(routers: tuple[object, ...]) -> str:  # noqa: ARG001 - the key: nothing else decides
    """Return a model whose rows routers write to another database than the default one, and which."""
    written = ((model._meta.label, router.db_for_write(model)) for model in apps.get_models())  # noqa: SLF001 - documented
    return next((f"{label} to {alias}" for label, alias in written if alias != DEFAULT_DB_ALIAS), "")


def find_async(connectable: object) -> AsyncDriver:
    """Refuse: Django's connections are synchronous, also under its asynchronous views."""
    raise wrong_kind(connectable, asynchronous=True)


def _key(connection: AnyConnection) -> tuple[object, object]:
    """Return what a kept cursor is good for: a connection below, in the encoding of the cursor's first statement."""
    raw = connection.connection
    pgconn = getattr(raw, "pgconn", None)  # psycopg's; psycopg2 takes the encoding from the connection each time
    return raw, None if pgconn is None else pgconn.parameter_status(b"client_encoding")


def _returns_rows(cursor: Any) -> bool:  # noqa: ANN401 - Django's wrapper of any database's cursor
    # psycopg makes an object of each column for `description`, which costs as much as an event's checks.
    result = getattr(cursor.cursor, "pgresult", None)
    return result.nfields > 0 if result is not None else bool(cursor.description)


def _refuse_open(connection: AnyConnection) -> None:
    if connection.in_atomic_block or not connection.get_autocommit():
        raise OutboxError(
            "the connection already has a transaction",
            hint="Do not change AUTOCOMMIT in the database's settings, and pass the connection outside `atomic`.",
        )
