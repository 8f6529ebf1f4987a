"""The database of a pipeline, as its spec describes it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self
from zlib import crc32

from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.quoting import quote
from cdc_outbox.errors import ConfigError


class DatabaseKind(StrEnum):
    """Whose database it is, and what follows from that; the value is its name in specs and of its options' file.

    Args:
        display_name: As its makers write it.
        default_port: Where its server listens; 0 for none.
        connector_class: Debezium's connector for it, empty where there is none.
        known_dialect: The statements that it understands, ``None`` where there are none here.
    """

    display_name: str
    default_port: int
    connector_class: str
    known_dialect: Dialect | None

    POSTGRESQL = "postgresql", "PostgreSQL", Dialect.POSTGRESQL, 5432, "postgresql.PostgresConnector"
    MYSQL = "mysql", "MySQL", Dialect.MYSQL, 3306, "mysql.MySqlConnector"
    MARIADB = "mariadb", "MariaDB", Dialect.MYSQL, 3306, "mariadb.MariaDbConnector"
    SQLSERVER = "sqlserver", "SQL Server", None, 1433, "sqlserver.SqlServerConnector"
    ORACLE = "oracle", "Oracle", None, 1521, "oracle.OracleConnector"
    MONGODB = "mongodb", "MongoDB", None, 0, "mongodb.MongoDbConnector"
    SQLITE = "sqlite", "SQLite", Dialect.SQLITE

    def __new__(
        cls, name: str, title: str = "", dialect: Dialect | None = None, default_port: int = 0, connector: str = ""
    ) -> Self:
        """Make a member whose value is the name alone."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.display_name = title
        member.default_port = default_port
        member.connector_class = f"io.debezium.connector.{connector}" if connector else ""
        member.known_dialect = dialect
        return member

    @classmethod
    def of_connector(cls, connector_class: str) -> Self | None:
        """Return whose connector a class is, by its name as Connect takes it: in full, without its package, or shorter.

        ``None`` for a connector of another database, or not of Debezium.
        """
        for kind in cls:
            simple = kind.connector_class.rpartition(".")[2]
            if simple and connector_class in {kind.connector_class, simple, simple.removesuffix("Connector")}:
                return kind
        return None

    @property
    def dialect(self) -> Dialect:
        """The statements that it understands.

        Raises:
            ConfigError: None that are here: its outbox is made, written and pruned by others.
        """
        if self.known_dialect is None:
            raise ConfigError(
                f"cdc-outbox supports only the connector of {self}",
                field="database.kind",
                hint="`cdc-outbox render`, `lint` and `simulate` accept this spec.",
            )
        return self.known_dialect

    @property
    def has_dialect(self) -> bool:
        """Whether there are statements for it here, to make, write and prune an outbox."""
        return self.known_dialect is not None

    @property
    def reads_binlog(self) -> bool:
        """Whether its connector reads a binlog, under a number of its own."""
        return self in {DatabaseKind.MARIADB, DatabaseKind.MYSQL}

    @property
    def keeps_history(self) -> bool:
        """Whether its connector needs to remember how the tables were."""
        return self not in {DatabaseKind.POSTGRESQL, DatabaseKind.MONGODB, DatabaseKind.SQLITE}

    @property
    def nouns(self) -> tuple[str, str]:
        """What stands before a table's name, and what a table is called."""
        if self is DatabaseKind.MONGODB:
            return "database", "collection"
        return "database" if self.reads_binlog else "schema", "table"

    @property
    def include_list(self) -> str:
        """The connector's option that says which tables are captured."""
        return f"{self.nouns[1]}.include.list"


CAPTURED = tuple(kind for kind in DatabaseKind if kind.connector_class)
"""The databases that Debezium has a connector for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseSpec:
    """The database as the Connect worker reaches it.

    All texts but ``kind`` are empty for SQLite, which is a file that no worker reaches.

    Args:
        connection_string: MongoDB's only, which has no host and no port then.
        port: A number, or a reference that the worker resolves.
        user: Empty on MongoDB if the spec names no user, like ``password``.
        password: Always a reference; the secret itself is never here.
        pdb: Oracle's only: the pluggable database, empty where there are none.
        slot: PostgreSQL's only, like ``publication``; empty elsewhere.
        server_id: MariaDB's and MySQL's only: the connector's number among the readers of the binlog. A number, or a
            reference; empty elsewhere.
    """

    kind: DatabaseKind = DatabaseKind.POSTGRESQL
    connection_string: str = ""
    host: str = ""
    port: str = ""
    name: str = ""
    user: str = ""
    password: str = ""
    pdb: str = ""
    slot: str = ""
    publication: str = ""
    server_id: str = ""


def database_spec(content: Mapping[str, Any], *, pipeline: str) -> DatabaseSpec:
    """Return the database that a spec's ``database`` describes.

    Args:
        content: As the spec's JSON Schema allows it.
        pipeline: Its name, from which the default slot, publication and server id derive.

    Raises:
        ConfigError: A key means nothing for this kind of database, or a name can be none.
    """
    kind = DatabaseKind(content["kind"])
    if kind is DatabaseKind.SQLITE:
        _refuse(kind, content, content.keys() - {"kind"}, "is a file that no worker reaches")
        return DatabaseSpec(kind=kind)
    if kind is DatabaseKind.MONGODB:
        _refuse(kind, content, {"host", "port"}, "is reached by its connection string")
        _refuse_half_a_login(content)
    has_slot = kind is DatabaseKind.POSTGRESQL
    _refuse(kind, content, {key for key, known in _OWN.items() if kind not in known}, "does not support this key")
    default_name = default_identifier(pipeline)
    slot, publication = (content.get(key, default_name) if has_slot else "" for key in ("slot", "publication"))
    # A table checks its names itself; these are checked here, before anything is done with them.
    for identifier in filter(None, (content["name"], content.get("user"), publication)):
        quote(identifier)
    return DatabaseSpec(
        kind=kind,
        connection_string=content.get("connection_string", ""),
        host=content.get("host", ""),
        port=_number(content.get("port", kind.default_port)) if "host" in content else "",
        name=content["name"],
        user=content.get("user", ""),
        password=content.get("password", ""),
        pdb=content.get("pdb", ""),
        slot=slot,
        publication=publication,
        server_id=_number(content.get("server_id", default_server_id(pipeline))) if kind.reads_binlog else "",
    )


_OWN = {
    "connection_string": {DatabaseKind.MONGODB},
    "pdb": {DatabaseKind.ORACLE},
    "slot": {DatabaseKind.POSTGRESQL},
    "publication": {DatabaseKind.POSTGRESQL},
    "server_id": {DatabaseKind.MARIADB, DatabaseKind.MYSQL},
}
"""What only some databases have."""


def _refuse_half_a_login(content: Mapping[str, Any]) -> None:
    for key, other in (("user", "password"), ("password", "user")):
        if key in content and other not in content:
            hint = f"Set database.{other} too, or leave both to the connection string."
            raise ConfigError(
                f"database.{key} is useless without database.{other}: a client needs both to log in",
                field=f"database.{key}",
                hint=hint,
            )


def _refuse(kind: DatabaseKind, content: Mapping[str, Any], keys: set[str], reason: str) -> None:
    for key in content:
        if key in keys:
            raise ConfigError(f"{kind} {reason}", field=f"database.{key}", hint=f"Remove database.{key}.")


def default_identifier(pipeline: str) -> str:
    """Return the default name of slot and publication: a slot takes nothing but [a-z0-9_]."""
    return re.sub(r"[^a-z0-9_]", "_", pipeline.lower())[:56] + "_outbox"


def default_server_id(pipeline: str) -> int:
    """Return a number that no other pipeline has but by chance, and no server: those are numbered from 1."""
    return 2**31 + crc32(pipeline.encode()) % 2**31


def _number(value: str | float) -> str:
    return value if isinstance(value, str) else str(int(value))
