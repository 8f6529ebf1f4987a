"""What PostgreSQL's five-character codes mean, for every driver that passes them on or knows which one fits."""

from cdc_outbox.errors import (
    CdcOutboxError,
    DatabaseAccessError,
    DatabaseError,
    DatabaseUnavailableError,
    TableNotFoundError,
    TransactionConflictError,
    TransactionTimeoutError,
)

_KINDS: tuple[tuple[str, type[DatabaseError]], ...] = (
    ("08", DatabaseUnavailableError),  # connection exception
    ("25006", DatabaseUnavailableError),  # read-only: a primary that became a standby
    ("25P03", TransactionTimeoutError),  # it idled in a transaction for too long, and was cut
    ("25P04", TransactionTimeoutError),  # the transaction took too long, and was cut
    ("53100", DatabaseUnavailableError),  # disk full
    ("53200", DatabaseUnavailableError),  # out of memory
    ("53300", DatabaseUnavailableError),  # too many connections
    ("57P0", DatabaseUnavailableError),  # shutting down, crashed, starting up
    ("28", DatabaseAccessError),  # wrong password, unknown role
    ("3D000", DatabaseAccessError),  # the database does not exist
    ("42501", DatabaseAccessError),  # insufficient privilege
    ("42P01", TableNotFoundError),
    ("42703", TableNotFoundError),  # a column
    ("3F000", TableNotFoundError),  # a schema
    ("40001", TransactionConflictError),
    ("40P01", TransactionConflictError),
    ("55P03", TransactionConflictError),  # a lock was not to be had within lock_timeout
)

CLOSED, UNIQUE_VIOLATION, FAILED_TRANSACTION, CANCELED = "08003", "23505", "25P02", "57014"
UNDEFINED_OBJECT, OBJECT_IN_USE, NOT_READY = "42704", "55006", "55000"
"""https://www.postgresql.org/docs/current/errcodes-appendix.html; 25P02: a statement came after one that failed;
42704: a slot does not exist, or its decoding looks for the publication at a time when it did not exist."""

NO_DATABASE = "Create the database, or correct its name in the DSN."
_HINTS = {
    CLOSED: "Open a new connection: this one is closed. If your code did not close it, check that the server runs.",
    "25006": "Write on the primary, in a transaction that is not read-only.",
    "3D000": NO_DATABASE,
    "42501": "`cdc-outbox init SPEC --grants` prints the privileges that each role needs.",
}


def translate(sqlstate: str, message: str) -> DatabaseError | None:
    """Return our error for a code, ``None`` where an operator can do nothing about it.

    Args:
        message: The server's, without its detail, which may quote a row.
    """
    for prefix, kind in _KINDS:
        if sqlstate.startswith(prefix):
            return kind(" ".join(message.split()), sqlstate=sqlstate, hint=_HINTS.get(sqlstate))
    return None


_POOLER = (
    "If a pooler such as PgBouncer is between: set its max_prepared_statements (from PgBouncer 1.21), or turn prepared "
    "statements off: psycopg prepare_threshold=None, asyncpg statement_cache_size=0. docs/writing.md has the settings "
    "for SQLAlchemy."
)
_CHECK_TABLE = "Compare the table with what this version writes: `cdc-outbox init SPEC --check`."
_REFUSALS: tuple[tuple[str, str, str], ...] = (
    (FAILED_TRANSACTION, "the transaction is aborted", "Roll back; run a statement that may fail inside a savepoint."),
    ("26000", "the prepared statement does not exist in this session of the server", _POOLER),
    ("42P05", "this session of the server already has a prepared statement of this name", _POOLER),
    (
        "22P05",
        "the database's encoding lacks a character of the event",
        "Use a database in UTF8, or pass a payload of ASCII alone: `json.dumps(payload)`.",
    ),
    ("22", "a value does not fit the column's type", _CHECK_TABLE),
    ("23", "a constraint does not allow the row", _CHECK_TABLE),
    ("", "the statement failed", "The cause (__cause__) is the driver's error; the server's log has the statement."),
)
"""The beginning of a code, what it means, and what to do."""


def describe(sqlstate: str, kind: str) -> DatabaseError:
    """Return our error for any code in our own words: the server's may quote a value.

    Args:
        kind: The class of the driver's error.
    """
    origin = f"({', '.join(filter(None, [kind, sqlstate]))})"
    if known := translate(sqlstate, f"the database cannot be used {origin}"):
        return known
    if sqlstate == CANCELED:
        message = f"the statement was canceled, by statement_timeout or by an operator {origin}"
        return TransactionConflictError(message, sqlstate=sqlstate)
    message, hint = next((message, hint) for prefix, message, hint in _REFUSALS if sqlstate.startswith(prefix))
    return DatabaseError(f"{message} {origin}", sqlstate=sqlstate, hint=hint)


def raise_ours(ours: CdcOutboxError | None, error: BaseException) -> None:
    """Raise our error from the one that it translates, unless there is none.

    An error that a variable of a function in its own traceback holds is freed by the garbage collector alone, and with
    it all that those functions hold. So the caller has it in no variable, and this function drops its own.
    """
    try:
        if ours is not None:
            raise ours from error
    finally:
        del ours
