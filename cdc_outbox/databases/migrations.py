"""Versions of our own tables, and the way from one to the next.

Each component (an outbox, an inbox) has one row in ``cdc_outbox_version``, in its own schema. An upgrade runs inside
the caller's transaction, under a lock, so that two of them take turns: an advisory lock on PostgreSQL, ``GET_LOCK`` on
MySQL, the database's own lock for writing on SQLite. MySQL commits at each statement that changes a table, so there an
upgrade that fails in the middle stays there, and the next one continues. The same statements make the script of
``cdc-outbox init --sql``. For both reasons every step may be repeated.

A version is a file, ``sql/<dialect>/migrations/<component>/0002_add_note.sql``; each dialect counts its own versions.
A released file never changes: databases that have its version will not run it again.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.sql import Statement, comment, load, load_versions
from cdc_outbox.databases.table import TableName
from cdc_outbox.errors import ConfigError, OutboxError

Execute = Callable[[str], list[tuple[Any, ...]]]
"""Run SQL without parameters and return the rows of its last statement; a driver bound to a connection."""

_BEFORE = ("lock", "limit", "create")
"""What comes before every upgrade; other upgrades are waited for without a limit, tables with one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One step of a component's tables.

    Args:
        version: From 1, without holes.
        statements: Ready to run, one by one and without parameters; repeating them does no harm.
    """

    version: int
    statements: tuple[str, ...]


def load_migrations(
    dialect: Dialect,
    component: str,
    names: Mapping[str, str],
    *,
    conditions: Mapping[str, bool] | None = None,
    only: Callable[[Statement], bool] = lambda _: True,
) -> tuple[Migration, ...]:
    """Return all versions of a component's tables, ready to run.

    A version of which these tables need nothing has no statements, and counts.

    Args:
        component: ``outbox`` or ``inbox``: the folder of its files.
        names: What the statements name.
        conditions: Every condition that a statement may have, and whether it holds.
        only: Which of the statements whose condition holds are wanted; by default all.

    Raises:
        OutboxError: The files are not numbered as they must be.
    """
    return tuple(
        Migration(
            version=version,
            statements=tuple(
                step.render(names)
                for statement in statements.values()
                if (not statement.condition or (conditions or {})[statement.condition]) and only(statement)
                for step in statement.steps()
            ),
        )
        for version, statements in load_versions(dialect, component).items()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """A set of tables that is upgraded as one.

    Args:
        kind: ``outbox`` or ``inbox``.
        tables: All of them; kind and first table together are its name in the version table.
        migrations: In order.
        functions: Created beside the tables, and dropped with them; they take a text and an interval.
    """

    kind: str
    tables: tuple[TableName, ...]
    migrations: tuple[Migration, ...]
    functions: tuple[TableName, ...] = ()

    @property
    def name(self) -> str:
        """The component's key in the version table."""
        return f"{self.kind} {self.tables[0]}"

    @property
    def version_table(self) -> TableName:
        """Where its version stands, beside those of other components of this schema."""
        return self.tables[0].named("cdc_outbox_version")

    @property
    def dialect(self) -> Dialect:
        """That of its tables."""
        return self.tables[0].dialect

    def statements(self) -> Mapping[str, Statement]:
        """Return the statements of ``versions.sql``; not every dialect needs all of them."""
        return load(self.dialect, "versions")

    def versions(self, version: int | None = None) -> Mapping[str, str]:
        """Return what the statements of ``versions.sql`` name, with the newest version unless another is given."""
        return {
            "versions": self.version_table.quoted,
            "component_literal": self.dialect.literal(self.name),
            "version_literal": str(self.migrations[-1].version if version is None else version),
        }


def pending(current: int, migrations: Sequence[Migration]) -> tuple[Migration, ...]:
    """Return the steps that a component at version ``current`` still needs; 0 means that it does not exist.

    Raises:
        ConfigError: The database is ahead of this release; continuing could break what the newer one relies on.
    """
    newest = migrations[-1].version
    if current > newest:
        raise ConfigError(
            f"the tables have version {current}, but this release supports up to {newest}",
            hint="Upgrade cdc-outbox before you change these tables. Tables of an unreleased cdc-outbox "
            "cannot be upgraded: create new ones in another schema.",
        )
    return tuple(step for step in migrations if step.version > current)


def upgrade(execute: Execute, component: Component) -> tuple[Migration, ...]:
    """Bring a component to the newest version and return the steps that were run.

    The caller owns the transaction: nothing lasts before its commit, but on MySQL, where each step commits itself and
    what the transaction did before. On PostgreSQL ``lock_timeout`` is 5 s until then, on MySQL ``lock_wait_timeout`` to
    the session's end; ``search_path`` is restored at the end.

    Raises:
        ConfigError: The database is ahead of this release.
        TransactionConflictError: A table was in use for so long that writers would have had to wait.
        OutboxError: There is a table of that name which this package did not make, or another upgrade takes too long.
    """
    statements, names = component.statements(), component.versions()
    with turn(execute, component.dialect):
        for sql in _rendered(statements, "create", names):
            execute(sql)
        rows = execute(statements["find"].render(names))
        steps = pending(rows[0][0] if rows else 0, component.migrations)
        if not rows:
            _refuse_foreign_tables(execute, component)
            if "start" in statements:
                execute(statements["start"].render(names))
        for step in steps:
            for sql in step.statements:
                execute(sql)
            execute(statements["record"].render(component.versions(step.version)))
    return steps


@contextmanager
def turn(execute: Execute, dialect: Dialect) -> Iterator[None]:
    """Let one change of tables run at a time, and let none wait long for writers' transactions.

    A lock that no transaction holds is given back, also after an error.

    Raises:
        OutboxError: Another one takes too long.
    """
    statements = load(dialect, "versions")
    with fixed_settings(execute, dialect):
        rows = execute(statements["lock"].text) if "lock" in statements else []
        if "unlock" in statements and rows != [(1,)]:
            raise OutboxError("another upgrade holds the lock", hint="Wait until it ends, or end its session.")
        try:
            for sql in _rendered(statements, "limit", {}):
                execute(sql)
            yield
            # Or who has the lock next would not see yet what was done, and do it again.
            for sql in _rendered(statements, "settle", {}):
                execute(sql)
        finally:
            for sql in _rendered(statements, "unlock", {}):
                execute(sql)


@contextmanager
def fixed_settings(execute: Execute, dialect: Dialect) -> Iterator[None]:
    """Fix PostgreSQL's ``search_path`` and ``row_security`` inside the caller's transaction, and restore both after it.

    A superuser runs these statements; a function that another role has put into a schema must not be called by them.
    The session's own settings are never touched: it may be a pooler's. Do not nest: the inner one's are restored.
    """
    for sql in _settings(dialect, "save_settings", "fix_settings"):
        execute(sql)
    try:
        yield
    except BaseException:
        with suppress(Exception):  # an aborted transaction takes its settings with it
            for sql in _settings(dialect, "restore_settings"):
                execute(sql)
        raise
    for sql in _settings(dialect, "restore_settings"):
        execute(sql)


def with_fixed_settings(statements: Iterable[str], dialect: Dialect) -> list[str]:
    """Return statements of a script between those of :func:`fixed_settings`."""
    before = _settings(dialect, "save_settings", "fix_settings")
    return [*before, *statements, *_settings(dialect, "restore_settings")]


def _settings(dialect: Dialect, *names: str) -> list[str]:
    statements = load(dialect, "versions")
    return [sql for name in names for sql in _rendered(statements, name, {})]


def _refuse_foreign_tables(execute: Execute, component: Component) -> None:
    """Look before ``if not exists`` looks away: a table of the same name need not be of the same shape."""
    for table in component.tables:
        if exists(execute, table):
            raise OutboxError(
                f"{table} already exists, but cdc-outbox did not create it",
                hint="Choose another name, or drop the table if it is not needed.",
            )


def drop(execute: Execute, component: Component, *, force: bool = False) -> None:
    """Drop a component's tables, unless they were ever used, and forget its version.

    The caller owns the transaction, as in :func:`upgrade`.

    Args:
        force: Drop them whatever they hold.

    Raises:
        TransactionConflictError: A table was in use for too long.
        OutboxError: One of them has rows.
    """
    statements = component.statements()
    with turn(execute, component.dialect):
        for table in component.tables:
            if not force and exists(execute, table) and execute(statements["used"].render(_named(table)))[0][0]:
                raise OutboxError(
                    f"{table} has rows, whose information would be lost; nothing was dropped",
                    hint="If the rows are not needed, pass force=True; sequence numbers would then be assigned again.",
                )
        for sql in drop_statements(component):
            execute(sql)


def drop_statements(component: Component) -> list[str]:
    """Return what drops a component's tables, whatever they hold."""
    statements, names = component.statements(), component.versions()
    drops = [statements["drop_function"].render(_named(function)) for function in component.functions]
    drops += [statements["drop"].render(_named(table)) for table in component.tables]
    return [*drops, *_rendered(statements, "forget", names)]


def exists(execute: Execute, table: TableName) -> bool:
    """Return whether there is a table, or anything else, of this name."""
    statement = load(table.dialect, "versions")["exists"].render(table.literals())
    return bool(execute(statement)[0][0])


def find_version(execute: Execute, component: Component) -> int | None:
    """Return the version that a component has in this database, ``None`` if it was never made here."""
    if not exists(execute, component.version_table):
        return None
    rows = execute(component.statements()["find"].render(component.versions()))
    return int(rows[0][0]) if rows else None


def script(component: Component) -> str:
    """Return the whole way to the newest version as SQL text that may be run again and again."""
    return "\n\n".join([comment(component.name), *(f"{sql};" for sql in script_statements(component))])


def script_statements(component: Component) -> list[str]:
    """Return the same, one by one."""
    statements, names = component.statements(), component.versions()
    before = [sql for name in _BEFORE for sql in _rendered(statements, name, names)]
    steps = [sql for step in component.migrations for sql in step.statements]
    after = [*_rendered(statements, "record", names), *_rendered(statements, "unlock", names)]
    return with_fixed_settings([*before, *steps, *after], component.dialect)


def _named(table: TableName) -> Mapping[str, str]:
    return {"table": table.quoted}


def _rendered(statements: Mapping[str, Statement], name: str, names: Mapping[str, str]) -> list[str]:
    return [step.render(names) for step in statements[name].steps()] if name in statements else []
