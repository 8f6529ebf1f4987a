"""A consumer's statements, bound to its tables, its name and a driver."""

from typing import Any

from cdc_outbox.consumer.table import InboxTable
from cdc_outbox.drivers import AnyConnection, AsyncDriver, Row
from cdc_outbox.drivers.statements import NamedStatements
from cdc_outbox.errors import TransactionConflictError

_CANCELED = "57014"
"""A ``statement_timeout`` of the role's: a claim that waits for another one's end is no event's fault."""


class Statements:
    """The statements of one file for one consumer.

    Args:
        file: ``inbox``, ``park`` or ``epochs``.
        consumer: The name under which it remembers; part of every key.
        driver: How to talk to the connection.
    """

    def __init__(self, file: str, *, table: InboxTable, consumer: str, driver: AsyncDriver) -> None:
        self.consumer = consumer
        self._driver = driver
        self._statements = NamedStatements(driver, file, table.names())
        self._steps = self._statements.all_steps()

    async def fetch(self, connection: AnyConnection, name: str, **parameters: Any) -> list[Row]:  # noqa: ANN401
        """Execute a statement by its name, step by step, and return the rows of all its steps."""
        values = self._statements.values({"consumer": self.consumer, **parameters})
        rows: list[Row] = []
        try:
            for step in self._steps[name]:
                rows += await self._driver.fetch(connection, step, values)
        except Exception as error:
            if getattr(error, "sqlstate", None) == _CANCELED:
                message = "the server canceled a statement of the inbox, which waited for another transaction"
                raise TransactionConflictError(message, sqlstate=_CANCELED) from error
            raise
        return rows
