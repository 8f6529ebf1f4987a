"""Open a transaction, run an operation, write its events, and end it."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from cdc_outbox.databases.drivers import AnyConnection, find_transaction_driver, translated_for_caller
from cdc_outbox.event import Event
from cdc_outbox.writer.outbox import Outbox

Result = TypeVar("Result")


def execute_with_events(
    connection: AnyConnection,
    operation: Callable[[Any], Result],
    events: Iterable[Event] | Callable[[Result], Iterable[Event]],
    *,
    outbox: Outbox | None = None,
) -> Result:
    """Run an operation and write its events in one transaction, and return the operation's result.

    This is the only function that opens and ends a transaction. An exception of the operation or of the outbox rolls
    back both.

    Args:
        connection: Without an open transaction; psycopg 3's, PyMySQL's or sqlite3's. The operation is called with it.
        events: Events, or a function that makes them of the operation's result.
        outbox: The outbox to write to, by default ``Outbox()``.

    Raises:
        OutboxError: The connection already has a transaction, or its driver cannot open one.
        EventError, StaleSequenceError, DuplicateEventError: As :meth:`Outbox.add_all`.
        DatabaseError: Likewise, and from the begin and the commit; exceptions of the operation pass through unchanged.
        TransactionAbortedError, TransactionEndedError: The operation swallowed an SQL error, or ended the transaction.
    """
    driver = find_transaction_driver(connection)
    with translated_for_caller():
        driver.begin(connection)
    try:
        result = operation(connection)
        (outbox or Outbox()).add_all(connection, events(result) if callable(events) else events)
        with translated_for_caller():
            driver.commit(connection)
    except BaseException:
        driver.rollback(connection)
        raise
    return result
