"""The SQL dialects."""

from enum import StrEnum

from cdc_outbox.databases.quoting import literal, quote


class Dialect(StrEnum):
    """A family of databases that understand the same statements; the value is their folder in ``sql/``."""

    POSTGRESQL = "postgresql"
    MYSQL = "mysql"
    """MariaDB too."""
    SQLITE = "sqlite"

    @property
    def default_schema(self) -> str | None:
        """Where a table is that nobody gave a schema; ``None`` is the connection's database."""
        return {Dialect.POSTGRESQL: "public", Dialect.MYSQL: None, Dialect.SQLITE: "main"}[self]

    @property
    def undoes_ddl(self) -> bool:
        """Whether a rollback undoes changes of tables; MySQL commits before and after each."""
        return self is not Dialect.MYSQL

    @property
    def max_payload_depth(self) -> int:
        """How deep a payload may be nested: MariaDB's ``json_valid`` refuses 32 levels."""
        return 31 if self is Dialect.MYSQL else 100

    def quote(self, identifier: str) -> str:
        """Return the identifier in this dialect's quotes; raises what :func:`quote` raises."""
        return quote(identifier, "`" if self is Dialect.MYSQL else '"')

    def literal(self, text: str) -> str:
        """Return the text as a string constant of this dialect; raises what :func:`literal` raises."""
        # A backslash means itself or escapes what follows, as the session's sql_mode says; digits mean one thing.
        if self is Dialect.MYSQL and "\\" in text:
            return f"_utf8mb4 x'{text.encode().hex()}'"
        return literal(text)
