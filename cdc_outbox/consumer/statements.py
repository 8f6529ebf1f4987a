"""A consumer's statements, bound to its tables, its name and a driver."""

import json
from typing import Any

from cdc_outbox.consumer.table import InboxTable
from cdc_outbox.drivers import AsyncDriver, Row
from cdc_outbox.errors import TransactionConflictError
from cdc_outbox.sql import load
from cdc_outbox.table import Dialect

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
        self._has_arrays = driver.dialect is Dialect.POSTGRESQL
        self._steps = {
            name: tuple(step.render(table.names(), driver.style) for step in statement.steps())
            for name, statement in load(driver.dialect, file).items()
        }

    async def fetch(self, connection: Any, name: str, **parameters: Any) -> list[Row]:  # noqa: ANN401
        """Execute a statement by its name, step by step, and return the rows of all its steps."""
        values = {"consumer": self.consumer, **(parameters if self._has_arrays else _as_rows(parameters))}
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


def _as_rows(parameters: dict[str, Any]) -> dict[str, Any]:
    """Turn a statement's lists, which are as long as each other, into one text of JSON: an object for each row."""
    lists = {name: value for name, value in parameters.items() if isinstance(value, list)}
    if not lists:
        return parameters
    rows = [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]
    others = {name: value for name, value in parameters.items() if name not in lists}
    return {**others, "rows": json.dumps(rows, ensure_ascii=False)}
