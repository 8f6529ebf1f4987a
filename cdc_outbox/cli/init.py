"""``cdc-outbox init``."""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import click

from cdc_outbox.cli.arguments import optional_spec_argument
from cdc_outbox.cli.contexts import Databases
from cdc_outbox.cli.database import connected, database_name
from cdc_outbox.cli.findings import as_json
from cdc_outbox.cli.inbox import inbox_dsn_option, inbox_schema_option
from cdc_outbox.cli.incarnation import begin, prepare, refuse_unnamed
from cdc_outbox.cli.options import connect_url_option, dsns_option, is_named, json_option, read_spec
from cdc_outbox.cli.output import ExitCode, document, say
from cdc_outbox.cli.publication import find_earlier_publication, mark
from cdc_outbox.cli.tables import (
    PARTIES,
    Wanted,
    check_component,
    check_roles,
    check_spec,
    make_partitions,
    refuse_other_database,
    wanted_of,
)
from cdc_outbox.connect.cluster import Cluster
from cdc_outbox.consumer.inbox_tables import inbox_component
from cdc_outbox.contract.outbox_options import OutboxMode
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.drivers import AnyConnection, TransactionDriver
from cdc_outbox.databases.drivers.transactions import changing_tables
from cdc_outbox.databases.facts import TableFacts
from cdc_outbox.databases.introspection import Catalog
from cdc_outbox.databases.migrations import script, turn, upgrade
from cdc_outbox.databases.roles import roles_script
from cdc_outbox.databases.source import check_source, read_source
from cdc_outbox.databases.sql import comment
from cdc_outbox.databases.table import OutboxTable
from cdc_outbox.errors import OutboxError, TableNotFoundError
from cdc_outbox.finding import Severity
from cdc_outbox.operations.purge import PartPurge
from cdc_outbox.redaction import visible
from cdc_outbox.spec import Spec


def _role_option(name: str, default: str) -> Callable[[Any], Any]:
    return click.option(
        f"--{name}-role",
        name,
        metavar="ROLE",
        help=f"The {name}'s role, which --grants creates. Default: {default}. --check checks it only if it is given.",
    )


@click.command()
@optional_spec_argument
@click.option("--inbox", is_flag=True, help="Create the inbox of a consuming service.")
@inbox_schema_option
@click.option("--sql", is_flag=True, help="Print the statements instead of running them; needs no database.")
@click.option(
    "--grants", is_flag=True, help="Print the statements that create roles with minimal privileges, for a superuser."
)
@click.option("--check", is_flag=True, help="Check without changing anything; exit 3 if something differs.")
@click.option("--new-incarnation", is_flag=True, help="Start a new incarnation of the outbox, with a new source.")
@click.option(
    "--shared-publication", is_flag=True, help="Add the outbox to a publication that already has another outbox."
)
@click.option(
    "--from-source", "before", metavar="SOURCE", help="The current source, for --new-incarnation, such as orders.1."
)
@click.option("--to-source", "after", metavar="SOURCE", help="The new source. Default: the next one.")
@_role_option("writer", "NAME_writer")
@_role_option("consumer", "NAME_consumer")
@_role_option("connector", "the spec's database.user")
@_role_option("relay", "NAME_relay")
@_role_option("pruner", "NAME_pruner")
@_role_option("migrator", "NAME_migrator")
@dsns_option(required=False, note="; the role that connects becomes the owner of the tables")
@inbox_dsn_option("; for --inbox without a SPEC")
@connect_url_option(required=False, note="; --new-incarnation compares the connector's offset with the slot")
@json_option()
def init(
    spec: Path | None,
    *,
    inbox: bool,
    inbox_schema: str | None,
    sql: bool,
    grants: bool,
    check: bool,
    new_incarnation: bool,
    shared_publication: bool,
    before: str | None,
    after: str | None,
    databases: Databases | None,
    inbox_database: Databases | None,
    cluster: Cluster | None,
    prints_json: bool,
    **roles: str | None,
) -> int:
    """Create, upgrade or check the tables of an outbox or inbox.

    With SPEC, the command creates the outbox table, its head table (the last sequence number of each aggregate) and, on
    PostgreSQL, the publication. With --inbox, it creates the tables of a consuming service. Running it again changes
    nothing. If the spec maps columns (outbox.columns), its table is never changed. If the publication belongs to
    another outbox, outbox.table may be misspelt: the publication is then changed only with --shared-publication.

    DSN is postgresql://user:password@host/name (or any libpq connection string), mysql://… or mariadb://… in the same
    form, or sqlite:///path. Without a SPEC, the kind of database follows from DSN; --sql and --grants then also need
    DSN, but do not connect. The NAME of a default role is the spec's name, or `inbox` without a SPEC.

    An incarnation of an outbox is a series of sequence numbers with its own source, such as orders.1. A new incarnation
    is needed when the database no longer knows sequence numbers that it has assigned: after a restore, after a failover
    that lost commits, or after the table was created again. Without a new incarnation, consumers would skip the next
    events as duplicates, or park them as conflicts. With a new source, sequence numbers start again at 1, and consumers
    distinguish new events from old ones. If a later incarnation was in use before the restore, choose one after it with
    --to-source. The connector must be stopped during the change, and its offset and slot must belong to this server.
    The command prints the steps in order. It refuses while a process reads the slot, or if offset and slot disagree.

    \b
    Examples:
      cdc-outbox init connectors/orders.yaml --dsn postgresql://postgres@localhost/orders
      cdc-outbox init --inbox --dsn postgresql://postgres@localhost/shipping
      cdc-outbox init connectors/orders.yaml --sql > migrations/0007_outbox.sql
      cdc-outbox init connectors/orders.yaml --grants | psql orders
      cdc-outbox init connectors/orders.yaml --check --writer-role orders_writer
      cdc-outbox init connectors/orders.yaml --new-incarnation --from-source orders.1
    """
    prints = sql or grants
    if prints + check + new_incarnation > 1:
        raise click.UsageError("--sql or --grants, --check and --new-incarnation cannot be combined")
    if before or after or new_incarnation:
        refuse_unnamed(spec, is_asked=new_incarnation)
    _refuse_unclear(has_spec=spec is not None, inbox=inbox, inbox_schema=inbox_schema)
    pipeline = None if spec is None else read_spec(spec)
    # To print what a spec says takes no secret.
    dsn = None if prints and pipeline is not None else _dsn(pipeline, databases, inbox_database)
    wanted = wanted_of(pipeline, roles, inbox=inbox, inbox_schema=inbox_schema, dsn=dsn, grants=grants)
    if prints:
        say(_script(wanted, creates=sql, grants=grants, prints_json=prints_json), script=True)
        return ExitCode.DONE
    if not dsn:
        raise click.UsageError("--dsn (or CDC_OUTBOX_DSN) is required, unless --sql or --grants prints the statements")
    with _opened(dsn, wanted) as (connection, driver):
        if check:
            return _check(wanted, connection, driver, prints_json=prints_json)
        say(f"database {database_name(connection, driver, dsn)}", err=True)
        if pipeline is None and not (inbox_database or is_named("databases")):
            say("note: this is the outbox's DSN; --inbox-dsn names the consuming service's database", err=True)
        if new_incarnation and pipeline is not None:
            before = prepare(pipeline, connection, driver, file=spec, before=before, after=after, cluster=cluster)
            return begin(pipeline, connection, driver, before=before, after=after, prints_json=prints_json)
        return _create(wanted, connection, driver, shares=shared_publication, prints_json=prints_json)


@contextmanager
def _opened(dsn: str, wanted: Wanted) -> Iterator[tuple[Any, TransactionDriver]]:
    """Connect to the database, which must be the one that the spec names."""
    with connected(dsn, wanted.kind) as (connection, driver):
        if wanted.spec is not None:
            refuse_other_database(wanted.spec, connection, driver)
        yield connection, driver


def _refuse_unclear(*, has_spec: bool, inbox: bool, inbox_schema: str | None) -> None:
    """Refuse options that do not specify what to create, or name more than one database."""
    if not has_spec and not inbox:
        raise click.UsageError("give a SPEC for the outbox, --inbox for the inbox, or both")
    if inbox_schema is not None and not inbox:
        raise click.UsageError("--inbox-schema needs --inbox")
    if is_named("inbox_database") and (has_spec or is_named("databases")):
        raise click.UsageError(
            "--inbox-dsn needs --inbox and cannot be combined with SPEC or --dsn: one database at a time"
        )


def _dsn(spec: Spec | None, databases: Databases | None, inbox_database: Databases | None) -> str | None:
    """Return the one DSN that is meant: what stands on the command line comes before what the environment says."""
    if spec is None and inbox_database is not None and not is_named("databases"):
        return inbox_database.shared()
    if databases is None:
        return None
    return databases.shared() if spec is None else databases.of(spec.name)


def _script(wanted: Wanted, *, creates: bool, grants: bool, prints_json: bool) -> str:
    if prints_json:
        raise click.UsageError("--sql and --grants print statements and cannot print JSON")
    dialect = wanted.dialect
    parts: list[str] = []
    if creates:
        has_no_condition = wanted.spec is not None and not dialect.features.adds_missing_columns
        known = wanted.spec.outbox.header_columns if wanted.spec is not None and has_no_condition else ()
        parts += map(script, wanted.components)
        parts += (f"{statement};" for statement in wanted.statements(known))
        if has_no_condition:
            parts.append(
                comment(
                    "`cdc-outbox init` adds header columns to a table in use: this SQL cannot check which ones are "
                    "missing."
                )
            )
    if grants:
        roles = [(about, wanted.role(kind, named=False)) for kind, about in PARTIES.items()]
        parts.append(roles_script((about, role) for about, role in roles if role is not None))
    before, *after = dialect.features.script_frame
    return "\n\n".join([before, *parts, *after])


def _check(wanted: Wanted, connection: AnyConnection, driver: TransactionDriver, *, prints_json: bool) -> ExitCode:
    findings = check_spec(wanted.spec, connection, driver) if wanted.spec is not None else []
    if wanted.inbox is not None:
        findings += check_component(inbox_component(wanted.inbox), connection, driver)
    roles = [role for kind in PARTIES if (role := wanted.role(kind, named=True)) is not None]
    findings += check_roles(roles, connection, driver)
    if prints_json:
        say(as_json(findings))
    else:
        say("".join(f"{finding}\n" for finding in findings), nl=False)
    drifted = any(finding.severity is not Severity.NOTE for finding in findings)
    if not drifted:
        checked = [component.name for component in wanted.components]
        if wanted.spec is not None and wanted.spec.database.publication:
            checked.append(f"publication {wanted.spec.database.publication}")
        say(f"as init creates {'them' if checked[1:] else 'it'}: {', '.join(checked)}", err=True)
    if not roles and wanted.dialect.features.password_note is not None:
        names = [
            f"--{kind}-role {wanted.known_name(kind) or 'ROLE'}" for kind in PARTIES if wanted.role(kind, named=False)
        ]
        say(f"roles are checked only if they are given: {' '.join(names)}", err=True)
    return ExitCode.DIFFERENCES if drifted else ExitCode.DONE


def _create(
    wanted: Wanted,
    connection: AnyConnection,
    driver: TransactionDriver,
    *,
    shares: bool,
    prints_json: bool,
) -> ExitCode:
    execute, catalog = partial(driver.fetch, connection), Catalog(connection, driver)
    if wanted.spec is not None:
        _refuse_other_source(wanted.spec, catalog)
    publication = find_earlier_publication(wanted.spec, connection, driver)
    if publication is not None and not shares:
        publication.refuse_second_outbox()
    mark(publication, connection, driver)
    with changing_tables(connection, driver):
        done = [upgrade(execute, part) for part in wanted.components]
        with turn(execute, driver.dialect):
            known = _known_columns(wanted.spec, catalog)
            source = read_source(wanted.spec.outbox, catalog) if wanted.spec is not None else None
            publication = publication and publication.again(catalog)
            for statement in wanted.statements(known, source=source):
                execute(statement)
            added = sorted(set(_known_columns(wanted.spec, catalog)) - set(known)) if known else []
    mark(publication, connection, driver)
    for component, steps in zip(wanted.components, done, strict=True):
        state = f"now at version {component.migrations[-1].version}" if steps else "up to date"
        say(f"{component.name}: {state}", err=True)
    if added and wanted.spec is not None:
        columns = f"column{'s' * (len(added) > 1)} {', '.join(added)}"
        say(visible(f"{wanted.spec.outbox.table}: added the {columns}"), err=True)
    if wanted.inbox is not None and wanted.dialect.features.has_partitions:  # elsewhere ids lie in one table
        purge = PartPurge(connection, driver, wanted.inbox, lambda step, text: say(f"{step} {text}", err=True))
        purge.make_parts(datetime.now(UTC))
    for line in publication.lines if publication is not None else ():
        say(visible(line), err=True)
    partitions = None
    if wanted.spec is not None and wanted.spec.outbox.partitions:
        partitions = make_partitions(wanted.spec.outbox, connection, driver, err=prints_json)
    if prints_json:
        components = [
            {"name": component.name, "version": component.migrations[-1].version, "isChanged": bool(steps)}
            for component, steps in zip(wanted.components, done, strict=True)
        ]
        content = {
            "components": components,
            "addedColumns": added,
            "publication": None if publication is None else publication.content,
            "partitions": partitions,
        }
        say(document("Tables", content))
    return ExitCode.FAILED if partitions and partitions["missed"] else ExitCode.DONE


def _known_columns(spec: Spec | None, catalog: Catalog) -> Collection[str]:
    """Return the columns that the outbox has already.

    Raises:
        TableNotFoundError, OutboxError: It is not what `create table if not exists` passes over.
    """
    if spec is None or spec.outbox.mode is OutboxMode.MESSAGE:
        return ()
    found = catalog.find_table(spec.outbox.table_in(catalog.dialect))
    _refuse_other_shape(spec.outbox, found, catalog.dialect)
    return () if found is None else found.columns


def _refuse_other_shape(table: OutboxTable, found: TableFacts | None, dialect: Dialect) -> None:
    name = table.table_in(dialect)
    if found is None and table.adopted:
        raise TableNotFoundError(
            f"{name} does not exist, but the spec adopts it", hint="Remove outbox.columns to have the table created."
        )
    column = table.columns.aggregate_id
    if found is not None and table.is_numbered and column in found.columns and found.columns[column].type == "uuid":
        # One id in two spellings would be one aggregate there, and two of them to the head table.
        change = dialect.features.text_change.format(table=name.quoted, column=dialect.quote(column))
        raise OutboxError(
            f"{name}.{column} is a uuid, but the aggregate ids of numbered events are text",
            hint=f"{change}, which changes no message; "
            "or set outbox.columns.sequence to null, and events are not numbered.",
        )
    if found is not None and not table.adopted and bool(found.partition_key) != (table.partitions is not None):
        raise OutboxError(
            f"{name} is {'' if found.partition_key else 'not '}partitioned; the spec says otherwise",
            hint="A table cannot be partitioned or unpartitioned later: correct outbox.partitions, or create "
            "another table and another pipeline.",
        )


def _refuse_other_source(spec: Spec, catalog: Catalog) -> None:
    """Refuse a spec that was renamed: its publication would be a second one, and its connector a second one too.

    Raises:
        OutboxError: Events are numbered under a source of another name.
    """
    for finding in check_source(spec.outbox, spec.first_source, read_source(spec.outbox, catalog), catalog.dialect):
        raise OutboxError(f"{finding.message.rstrip('.')} ({finding.code}); nothing was changed", hint=finding.remedy)
