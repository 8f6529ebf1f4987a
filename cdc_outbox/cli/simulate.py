"""``cdc-outbox simulate``."""

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from cdc_outbox.cli.contexts import Databases
from cdc_outbox.cli.database import connected
from cdc_outbox.cli.options import debezium_option, dsns_option, json_option, limit_option
from cdc_outbox.cli.output import ExitCode, bytes_as_json, document, say
from cdc_outbox.cli.specs import ConnectorConfig, read_config
from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.databases.table import OutboxTable
from cdc_outbox.debezium.config import kind_of
from cdc_outbox.debezium.event_router.column_values import ColumnModes
from cdc_outbox.debezium.event_router.jvm import Outcome
from cdc_outbox.debezium.event_router.outbox_rows import (
    Row,
    column_names,
    outbox_columns,
    parse_document,
    parse_row,
    read_rows,
)
from cdc_outbox.debezium.event_router.produce import chosen_partition, find_refusal
from cdc_outbox.debezium.event_router.routing import MONGO_EVENT_ROUTER
from cdc_outbox.errors import ConfigError, RoutingError, StackError
from cdc_outbox.message import Message
from cdc_outbox.operations.simulate import Simulation
from cdc_outbox.redaction import visible
from cdc_outbox.text_files.document import did_you_mean

_DOTS = 3
"""In a release that is named in full."""
_OPERATIONS = {"insert": "c", "snapshot": "r", "update": "u", "delete": "d", "truncate": "t"}


def _pairs(_context: click.Context, option: click.Parameter, given: Sequence[str]) -> dict[str, str]:
    """Read options of the form NAME=VALUE."""
    for text in given:
        if "=" not in text:
            raise click.BadParameter(f"{text!r} is not of the form NAME=VALUE.", param=option)
    return dict(text.split("=", 1) for text in given)


@click.command()
@click.argument(
    "config",
    type=click.Path(path_type=Path),
    metavar="SPEC|CONFIG",
    help="The spec of a pipeline, or a connector configuration.",
)
@click.option("--row", "rows", metavar="JSON", multiple=True, help="A row as a JSON object; repeatable.")
@click.option("--from-table", is_flag=True, help="Read rows from the table, newest first.")
@dsns_option(required=False, note="; for --from-table")
@click.option("--table", metavar="SCHEMA.NAME", help="The table, if CONFIG does not name it.")
@click.option("--id", "event_id", help="With --from-table: only the row with this id.")
@limit_option(10)
@click.option(
    "--column-type",
    "types",
    metavar="COLUMN=TYPE",
    multiple=True,
    callback=_pairs,
    help="With --row: a column's type in PostgreSQL, such as payload=bytea.",
)
@click.option(
    "--set",
    "settings",
    metavar="OPTION=VALUE",
    multiple=True,
    callback=_pairs,
    help="Add or change an option of the configuration.",
)
@click.option(
    "--engine",
    type=click.Choice(["python", "real"]),
    default="python",
    show_default=True,
    help="The EventRouter: the one of this package, or Debezium's own in a JVM.",
)
@debezium_option
@click.option(
    "--operation", type=click.Choice(list(_OPERATIONS)), default="insert", help="The operation that changed the rows."
)
@click.option(
    "--partitions",
    type=click.IntRange(min=1),
    help="Number of partitions of the topic. Default: those that CONFIG creates.",
)
@json_option()
def simulate(
    config: Path,
    *,
    rows: tuple[str, ...],
    from_table: bool,
    databases: Databases | None,
    table: str | None,
    event_id: str | None,
    limit: int,
    types: dict[str, str],
    settings: dict[str, str],
    engine: str,
    debezium: str | None,
    operation: str,
    partitions: int | None,
    prints_json: bool,
) -> int:
    """Show the Kafka messages that outbox rows produce.

    For each row, the command shows topic, partition, key, headers, value and timestamp, or the error that the
    EventRouter would throw. CONFIG is the JSON of any connector with Debezium's EventRouter. Nothing is written or
    sent. Exits with 1 if a row would fail the connector's task.

    \b
    Examples:
      cdc-outbox simulate connectors/orders.yaml --from-table --limit 3
      cdc-outbox simulate connectors/orders.yaml --row '{"aggregatetype": "customer", "aggregateid": "42"}'
      cdc-outbox simulate connector.json --row '{"id": 7, …}' --column-type payload=bytea --engine real
    """
    if from_table == bool(rows):
        raise click.UsageError("give either --row or --from-table")
    if engine == "real" and debezium is not None and debezium.count(".") < _DOTS:
        raise click.UsageError(f"--engine real needs a full release such as 3.6.1.Final, not {debezium}")
    given = read_config(config, settings)
    simulation = Simulation(
        config=given.options,
        source=table or given.source,
        operation=_OPERATIONS[operation],
        time_ms=time.time_ns() // 1_000_000,
        debezium=debezium,
    )
    if from_table:
        found = _rows_of_table(given, simulation, databases, table=table, event_id=event_id, limit=limit)
    elif _is_of_mongo(simulation):
        found = list(map(parse_document, rows))
    else:
        found = _rows_as_given(given, rows, types)
    for note in simulation.notes:
        say(f"{'note':<10} {note}", err=True)
    outcomes = simulation.run_real(found, _cache()) if engine == "real" else simulation.imitate(found)
    shown = [_shown(outcome, partitions or simulation.partitions) for outcome in outcomes]
    say(document("Simulation", {"outcomes": shown}) if prints_json else "\n\n".join(map(_text, shown)))
    return ExitCode.FAILED if any("error" in one for one in shown) else ExitCode.DONE


def _is_of_mongo(simulation: Simulation) -> bool:
    return simulation.routing.router.java_class == MONGO_EVENT_ROUTER


def _rows_of_table(
    given: ConnectorConfig,
    simulation: Simulation,
    databases: Databases | None,
    *,
    table: str | None,
    event_id: str | None,
    limit: int,
) -> list[Row | str]:
    """Return the newest rows of the table, or the one of an id."""
    if kind_of(given.options) not in {DatabaseKind.POSTGRESQL, None}:
        what = "a document" if _is_of_mongo(simulation) else "a row"
        raise click.UsageError(f"--from-table reads PostgreSQL only; give {what} with --row")
    modes = ColumnModes(given.options)
    if databases is None:
        raise click.UsageError("--from-table needs --dsn or CDC_OUTBOX_DSN")
    id_column = simulation.routing.router.options.get("table.field.event.id", "id")
    with connected(databases.of(given.name), DatabaseKind.POSTGRESQL) as (connection, driver):
        asked = read_rows(connection, driver, given.named(table), id_column, event_id, limit=limit, modes=modes)
        found: list[Row | str] = list(asked)
    if not found:
        which = f"row with the id {event_id!r}" if event_id is not None else "row"
        raise ConfigError(f"there is no {which} in {given.named(table)}", field="--from-table")
    return found


def _rows_as_given(given: ConnectorConfig, rows: Sequence[str], types: Mapping[str, str]) -> list[Row | str]:
    columns = () if given.outbox is None else outbox_columns(given.outbox)
    named = {column.name for column in columns}.union(*map(column_names, rows))
    for column in types.keys() - named:
        raise ConfigError(
            f"--column-type {column}: neither the row nor the spec has this column",
            field="--column-type",
            hint=did_you_mean(column, sorted(named)),
        )
    parsed = [parse_row(row, columns, types, ColumnModes(given.options)) for row in rows]
    if given.outbox is not None and not given.outbox.adopted:
        for number, (text, row) in enumerate(zip(rows, parsed, strict=True), 1):
            _note_refused(number, column_names(text), row, given.outbox)
    return list(parsed)


def _note_refused(number: int, named: Iterable[str], row: Row, table: OutboxTable) -> None:
    """Report values that the table from ``init`` refuses; their outcome is shown all the same."""
    columns, known = table.columns, [column.name for column in outbox_columns(table)]
    for name in sorted({*named} - {*known}):
        offer = did_you_mean(name, known)
        say(visible(f"{'note':<10} row {number}: the table has no column {name!r}. {offer}".rstrip()), err=True)
    needed = (columns.id, columns.aggregate_type, columns.aggregate_id, columns.type)
    missing = [name for name in needed if row[name].value is None]
    if missing:
        say(f"{'note':<10} row {number} has no value for {', '.join(missing)}, which the table requires", err=True)


def _cache() -> Path:
    try:
        import platformdirs  # noqa: PLC0415 - of an extra, and of no use to the other engine
    except ModuleNotFoundError as error:
        raise StackError(
            "Debezium's own EventRouter needs the package platformdirs",
            hint="Install it with `pip install 'cdc-outbox[testing]'`.",
        ) from error
    return platformdirs.user_cache_path("cdc-outbox")


def _shown(outcome: Outcome, partitions: int) -> dict[str, Any]:
    """Return an outcome as JSON: a message, ``{}`` for nothing, or an error, also beside a message that none takes."""
    match outcome:
        case None:
            return {}
        case RoutingError():
            return {"error": {"exception": outcome.exception, "stage": outcome.stage, "message": str(outcome)}}
        case Message():
            message = {
                "topic": outcome.topic,
                "partition": chosen_partition(outcome, partitions),
                "partitions": partitions,
                "key": bytes_as_json(outcome.key),
                "headers": [[name, bytes_as_json(value)] for name, value in outcome.headers],
                "timestamp_ms": outcome.timestamp_ms,
                "value": bytes_as_json(outcome.value),
            }
            refusal = find_refusal(outcome, partitions)
            return message | ({"error": {"stage": "send", "message": refusal}} if refusal else {})


def _text(shown: Mapping[str, Any]) -> str:
    lines: list[tuple[str, object]] = []
    if "topic" in shown:
        partition = "any (there is no key)," if shown["partition"] is None else shown["partition"]
        headers = [(name, _line(value)) for name, value in shown["headers"]]
        lines = [
            ("topic", shown["topic"]),
            ("partition", f"{partition} of {shown['partitions']}"),
            ("key", _line(shown["key"])),
            *(("header", f"{name}: {value}") for name, value in headers),
            ("timestamp", _time(shown["timestamp_ms"])),
            ("value", _line(shown["value"])),
        ]
    if "error" in shown:
        error = shown["error"]
        thrown = f"{error['exception']} in {error['stage']}: " if "exception" in error else ""
        lines.append(("error", thrown + error["message"]))
    return "\n".join(f"{name:<10} {value}" for name, value in lines or [("nothing", "the row produces no message")])


def _line(value: str | dict[str, str] | None) -> str:
    if value is None:
        return "(null)"
    return value if isinstance(value, str) else f"(base64) {value['base64']}"


def _time(timestamp_ms: int | None) -> str:
    if timestamp_ms is None:
        return "(the producer's)"
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    return f"{moment} ({timestamp_ms})"
