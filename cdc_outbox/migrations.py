"""Versions of our own tables, and the way from one to the next.

Each component (an outbox, an inbox) has one row in ``cdc_outbox_version``, in its own schema. An upgrade runs inside
the caller's transaction, under an advisory lock, so that two of them take turns. The same statements make the
script of ``cdc-outbox init --sql``, which is why every step may be repeated.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cdc_outbox.errors import ConfigError, OutboxError
from cdc_outbox.sql import load
from cdc_outbox.table import TableName, literal

Execute = Callable[[str], list[tuple[Any, ...]]]
"""Run SQL without parameters and return the rows of its last statement; a driver bound to a connection."""

_BEFORE = ("lock", "limit", "create")
"""What comes before every upgrade; other upgrades are waited for without a limit, tables with one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One step of a component's tables.

    Args:
        version: From 1, without holes.
        statements: Ready to run, without parameters; repeating them does no harm.
    """

    version: int
    statements: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """A set of tables that is upgraded as one.

    Args:
        kind: ``outbox`` or ``inbox``.
        tables: All of them; kind and first table together are its name in the version table.
        migrations: In order.
    """

    kind: str
    tables: tuple[TableName, ...]
    migrations: tuple[Migration, ...]

    @property
    def name(self) -> str:
        """The component's key in the version table."""
        return f"{self.kind} {self.tables[0]}"

    @property
    def version_table(self) -> TableName:
        """Where its version stands, beside those of other components of this schema."""
        return TableName(schema=self.tables[0].schema, name="cdc_outbox_version")

    def versions(self) -> Mapping[str, str]:
        """Return the identifiers that the statements of ``versions.sql`` name."""
        return {
            "versions": self.version_table.quoted,
            "component_literal": literal(self.name),
            "version_literal": str(self.migrations[-1].version),
        }


def pending(current: int, migrations: Sequence[Migration]) -> tuple[Migration, ...]:
    """Return the steps that a component at version ``current`` still needs; 0 means that it does not exist.

    Raises:
        ConfigError: The database is ahead of this release; to go on could break what the newer one relies on.
    """
    newest = migrations[-1].version
    if current > newest:
        raise ConfigError(
            f"the tables have version {current}, this release knows {newest}",
            hint="Upgrade cdc-outbox before you change these tables.",
        )
    return tuple(step for step in migrations if step.version > current)


def upgrade(execute: Execute, component: Component) -> tuple[Migration, ...]:
    """Bring a component to the newest version and return the steps that were run.

    The caller owns the transaction: nothing lasts before its commit, and ``lock_timeout`` is 5 s until then.

    Raises:
        ConfigError: The database is ahead of this release.
        TransactionConflictError: A table was in use for so long that writers would have had to wait.
        OutboxError: There is a table of that name which this package did not make.
    """
    statements, names = load("postgresql", "versions"), component.versions()
    for name in _BEFORE:
        execute(statements[name].render(names))
    rows = execute(statements["find"].render(names))
    steps = pending(rows[0][0] if rows else 0, component.migrations)
    if not rows:
        _refuse_foreign_tables(execute, component)
    for statement in (statement for step in steps for statement in step.statements):
        execute(statement)
    if steps:
        execute(statements["record"].render(names))
    return steps


def _refuse_foreign_tables(execute: Execute, component: Component) -> None:
    """Look before ``if not exists`` looks away: a table of the same name need not be of the same shape."""
    for table in component.tables:
        [(exists,)] = execute(load("postgresql", "versions")["exists"].render({"table_literal": literal(table.quoted)}))
        if exists:
            raise OutboxError(
                f"{table} exists already, and cdc-outbox did not make it",
                hint="Choose another name, or drop it if nobody needs it.",
            )


def script(component: Component) -> str:
    """Return the whole way to the newest version as SQL text that may be run again and again."""
    statements, names = load("postgresql", "versions"), component.versions()
    before = [statements[name].render(names) for name in _BEFORE]
    steps = [statement for step in component.migrations for statement in step.statements]
    return "\n\n".join([f"-- {component.name}", *before, *steps, statements["record"].render(names)])
