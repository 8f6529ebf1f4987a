"""SQLite, by Python's own driver."""

import sqlite3
from typing import ClassVar

from benchmarks.writers.database import WriterDatabase
from benchmarks.writers.work import BY_HAND, ORDER, event, row
from cdc_outbox import AsyncOutbox, Outbox
from cdc_outbox.databases.dialects import Dialect

_ORDER, _BY_HAND = (statement.replace("%s", "?") for statement in (ORDER, BY_HAND))


class Sqlite3Writer:
    """sqlite3."""

    dialect: ClassVar = Dialect.SQLITE
    bounds: ClassVar = (1.3, 1.45)

    def __init__(self, database: WriterDatabase) -> None:
        self.connection = sqlite3.connect(database.dsn)

    def by_hand(self, numbers: range) -> None:
        """Write two rows and commit."""
        for number in numbers:
            self.connection.execute(_ORDER, (number, 1999))
            self.connection.execute(_BY_HAND, row(number))
            self.connection.commit()

    def by_outbox(self, outbox: Outbox, twin: AsyncOutbox, numbers: range) -> None:  # noqa: ARG002
        """Write two rows and commit."""
        for number in numbers:
            self.connection.execute(_ORDER, (number, 1999))
            outbox.add(self.connection, event(number))
            self.connection.commit()

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()
