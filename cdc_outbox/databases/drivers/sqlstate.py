"""What PostgreSQL's five-character codes mean to an operator, for every driver that passes them on."""

from cdc_outbox.errors import (
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

NO_DATABASE = "Create the database, or correct its name in the DSN."
_HINTS = {
    "25006": "Write on the primary, in a transaction that is not read-only.",
    "3D000": NO_DATABASE,
    "42501": "`cdc-outbox init --grants` prints the privileges that each role needs.",
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
