"""Add events inside the caller's own transaction."""

from typing import Any

from cdc_outbox.drivers import AsyncDriver, Driver, find_async_driver, find_driver
from cdc_outbox.errors import NotInTransactionError
from cdc_outbox.event import Event
from cdc_outbox.table import OutboxTable
from cdc_outbox.wire import WireContract
from cdc_outbox.writer.statements import OutboxStatements

MAX_PAYLOAD_BYTES = 1_000_000
"""Kafka's producers and topics refuse a record over 1,048,576 bytes by default, headers and key included; such a
record fails the connector's task, and everything behind it waits."""


class _Outbox:
    def __init__(
        self,
        *,
        table: OutboxTable | None = None,
        contract: WireContract | None = None,
        max_payload_bytes: int | None = MAX_PAYLOAD_BYTES,
    ) -> None:
        self.table = table or OutboxTable()
        self.contract = contract
        self.max_payload_bytes = max_payload_bytes
        self._statements: dict[type, OutboxStatements] = {}

    def _statements_for(self, driver: Driver | AsyncDriver) -> OutboxStatements:
        if type(driver) not in self._statements:
            self._statements[type(driver)] = OutboxStatements(
                table=self.table,
                contract=self.contract,
                max_payload_bytes=self.max_payload_bytes,
                dialect=driver.dialect,
                parameter=driver.parameter,
            )
        return self._statements[type(driver)]


class Outbox(_Outbox):
    """Write events into an outbox table.

    An outbox holds no connection and no state; one object serves every thread.

    Args:
        table: Where to write; by default ``public.outbox``.
        contract: Which aggregate types there are and how they are numbered, from the spec. Without one, every
            type is taken and numbered gaplessly.
        max_payload_bytes: Of one encoded payload; ``None`` means no limit.
    """

    def add(self, connection: Any, event: Event) -> Event:  # noqa: ANN401 - any driver's connection
        """Write one event, in one statement, and return it with its id, sequence, source and time.

        The event exists if and only if the caller's transaction commits. Writers of one aggregate wait for each
        other from here to the commit, so add last. The connection is neither committed nor closed.

        Raises:
            NotInTransactionError: The connection is in autocommit mode and no transaction is open.
            EventError: The event cannot be written; the transaction is as it was.
            TableNotFoundError: The table does not exist; the transaction is aborted, as after any failed statement.
        """
        driver = find_driver(connection)
        statements = self._statements_for(driver)
        _refuse_outside_transaction(driver.joins_transaction(connection))
        sql, parameters = statements.add(event)
        [row] = driver.fetch(connection, sql, parameters)
        return statements.written(event, parameters, row)


class AsyncOutbox(_Outbox):
    """Write events into an outbox table through an asynchronous driver; the twin of :class:`Outbox`."""

    async def add(self, connection: Any, event: Event) -> Event:  # noqa: ANN401 - any driver's connection
        """Write one event; everything that :meth:`Outbox.add` says holds here."""
        driver = find_async_driver(connection)
        statements = self._statements_for(driver)
        _refuse_outside_transaction(driver.joins_transaction(connection))
        sql, parameters = statements.add(event)
        [row] = await driver.fetch(connection, sql, parameters)
        return statements.written(event, parameters, row)


def _refuse_outside_transaction(joins: bool) -> None:  # noqa: FBT001 - the one thing that it is about
    if not joins:
        raise NotInTransactionError("the connection is not in a transaction, so the event was not written")
