"""What autogenerate writes about an outbox, and what it leaves alone."""

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from alembic import util
from alembic.autogenerate import comparators, renderers
from alembic.autogenerate.api import AutogenContext
from alembic.operations import MigrateOperation
from alembic.operations.ops import AlterColumnOp, CreateTableOp, DropTableOp, ModifyTableOps, UpgradeOps
from sqlalchemy import Connection, Table
from sqlalchemy.dialects.postgresql.base import ischema_names
from sqlalchemy.types import NullType

from cdc_outbox.contrib.alembic.operations import (
    CreateOutboxOp,
    CreateOutboxPublicationOp,
    OutboxOperation,
    UpgradeOutboxOp,
)
from cdc_outbox.contrib.alembic.outbox_table import DeclaredOutbox, find_declared
from cdc_outbox.databases.drivers import Driver
from cdc_outbox.databases.drivers.sqlalchemy import find
from cdc_outbox.databases.introspection import Catalog
from cdc_outbox.databases.migrations import pending

TableKey = tuple[str | None, str]
"""A table's schema and name."""

_LAST: dict[str, Any] = {"priority": util.DispatchPriority.LAST} if hasattr(util, "DispatchPriority") else {}
"""Alembic's own comparison must be done. Before 1.18 there were no priorities, and it came first anyway."""

# The type of a column of our checkpoints, which SQLAlchemy does not know and would warn of whenever it looks at them.
ischema_names.setdefault("pg_lsn", NullType)


@comparators.dispatch_for("schema", **_LAST)
def compare_outboxes(context: AutogenContext, upgrade: UpgradeOps, _schemas: object) -> None:
    """Put in what makes or upgrades each outbox of the metadata, and take out what would undo it."""
    connection = context.connection
    if connection is None:
        return
    for table in context.sorted_tables:
        declared = find_declared(table)
        if declared is not None:
            kept = _without_ours(upgrade.ops, table, declared, connection)
            # First, because nothing of the user's is needed for it, and an index of the user's may need the table.
            upgrade.ops[:] = [*_find_missing(declared, connection), *kept]


def _find_missing(declared: DeclaredOutbox, connection: Connection) -> Iterator[MigrateOperation]:
    driver = find(connection)
    component, publication = declared.component(driver.dialect), declared.publication
    catalog = Catalog(connection, driver)
    version = catalog.read_version(component)
    if version is None or not catalog.exists(declared.main(driver.dialect)):
        yield CreateOutboxOp(table=declared.table, first_source=declared.first_source)
    elif pending(version, component.migrations):
        yield UpgradeOutboxOp(table=declared.table, first_source=declared.first_source)
    if not publication or not driver.dialect.features.has_publications:
        return
    if not catalog.is_published(declared.table, publication):
        yield CreateOutboxPublicationOp(table=declared.table, publication=publication)


def _without_ours(
    operations: Iterable[MigrateOperation], table: Table, declared: DeclaredOutbox, connection: Connection
) -> Iterator[MigrateOperation]:
    """Return what is the user's to decide: other tables, and columns and indexes of the outbox."""
    default = connection.dialect.default_schema_name
    declared_as, ours = (table.schema or default, table.name), set(_keys(declared, connection, find(connection)))
    for operation in operations:
        key = _key_of(operation, default)
        if key == declared_as and not declared.table.adopted:
            if isinstance(operation, ModifyTableOps):
                operation.ops[:] = [part for part in operation.ops if not _is_default_only(part)]
            if isinstance(operation, CreateTableOp | DropTableOp) or getattr(operation, "ops", None) == []:
                continue
        elif key in ours:
            continue
        yield operation


def _keys(declared: DeclaredOutbox, connection: Connection, driver: Driver) -> Iterator[TableKey]:
    """Return the tables that the outbox manages itself, with the partitions that exist now."""
    default = connection.dialect.default_schema_name
    for table in declared.tables(driver.dialect):
        yield table.schema or default, table.name
    if declared.table.partitions is not None:
        for partition in Catalog(connection, driver).find_partitions(declared.table.table):
            yield declared.table.table.schema, partition.name


def _key_of(operation: MigrateOperation, default: str | None) -> TableKey | None:
    name = getattr(operation, "table_name", None)
    return None if name is None else (getattr(operation, "schema", None) or default, name)


def _is_default_only(operation: MigrateOperation) -> bool:
    """Return whether nothing is left of an operation without the default that it would set.

    A later incarnation's source must not be set back, and the clock never compares equal to itself.
    """
    if not isinstance(operation, AlterColumnOp):
        return False
    operation.modify_server_default = False
    return not operation.has_changes()


@renderers.dispatch_for(OutboxOperation)
def _render(context: AutogenContext, operation: OutboxOperation) -> str:
    # So that the migration runs whatever env.py imports by then.
    context.imports.add("import cdc_outbox.contrib.alembic  # noqa: F401 - brings op.create_outbox and its like")
    arguments = [f"{name}={_code(context, value)}" for name, value in operation.arguments()]
    return f"{context.opts['alembic_module_prefix']}{operation.name}({', '.join(arguments)})"


def _code(context: AutogenContext, value: object) -> str:
    """Return a value as Python, with as few words as it takes, and import what they name."""
    if is_dataclass(value) and not isinstance(value, type):
        name, default = type(value).__name__, type(value)()
        said = [item.name for item in fields(value) if getattr(value, item.name) != getattr(default, item.name)]
        context.imports.add(f"from cdc_outbox import {name}")
        return f"{name}({', '.join(f'{field}={_code(context, getattr(value, field))}' for field in said)})"
    if isinstance(value, Enum):
        context.imports.add(f"from cdc_outbox import {type(value).__name__}")
        return f"{type(value).__name__}.{value.name}"
    return repr(value)
