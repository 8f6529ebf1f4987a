"""Run what writes events on the caller's connection, with our errors for whatever its driver raises."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from cdc_outbox.databases.drivers import (
    AnyConnection,
    AsyncDriver,
    Driver,
    Fetch,
    Row,
    database_error,
    joined,
    often,
    often_awaited,
    runs_blocks,
)
from cdc_outbox.databases.drivers.sqlstate import UNIQUE_VIOLATION, raise_ours
from cdc_outbox.errors import CdcOutboxError, DuplicateEventError, EventError, NotInTransactionError
from cdc_outbox.event import Event
from cdc_outbox.writer.outbox_statements import StepPlan


async def execute(
    driver: AsyncDriver,
    connection: AnyConnection,
    plan: StepPlan,
    parameters: Mapping[str, Any],
    ids: Sequence[tuple[Event, str]],
) -> list[Row]:
    """Execute the steps and return the last rows that came back; if one fails, none of them was executed.

    If a step is interrupted, either none or all of them were.

    Args:
        ids: The events that are written, with their ids.

    Raises:
        DuplicateEventError: The outbox holds an event with this id.
        DatabaseError: The database refused, or cannot be reached; the driver's own error is the cause.
    """
    rows: list[Row] = []
    steps, block = plan.steps, plan.block
    # A kept cursor keeps its parameters too, and those of many events may be large.
    step, fetch = steps[0], driver.fetch if ids[1:] else often_awaited(driver)
    try:
        if block is not None and runs_blocks(driver, connection):
            steps = (block,)
        for step in steps:
            if not (rows and step.reads_back):
                rows = await fetch(connection, step.sql, parameters) or rows
    except BaseException as error:  # Ctrl-C, a cancelled task and gevent's timeouts too: a caller may commit after them
        for undoing in plan.undo_from(step, error):
            with suppress(Exception):  # the database has undone all of the transaction
                await driver.fetch(connection, undoing.sql, parameters)
        raise_ours(_error_of(error, ids), error)
        raise
    return rows


class DirectDriver(NamedTuple):
    """A synchronous driver, and the two of its functions that every event needs, looked up once.

    Args:
        joined: See :func:`~cdc_outbox.databases.drivers.joined`.
        fetch: See :func:`~cdc_outbox.databases.drivers.often`.
    """

    driver: Driver
    joined: Callable[[AnyConnection], AnyConnection | None]
    fetch: Fetch

    @classmethod
    def of(cls, driver: Driver) -> "DirectDriver":
        """Look its functions up."""
        return cls(driver, joined(driver), often(driver))


def execute_now(
    connection: AnyConnection,
    direct: DirectDriver,
    plan: StepPlan,
    parameters: Mapping[str, Any],
    ids: Sequence[tuple[Event, str]],
) -> list[Row]:
    """Look as :func:`refuse_outside_transaction` does, and execute as :func:`execute` does, by a synchronous driver."""
    driver, find_joined, fetch = direct
    try:
        found = find_joined(connection)
    except Exception as error:
        raise_ours(database_error(error), error)
        raise
    if found is None:
        raise _outside_transaction(driver)
    connection = found
    rows: list[Row] = []
    steps, block = plan.steps, plan.block
    step = steps[0]
    try:
        if block is not None and runs_blocks(driver, connection):
            steps = (block,)
        for step in steps:
            if not (rows and step.reads_back):
                rows = fetch(connection, step.sql, parameters) or rows
    except BaseException as error:
        for undoing in plan.undo_from(step, error):
            with suppress(Exception):
                driver.fetch(connection, undoing.sql, parameters)
        raise_ours(_error_of(error, ids), error)
        raise
    return rows


async def refuse_outside_transaction(driver: AsyncDriver, connection: AnyConnection) -> None:
    """Raise unless what is executed next is ended by the caller's commit or rollback.

    Raises:
        NotInTransactionError: It would be committed at once.
        DatabaseError: As :func:`execute`; some drivers ask the server.
    """
    try:  # translated_for_caller would do, and take a microsecond more of every event
        direct, run = getattr(driver, "direct", None), getattr(driver, "run", None)
        if direct is None:
            joins: object = await driver.joins_transaction(connection)
        else:
            joins = joined(direct)(connection) if run is None else await run(connection, joined(direct))
    except Exception as error:
        raise_ours(database_error(error), error)
        raise
    if not joins:
        raise _outside_transaction(driver)


def _outside_transaction(driver: Driver | AsyncDriver) -> NotInTransactionError:
    return NotInTransactionError(
        "the connection is not in a transaction, so the event was not written", hint=driver.transaction_hint
    )


_ENCODING = (
    "Connect with client_encoding=UTF8 (MariaDB, MySQL: charset=utf8mb4), or pass a payload of ASCII alone: "
    "`json.dumps(payload)`."
)


def _causes(error: BaseException | None, depth: int) -> list[BaseException]:
    return [error, *_causes(error.__cause__, depth - 1)] if error is not None and depth else []


def _error_of(error: BaseException, ids: Sequence[tuple[Event, str]]) -> CdcOutboxError | None:
    """Return our error for a driver's, ``None`` for any other."""
    # asyncpg has it as the cause of its own, and SQLAlchemy that one as the cause of two of its own.
    for link in _causes(error, 4):
        if isinstance(link, UnicodeEncodeError):
            return EventError(f"the connection's encoding {link.encoding} cannot carry the event", hint=_ENCODING)
    ours = database_error(error)
    given = [event_id for event, event_id in ids if event.id is not None]
    # The writer's own ids are new, so it was another unique column's value: a caller is not to skip the event.
    if ours is None or ours.sqlstate != UNIQUE_VIOLATION or not given:
        return ours
    which = "one of these events" if ids[1:] else f"an event with the id {given[0]}"
    return DuplicateEventError(f"{which} is already in the outbox")
