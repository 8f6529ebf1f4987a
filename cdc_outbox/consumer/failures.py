"""The error of a failed transaction: an event's, or a bug of this package."""

from collections.abc import Callable, Sequence

from cdc_outbox.consumer.handlers import ours_of, several
from cdc_outbox.databases.drivers import database_error, is_of_driver
from cdc_outbox.databases.drivers.listeners import ListenerError
from cdc_outbox.databases.drivers.sqlstate import FAILED_TRANSACTION
from cdc_outbox.errors import (
    CdcOutboxError,
    ConsumerError,
    DatabaseError,
    HandlerError,
    MessageError,
    TransactionAbortedError,
    TransactionConflictError,
)
from cdc_outbox.event import RecordedEvent


def error_of(
    error: Exception, events: Sequence[RecordedEvent], text_of: Callable[[BaseException], str]
) -> CdcOutboxError | None:
    """Return the CdcOutboxError for an error that a transaction raised, ``None`` for a bug in cdc-outbox.

    Args:
        events: Those of the transaction.
        text_of: Returns what to add of the error's own text.
    """
    if type(error) in {DatabaseError, TransactionConflictError} and isinstance(error.__cause__, Exception):
        error = error.__cause__  # an outbox's: what the driver said decides, as where a handler executes it
    if isinstance(error, ListenerError) and error.__cause__ is not None:
        return HandlerError(f"{error} of {several(events)}{text_of(error.__cause__)}")
    return _aborted(error, events) or ours_of(error) or _refused(error, events, text_of(error))


def _aborted(error: Exception, events: Sequence[RecordedEvent]) -> ConsumerError | None:
    """Return the error of a transaction that had failed before our statement did: some drivers tell only then."""
    if getattr(error, "sqlstate", None) != FAILED_TRANSACTION:
        return None
    return TransactionAbortedError(f"a handler of {several(events)} swallowed an SQL error")


def _refused(error: Exception, events: Sequence[RecordedEvent], text: str) -> CdcOutboxError | None:
    """Return the error of what the database refused; what our own code raises is no event's fault."""
    if isinstance(error, ConnectionError | TimeoutError):
        return database_error(error)
    if isinstance(error, UnicodeEncodeError):
        return MessageError("the event contains half a surrogate pair, which no database stores")
    if not is_of_driver(error):
        return None
    return ConsumerError(f"{several(events)} could not be applied: {type(error).__name__}{text}")
