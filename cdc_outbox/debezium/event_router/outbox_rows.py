"""Rows of an outbox as the EventRouter would get them: from its table, or from JSON that the user gives."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from cdc_outbox.databases.drivers import AnyConnection, TransactionDriver, translated_for_operator
from cdc_outbox.databases.facts import ColumnFacts
from cdc_outbox.databases.introspection import Catalog
from cdc_outbox.databases.quoting import quote
from cdc_outbox.databases.sql import load
from cdc_outbox.databases.table import OutboxTable, TableName
from cdc_outbox.debezium.event_router import ConnectValue
from cdc_outbox.debezium.event_router.column_values import Column, ColumnModes, base_type, column_value
from cdc_outbox.errors import ConfigError, TableNotFoundError
from cdc_outbox.formats.attributes import ATTRIBUTES, AttributeKind
from cdc_outbox.formats.event_format import PayloadType

Row = Mapping[str, ConnectValue]

_AS_TEXT = {"bytea": "bytea", "timestamp": "timestamp", "timestamptz": "timestamptz"}
_TYPES = {
    AttributeKind.ID: "uuid",
    AttributeKind.PAYLOAD: "json",
    AttributeKind.NUMBER: "bigint",
    AttributeKind.TIME: "timestamp(6)",
}
"""The types of our own table's columns that are no text."""


def outbox_columns(table: OutboxTable) -> tuple[Column, ...]:
    """Return the columns of an outbox as ``init`` makes them."""
    types = _TYPES | ({AttributeKind.PAYLOAD: "bytea"} if table.payload_type is PayloadType.BYTES else {})
    kinds = {column: ATTRIBUTES[role].kind for role, column in table.columns.names().items()}
    ours = [Column(name=name, sql_type=types.get(kind, "text")) for name, kind in kinds.items()]
    return (*ours, *(Column(name=name, sql_type="text") for name in table.header_columns))


def relation_columns(names: Iterable[str], facts: Mapping[str, ColumnFacts]) -> tuple[Column, ...]:
    """Return columns of PostgreSQL as Debezium reads them.

    Args:
        names: In the order of the relation.
        facts: The table's columns in the catalog; a column that was dropped meanwhile counts as a text without default.
    """
    return tuple(_relation_column(name, facts.get(name)) for name in names)


def _relation_column(name: str, facts: ColumnFacts | None) -> Column:
    if facts is None:
        return Column(name=name, sql_type="text")
    # Of a domain the type below it. A value of an enum is a text, and so is one of citext, in whichever schema it is.
    is_text = facts.is_enum or facts.type.endswith(".citext")
    is_plain = base_type(facts.declared) == base_type(facts.type)
    return Column(
        name=name,
        sql_type="text" if is_text else facts.declared if is_plain else facts.type,
        not_null=facts.not_null,
        default="" if facts.is_generated else facts.default,
    )


def read_rows(
    connection: AnyConnection,
    driver: TransactionDriver,
    table: TableName,
    id_column: str,
    event_id: str | None = None,
    *,
    limit: int,
    modes: ColumnModes,
) -> Iterator[Row]:
    """Yield rows of a table, newest first where ids are made in the order of time.

    Args:
        event_id: The row with this id alone.

    Raises:
        TableNotFoundError: There is no such table, or it has no such column.
    """
    statements = load(driver.dialect, "simulate")
    with translated_for_operator({}):
        found = Catalog(connection, driver).find_columns(table)
        columns = relation_columns(found, found)
        if id_column not in {column.name for column in columns}:
            raise TableNotFoundError(f"there is no table {table} with a column {id_column}")
        selected = ", ".join(
            f"({statements[_AS_TEXT.get(base_type(column.sql_type), 'text')].render({'column': quote(column.name)})})"
            for column in columns
        )
        sql = statements["rows"].render(
            {"columns": selected, "table": table.quoted, "id": quote(id_column)}, driver.style
        )
        rows = driver.fetch(connection, sql, {"id": event_id, "limit": limit})
    for row in rows:
        yield {column.name: column_value(column, text, modes) for column, text in zip(columns, row, strict=True)}


@dataclass(frozen=True, slots=True)
class _Number:
    """A JSON number, in its own words."""

    text: str


def parse_row(text: str, columns: tuple[Column, ...], types: Mapping[str, str], modes: ColumnModes) -> Row:
    """Return the row that a JSON object describes.

    Args:
        columns: Those that are known; where the object lacks one it is null.
        types: Column → SQL type, where it is not the known one, or none is known. Otherwise a number is a
            ``bigint``, an object or an array ``json``, and everything else a ``text``.

    Raises:
        ConfigError: It is no JSON object, or a value is none of its column's type.
    """
    values = _object(text)
    known = {column.name: column for column in columns}
    for name in [*values, *types]:
        sql_type = types.get(name) or (known[name].sql_type if name in known else _guess(values.get(name)))
        known[name] = Column(name=name, sql_type=sql_type)
    return {name: column_value(column, _text(values.get(name)), modes) for name, column in known.items()}


def column_names(text: str) -> set[str]:
    """Return the columns that a JSON object names.

    Raises:
        ConfigError: It is no JSON object.
    """
    return set(_object(text))


def parse_document(text: str) -> str:
    """Return a document of MongoDB's, in Extended JSON, as it is written.

    Raises:
        ConfigError: It is no JSON object.
    """
    _object(text)
    return text


def _object(text: str) -> dict[str, object]:
    try:
        values = json.loads(text, parse_int=_Number, parse_float=_Number)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"the row is not JSON: {error}", field="--row") from error
    if not isinstance(values, dict):
        raise ConfigError("the row is not a JSON object", field="--row", hint='For example {"id": "…", "payload": {}}.')
    return values


def _guess(value: object) -> str:
    match value:
        case bool():
            return "boolean"
        case _Number(text):
            return "bigint" if text.lstrip("-").isdigit() else "double precision"
        case dict() | list():
            return "json"
        case _:
            return "text"


def _text(value: object) -> str | None:
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case _Number(text):
            return text
        case str():
            return value
        case _:
            return _json(value)


def _json(value: object) -> str:
    """Return the text of an object or an array, numbers as they were written."""
    match value:
        case dict():
            return "{" + ", ".join(f"{_json(name)}: {_json(held)}" for name, held in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_json, value)) + "]"
        case _Number(text):
            return text
        case _:
            return json.dumps(value, ensure_ascii=False)
