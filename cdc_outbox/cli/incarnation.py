"""``cdc-outbox init --new-incarnation``: the outbox continues under a new source, whose sequences begin at 1."""

from pathlib import Path

import click

from cdc_outbox.cli.options import acting
from cdc_outbox.cli.output import ExitCode, document, say
from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.cluster import Cluster
from cdc_outbox.connect.postgresql_database import PostgresqlDatabase
from cdc_outbox.connect.restore import refuse_until_it_rests, steps_after_restore
from cdc_outbox.databases.drivers import AnyConnection, TransactionDriver
from cdc_outbox.databases.introspection import Catalog
from cdc_outbox.databases.source import read_source
from cdc_outbox.operations.actions import record_action
from cdc_outbox.spec import Spec
from cdc_outbox.writer.incarnation import begin_incarnation, find_next_source


def refuse_unnamed(spec: Path | None, *, is_asked: bool) -> None:
    """Refuse a source without the option that begins one, and an incarnation without a spec."""
    if spec is None or not is_asked:
        raise click.UsageError(
            "a new incarnation takes a SPEC, --new-incarnation, --from-source and optionally --to-source"
        )


def prepare(
    spec: Spec,
    connection: AnyConnection,
    driver: TransactionDriver,
    *,
    file: Path | None,
    before: str | None,
    after: str | None,
    cluster: Cluster | None,
) -> str:
    """Return the source that ends, once the connector rests; print the steps after a restore first.

    Raises:
        UsageError: The source is not named.
        ConfigError, OutboxError: It is not the table's, or ``after`` cannot follow it.
        ConnectorInvalidError, UnpublishedEventsError: The slot is read, or is not where Connect's offset is.
    """
    catalog = Catalog(connection, driver)
    if not before:
        source = read_source(spec.outbox, catalog)
        now = f"; the table's current source is {source}, so add --from-source {source}" if source else ""
        raise click.UsageError(f"--new-incarnation needs --from-source{now}")
    find_next_source(spec.outbox, catalog, before=before, after=after, first_source=spec.first_source)
    for line in steps_after_restore(spec, str(file), source=before):
        say(line, err=True)
    if driver.dialect.features.has_publications:
        client = None if cluster is None else ConnectClient(cluster)
        if client is None:
            say("Connect's offset is not compared with the slot: --connect-url is missing", err=True)
        refuse_until_it_rests(spec, PostgresqlDatabase(connection, driver, spec), client)
    return before


def begin(
    spec: Spec,
    connection: AnyConnection,
    driver: TransactionDriver,
    *,
    before: str,
    after: str | None,
    prints_json: bool,
) -> ExitCode:
    """Begin the source ``after``, by default the next one, and report it."""
    table = spec.outbox
    source = begin_incarnation(connection, driver, table, before=before, after=after, first_source=spec.first_source)
    now = read_source(table, Catalog(connection, driver))
    name = table.table_in(driver.dialect)
    if source:
        record_action(acting(), "init --new-incarnation", str(name), source=source, ended=before)
    say(f"{name}: {before} -> {source}" if source else f"{name}: {now} already", err=prints_json)
    if prints_json:
        say(document("Incarnation", {"table": str(name), "before": before, "source": now, "isNew": source is not None}))
    return ExitCode.DONE
