"""The outbox as SQLAlchemy's Table, of the same shape as `init` makes it on each database."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    BLANK_SCHEMA,
    BigInteger,
    CheckConstraint,
    Column,
    Connection,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    Uuid,
    event,
)
from sqlalchemy.dialects import mysql, postgresql
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.elements import conv
from sqlalchemy.sql.expression import FunctionElement
from sqlalchemy.types import JSON, TypeEngine

from cdc_outbox.contract.outbox_options import OutboxMode
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.drivers.sqlalchemy import find
from cdc_outbox.databases.migrations import Component, drop_statements, script_statements, with_fixed_settings
from cdc_outbox.databases.quoting import derived_name, quote
from cdc_outbox.databases.source import Source
from cdc_outbox.databases.table import OutboxTable, TableName
from cdc_outbox.errors import ConfigError
from cdc_outbox.formats.attributes import ATTRIBUTES, AttributeKind
from cdc_outbox.formats.event_format import PayloadType
from cdc_outbox.writer.outbox_schema import outbox_component

_DECLARED = "cdc_outbox"
"""Where a Table's ``info`` keeps what it was made from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredOutbox:
    """What a service's metadata says about its outbox.

    Args:
        publication: ``None`` or empty where it has none, or another tool creates it.
    """

    table: OutboxTable
    first_source: str
    publication: str | None = None

    def component(self, dialect: Dialect) -> Component:
        """Return all that belongs to it, on a database of this kind."""
        return outbox_component(self.table, first_source=self.first_source, dialect=dialect)

    def main(self, dialect: Dialect) -> TableName:
        """Return the table that stands for it: the outbox, or the heads where it is adopted or has none."""
        table = self.table.table_in(dialect)
        own = not self.table.adopted and self.table.mode is not OutboxMode.MESSAGE
        return table if own else table.sibling("heads")

    def tables(self, dialect: Dialect) -> tuple[TableName, ...]:
        """Return the tables that the outbox manages itself."""
        component = self.component(dialect)
        return (*component.tables, component.version_table)


def make_outbox_table(
    metadata: MetaData, *, table: OutboxTable | None = None, first_source: str, publication: str | None = None
) -> Table:
    """Add the outbox to a service's metadata, and return it.

    With it ``alembic revision --autogenerate`` writes the migration that creates everything that ``cdc-outbox init``
    creates, and finds no changes afterwards. ``metadata.create_all()`` creates the same without publication and
    partitions.

    The returned table is for reading; :class:`~cdc_outbox.Outbox` writes events. For an adopted table it is the user's
    own, and for an outbox without a table its heads.

    Args:
        table: As the writer has it; name its schema only if it is not the connection's default one.
        first_source: The default of the ``source`` columns at their creation, for example ``orders.1``. A later value
            has no effect.
        publication: The connector's, on PostgreSQL; without a name none is checked or created.

    Raises:
        ConfigError: The source has no incarnation, or an adopted table is not in the metadata, or it is not numbered,
            so that there is nothing to make.
    """
    if Source.parse(first_source) is None:
        raise ConfigError(
            f"{first_source!r} is not a source",
            field="first_source",
            hint="A source is a name and an incarnation: orders.1.",
        )
    outbox = table or OutboxTable(schema=metadata.schema)
    declared = DeclaredOutbox(table=outbox, first_source=first_source, publication=publication)
    name = outbox.heads.name if outbox.mode is OutboxMode.MESSAGE else outbox.name
    found = metadata.tables.get(name if outbox.schema is None else f"{outbox.schema}.{name}")
    if found is not None and find_declared(found) == declared:
        return found  # env.py runs once for each of Alembic's commands, also where one process runs several
    if outbox.adopted:
        made = _adopt(found, outbox)
    else:
        # A schema of the metadata's own is nothing that the writer knows of.
        made = Table(name, metadata, *_parts(declared), schema=outbox.schema or BLANK_SCHEMA, **_options(outbox))
    made.info[_DECLARED] = declared
    event.listen(made, "after_create", _complete)
    event.listen(made, "after_drop", _clear)
    return made


def find_declared(table: Table) -> DeclaredOutbox | None:
    """Return what a table was made from, ``None`` if it is no outbox."""
    declared: DeclaredOutbox | None = table.info.get(_DECLARED)
    return declared


def _adopt(found: Table | None, outbox: OutboxTable) -> Table:
    if not outbox.is_numbered:
        raise ConfigError(f"{outbox.name} is adopted and not numbered, so there is nothing to create", field="table")
    if found is None:
        raise ConfigError(
            f"the table {outbox.name} is adopted, but the metadata does not contain it",
            field="table",
            hint="Declare it first; or remove adopted=True to have it created.",
        )
    return found


def _parts(declared: DeclaredOutbox) -> Sequence[Column[Any] | CheckConstraint]:
    return _heads(declared) if declared.table.mode is OutboxMode.MESSAGE else _columns(declared)


def _columns(declared: DeclaredOutbox) -> list[Column[Any]]:
    types = {**_TYPES, AttributeKind.PAYLOAD: _PAYLOADS[declared.table.payload_type.stored]}
    defaults: dict[str, Any] = {"source": declared.first_source, "created_at": _Now()}
    columns = [
        Column(
            column,
            types[ATTRIBUTES[role].kind],
            primary_key=role == "id",
            nullable=ATTRIBUTES[role].is_nullable,
            server_default=defaults.get(role),
        )
        for role, column in declared.table.columns.names().items()
    ]
    headers = [Column(column, _text(mysql.LONGTEXT())) for column in declared.table.header_columns]
    return [*columns[:-1], *headers, columns[-1]]  # as `init` orders them


def _heads(declared: DeclaredOutbox) -> list[Column[Any] | CheckConstraint]:
    """Return what PostgreSQL's heads consist of; only there is an outbox without a table."""
    text, name = Text(collation="C"), derived_name(declared.table.heads.name, "last_check")
    return [
        Column("source", text, primary_key=True, server_default=declared.first_source),
        Column("aggregatetype", text, primary_key=True),
        Column("aggregateid", text, primary_key=True),
        Column("last", BigInteger(), nullable=False),
        CheckConstraint("last > 0", name=conv(name)),  # which no convention of the metadata's changes
    ]


def _options(outbox: OutboxTable) -> dict[str, Any]:
    options: dict[str, Any] = {"sqlite_strict": True}
    if outbox.partitions is not None:
        options["postgresql_partition_by"] = f"RANGE ({quote(outbox.columns.id)})"
    settings = {"engine": "InnoDB", "row_format": "DYNAMIC", "default_charset": "utf8mb4", "collate": "utf8mb4_bin"}
    return options | {f"{kind}_{name}": value for kind in _MYSQL for name, value in settings.items()}


_MYSQL = ("mysql", "mariadb")
"""SQLAlchemy takes them for two."""


def _text(in_mysql: TypeEngine[Any]) -> TypeEngine[Any]:
    return Text().with_variant(in_mysql, *_MYSQL)


_TYPES: dict[AttributeKind, TypeEngine[Any]] = {
    AttributeKind.ID: Uuid(as_uuid=False)
    .with_variant(mysql.CHAR(36, charset="ascii", collation="ascii_bin"), *_MYSQL)
    .with_variant(Text(), "sqlite"),
    AttributeKind.NAME: _text(mysql.VARCHAR(249)),
    AttributeKind.KEY: _text(mysql.VARCHAR(1000)),
    AttributeKind.LABEL: _text(mysql.VARCHAR(255)),
    AttributeKind.NUMBER: BigInteger().with_variant(Integer(), "sqlite"),
    AttributeKind.TIME: postgresql.TIMESTAMP(precision=6)
    .with_variant(mysql.DATETIME(fsp=6), *_MYSQL)
    .with_variant(Text(), "sqlite"),
}
_PAYLOADS: dict[PayloadType, TypeEngine[Any]] = {
    # A strict table of SQLite's has no type of that name.
    PayloadType.JSON: JSON(none_as_null=True).with_variant(Text(), "sqlite"),
    PayloadType.BYTES: LargeBinary().with_variant(mysql.LONGBLOB(), *_MYSQL),
}


class _Now(FunctionElement[Any]):
    """The time in UTC, whatever the session's zone is."""

    inherit_cache = True


@compiles(_Now, "postgresql")
def _now_in_postgresql(_element: _Now, _compiler: SQLCompiler, **_options: object) -> str:
    return "(clock_timestamp() at time zone 'UTC')"


@compiles(_Now, "mysql", "mariadb")
def _now_in_mysql(_element: _Now, _compiler: SQLCompiler, **_options: object) -> str:
    return "(utc_timestamp(6))"


@compiles(_Now, "sqlite")
def _now_in_sqlite(_element: _Now, _compiler: SQLCompiler, **_options: object) -> str:
    return "(strftime('%Y-%m-%dT%H:%M:%f', 'now'))"


def _complete(target: Table, connection: Connection, **_options: object) -> None:
    """Make what belongs to a table that ``create_all`` has made, as if `init` had made both."""
    driver = find(connection)
    for statement in script_statements(target.info[_DECLARED].component(driver.dialect)):
        driver.fetch(connection, statement)


def _clear(target: Table, connection: Connection, **_options: object) -> None:
    """Drop what ``drop_all`` leaves: a table that is made again is numbered from 1."""
    driver = find(connection)
    component = target.info[_DECLARED].component(driver.dialect)
    for statement in with_fixed_settings(drop_statements(component), driver.dialect):
        driver.fetch(connection, statement)
