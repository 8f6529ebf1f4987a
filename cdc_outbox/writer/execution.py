"""A business operation and its events in one transaction, for code that has none yet."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from cdc_outbox.drivers import AnyConnection, find_transaction_driver
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
    """Run an operation and write its events in one transaction, and return what the operation returned.

    This is the one function that opens and ends a transaction, because that is its purpose. Whatever is raised, by
    the operation or by the outbox, undoes both.

    Args:
        connection: Without an open transaction; psycopg 3's, PyMySQL's or sqlite3's. The operation is called with it.
        events: Events, or what makes them of the operation's result.
        outbox: Where to write, by default ``Outbox()``.

    Raises:
        OutboxError: The connection has a transaction already, or its driver cannot open one.
        EventError: As :meth:`Outbox.add_all`.
    """
    driver = find_transaction_driver(connection)
    driver.begin(connection)
    try:
        result = operation(connection)
        (outbox or Outbox()).add_all(connection, events(result) if callable(events) else events)
        driver.commit(connection)
    except BaseException:
        driver.rollback(connection)
        raise
    return result
