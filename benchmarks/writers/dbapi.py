"""What every driver with cursors and ``%s`` does alike."""

from typing import Any, ClassVar

from benchmarks.writers.work import BY_HAND, ORDER, event, parameters, row
from cdc_outbox import AsyncOutbox, Outbox
from cdc_outbox.databases.sql import PYFORMAT


class CursorWriter:
    """A connection that is in a transaction by itself, as PEP 249 has it."""

    bounds: ClassVar = (1.1, 1.25)
    connection: Any

    def by_hand(self, numbers: range) -> None:
        """Write two rows and commit."""
        for number in numbers:
            with self.connection.cursor() as cursor:
                cursor.execute(ORDER, (number, 1999))
                cursor.execute(BY_HAND, row(number))
            self.connection.commit()

    def by_outbox(self, outbox: Outbox, twin: AsyncOutbox, numbers: range) -> None:  # noqa: ARG002
        """Write two rows and commit."""
        for number in numbers:
            with self.connection.cursor() as cursor:
                cursor.execute(ORDER, (number, 1999))
            outbox.add(self.connection, event(number))
            self.connection.commit()

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


class StatementCursorWriter(CursorWriter):
    """The same, where an event is one statement."""

    style: ClassVar = PYFORMAT

    def by_statement(self, sql: str, numbers: range) -> None:
        """Write two rows and commit."""
        for number in numbers:
            with self.connection.cursor() as cursor:
                cursor.execute(ORDER, (number, 1999))
                cursor.execute(sql, parameters(number))
                cursor.fetchall()
            self.connection.commit()
