"""A consumer's statements, bound to its tables, its name and a driver."""

from typing import Any

from cdc_outbox.consumer.table import InboxTable
from cdc_outbox.drivers import AsyncDriver, Row
from cdc_outbox.sql import load


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
        self._texts = {
            name: statement.render(table.names(), driver.style)
            for name, statement in load(driver.dialect, file).items()
        }

    async def fetch(self, connection: Any, name: str, **parameters: Any) -> list[Row]:  # noqa: ANN401
        """Execute a statement by its name and return its rows."""
        return await self._driver.fetch(connection, self._texts[name], {"consumer": self.consumer, **parameters})
