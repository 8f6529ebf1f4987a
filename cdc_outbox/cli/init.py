"""``cdc-outbox init``."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from cdc_outbox.cli.check import check_component, check_roles, check_spec, refuse_other_database
from cdc_outbox.cli.database import connected
from cdc_outbox.cli.exits import ExitCode
from cdc_outbox.cli.options import read_spec
from cdc_outbox.cli.partitions import make_partitions
from cdc_outbox.consumer.schema import consumer_role, inbox_component
from cdc_outbox.database import DatabaseKind
from cdc_outbox.drivers import TransactionDriver
from cdc_outbox.errors import OutboxError, TableNotFoundError
from cdc_outbox.finding import Severity
from cdc_outbox.migrations import Component, script, upgrade
from cdc_outbox.modes import OutboxMode
from cdc_outbox.privileges import Role, migrator_role, roles_script
from cdc_outbox.spec import Spec
from cdc_outbox.table import InboxTable, OutboxTable, quote
from cdc_outbox.writer.catalog import Catalog
from cdc_outbox.writer.drift import different_source
from cdc_outbox.writer.incarnation import Source, begin_incarnation, read_source
from cdc_outbox.writer.schema import (
    connector_role,
    outbox_components,
    outbox_statements,
    writer_role,
)

_ABOUT = {
    "writer": "the service. It adds events and numbers them, and neither reads, changes nor deletes one.",
    "consumer": "the consuming service. It claims events and moves watermarks, and forgets neither.",
    "connector": "Debezium. It reads the log, and the rows only if they are to be published again.",
    "migrator": "runs `cdc-outbox init` and `cdc-outbox partitions`, and owns what they make.",
}


def _role_option(name: str, default: str) -> Callable[[Any], Any]:
    return click.option(
        f"--{name}",
        metavar="ROLE",
        help=f"The {name}'s role: --grants makes it ({default}), --check looks if it is given.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """What one call is about, and the names of its roles as far as they were given."""

    spec: Spec | None
    inbox: InboxTable | None
    roles: dict[str, str]

    @property
    def kind(self) -> DatabaseKind:
        """What the database must be."""
        return self.spec.database.kind if self.spec is not None else DatabaseKind.POSTGRESQL

    @property
    def components(self) -> list[Component]:
        found: list[Component] = []
        if self.spec is not None:
            found += outbox_components(self.spec.outbox, first_source=self.spec.first_source)
        return [*found, inbox_component(self.inbox)] if self.inbox is not None else found

    @property
    def statements(self) -> list[str]:
        """What is not versioned, because it says what shall be."""
        spec = self.spec
        if spec is None:
            return []
        return outbox_statements(spec.outbox, spec.database.publication, first_source=spec.first_source)

    def role(self, kind: str, *, named: bool) -> Role | None:
        """Return a party's role, ``None`` if there is nothing for it here.

        Args:
            named: Only if somebody named it.
        """
        spec, name = self.spec, self.roles.get(kind) or ("" if named else self._default(kind))
        match kind:
            case "writer" if name and spec is not None:
                return writer_role(name, spec.outbox)
            case "connector" if name and spec is not None:
                return connector_role(name, spec.outbox)
            case "consumer" if name and self.inbox is not None:
                return consumer_role(name, self.inbox)
            case "migrator" if name and self.components:
                # A table can be added to a publication by its owner only, who is somebody else if it is adopted.
                own = spec is not None and not spec.outbox.adopted
                publication = spec.database.publication if spec is not None and own else None
                return migrator_role(name, self.components, publication=publication)
        return None

    def _default(self, kind: str) -> str:
        if kind == "connector" and self.spec is not None and not self.spec.database.user.startswith("${"):
            return self.spec.database.user
        return re.sub(r"\W", "_", self.spec.name if self.spec is not None else "inbox") + f"_{kind}"


@click.command(short_help="Create, upgrade or check the outbox's or the inbox's tables.")
@click.argument("spec", type=click.Path(path_type=Path), required=False)
@click.option("--inbox", is_flag=True, help="Create the inbox of a consuming service.")
@click.option("--inbox-schema", show_default="public", help="The schema that the inbox lies in.")
@click.option("--sql", is_flag=True, help="Print the statements instead of running them; no database is asked.")
@click.option("--grants", is_flag=True, help="Print the statements that make the least roles, for a superuser.")
@click.option("--check", is_flag=True, help="Say what is not as it should be, change nothing; exit 3 if anything is.")
@click.option("--new-incarnation", is_flag=True, help="Begin a new life of the outbox, with a new source.")
@click.option("--from", "before", metavar="SOURCE", help="The source that ends, for --new-incarnation: orders.1.")
@click.option("--to", "after", metavar="SOURCE", help="The source that begins, if it shall not be the next one.")
@_role_option("writer", "NAME_writer")
@_role_option("consumer", "NAME_consumer")
@_role_option("connector", "the spec's database.user")
@_role_option("migrator", "NAME_migrator")
@click.option("--dsn", envvar="CDC_OUTBOX_DSN", show_envvar=True, help="The database; its role owns what is created.")
def init(
    spec: Path | None,
    *,
    inbox: bool,
    inbox_schema: str | None,
    sql: bool,
    grants: bool,
    check: bool,
    new_incarnation: bool,
    before: str | None,
    after: str | None,
    dsn: str | None,
    **roles: str | None,
) -> int:
    """Create what a service's database needs, or bring it up to date; running it again changes nothing.

    With SPEC: the outbox table, its head table and the publication. With --inbox: the claims and watermarks of a
    consuming service. Of a table that outbox.columns adopts nothing is touched.

    A new incarnation is needed when sequences were given out that the database no longer knows: after a restore, after
    a failover that lost commits, after the table was made again. Consumers would take what is written next for events
    that they have had, or stop at a conflict. With a new source sequences start again at 1, and everybody knows why.
    Where a later incarnation was in use before the restore, name one after it with --to.

    \b
    Examples:
      cdc-outbox init connectors/orders.yaml --dsn postgresql://postgres@localhost/orders
      cdc-outbox init --inbox --dsn postgresql://postgres@localhost/shipping
      cdc-outbox init connectors/orders.yaml --sql > migrations/0007_outbox.sql
      cdc-outbox init connectors/orders.yaml --grants | psql orders
      cdc-outbox init connectors/orders.yaml --check --writer orders_writer
      cdc-outbox init connectors/orders.yaml --new-incarnation --from orders.1
    """
    if spec is None and not inbox:
        raise click.UsageError("say what to create: a SPEC for the outbox, --inbox for the inbox, or both")
    if inbox_schema is not None and not inbox:
        raise click.UsageError("--inbox-schema says where the inbox of --inbox lies; without that it means nothing")
    if (sql or grants) + check + new_incarnation > 1:
        raise click.UsageError("--sql or --grants, --check, --new-incarnation: one at a time")
    if (before or after or new_incarnation) and not (new_incarnation and before and spec):
        raise click.UsageError("a new incarnation takes a SPEC, --new-incarnation and --from, and perhaps --to")
    wanted = _Wanted(
        spec=read_spec(spec) if spec is not None else None,
        inbox=InboxTable(schema=inbox_schema or "public") if inbox else None,
        roles={kind: name for kind, name in roles.items() if name},
    )
    if sql or grants:
        click.echo(_script(wanted, creates=sql, grants=grants))
        return ExitCode.DONE
    if not dsn:
        raise click.UsageError("--dsn is needed (or CDC_OUTBOX_DSN), unless --sql or --grants prints the statements")
    with connected(dsn, wanted.kind) as (connection, driver):
        if wanted.spec is not None:
            refuse_other_database(wanted.spec, connection, driver)
        if check:
            return _check(wanted, connection, driver)
        if new_incarnation and wanted.spec is not None and before is not None:
            return _begin(wanted.spec, connection, driver, before=before, after=after)
        return _create(wanted, connection, driver)


def _script(wanted: _Wanted, *, creates: bool, grants: bool) -> str:
    parts = [*map(script, wanted.components), *wanted.statements] if creates else []
    if grants:
        roles = [(about, wanted.role(kind, named=False)) for kind, about in _ABOUT.items()]
        parts.append(roles_script((about, role) for about, role in roles if role is not None))
    return "begin;\n\n" + "\n\n".join(parts) + "\n\ncommit;"


def _check(wanted: _Wanted, connection: Any, driver: TransactionDriver) -> ExitCode:  # noqa: ANN401 - the driver's own
    findings = list(check_spec(wanted.spec, connection, driver)) if wanted.spec is not None else []
    if wanted.inbox is not None:
        findings += check_component(inbox_component(wanted.inbox), connection, driver)
    roles = [role for kind in _ABOUT if (role := wanted.role(kind, named=True)) is not None]
    findings += check_roles(roles, connection, driver)
    for finding in findings:
        click.echo(str(finding))
    drifted = any(finding.severity is not Severity.NOTE for finding in findings)
    if not drifted:
        click.echo("everything is as it should be", err=True)
    return ExitCode.DIFFERENCES if drifted else ExitCode.DONE


def _create(wanted: _Wanted, connection: Any, driver: TransactionDriver) -> ExitCode:  # noqa: ANN401
    driver.begin(connection)
    done = [upgrade(lambda statement: driver.fetch(connection, statement), part) for part in wanted.components]
    if wanted.spec is not None:
        _refuse_other_shape(wanted.spec.outbox, Catalog(connection, driver))
    for statement in wanted.statements:
        driver.fetch(connection, statement)
    driver.commit(connection)
    for component, steps in zip(wanted.components, done, strict=True):
        state = f"now at version {component.migrations[-1].version}" if steps else "up to date"
        click.echo(f"{component.name}: {state}", err=True)
    if wanted.spec is None:
        return ExitCode.DONE
    click.echo(f"publication {wanted.spec.database.publication}: in place", err=True)
    _tell_other_source(wanted.spec, Catalog(connection, driver))
    return make_partitions(wanted.spec.outbox, connection, driver) if wanted.spec.outbox.partitions else ExitCode.DONE


def _refuse_other_shape(table: OutboxTable, catalog: Catalog) -> None:
    """Refuse what `create table if not exists` passes over, before anything is made for it."""
    found = None if table.mode is OutboxMode.MESSAGE else catalog.find_table(table.table)
    if found is None and table.adopted:
        raise TableNotFoundError(
            f"{table.table} does not exist, and the spec adopts it", hint="Leave out outbox.columns to have one made."
        )
    column = table.columns.aggregate_id
    if found is not None and table.is_numbered and column in found.columns and found.columns[column].type == "uuid":
        # One id in two spellings would be one aggregate there, and two of them to the head table.
        raise OutboxError(
            f"{table.table}.{column} is a uuid, and events are numbered by ids that are text",
            hint=f"alter table {table.table.quoted} alter column {quote(column)} type text, which changes no message; "
            "or set outbox.columns.sequence to null, and events are not numbered.",
        )
    if found is not None and not table.adopted and bool(found.partition_key) != (table.partitions is not None):
        raise OutboxError(
            f"{table.table} is {'' if found.partition_key else 'not '}partitioned, and the spec says otherwise",
            hint="A table cannot become partitioned, nor the other way round: correct outbox.partitions, or make "
            "another table and another pipeline.",
        )


def _tell_other_source(spec: Spec, catalog: Catalog) -> None:
    source, wanted = read_source(spec.outbox, catalog), Source.parse(spec.first_source)
    known = Source.parse(source or "")
    if source is not None and wanted is not None and (known is None or known.name != wanted.name):
        click.echo(str(different_source(spec.outbox, source, wanted.name)), err=True)


def _begin(spec: Spec, connection: Any, driver: TransactionDriver, *, before: str, after: str | None) -> ExitCode:  # noqa: ANN401
    table = spec.outbox
    source = begin_incarnation(connection, driver, table, before=before, after=after, first_source=spec.first_source)
    now = read_source(table, Catalog(connection, driver))
    click.echo(f"{table.table}: {before} -> {source}" if source else f"{table.table}: {now} already")
    return ExitCode.DONE
