"""The source of an outbox's events."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.introspection import Catalog
from cdc_outbox.databases.table import OutboxTable
from cdc_outbox.finding import Finding, Location, Severity

_CONSTANT = re.compile(r"'((?:[^']|'')*)'(?:::(?:text|character varying))?")


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


def read_source(table: OutboxTable, catalog: Catalog) -> str | None:
    """Return the source of what is numbered next, ``None`` if nothing is."""
    heads = catalog.find_columns(table.heads_in(catalog.dialect)) if table.is_numbered else {}
    return constant_of(heads["source"].default) if "source" in heads else None


def check_source(table: OutboxTable, first_source: str, found: str | None, dialect: Dialect) -> Iterator[Finding]:
    """Yield that events are numbered under a source of another name than the spec's; `init` sets a source once."""
    known, wanted = Source.parse(found or ""), Source.parse(first_source)
    if known is not None and wanted is not None and known.name != wanted.name:
        yield Finding(
            code="DB333",
            severity=Severity.ERROR,
            location=Location(document="database", path=f"{table.heads_in(dialect)}.source"),
            message=f"the source of the table is {found}, and the spec sets {wanted.name}.",
            remedy=f"If the spec was renamed, set `source: {known.name}` in it. To start numbers again, run "
            f"`cdc-outbox init --new-incarnation --from-source {found}`.",
        )


def constant_of(expression: str) -> str | None:
    """Return the text that a default is, as the catalogue spells a constant; ``None`` if it is anything else."""
    match = _CONSTANT.fullmatch(expression)
    return match[1].replace("''", "'") if match else None
