"""A database as operators reach it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from cdc_outbox.drivers import AnyConnection, Row, TransactionDriver, translated_for_operator
from cdc_outbox.drivers.statements import NamedStatements
from cdc_outbox.drivers.transactions import transaction


class OpenDatabase:
    """A connection in autocommit mode, and the statements of one file in its dialect.

    Args:
        names: What the statements call tables and columns, quoted.
    """

    def __init__(
        self,
        connection: AnyConnection,
        driver: TransactionDriver,
        names: Mapping[str, str],
        file: str = "prune",
    ) -> None:
        self.dialect = driver.dialect
        self._connection = connection
        self._driver = driver
        self._statements = NamedStatements(driver, file, names)
        self.names, self.render = self._statements.names, self._statements.render

    def ask(self, statement: str, names: Mapping[str, str] | None = None, /, **parameters: Any) -> list[Row]:  # noqa: ANN401 - SQL's own variety
        """Execute a statement by its name, step by step, and return the rows of all its steps.

        Args:
            names: Beside the database's own, or in their place.
        """
        values, rows = self._statements.values(parameters), []
        with translated_for_operator():
            for step in self._statements.steps(statement, names):
                rows += self._driver.fetch(self._connection, step, values)
        return rows

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Open a transaction, and commit it at the end unless an exception leaves it."""
        with translated_for_operator(), transaction(self._connection, self._driver):
            yield
