"""A connection to the outbox's database, and what is asked through it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from cdc_outbox.drivers import Row, TransactionDriver, translated_for_operator
from cdc_outbox.sql import load


class Session:
    """A connection in autocommit mode, the statements of one file in its dialect, and the names in them.

    Args:
        names: What the statements call tables and columns, quoted.
    """

    def __init__(
        self,
        connection: Any,  # noqa: ANN401 - any driver's connection
        driver: TransactionDriver,
        names: Mapping[str, str],
        file: str = "prune",
    ) -> None:
        self.names = dict(names)
        self.dialect = driver.dialect
        self._connection = connection
        self._driver = driver
        self._statements = load(driver.dialect, file)

    def ask(self, statement: str, names: Mapping[str, str] | None = None, /, **parameters: Any) -> list[Row]:  # noqa: ANN401 - SQL's own variety
        """Execute a statement by its name, and return its rows.

        Args:
            names: In place of the session's own.
        """
        sql = self._statements[statement].render(self.names if names is None else names, self._driver.style)
        with translated_for_operator():
            return self._driver.fetch(self._connection, sql, parameters)

    def render(self, statement: str) -> str:
        """Return a statement's text, to stand in another one."""
        return self._statements[statement].render(self.names)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Open a transaction, and commit it at the end unless an exception leaves it."""
        self._driver.begin(self._connection)
        try:
            yield
            self._driver.commit(self._connection)
        except BaseException:
            self._driver.rollback(self._connection)
            raise
