"""The source of an outbox's events, and the one that comes after a restore."""

import re
from dataclasses import dataclass
from typing import Any

from cdc_outbox.drivers import TransactionDriver
from cdc_outbox.errors import ConfigError, OutboxError
from cdc_outbox.modes import OutboxMode
from cdc_outbox.sql import load
from cdc_outbox.table import OutboxTable, literal
from cdc_outbox.writer.catalog import Catalog

_CONSTANT = re.compile(r"'((?:[^']|'')*)'::(?:text|character varying)")


@dataclass(frozen=True, slots=True)
class Source:
    """Who writes an outbox, and in which life of it: ``orders.2``."""

    name: str
    incarnation: int

    @classmethod
    def parse(cls, text: str) -> "Source | None":
        """Return what a text says, ``None`` if it is no source."""
        name, dot, number = text.rpartition(".")
        return cls(name, int(number)) if name and dot and re.fullmatch(r"[1-9][0-9]{0,8}", number) else None

    def __str__(self) -> str:
        return f"{self.name}.{self.incarnation}"


def next_source(current: str, *, before: str, after: str | None, first_source: str) -> str | None:
    """Return the source that shall follow, ``None`` if it is there already.

    Args:
        current: What the table says now.
        before: What the operator believes that it says; it keeps a script that runs twice from going two steps.
        after: What shall follow, where a later incarnation than the next one is needed.
        first_source: The spec's, whose name is the new source's.

    Raises:
        ConfigError: That cannot follow.
        OutboxError: The table says neither the one nor the other.
    """
    old, first = Source.parse(before), Source.parse(first_source)
    if first is None:
        raise ConfigError(f"{first_source!r} is no source", field="source")
    same = old is not None and old.name == first.name
    least = Source(first.name, old.incarnation + 1 if old is not None and same else 1)
    new = least if after is None else Source.parse(after)
    if new is None or new.name != least.name or new.incarnation < least.incarnation:
        raise ConfigError(f"{after} cannot follow {before}: it must be {least} or later", field="--to")
    if current == str(new):
        return None
    if current != before:
        raise OutboxError(
            f"the source is {current}, not {before}; nothing was changed",
            hint="Find out who changed it, and say --from what it is now if it must change again.",
        )
    return str(new)


def begin_incarnation(
    connection: Any,  # noqa: ANN401 - any driver's connection
    driver: TransactionDriver,
    table: OutboxTable,
    *,
    before: str,
    after: str | None,
    first_source: str,
) -> str | None:
    """Change the source of the outbox, then that of its heads, and return it; ``None`` if it is there already.

    In two transactions, for writers lock the two tables in the one order or the other, depending on whether their
    statement is prepared, and would deadlock with one that locks both. The heads alone decide under which source
    events are numbered; the outbox's default is for those that are not. A crash in between leaves what can be run
    again.

    Raises:
        ConfigError, OutboxError: As :func:`next_source`, or there is nothing that has a source.
        TransactionConflictError: A writer's transaction stayed open for more than five seconds.
    """
    source = None
    # An adopted table's default is its owner's; what is numbered takes its source from the heads.
    has_source = not table.adopted and table.mode is not OutboxMode.MESSAGE
    for name in ("set_outbox_source", "set_source") if has_source else ("set_source",):
        driver.begin(connection)
        try:
            for statement in ("lock", "limit"):
                driver.fetch(connection, load("postgresql", "versions")[statement].text)
            source = _follow(table, Catalog(connection, driver), before, after, first_source)
            if source is not None:
                names = {**table.names(), "source_literal": literal(source)}
                driver.fetch(connection, load("postgresql", "outbox_schema")[name].render(names))
            driver.commit(connection)
        except BaseException:
            driver.rollback(connection)
            raise
    return source


def read_source(table: OutboxTable, catalog: Catalog) -> str | None:
    """Return the source of what is numbered next, ``None`` if nothing is."""
    heads = catalog.find_table(table.heads) if table.is_numbered else None
    return constant_of(heads.columns["source"].default) if heads is not None and "source" in heads.columns else None


def _follow(table: OutboxTable, catalog: Catalog, before: str, after: str | None, first_source: str) -> str | None:
    current = read_source(table, catalog)
    if current is None:
        raise OutboxError(f"there are no sequences for {table.table}, so it needs no incarnations")
    return next_source(current, before=before, after=after, first_source=first_source)


def constant_of(expression: str) -> str | None:
    """Return the text that a default is, as PostgreSQL spells a constant; ``None`` if it is anything else."""
    match = _CONSTANT.fullmatch(expression)
    return match[1].replace("''", "'") if match else None
