"""What a migration does about the outbox."""

import logging
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime
from functools import partial
from typing import Any

from django.db import router
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.operations.base import Operation, OperationCategory
from django.db.migrations.state import ProjectState
from django.db.transaction import atomic

from cdc_outbox.contrib.django.settings import OutboxSettings, outbox_settings
from cdc_outbox.databases.drivers import AnyConnection
from cdc_outbox.databases.drivers.django import find
from cdc_outbox.databases.migrations import (
    Execute,
    drop,
    drop_statements,
    fixed_settings,
    script,
    upgrade,
    with_fixed_settings,
)
from cdc_outbox.databases.sql import comment
from cdc_outbox.writer.outbox_schema import drop_publication_statement, publication_statement, table_statements
from cdc_outbox.writer.partitions import add_partitions

APP = "cdc_outbox"
"""The app's label: what a router is asked about, whichever app's migration it is."""
_log = logging.getLogger(__name__)


class UpgradeOutbox(Operation):
    """Make the outbox that ``CDC_OUTBOX`` describes, or bring it up to date: tables, columns, publication.

    For the app's own migrations, and for one of yours when the setting has changed. It does what ``cdc-outbox init``
    does, in the database that the setting names, and nothing in others. Undone it leaves everything as it is.
    """

    category = OperationCategory.SQL
    reversible = True

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        """Leave the models' state: their tables are not Django's."""

    def database_forwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        """Do it, or write down the statements for ``sqlmigrate``."""
        _run(schema_editor, writing=_upgrade_statements, doing=_upgrade)

    def database_backwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        """Leave it."""

    def describe(self) -> str:
        """Return what it does."""
        return "Bring the outbox up to date"


class CreateOutbox(UpgradeOutbox):
    """Do the same as the app's first migration, which can be undone as long as the outbox was not used."""

    def database_backwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        """Drop the tables, unless one of them has rows.

        Raises:
            OutboxError: It was used. Numbers that were given out would be given out again.
        """
        _run(schema_editor, writing=_drop_statements, doing=_drop)

    def describe(self) -> str:
        """Return what it does."""
        return "Create the outbox"


def _run(
    editor: BaseDatabaseSchemaEditor,
    *,
    writing: Callable[[OutboxSettings], list[str]],
    doing: Callable[[OutboxSettings, Any], None],
) -> None:
    wanted, connection = outbox_settings(), editor.connection
    if connection.alias != wanted.database or not is_routed(wanted):
        return
    if editor.collect_sql:
        editor.collected_sql += writing(wanted)
        return
    # Locks and limits last for a transaction, which a migration that is not atomic does not bring; and where
    # statements that change tables end it, there must be none.
    with atomic(connection.alias) if connection.features.can_rollback_ddl else nullcontext():
        doing(wanted, connection)


def is_routed(wanted: OutboxSettings) -> bool:
    """Return whether the project's routers let migrations make the outbox in its database."""
    return bool(router.allow_migrate(wanted.database, APP, model_name="outboxevent"))


def _upgrade_statements(wanted: OutboxSettings) -> list[str]:
    later = with_fixed_settings(_later_statements(wanted), wanted.dialect)
    return [script(wanted.component), *(f"{statement};" for statement in later)]


def _upgrade(wanted: OutboxSettings, connection: AnyConnection) -> None:
    execute = _execute(connection)
    upgrade(execute, wanted.component)
    with fixed_settings(execute, wanted.dialect):
        for statement in _later_statements(wanted):
            execute(statement)
        added = add_partitions(connection, find(connection), wanted.table, now=datetime.now(UTC))
    for step in added:
        if step.obstacle:
            _log.warning("partition not created", extra={"partition": str(step.partition.table), "why": step.obstacle})


def _later_statements(wanted: OutboxSettings) -> list[str]:
    """Return the unversioned statements, which declare a target state; none on other databases than PostgreSQL."""
    if not wanted.dialect.features.has_publications:
        return []
    publication = [] if wanted.publication is None else [publication_statement(wanted.table, wanted.publication)]
    return [*table_statements(wanted.table, first_source=wanted.first_source), *publication]


def _drop_statements(wanted: OutboxSettings) -> list[str]:
    statements = with_fixed_settings([*_before_drop(wanted), *drop_statements(wanted.component)], wanted.dialect)
    return [
        comment("migrate reverses it only if none of the tables has rows"),
        *(f"{sql};" for sql in statements),
    ]


def _drop(wanted: OutboxSettings, connection: AnyConnection) -> None:
    execute = _execute(connection)
    with fixed_settings(execute, wanted.dialect):
        for statement in _before_drop(wanted):
            execute(statement)
    drop(execute, wanted.component)


def _before_drop(wanted: OutboxSettings) -> list[str]:
    if not wanted.dialect.features.has_publications or wanted.publication is None:
        return []
    return [drop_publication_statement(wanted.table, wanted.publication)]


def _execute(connection: AnyConnection) -> Execute:
    return partial(find(connection).fetch, connection)
