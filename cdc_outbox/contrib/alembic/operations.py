"""Operations of Alembic's: ``op.create_outbox`` and its like, for migrations that run and for ``--sql``."""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, ClassVar

from alembic.operations import MigrateOperation, Operations
from alembic.operations.ops import ModifyTableOps

from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.drivers.sqlalchemy import find
from cdc_outbox.databases.drivers.sqlalchemy_statements import known_dialect
from cdc_outbox.databases.migrations import (
    Execute,
    drop,
    drop_statements,
    fixed_settings,
    script_statements,
    upgrade,
    with_fixed_settings,
)
from cdc_outbox.databases.table import OutboxTable
from cdc_outbox.errors import OutboxError
from cdc_outbox.writer.outbox_schema import (
    drop_publication_statement,
    outbox_components,
    publication_statement,
    table_statements,
)
from cdc_outbox.writer.partitions import add_partitions

_log = logging.getLogger(__name__)


@dataclass(eq=False, kw_only=True)
class OutboxOperation(MigrateOperation):
    """What all of them have in common."""

    name: ClassVar[str]
    """What it is called after ``op.``."""

    table: OutboxTable = field(default_factory=OutboxTable)

    def arguments(self) -> Iterator[tuple[str, Any]]:
        """Return what a migration says when it calls this."""
        if self.table != OutboxTable():
            yield "table", self.table

    def to_diff_tuple(self) -> tuple[str, str]:
        """Return what ``alembic check`` says of it."""
        return self.name, self.table.name


@Operations.register_operation("create_outbox")
@dataclass(eq=False, kw_only=True)
class CreateOutboxOp(OutboxOperation):
    """Create an outbox and everything that belongs to it except its publication, as ``cdc-outbox init`` does."""

    name = "create_outbox"

    first_source: str

    @classmethod
    def create_outbox(cls, operations: Operations, *, first_source: str, table: OutboxTable | None = None) -> None:
        """Make an outbox, its heads and on PostgreSQL its checkpoints and first partitions, or bring them up to date.

        Until the transaction ends no statement waits longer than five seconds for a lock, on PostgreSQL.

        Args:
            first_source: The default of the ``source`` columns, for example ``orders.1``. It is set once.
            table: As the writer has it.

        Raises:
            ConfigError: The database is ahead of this release.
            OutboxError: There is a table of that name which this package did not make.
        """
        operations.invoke(cls(first_source=first_source, table=table or OutboxTable()))

    def arguments(self) -> Iterator[tuple[str, Any]]:
        """Return what a migration says when it calls this."""
        yield "first_source", self.first_source
        yield from super().arguments()

    def reverse(self) -> MigrateOperation:
        """Return the operation that reverses it, as long as no event was written."""
        return DropOutboxOp(table=self.table)


@Operations.register_operation("upgrade_outbox")
@dataclass(eq=False, kw_only=True)
class UpgradeOutboxOp(CreateOutboxOp):
    """Upgrade an outbox to a newer release of this package."""

    name = "upgrade_outbox"

    @classmethod
    def upgrade_outbox(cls, operations: Operations, *, first_source: str, table: OutboxTable | None = None) -> None:
        """Do what :meth:`CreateOutboxOp.create_outbox` does; a downgrade leaves what it did."""
        operations.invoke(cls(first_source=first_source, table=table or OutboxTable()))

    def reverse(self) -> MigrateOperation:
        """Return an operation without effect: older releases work with newer tables, or refuse them."""
        return ModifyTableOps(self.table.name, [])


@Operations.register_operation("drop_outbox")
@dataclass(eq=False, kw_only=True)
class DropOutboxOp(OutboxOperation):
    """Drop an outbox and everything that belongs to it."""

    name = "drop_outbox"

    force: bool = False

    @classmethod
    def drop_outbox(cls, operations: Operations, *, table: OutboxTable | None = None, force: bool = False) -> None:
        """Drop an outbox, its heads and checkpoints; of an adopted one only these.

        Args:
            table: As the writer has it.
            force: Drop it though it was used. One that is made later under the same source would give out numbers
                that consumers have seen: give it another.

        Raises:
            OutboxError: It was used, or a script cannot look whether it was.
        """
        operations.invoke(cls(table=table or OutboxTable(), force=force))


@Operations.register_operation("create_outbox_publication")
@dataclass(eq=False, kw_only=True)
class CreateOutboxPublicationOp(OutboxOperation):
    """Create the outbox's publication, or add the outbox to an existing one."""

    name = "create_outbox_publication"

    publication: str

    @classmethod
    def create_outbox_publication(
        cls, operations: Operations, publication: str, *, table: OutboxTable | None = None
    ) -> None:
        """Make the publication that the connector reads, on PostgreSQL; elsewhere nothing is needed, and done.

        Args:
            publication: As the spec has it; without a word there it is the spec's name and ``_outbox``.
            table: As the writer has it.
        """
        operations.invoke(cls(publication=publication, table=table or OutboxTable()))

    def arguments(self) -> Iterator[tuple[str, Any]]:
        """Return what a migration says when it calls this."""
        yield "publication", self.publication
        yield from super().arguments()

    def reverse(self) -> MigrateOperation:
        """Return the operation that undoes it."""
        return DropOutboxPublicationOp(publication=self.publication, table=self.table)


@Operations.register_operation("drop_outbox_publication")
@dataclass(eq=False, kw_only=True)
class DropOutboxPublicationOp(CreateOutboxPublicationOp):
    """Remove the outbox from its publication, and drop the publication if it is then empty."""

    name = "drop_outbox_publication"

    @classmethod
    def drop_outbox_publication(
        cls, operations: Operations, publication: str, *, table: OutboxTable | None = None
    ) -> None:
        """Undo :meth:`CreateOutboxPublicationOp.create_outbox_publication`; a connector that reads it fails."""
        operations.invoke(cls(publication=publication, table=table or OutboxTable()))

    def reverse(self) -> MigrateOperation:
        """Return the operation that undoes it."""
        return CreateOutboxPublicationOp(publication=self.publication, table=self.table)


@Operations.implementation_for(CreateOutboxOp)
def _create(operations: Operations, operation: CreateOutboxOp) -> None:
    table, dialect = operation.table, _dialect(operations)
    components = outbox_components(table, first_source=operation.first_source, dialect=dialect)
    more = table_statements(table, first_source=operation.first_source) if dialect.features.has_publications else []
    if operations.migration_context.as_sql:
        _write(operations, [statement for component in components for statement in script_statements(component)])
        _write(operations, with_fixed_settings(more, dialect) if more else [])
        return
    execute = _execute(operations)
    for component in components:
        upgrade(execute, component)
    connection = operations.get_bind()
    with fixed_settings(execute, dialect):
        for statement in more:
            execute(statement)
        added = add_partitions(connection, find(connection), table, now=datetime.now(UTC))
    for step in added:
        if step.obstacle:
            _log.warning("partition not created", extra={"partition": str(step.partition.table), "why": step.obstacle})


@Operations.implementation_for(DropOutboxOp)
def _drop(operations: Operations, operation: DropOutboxOp) -> None:
    # The source is a column's default, and of no consequence where the column goes.
    for component in outbox_components(operation.table, first_source="none.1", dialect=_dialect(operations)):
        if not operations.migration_context.as_sql:
            drop(_execute(operations), component, force=operation.force)
        elif operation.force:
            _write(operations, with_fixed_settings(drop_statements(component), component.dialect))
        else:
            raise OutboxError(
                f"a script cannot check whether {component.tables[0]} was used",
                hint="Let Alembic run the migration itself, or pass force=True.",
            )


@Operations.implementation_for(CreateOutboxPublicationOp)
def _create_publication(operations: Operations, operation: CreateOutboxPublicationOp) -> None:
    _run(operations, publication_statement(operation.table, operation.publication))


@Operations.implementation_for(DropOutboxPublicationOp)
def _drop_publication(operations: Operations, operation: DropOutboxPublicationOp) -> None:
    _run(operations, drop_publication_statement(operation.table, operation.publication))


def _run(operations: Operations, statement: str) -> None:
    """Run or write a statement about a publication, where there are any."""
    dialect = _dialect(operations)
    if not dialect.features.has_publications:
        return
    if operations.migration_context.as_sql:
        _write(operations, with_fixed_settings([statement], dialect))
        return
    execute = _execute(operations)
    with fixed_settings(execute, dialect):
        execute(statement)


def _dialect(operations: Operations) -> Dialect:
    return known_dialect(operations.migration_context.dialect)


def _execute(operations: Operations) -> Execute:
    connection = operations.get_bind()
    return partial(find(connection).fetch, connection)


def _write(operations: Operations, statements: Iterable[str]) -> None:
    # As they are: through SQLAlchemy a colon or a percent sign in a name would mean something else.
    for statement in statements:
        operations.migration_context.impl.static_output(f"{statement};")
