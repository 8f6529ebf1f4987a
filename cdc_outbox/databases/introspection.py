"""What the database's catalogue says about our tables, read once and kept as values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from cdc_outbox.contract.outbox_options import OutboxMode
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.drivers import AnyConnection, Driver, Row
from cdc_outbox.databases.migrations import Component, exists, find_version
from cdc_outbox.databases.roles import Role, RoleFacts
from cdc_outbox.databases.sql import load
from cdc_outbox.databases.table import OutboxTable, TableName
from cdc_outbox.errors import DatabaseAccessError


@dataclass(frozen=True, slots=True)
class ColumnCatalog:
    """One column: its type and its default as the database spells them, on MariaDB and MySQL as our statements do."""

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
        settings: By name: PostgreSQL's storage parameters; elsewhere the engine, or whether types are held.
        partition_key: ``RANGE (id)``, empty for a table that is not partitioned.
        partitions: Partition → its bounds as PostgreSQL spells them.
    """

    columns: Mapping[str, ColumnCatalog]
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

    dialect: Dialect
    outbox: TableCatalog | None
    heads: TableCatalog | None
    version: int | None
    also_publishes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationCatalog:
    """A publication.

    Args:
        has_outbox: Whether the outbox is in it, or needs not to be.
        outboxes: Other tables that were put into it and are outboxes.
        tables: Those that are none.
    """

    has_outbox: bool
    outboxes: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()


class Catalog:
    """The catalogue, through any connection to the database; it is only read.

    What a dialect does not have, such as partitions, it has no statement for, and nothing is found.
    """

    def __init__(self, connection: AnyConnection, driver: Driver) -> None:
        self._connection = connection
        self._driver = driver

    @property
    def dialect(self) -> Dialect:
        """That of the database."""
        return self._driver.dialect

    def find_database(self) -> str | None:
        """Return the name of the database that the connection leads to, ``None`` if it is a file."""
        rows = self._ask("database")
        return str(rows[0][0]) if rows else None

    def read_version(self, component: Component) -> int | None:
        """Return the version of a component, ``None`` if it was never made here."""
        return find_version(partial(self._driver.fetch, self._connection), component)

    def exists(self, table: TableName) -> bool:
        """Tell whether there is a table, or anything else, of this name."""
        return exists(partial(self._driver.fetch, self._connection), table)

    def find_table(self, table: TableName) -> TableCatalog | None:
        """Return a table as it is."""
        if not self.exists(table):
            return None
        indexes: dict[tuple[Any, ...], list[str]] = {}
        for *index, column in self._look("indexes", table):
            indexes.setdefault(tuple(index), []).append(column)
        return TableCatalog(
            columns={
                name: ColumnCatalog(kind, bool(not_null), default)
                for name, kind, not_null, default in self._look("columns", table)
            },
            indexes=[
                IndexFacts(name, bool(primary), bool(unique), bool(valid), tuple(columns))
                for (name, primary, unique, valid), columns in indexes.items()
            ],
            settings=dict(self._look("settings", table)),
            partition_key=next((key for (key,) in self._look("partition_key", table)), ""),
            partitions=dict(self._look("partitions", table)),
        )

    def refuse_hidden_rows(self, *tables: TableName) -> None:
        """Refuse what counts rows of tables that row-level security may hide some of: it would count too few.

        Raises:
            DatabaseAccessError: It may, from the role of the connection.
        """
        for table in tables:
            if self._look("hides_rows", table) == [(True,)]:
                raise DatabaseAccessError(
                    f"row-level security may hide rows of {table} from this role",
                    hint="Give the role the attribute bypassrls, or use the role that owns the tables.",
                )

    def find_companions(self, table: TableName) -> list[str]:
        """Return the indexes and triggers that somebody has put on a table, where they would go with it."""
        return [name for (name,) in self._look("companions", table)]

    def read_outbox(self, table: OutboxTable, components: Sequence[Component], publication: str) -> OutboxCatalog:
        """Return everything that drift is looked for in."""
        publishes = self._ask("publishes", publication=publication)
        actions = ("updates", "deletes", "truncates")
        return OutboxCatalog(
            dialect=self.dialect,
            outbox=self.find_table(table.table_in(self.dialect)),
            heads=self.find_table(table.heads_in(self.dialect)),
            version=next(map(self.read_version, components), None),
            also_publishes=tuple(
                action for action, on in zip(actions, publishes[0] if publishes else (), strict=False) if on
            ),
        )

    def has_lost_heads(self, table: OutboxTable, source: str) -> bool:
        """Tell whether the outbox holds numbered events of a source and the head table none of its numbers.

        Raises:
            DatabaseAccessError: The role may not read both tables.
        """
        [(lost,)] = self._ask("lost_heads", table.names(self.dialect), source=source)
        return bool(lost)

    def is_published(self, table: OutboxTable, publication: str) -> bool:
        """Tell whether the publication is there, with the outbox in it if there is one."""
        found = self.find_publication(table, publication)
        return found is not None and found.has_outbox

    def find_publication(self, table: OutboxTable, publication: str) -> PublicationCatalog | None:
        """Return a publication as it is."""
        [(there, inside)] = self._look("publication", table.table, publication=publication)
        if not there:
            return None
        others = self._ask("also_published", publication=publication, outbox=table.table.quoted)
        return PublicationCatalog(
            has_outbox=inside or table.mode is OutboxMode.MESSAGE,
            outboxes=tuple(f"{schema}.{name}" for schema, name, is_outbox in others if is_outbox),
            tables=tuple(f"{schema}.{name}" for schema, name, is_outbox in others if not is_outbox),
        )

    def find_role(self, role: Role) -> RoleFacts | None:
        """Return what a role may do with those of its tables that exist, ``None`` if there is no such role.

        Raises:
            DatabaseAccessError: On MySQL, where not everybody may see what others may do.
        """
        user, host = role.account
        who = {"role": role.name, "user": user, "host": host}
        if not self._ask("role", **who):
            return None
        tables = [table for table in role.tables if self.exists(table)]
        members = self._ask("member", other=role.member_of, **who) if role.member_of else []
        return RoleFacts(
            actions={table: frozenset(name for (name,) in self._look("actions", table, **who)) for table in tables},
            column_actions={table: self._column_actions(table, who) for table in tables},
            owners={table: self._look("owner", table)[0][0] for table in role.owns if self.exists(table)},
            everywhere=frozenset(name for (name,) in self._ask("everywhere", **who)),
            is_member=members in ([], [(True,)]),
            not_callable=tuple(
                function for function in role.calls if self._look("callable", function, role=role.name) != [(True,)]
            ),
        )

    def _column_actions(self, table: TableName, who: Mapping[str, str]) -> Mapping[str, frozenset[str]]:
        found: dict[str, frozenset[str]] = {}
        for action, column in self._look("column_actions", table, **who):
            found[action] = found.get(action, frozenset()) | {column}
        return found

    def _look(self, statement: str, table: TableName, /, **parameters: Any) -> list[Row]:  # noqa: ANN401
        return self._ask(statement, table.literals(), **parameters)

    def _ask(self, statement: str, names: Mapping[str, str] | None = None, /, **parameters: Any) -> list[Row]:  # noqa: ANN401
        statements = load(self.dialect, "catalog")
        if statement not in statements:
            return []
        return self._driver.fetch(
            self._connection, statements[statement].render(names or {}, self._driver.style), parameters
        )
