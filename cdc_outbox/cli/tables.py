"""What one call of ``cdc-outbox init`` is about, what it checks, and ``cdc-outbox partitions``."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from cdc_outbox.cli.arguments import spec_argument
from cdc_outbox.cli.contexts import Databases
from cdc_outbox.cli.database import connected, dialect_of
from cdc_outbox.cli.options import dsns_option, json_option, read_spec
from cdc_outbox.cli.output import ExitCode, document, say
from cdc_outbox.consumer.inbox_tables import InboxTable, consumer_role, inbox_component
from cdc_outbox.contract.outbox_options import OutboxMode
from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.drivers import AnyConnection, TransactionDriver
from cdc_outbox.databases.introspection import Catalog
from cdc_outbox.databases.migrations import Component
from cdc_outbox.databases.roles import Role, check_role, migrator_role
from cdc_outbox.databases.table import OutboxTable
from cdc_outbox.debezium.preflight import check_outbox as check_for_connector
from cdc_outbox.errors import ConfigError, TableNotFoundError
from cdc_outbox.finding import Finding
from cdc_outbox.operations.merged_findings import merge
from cdc_outbox.spec import Spec
from cdc_outbox.writer.drift import check_version, find_drift, outbox_catalog
from cdc_outbox.writer.outbox_schema import (
    connector_role,
    outbox_components,
    outbox_statements,
    pruner_role,
    relay_role,
    writer_role,
)
from cdc_outbox.writer.partitions import create_partitions

PARTIES = {
    "writer": "the service. It adds and numbers events; it neither changes nor deletes them.",
    "consumer": "the consuming service. It claims events and moves watermarks; it deletes neither.",
    "connector": "Debezium. It reads the log, and reads the rows only to publish them again.",
    "relay": "the relay. It reads the log, and writes that it publishes the outbox.",
    "migrator": "runs `cdc-outbox init` and `cdc-outbox partitions`; it owns what they create, or may alter it.",
    "pruner": "runs `cdc-outbox prune`. It reads and deletes rows. As a member of pg_read_all_stats it can "
    "see more of what blocks pruning; --archive needs `insert` on that table.",
}
"""Who has a role, and what for, in the order in which they are made: the pruner may be a member of the migrator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What one call is about, and the names of its roles as far as they were given."""

    spec: Spec | None
    inbox: InboxTable | None
    roles: dict[str, str]

    @property
    def kind(self) -> DatabaseKind | None:
        """What the database must be; an inbox takes what the DSN leads to."""
        return self.spec.database.kind if self.spec is not None else None

    @property
    def dialect(self) -> Dialect:
        """The statements that the database understands."""
        if self.spec is not None:
            return self.spec.database.kind.dialect
        return self.inbox.dialect if self.inbox is not None else Dialect.POSTGRESQL

    @property
    def components(self) -> list[Component]:
        """The components to create or upgrade."""
        found: list[Component] = []
        if self.spec is not None:
            source = self.spec.first_source
            found += outbox_components(self.spec.outbox, first_source=source, dialect=self.dialect)
        return [*found, inbox_component(self.inbox)] if self.inbox is not None else found

    def statements(self, known: Collection[str], *, source: str | None = None) -> list[str]:
        """Return what is not versioned, because it says what is wanted.

        Args:
            known: Columns that the outbox is known to have.
            source: That of its heads, where these may be older than the table; ``None`` is the first.
        """
        spec = self.spec
        if spec is None:
            return []
        return outbox_statements(
            spec.outbox,
            spec.database.publication,
            first_source=source or spec.first_source,
            dialect=self.dialect,
            known=known,
        )

    def role(self, kind: str, *, named: bool) -> Role | None:
        """Return a party's role, ``None`` if there is nothing for it here.

        Args:
            named: Only if it was named.
        """
        spec, name = self.spec, self.roles.get(kind) or ("" if named else self._default(kind))
        match kind:
            case "writer" if name and spec is not None:
                return writer_role(name, spec.outbox, self.dialect)
            case "connector" if name and spec is not None:
                return connector_role(name, spec.outbox, self.dialect)
            case "relay" | "pruner" if name and spec is not None:
                return self._role_for_rows(kind, name, spec.outbox)
            case "consumer" if name and self.inbox is not None:
                return consumer_role(name, self.inbox)
            case "migrator" if name and self.components:
                # A table can be added to a publication by its owner only, who is another role if it is adopted.
                own = spec is not None and not spec.outbox.adopted
                publication = spec.database.publication if spec is not None and own else None
                return migrator_role(name, self.components, publication=publication)
        return None

    def _role_for_rows(self, kind: str, name: str, table: OutboxTable) -> Role | None:
        """Return the role of a relay, which reads rows, or of a pruner, which deletes those that stay."""
        tables = {name for component in self.components for name in component.tables}
        if kind == "relay" and table.mode is not OutboxMode.MESSAGE and table.publishers in tables:
            return relay_role(name, table)
        if kind == "pruner" and table.mode.keeps_rows and table.checkpoints in tables:
            return pruner_role(name, table, migrator=self.roles.get("migrator") or self._default("migrator"))
        return None

    def known_name(self, kind: str) -> str:
        """Return the name of a party's role as the spec says it, empty where it does not."""
        known = kind == "connector" and self.spec is not None and not self.spec.database.user.startswith("${")
        return self.spec.database.user if known and self.spec is not None else ""

    def _default(self, kind: str) -> str:
        if name := self.known_name(kind):
            return name
        return re.sub(r"\W", "_", self.spec.name if self.spec is not None else "inbox") + f"_{kind}"


def wanted_of(
    spec: Spec | None,
    roles: Mapping[str, str | None],
    *,
    inbox: bool,
    inbox_schema: str | None,
    dsn: str | None,
    grants: bool,
) -> Wanted:
    """Put together what the options say.

    Args:
        dsn: Says of what kind an inbox is where no spec does; without either it is PostgreSQL's.

    Raises:
        ConfigError: The spec is wrong, or its database has no such thing.
    """
    table = None
    if inbox:
        dialect = spec.database.kind.dialect if spec is not None else dialect_of(dsn or "")
        table = InboxTable(schema=inbox_schema or dialect.features.default_schema, dialect=dialect)
    wanted = Wanted(spec=spec, inbox=table, roles={kind: name for kind, name in roles.items() if name})
    if (grants or wanted.roles) and wanted.dialect.features.password_note is None:
        raise ConfigError(
            f"{wanted.dialect.features.title} has no roles: write access to the file gives all privileges",
            field="--grants",
            hint="Give only the service's user access to the file.",
        )
    for kind in wanted.roles:
        if wanted.role(kind, named=True) is None:
            raise ConfigError(f"a {kind} has no tables here", field=f"--{kind}-role", hint=_TAKES[kind])
    return wanted


_TAKES = {
    "writer": "A writer's tables are those of SPEC.",
    "connector": "A connector's table is that of SPEC.",
    "consumer": "A consumer's tables are those of --inbox.",
    "relay": "A relay needs an outbox on PostgreSQL that has rows.",
    "pruner": "A pruner needs an outbox on PostgreSQL that keeps its rows.",
}
"""What there is to do for whom; a migrator always has something."""


def check_spec(spec: Spec, connection: AnyConnection, driver: TransactionDriver) -> list[Finding]:
    """Return where the database is not as `init` leaves it; nothing is changed."""
    catalog, needs = Catalog(connection, driver), tuple[Finding, ...]()
    found = outbox_catalog(spec, catalog)
    if catalog.dialect.features.has_publications:
        table = found.heads if spec.outbox.mode is OutboxMode.MESSAGE else found.outbox
        needs = check_for_connector(spec, table, found.publication)
    return merge(needs, find_drift(spec, catalog, found))


def check_component(component: Component, connection: AnyConnection, driver: TransactionDriver) -> Iterator[Finding]:
    """Return findings about tables that have the version of another release."""
    yield from check_version(component, Catalog(connection, driver).read_version(component))


def check_roles(roles: Iterable[Role], connection: AnyConnection, driver: TransactionDriver) -> Iterator[Finding]:
    """Return what roles may not and should, and the other way round."""
    catalog = Catalog(connection, driver)
    for role in roles:
        yield from check_role(role, catalog.find_role(role))


def refuse_other_database(spec: Spec, connection: AnyConnection, driver: TransactionDriver) -> None:
    """Refuse a DSN that leads elsewhere: an environment variable of yesterday makes tables where they are not wanted.

    Raises:
        ConfigError: The database is not the spec's; one that the worker resolves is not compared.
    """
    found, wanted = Catalog(connection, driver).find_database(), spec.database.name
    if found is not None and found != wanted and not wanted.startswith("${"):
        raise ConfigError(
            f"the DSN leads to the database {found!r}, but the spec names {wanted!r}",
            field="--dsn",
            hint="Correct one of them; if the name differs between environments, use a reference such as ${env:NAME}.",
        )


@click.command()
@spec_argument
@dsns_option(required=True)
@click.option(
    "--ahead",
    type=click.IntRange(0, 1000),
    help="Number of partitions after the current one.  [default: 7 days or 2 months]",
)
@json_option()
def partitions(spec: Path, *, databases: Databases, ahead: int | None, prints_json: bool) -> int:
    """Create the next partitions of an outbox.

    The command creates the partition of the current day or month and the following ones. Run it again before the last
    of them begins; additional runs change nothing. A missing partition causes no failure: the default partition stores
    the event. After that, the missing partition cannot be created; the command names it and exits with 1.

    \b
    Example:
      cdc-outbox partitions connectors/orders.yaml --ahead 14
    """
    pipeline = read_spec(spec)
    if pipeline.outbox.partitions is None:
        raise ConfigError(
            "the spec has no outbox.partitions",
            field="outbox.partitions",
            hint="Only a table with outbox.partitions: day or month in its spec needs this command.",
        )
    with connected(databases.of(pipeline.name), pipeline.database.kind) as (connection, driver):
        refuse_other_database(pipeline, connection, driver)
        if not Catalog(connection, driver).exists(pipeline.outbox.table):
            raise TableNotFoundError(f"{pipeline.outbox.table} does not exist")
        made = make_partitions(pipeline.outbox, connection, driver, ahead=ahead, err=prints_json)
    if prints_json:
        say(document("Partitions", {"table": str(pipeline.outbox.table), **made}))
    return ExitCode.FAILED if made["missed"] else ExitCode.DONE


def make_partitions(
    table: OutboxTable,
    connection: AnyConnection,
    driver: TransactionDriver,
    *,
    ahead: int | None = None,
    err: bool = False,
) -> dict[str, list[Any]]:
    """Create partitions, report each, and return them for a document.

    Args:
        err: Whether also those that are new are said on stderr, as those that cannot be made.
    """
    created, missed = list[str](), list[dict[str, str]]()
    for step in create_partitions(connection, driver, table, now=datetime.now(UTC), ahead=ahead):
        if step.obstacle:
            missed.append({"partition": str(step.partition.table), "obstacle": step.obstacle})
            say(f"{step.partition.table}: not created: {step.obstacle}", err=True)
        else:
            created.append(str(step.partition.table))
            say(created[-1], err=err)
    if missed:
        say(
            "No event is lost: an event without its own partition is in the default partition, and is published from "
            "there. It cannot be dropped together with a partition.",
            err=True,
        )
    elif not created:
        say(f"{table.table}: every partition is there", err=True)
    return {"created": created, "missed": missed}
