"""The SQL dialects. A further one is a module beside these, a member of :class:`Dialect` and a folder in ``sql/``."""

from enum import StrEnum
from typing import Self

from cdc_outbox.databases.dialects import mysql, postgresql, sqlite
from cdc_outbox.databases.dialects.features import DialectFeatures
from cdc_outbox.databases.quoting import quote


class Dialect(StrEnum):
    """A family of databases that understand the same statements; the value is their folder in ``sql/``."""

    features: DialectFeatures

    POSTGRESQL = "postgresql", postgresql.FEATURES
    MYSQL = "mysql", mysql.FEATURES
    """MariaDB too."""
    SQLITE = "sqlite", sqlite.FEATURES

    def __new__(cls, folder: str, features: DialectFeatures) -> Self:
        """Make a member whose value is the folder alone."""
        member = str.__new__(cls, folder)
        member._value_ = folder
        member.features = features
        return member

    def quote(self, identifier: str) -> str:
        """Return the identifier in this dialect's quotes.

        Raises:
            ConfigError: It cannot be an identifier.
        """
        return quote(identifier, self.features.quotation_mark)

    def literal(self, text: str) -> str:
        """Return the text as a string constant of this dialect.

        Raises:
            ConfigError: It contains a NUL.
        """
        return self.features.literal(text)
