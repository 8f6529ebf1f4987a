"""What the database's catalogue says about our tables, read once and kept as values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cdc_outbox.drivers import Driver, Row
from cdc_outbox.migrations import Component
from cdc_outbox.modes import OutboxMode
from cdc_outbox.privileges import Role, RoleFacts
from cdc_outbox.sql import load
from cdc_outbox.table import OutboxTable, TableName


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """One column: its type and its default as PostgreSQL spells them."""

    type: str
    not_null: bool = False
    default: str = ""


@dataclass(frozen=True, slots=True)
class IndexFacts:
    """One index."""

    name: str
    is_primary: bool
    is_unique: bool
    is_valid: bool
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableCatalog:
    """One table.

    Args:
        settings: Storage parameters by name.
        partition_key: ``RANGE (id)``, empty for a table that is not partitioned.
        partitions: Partition → its bounds as PostgreSQL spells them.
    """

    columns: Mapping[str, ColumnFacts]
    indexes: Sequence[IndexFacts]
    settings: Mapping[str, str]
    partition_key: str = ""
    partitions: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class OutboxCatalog:
    """An outbox; ``None`` for what does not exist.

    Args:
        version: Of its component.
        also_publishes: What its publication carries beside inserts.
    """

    outbox: TableCatalog | None
    heads: TableCatalog | None
    version: int | None
    also_publishes: tuple[str, ...] = ()


class Catalog:
    """The catalogue, through any connection to the database; it is only read."""

    def __init__(self, connection: Any, driver: Driver) -> None:  # noqa: ANN401 - any driver's connection
        self._connection = connection
        self._driver = driver

    def read_database(self) -> str:
        """Return the name of the database that the connection leads to."""
        return str(self._ask("database")[0][0])

    def read_version(self, component: Component) -> int | None:
        """Return the version of a component, ``None`` if it was never made here."""
        if not self.exists(component.version_table):
            return None
        rows = self._ask("version", component.versions(), component=component.name)
        return int(rows[0][0]) if rows else None

    def exists(self, table: TableName) -> bool:
        """Tell whether there is a table, or anything else, of this name."""
        return bool(self._ask("exists", table=table.quoted)[0][0])

    def find_table(self, table: TableName) -> TableCatalog | None:
        """Return a table as it is."""
        settings = self._ask("settings", table=table.quoted)
        if not settings:
            return None
        [(options, partition_key)] = settings
        return TableCatalog(
            columns={name: ColumnFacts(*facts) for name, *facts in self._ask("columns", table=table.quoted)},
            indexes=[
                IndexFacts(name, primary, unique, valid, tuple(columns))
                for name, primary, unique, valid, columns in self._ask("indexes", table=table.quoted)
            ],
            settings=dict(option.split("=", 1) for option in options),
            partition_key=partition_key,
            partitions=dict(self._ask("partitions", table=table.quoted)),
        )

    def read_outbox(self, table: OutboxTable, components: Sequence[Component], publication: str) -> OutboxCatalog:
        """Return everything that drift is looked for in."""
        publishes = self._ask("publishes", publication=publication)
        actions = ("updates", "deletes", "truncates")
        return OutboxCatalog(
            outbox=self.find_table(table.table),
            heads=self.find_table(table.heads),
            version=next(map(self.read_version, components), None),
            also_publishes=tuple(
                action for action, on in zip(actions, publishes[0] if publishes else (), strict=False) if on
            ),
        )

    def is_published(self, table: OutboxTable, publication: str) -> bool:
        """Tell whether the publication is there, with the outbox in it if there is one."""
        schema, name = table.table.schema, table.table.name
        [(there, inside)] = self._ask("publication", publication=publication, schema=schema, table=name)
        return bool(there if table.mode is OutboxMode.MESSAGE else inside)

    def find_role(self, role: Role) -> RoleFacts | None:
        """Return what a role may do with those of its tables that exist, ``None`` if there is no such role."""
        if not self._ask("role", role=role.name):
            return None
        tables = [table for table in role.tables if self.exists(table)]
        return RoleFacts(
            actions={
                table: frozenset(name for (name,) in self._ask("actions", role=role.name, table=table.quoted))
                for table in tables
            },
            column_actions={table: self._column_actions(role.name, table) for table in tables},
            owners={table: self._ask("owner", table=table.quoted)[0][0] for table in role.owns if self.exists(table)},
        )

    def _column_actions(self, role: str, table: TableName) -> Mapping[str, frozenset[str]]:
        found: dict[str, frozenset[str]] = {}
        for action, column in self._ask("column_actions", role=role, table=table.quoted):
            found[action] = found.get(action, frozenset()) | {column}
        return found

    def _ask(self, statement: str, names: Mapping[str, str] | None = None, **parameters: Any) -> list[Row]:  # noqa: ANN401
        sql = load(self._driver.dialect, "catalog")[statement].render(names or {}, self._driver.style)
        return self._driver.fetch(self._connection, sql, parameters)
