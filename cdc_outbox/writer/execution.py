"""Run what writes events on the caller's connection, with our errors for whatever its driver raises."""

from contextlib import suppress

from cdc_outbox.databases.drivers import AnyConnection, AsyncDriver, Row, database_error, runs_blocks
from cdc_outbox.databases.drivers.sqlstate import UNIQUE_VIOLATION
from cdc_outbox.errors import CdcOutboxError, DuplicateEventError, NotInTransactionError
from cdc_outbox.writer.outbox_statements import Insertion


async def execute(driver: AsyncDriver, connection: AnyConnection, insertion: Insertion) -> list[Row]:
    """Execute the steps and return the last rows that came back; if one fails, none of them was executed.

    If a step is interrupted, either none or all of them were.

    Raises:
        DuplicateEventError: The outbox holds an event with this id.
        DatabaseError: The database refused, or cannot be reached; the driver's own error is the cause.
    """
    rows: list[Row] = []
    (steps, block, _), parameters, _ = insertion
    step = steps[0]
    try:
        if block is not None and runs_blocks(driver, connection):
            steps = (block,)
        for step in steps:
            if not (rows and step.reads_back):
                rows = await driver.fetch(connection, step.sql, parameters) or rows
    except BaseException as error:  # Ctrl-C, a cancelled task and gevent's timeouts too: a caller may commit after them
        for undoing in insertion.undo_from(step, error):
            with suppress(Exception):  # the database has undone all of the transaction
                await driver.fetch(connection, undoing.sql, parameters)
        ours = _error_of(error, insertion)
        if ours is None:
            raise
        raise ours from error
    return rows


async def refuse_outside_transaction(driver: AsyncDriver, connection: AnyConnection) -> None:
    """Raise unless what is executed next is ended by the caller's commit or rollback.

    Raises:
        NotInTransactionError: It would be committed at once.
        DatabaseError: As :func:`execute`; some drivers ask the server.
    """
    try:  # translated_for_caller would do, and take a microsecond more of every event
        joins = await driver.joins_transaction(connection)
    except Exception as error:
        ours = database_error(error)
        if ours is None:
            raise
        raise ours from error
    if not joins:
        raise NotInTransactionError(
            "the connection is not in a transaction, so the event was not written", hint=driver.transaction_hint
        )


def _error_of(error: BaseException, insertion: Insertion) -> CdcOutboxError | None:
    """Return our error for a driver's, ``None`` for any other."""
    ours = database_error(error)
    given = [draft for draft in insertion.drafts if draft.event.id is not None]
    # The writer's own ids are new, so it was another unique column's value: a caller is not to skip the event.
    if ours is None or ours.sqlstate != UNIQUE_VIOLATION or not given:
        return ours
    which = "one of these events" if insertion.drafts[1:] else f"an event with the id {given[0].id}"
    return DuplicateEventError(f"{which} is already in the outbox")
