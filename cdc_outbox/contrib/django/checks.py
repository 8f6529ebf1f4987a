"""What ``manage.py check`` says about the outbox."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from django.core.checks import CheckMessage, Error, Tags, Warning, register  # noqa: A004 - Django's word
from django.db import connections

from cdc_outbox.contrib.django.operations import APP, is_routed
from cdc_outbox.contrib.django.settings import SETTING, OutboxSettings, outbox_settings
from cdc_outbox.databases.drivers.django import find
from cdc_outbox.databases.introspection import Catalog
from cdc_outbox.errors import ConfigError, OutboxError
from cdc_outbox.finding import Finding, Location, Severity
from cdc_outbox.writer.drift import check_outbox, check_version


@register()
def check_settings(**_options: object) -> list[CheckMessage]:
    """Return what is wrong with ``CDC_OUTBOX``; no database is asked."""
    try:
        wanted = outbox_settings()
    except ConfigError as error:
        return [Error(f"{error}.", hint=error.hint or None, obj=error.field, id=f"{APP}.E001")]
    if wanted.database not in connections:
        known = f"Known are {', '.join(connections)}."
        message = f"the outbox's database {wanted.database!r} is not in DATABASES."
        return [Error(message, hint=known, obj=f"{SETTING}.database", id=f"{APP}.E002")]
    try:
        _ = wanted.component
    except (ConfigError, OutboxError) as error:
        return [Error(f"{error}.", hint=error.hint or None, obj=f"{SETTING}.database", id=f"{APP}.E003")]
    if not is_routed(wanted):
        message = (
            f"a database router prevents migrations of {APP} on {wanted.database!r}, so nothing creates the outbox."
        )
        return [Warning(message, hint="Allow them in the router.", obj=f"{SETTING}.database", id=f"{APP}.W001")]
    return []


@register(Tags.database)
def check_tables(*, databases: Sequence[str] | None = None, **_options: object) -> list[CheckMessage]:
    """Return what is wrong with the outbox's tables, if its database is among those that are asked.

    All of it are warnings: ``migrate`` does not run where a check found an error, and is what fixes most of this.
    """
    if check_settings():
        return []
    wanted = outbox_settings()
    if wanted.database not in (databases or ()):
        return []
    return [
        Warning(
            f"{finding.location.path}: {finding.message}",
            hint=_remedy(finding, wanted),
            id=f"{APP}.{finding.code}",
        )
        for finding in _find(wanted)
    ]


def _find(wanted: OutboxSettings) -> Iterator[Finding]:
    connection = connections[wanted.database]
    catalog, component = Catalog(connection, find(connection)), wanted.component
    version = catalog.read_version(component)
    if version is None:
        yield _error("DB343", component.tables[0], "no migration has created these tables.")
        return
    yield from check_version(component, version)
    for table in component.tables:
        if not catalog.exists(table):
            yield _error("DB301", table, "the table does not exist.")
    if wanted.dialect.features.has_publications:
        yield from _find_drift(wanted, catalog)


def _find_drift(wanted: OutboxSettings, catalog: Catalog) -> Iterator[Finding]:
    publication = wanted.publication or ""
    found = catalog.read_outbox(wanted.table, [wanted.component], publication)
    yield from check_outbox(wanted.table, wanted.first_source, found, publication, now=datetime.now(UTC))
    if publication and not catalog.is_published(wanted.table, publication):
        yield _error("DB401", publication, f"the publication does not exist, or does not contain {wanted.table.table}.")


def _error(code: str, path: object, message: str) -> Finding:
    location = Location(document="database", path=str(path))
    return Finding(code=code, severity=Severity.ERROR, location=location, message=message)


def _remedy(finding: Finding, wanted: OutboxSettings) -> str | None:
    """Return a finding's remedy, in words of Django's where migrations are one."""
    migrate = f"Run `manage.py migrate --database {wanted.database}`"
    if finding.code in _MIGRATED:
        return f"{migrate}; if it has nothing to do, the setting has changed. {_CHANGED}."
    if finding.code in _CHANGED_LATER:
        return f"{_CHANGED}, and run it."
    return finding.remedy or None


_MIGRATED = {"DB341", "DB343"}
"""Tables of an earlier release, or none."""
_CHANGED_LATER = {"DB303", "DB401"}
"""Columns or a publication that the setting did not speak of when the first migration ran."""
_CHANGED = "Write a migration with cdc_outbox.contrib.django.operations.UpgradeOutbox"
