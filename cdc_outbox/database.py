"""The database of a pipeline, as its spec describes it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from cdc_outbox.errors import ConfigError
from cdc_outbox.table import Dialect, quote


class DatabaseKind(StrEnum):
    """Whose database it is."""

    POSTGRESQL = "postgresql"
    MARIADB = "mariadb"
    MYSQL = "mysql"
    SQLITE = "sqlite"

    @property
    def dialect(self) -> Dialect:
        """The statements that it understands."""
        return Dialect.MYSQL if self is DatabaseKind.MARIADB else Dialect(self)

    @property
    def default_port(self) -> int:
        """Where its server listens; 0 for none."""
        return {Dialect.POSTGRESQL: 5432, Dialect.MYSQL: 3306, Dialect.SQLITE: 0}[self.dialect]


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseSpec:
    """The database as the Connect worker reaches it.

    All texts but ``kind`` are empty for SQLite, which is a file that no worker reaches.

    Args:
        port: A number, or a reference that the worker resolves.
        password: Always a reference; the secret itself is never here.
        slot: PostgreSQL's only, like ``publication``; empty elsewhere.
    """

    kind: DatabaseKind = DatabaseKind.POSTGRESQL
    host: str = ""
    port: str = ""
    name: str = ""
    user: str = ""
    password: str = ""
    slot: str = ""
    publication: str = ""


def database_spec(content: Mapping[str, Any], *, default_name: str) -> DatabaseSpec:
    """Return the database that a spec's ``database`` describes.

    Args:
        content: As the spec's JSON Schema allows it.
        default_name: Of slot and publication.

    Raises:
        ConfigError: A key means nothing for this kind of database, or a name can be none.
    """
    kind = DatabaseKind(content["kind"])
    if kind is DatabaseKind.SQLITE:
        _refuse(kind, content, content.keys() - {"kind"}, "is a file that no worker reaches")
        return DatabaseSpec(kind=kind)
    has_slot = kind is DatabaseKind.POSTGRESQL
    if not has_slot:
        _refuse(kind, content, {"slot", "publication"}, "has no such thing")
    slot, publication = (content.get(key, default_name) if has_slot else "" for key in ("slot", "publication"))
    # A table checks its names itself; these are checked here, before anything is done with them.
    for identifier in (content["name"], content["user"], *([publication] if has_slot else [])):
        quote(identifier)
    return DatabaseSpec(
        kind=kind,
        host=content["host"],
        port=_port(content.get("port", kind.default_port)),
        name=content["name"],
        user=content["user"],
        password=content["password"],
        slot=slot,
        publication=publication,
    )


def _refuse(kind: DatabaseKind, content: Mapping[str, Any], keys: set[str], reason: str) -> None:
    for key in content:
        if key in keys:
            raise ConfigError(f"{kind} {reason}", field=f"database.{key}", hint=f"Leave out database.{key}.")


def _port(value: str | float) -> str:
    return value if isinstance(value, str) else str(int(value))
