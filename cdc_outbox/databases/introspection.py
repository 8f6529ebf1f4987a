"""What the database's catalogue says about our tables, read once and kept as values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.drivers import AnyConnection, Driver, Row
from cdc_outbox.databases.facts import (
    COUNTED_ROWS,
    ColumnFacts,
    ConnectorRoleFacts,
    IndexFacts,
    PartitionFacts,
    PublicationFacts,
    TableFacts,
)
from cdc_outbox.databases.migrations import Component, exists, find_version
from cdc_outbox.databases.pgoutput import Relation
from cdc_outbox.databases.roles import Role, RoleFacts
from cdc_outbox.databases.sql import load
from cdc_outbox.databases.table import OutboxTable, TableName
from cdc_outbox.errors import DatabaseAccessError


@dataclass(frozen=True, slots=True)
class OutboxCatalog:
    """An outbox; ``None`` for what does not exist.

    Args:
        version: Of its component.
        has_publishers: Whether the table exists that says who publishes the outbox; true where none is needed.
    """

    dialect: Dialect
    outbox: TableFacts | None
    heads: TableFacts | None
    version: int | None
    publication: PublicationFacts | None
    has_publishers: bool = True


_TABLE = (
    "kind",
    "is_transactional",
    "persistence",
    "partition_of",
    "children",
    "refuses_deletes",
    "rules",
    "triggers",
    "partition_key",
)
"""What the statement for a table returns; on MariaDB and MySQL only the first two."""


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
        """Return whether there is a table, or anything else, of this name."""
        return exists(partial(self._driver.fetch, self._connection), table)

    def find_table(self, table: TableName) -> TableFacts | None:
        """Return a table as it is."""
        if not self.exists(table):
            return None
        indexes: dict[tuple[Any, ...], list[str]] = {}
        for *index, column in self._look("indexes", table):
            indexes.setdefault(tuple(index), []).append(column)
        facts = dict(zip(_TABLE, next(iter(self._look("table", table)), ()), strict=False))
        return TableFacts(
            is_transactional=bool(facts.pop("is_transactional", True)),
            **facts,
            columns=self.find_columns(table),
            indexes=[
                IndexFacts(name, bool(primary), bool(unique), bool(valid), bool(whole), tuple(columns))
                for (name, primary, unique, valid, whole), columns in indexes.items()
            ],
            settings=self.find_settings(table),
            partitions=self.find_partitions(table),
        )

    def find_columns(self, table: TableName) -> Mapping[str, ColumnFacts]:
        """Return a table's columns by name, in their order; none where there is no such table."""
        return {
            name: ColumnFacts(kind, length, bool(not_null), bool(generated), bool(enum), *more)
            for name, kind, length, not_null, generated, enum, *more in self._look("columns", table)
        }

    def find_streamed_columns(self, table: TableName, relation: Relation) -> Mapping[str, ColumnFacts]:
        """Return a table's columns by name, as a replication stream describes them.

        Their types are the stream's: the table may have changed since its rows were written. Whether a column may be
        null, and its default, are not in the stream, so they are the catalog's of today. A column whose type was
        dropped since is left out.
        """
        known, found = self.find_columns(table), {}
        types = [column.type_oid for column in relation.columns]
        modifiers = [column.modifier for column in relation.columns]
        for number, base, is_enum, declared in self._ask("types", types=types, modifiers=modifiers):
            name = relation.columns[number - 1].name
            facts = known.get(name, ColumnFacts(base, not_null=False))
            found[name] = replace(facts, type=base, is_enum=is_enum, declared=declared)
        return {column.name: found[column.name] for column in relation.columns if column.name in found}

    def find_settings(self, table: TableName) -> Mapping[str, str]:
        """Return a table's settings by name; none where there is no such table."""
        return dict(self._look("settings", table))

    def insertable_columns(self, table: TableName) -> str:
        """Return the columns that a row is inserted with: all that the server does not compute, quoted, by commas."""
        columns = (name for name, facts in self.find_columns(table).items() if not facts.is_generated)
        return ", ".join(map(self.dialect.quote, columns))

    def find_partitions(self, table: TableName) -> Sequence[PartitionFacts]:
        """Return a table's partitions, in the order of their names."""
        return [PartitionFacts(*facts) for facts in self._look("partitions", table)]

    def count_rows(self, table: TableName) -> int:
        """Return how many rows a table holds, up to :data:`COUNTED_ROWS`."""
        [(rows,)] = self._ask("written", {"table": table.quoted}, limit=COUNTED_ROWS)
        return int(rows)

    def count_visible_rows(self, table: TableName) -> int:
        """Return the same; none where the role cannot read the table.

        Raises:
            DatabaseAccessError: Row-level security shows none of them.
        """
        if self._look("access", table)[0][0] is False:
            return 0
        rows = self.count_rows(table)
        if not rows:
            self.refuse_hidden_rows(table)
        return rows

    def refuse_hidden_rows(self, *tables: TableName) -> None:
        """Refuse what counts rows of tables that row-level security may hide some of: it would count too few.

        Raises:
            DatabaseAccessError: It may, from the role of the connection.
        """
        for table in tables:
            if [hides_rows for _, hides_rows in self._look("access", table)] == [True]:
                raise DatabaseAccessError(
                    f"row-level security may hide rows of {table} from this role",
                    hint="Give the role the attribute bypassrls, or use the role that owns the tables.",
                )

    def find_companions(self, table: TableName) -> list[str]:
        """Return the indexes and triggers that users added to a table, where dropping it drops them."""
        return [name for (name,) in self._look("companions", table)]

    def read_outbox(self, table: OutboxTable, components: Sequence[Component], publication: str) -> OutboxCatalog:
        """Return everything that drift is looked for in."""
        return OutboxCatalog(
            dialect=self.dialect,
            outbox=self.find_table(table.table_in(self.dialect)),
            heads=self.find_table(table.heads_in(self.dialect)),
            version=next(map(self.read_version, components), None),
            publication=self.find_publication(table, publication),
            has_publishers=all(map(self.exists, _publishers(table, components))),
        )

    def has_lost_heads(self, table: OutboxTable, source: str) -> bool:
        """Return whether the outbox holds numbered events of a source and the head table none of its numbers.

        Raises:
            DatabaseAccessError: The role may not read both tables.
        """
        [(lost,)] = self._ask("lost_heads", table.names(self.dialect), source=source)
        return bool(lost)

    def is_published(self, table: OutboxTable, publication: str) -> bool:
        """Return whether the publication is there, with the outbox in it if there is one."""
        found = self.find_publication(table, publication)
        return found is not None and found.has(table)

    def find_publication(self, table: OutboxTable, publication: str) -> PublicationFacts | None:
        """Return a publication as it is, seen from an outbox."""
        found = self._look("publication", table.table, publication=publication)
        if not found:
            return None
        others = self._look("also_published", table.table, publication=publication)
        return replace(
            PublicationFacts(*found[0]),
            outboxes=[f"{schema}.{name}" for schema, name, is_outbox in others if is_outbox],
            tables=[f"{schema}.{name}" for schema, name, is_outbox in others if not is_outbox],
        )

    def find_connector_role(self, name: str, table: TableName) -> ConnectorRoleFacts | None:
        """Return what PostgreSQL's role of a connector may do, also with a table, ``None`` if there is no such role."""
        found = self._ask("role", role=name)
        if not found:
            return None
        [(can_login, can_replicate, can_connect, expired)] = found
        [(can_select, sees_all_rows)] = self._look("role_reads", table, role=name)
        return ConnectorRoleFacts(
            can_login=can_login,
            can_replicate=can_replicate,
            can_select=can_select,
            can_connect=can_connect,
            sees_all_rows=sees_all_rows,
            expired=expired,
        )

    def find_function(self, function: TableName, role: str) -> tuple[bool, bool]:
        """Return whether there is a function that takes a text and an interval, and whether a role may execute it."""
        [(there, callable_)] = self._look("callable", function, role=role)
        return there, callable_

    def find_role(self, role: Role) -> RoleFacts | None:
        """Return what a role may do with those of its tables that exist, ``None`` if there is no such role.

        Raises:
            DatabaseAccessError: On MySQL, where a user needs a privilege to see what others may do.
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
            not_callable=tuple(function for function in role.calls if not all(self.find_function(function, role.name))),
        )

    def find_account_rights(self, user: str, host: str, table: TableName) -> frozenset[str]:
        """Return what an account of MariaDB or MySQL may do with a table, and on the whole server."""
        who = {"user": user, "host": host}
        return frozenset(name for (name,) in [*self._look("actions", table, **who), *self._ask("everywhere", **who)])

    def _column_actions(self, table: TableName, who: Mapping[str, str]) -> Mapping[str, frozenset[str]]:
        found: dict[str, frozenset[str]] = {}
        for action, column in self._look("column_actions", table, **who):
            found[action] = found.get(action, frozenset()) | {column}
        return found

    def _look(self, statement: str, table: TableName, /, **parameters: object) -> list[Row]:
        return self._ask(statement, table.literals(), **parameters)

    def _ask(self, statement: str, names: Mapping[str, str] | None = None, /, **parameters: object) -> list[Row]:
        statements = load(self.dialect, "catalog")
        if statement not in statements:
            return []
        return self._driver.fetch(
            self._connection, statements[statement].render(names or {}, self._driver.style), parameters
        )


def _publishers(table: OutboxTable, components: Sequence[Component]) -> list[TableName]:
    return [name for component in components for name in component.tables if name == table.publishers]
