"""What ``cdc-outbox init --check`` looks at, put together from those who know."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime

from cdc_outbox.connect.facts import Database
from cdc_outbox.connect.preflight import check_outbox as check_for_connector
from cdc_outbox.drivers import AnyConnection, TransactionDriver
from cdc_outbox.errors import ConfigError, DatabaseAccessError
from cdc_outbox.finding import Finding, errors_in
from cdc_outbox.migrations import Component
from cdc_outbox.modes import OutboxMode
from cdc_outbox.privileges import Role, check_role
from cdc_outbox.spec import Spec
from cdc_outbox.table import Dialect
from cdc_outbox.writer.catalog import Catalog
from cdc_outbox.writer.drift import check_outbox, check_version, lost_heads
from cdc_outbox.writer.incarnation import read_source
from cdc_outbox.writer.schema import outbox_components

_EXACT_TYPE, _TYPE = "DB311", "DB304"


def check_spec(spec: Spec, connection: AnyConnection, driver: TransactionDriver) -> Iterator[Finding]:
    """Return where the database is not as `init` leaves it; nothing is changed."""
    catalog, dialect = Catalog(connection, driver), spec.database.kind.dialect
    components = outbox_components(spec.outbox, first_source=spec.first_source, dialect=dialect)
    publication = spec.database.publication
    found = catalog.read_outbox(spec.outbox, components, publication)
    needs: tuple[Finding, ...] = ()
    if dialect is Dialect.POSTGRESQL:
        needs = check_for_connector(spec, Database(connection, driver, spec).read_facts())
    yield from needs
    unfit = {(_EXACT_TYPE if finding.code == _TYPE else finding.code, finding.place) for finding in needs}
    if found.outbox is not None or spec.outbox.mode is OutboxMode.MESSAGE:
        for component in components:
            yield from check_version(component, found.version)
    differences = tuple(check_outbox(spec.outbox, spec.first_source, found, publication, now=datetime.now(UTC)))
    yield from (finding for finding in differences if (finding.code, finding.place) not in unfit)
    # A table that lacks a column cannot be asked.
    if not errors_in(differences):
        yield from _check_numbers(spec, catalog)


def _check_numbers(spec: Spec, catalog: Catalog) -> Iterator[Finding]:
    table = spec.outbox
    source = read_source(table, catalog) if table.mode.keeps_rows and not table.adopted else None
    with suppress(DatabaseAccessError):  # who makes tables need not be allowed to read them
        if source is not None and catalog.has_lost_heads(table, source):
            yield lost_heads(table.heads_in(catalog.dialect), source)


def check_component(component: Component, connection: AnyConnection, driver: TransactionDriver) -> Iterator[Finding]:
    """Return whether tables of ours are of another release."""
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
            f"the DSN leads to the database {found!r}, and the spec speaks of {wanted!r}",
            field="--dsn",
            hint="Correct one of them; a name that differs from place to place is a reference such as ${env:NAME}.",
        )
