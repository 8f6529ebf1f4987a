"""A pipeline's YAML, checked, as values: the table, the wire contract, the router and the connector's settings."""

import json
import pathlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any

from cdc_outbox.contract.outbox_options import OutboxMode, Partitions, refuse_elsewhere
from cdc_outbox.contract.placements import Placement
from cdc_outbox.contract.wire import WireContract
from cdc_outbox.databases.database import DatabaseKind, DatabaseSpec, database_spec
from cdc_outbox.databases.table import OutboxColumns, OutboxTable
from cdc_outbox.errors import ConfigError
from cdc_outbox.event import SequenceMode
from cdc_outbox.finding import Finding
from cdc_outbox.formats.attributes import BUILT_IN_HEADERS, HeaderNames
from cdc_outbox.formats.event_format import EventFormat, PayloadType
from cdc_outbox.redaction import shows_password, shows_secret
from cdc_outbox.spec.schema_findings import schema_findings
from cdc_outbox.text_files.document import Document, Path, read_text_file
from cdc_outbox.text_files.yaml_text import read_yaml


class Latency(StrEnum):
    """What the connector trades: the time it waits between two looks at its queue, against CPU while idle."""

    LOW = "low"
    BALANCED = "balanced"
    ECONOMY = "economy"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSpec:
    """How a topic is created that does not exist yet.

    Args:
        replication_factor: -1 is the broker's default.
        retention_ms: For how long it keeps messages, -1 for ever; ``None`` is the broker's default.
        horizon_days: For how long each of its consumers remembers ids, at least; ``None`` is for ever.
    """

    partitions: int = 3
    replication_factor: int = -1
    retention_ms: int | None = None
    horizon_days: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistorySpec:
    """Where Debezium keeps the history of the schema; both texts are empty where the database needs none.

    Args:
        bootstrap_servers: Of the topic's Kafka, as the worker reaches it; usually a reference.
    """

    topic: str = ""
    bootstrap_servers: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """One pipeline: an outbox, the connector that publishes it, the topics its events go to.

    Args:
        name: The connector's name.
        topic_prefix: The connector's ``topic.prefix``; its name unless it was there before its spec.
        first_source: The source's first incarnation, for example ``orders.1``.
        role_headers: Columns of the event's own attributes whose header is another one than this package's; ``None``
            for none at all.
        overrides: Raw connector options, as text; secrets among them are references.
        document: What it was read from, for findings that point into it.
    """

    name: str
    topic_prefix: str
    first_source: str
    database: DatabaseSpec
    outbox: OutboxTable
    contract: WireContract
    topics: TopicSpec = field(default_factory=TopicSpec)
    history: HistorySpec = field(default_factory=HistorySpec)
    latency: Latency = Latency.BALANCED
    role_headers: Mapping[str, str | None] = field(default_factory=dict)
    overrides: Mapping[str, str] = field(default_factory=dict)
    document: Document = field(default_factory=lambda: Document(name="spec"), repr=False, compare=False)

    @property
    def heartbeat_topic(self) -> str | None:
        """The topic of its connector's heartbeats; ``None`` where it writes none through the outbox.

        It does so on PostgreSQL, where the outbox is of this package's making and an aggregate type has a topic of its
        own: among events of others heartbeats would be in the way of who reads those.
        """
        topic = self.contract.topic_of(self.heartbeat_type)
        apart = topic != self.contract.topic_of("")
        return topic if self.database.kind is DatabaseKind.POSTGRESQL and self.outbox.has_heartbeats and apart else None

    @property
    def heartbeat_type(self) -> str:
        """The aggregate type of its connector's heartbeats."""
        return f"heartbeat.{self.name}"


def parse_spec(text: str | Document, *, name: str = "spec") -> Spec:
    """Read a pipeline's YAML.

    Args:
        text: Or the document that it was read as.
        name: What findings call it, usually the file's name.

    Raises:
        ConfigError: With ``findings``, every one with its line.
    """
    document = read_yaml(text, name=name) if isinstance(text, str) else text
    findings = (
        document.findings
        or tuple(schema_findings(document, spec_schema()))
        or tuple(_secrets(document))
        or tuple(_unresolved_references(document))
    )
    if not findings:
        try:
            return _build(document)
        except ConfigError as error:
            findings = (document.error("SP107", _path_of(error.field), f"{error}.", error.hint),)
    raise ConfigError(
        f"{document.name} is not a valid spec",
        field=findings[0].location.path,
        findings=findings,
        hint="Correct the spec.",
    )


def load_spec(path: str | pathlib.Path) -> Spec:
    """Read a spec from a file.

    Args:
        path: Relative to the current folder.

    Raises:
        ConfigError: The file cannot be read, or is no valid spec; ``findings`` has every defect with its line.
    """
    return parse_spec(read_text_file(pathlib.Path(path)), name=str(path))


@cache
def spec_schema() -> Mapping[str, Any]:
    """Return the JSON Schema of a spec."""
    schema: Mapping[str, Any] = json.loads(files(__name__).joinpath("spec.schema.json").read_bytes())
    return schema


def _build(document: Document) -> Spec:
    content: dict[str, Any] = document.content
    name: str = content["name"]
    topics = content.get("topics", {})
    database = database_spec(content["database"], pipeline=name)
    table, role_headers = _outbox(content.get("outbox", {}), database.kind)
    aggregates: dict[str, dict[str, Any]] = content["aggregates"]
    modes = {name: SequenceMode(options.get("sequence", "gapless")) for name, options in aggregates.items()}
    _refuse_numbers_without_columns(table, modes)
    return Spec(
        name=name,
        topic_prefix=content.get("topic_prefix", name),
        first_source=f"{content.get('source', name)}.1",
        database=database,
        outbox=table,
        contract=WireContract(
            aggregates=modes,
            latest=tuple(name for name, options in aggregates.items() if options.get("latest")),
            by_watermark=tuple(name for name, options in aggregates.items() if options.get("by_watermark")),
            topic=topics.get("name", "outbox.event.{aggregate_type}"),
            headers=_header_names(table, role_headers),
            extra_headers=tuple(table.headers.values()),
            format=table.format,
            payload_type=table.payload_type,
        ),
        topics=TopicSpec(
            # To JSON Schema 3.0 is an integer; to Kafka it is none.
            partitions=int(topics.get("partitions", 3)),
            replication_factor=int(topics.get("replication_factor", -1)),
            retention_ms=_retention_ms(topics.get("retention")),
            horizon_days=_days(topics.get("horizon")),
        ),
        history=_history(content, database.kind),
        latency=Latency(content.get("latency", "balanced")),
        role_headers=role_headers,
        overrides=_overrides(document),
        document=document,
    )


def _retention_ms(text: str | None) -> int | None:
    if text is None or text == "forever":
        return None if text is None else -1
    return int(text[:-1]) * {"h": 3_600_000, "d": 86_400_000, "w": 604_800_000}[text[-1]]


def _days(text: str | None) -> int | None:
    return None if text is None else int(text[:-1]) * {"d": 1, "w": 7}[text[-1]]


def _history(content: Mapping[str, Any], kind: DatabaseKind) -> HistorySpec:
    if not kind.keeps_history:
        if "history" in content:
            raise ConfigError(f"{kind} needs no schema history", field="history", hint="Remove history.")
        return HistorySpec()
    history = content.get("history", {})
    return HistorySpec(
        topic=history.get("topic", f"{content['name']}.schema-history"),
        # What the worker's own setting has in its container images, and in the stack of this package.
        bootstrap_servers=history.get("bootstrap_servers", "${env:CONNECT_BOOTSTRAP_SERVERS}"),
    )


def _overrides(document: Document) -> dict[str, str]:
    return {key: _option(value) for key, value in document.content.get("overrides", {}).items()}


def _secrets(document: Document) -> Iterator[Finding]:
    for option, value in _overrides(document).items():
        if shows_secret(option, value):
            message = f"{option} is a secret and must be a reference that the worker resolves, such as ${{env:NAME}}."
            yield document.error("SP105", ("overrides", option), message)
    if shows_password(document.content["database"].get("connection_string", "")):
        message = "database.connection_string contains a password, which must be a reference that the worker resolves."
        remedy = "Use database.user and database.password, or make it a reference as a whole, such as ${env:NAME}."
        yield document.error("SP105", ("database", "connection_string"), message, remedy)


def _unresolved_references(document: Document) -> Iterator[Finding]:
    """Yield references that Connect passes on as they stand: without a config provider, or without their end."""
    for key, value in document.content["database"].items():
        for name in re.findall(r"\$\{([^}:]*)\}", str(value)):
            message = f"database.{key} has ${{{name}}}, which names no config provider, so Connect does not resolve it."
            yield document.error("SP104", ("database", key), message, f"Write ${{env:{name}}}.")
        if re.search(r"\$\{[^}]*$", str(value)):
            message = f"database.{key} has a reference without a closing brace, so Connect does not resolve it."
            yield document.error("SP104", ("database", key), message, "Add the brace, as in ${env:NAME}.")


def _outbox(outbox: Mapping[str, Any], kind: DatabaseKind) -> tuple[OutboxTable, Mapping[str, str | None]]:
    """Return the table, and what stands among the headers of columns that have a role."""
    mode, payload_type = OutboxMode(outbox.get("mode", "keep")), PayloadType(outbox.get("payload_type", "json"))
    event_format, partitions = EventFormat(outbox.get("format", "plain")), outbox.get("partitions")
    adopted = "columns" in outbox or not kind.has_dialect
    name, columns = "outbox", dict[str, Any](OutboxColumns().names())
    if kind is DatabaseKind.ORACLE:
        # Oracle stores unquoted names in capital letters.
        name, columns = name.upper(), {role: column.upper() for role, column in columns.items()}
    if kind is DatabaseKind.MONGODB:
        columns = {**columns, "id": "_id"}  # which every document has
    columns = {**columns, **outbox.get("columns", {})}
    headers: dict[str, str | None] = {**({} if adopted else BUILT_IN_HEADERS), **outbox.get("headers", {})}
    placeable = (column for role, column in columns.items() if role != "payload")
    role_headers = {column: headers.pop(column) for column in placeable if column in headers}
    try:
        refuse_elsewhere(kind, mode, payload_type, event_format)
        table = OutboxTable(
            schema=outbox.get("schema"),
            name=outbox.get("table", name),
            columns=OutboxColumns(**columns),
            headers={column: header for column, header in headers.items() if header is not None},
            mode=mode,
            payload_type=payload_type,
            format=event_format,
            partitions=None if partitions is None else Partitions(partitions),
            adopted=adopted,
            capitals=kind is DatabaseKind.ORACLE,
        )
        table.refuse_elsewhere(kind)
        if kind is DatabaseKind.SQLITE and table.schema not in {None, "main"}:
            raise ConfigError("the only schema of a file is main", field="schema", hint="Remove it.")
        if kind is DatabaseKind.ORACLE and table.schema is None:
            hint = "Set outbox.schema to the owner, usually in capital letters."
            raise ConfigError("a table of oracle belongs to its owner and has no other schema", hint=hint)
    except ConfigError as error:
        location = error.field.replace("OutboxColumns", "columns")
        raise ConfigError(str(error), field=f"outbox.{location}".rstrip("."), hint=error.hint) from error
    return table, role_headers


def _header_names(table: OutboxTable, role_headers: Mapping[str, str | None]) -> HeaderNames:
    """Return the names of the headers that describe an event."""
    # Other tools write no extension for the time of creation, and no reader fails without it.
    renamed = role_headers.keys() - {table.columns.created_at} or any(role_headers.values())
    if renamed and table.format is EventFormat.CLOUDEVENTS_BINARY:
        reason = f"{table.format} sets the header names of the event's own attributes"
        raise ConfigError(reason, field="outbox.headers")
    own = HeaderNames().placed()
    named = {role: role_headers.get(column) for role, column in table.columns.names().items() if role in own}
    try:
        for column, header in role_headers.items():
            _ = Placement(column, alias=header).entry()  # which refuses what would not come out as it went in
            _refuse_second_column(column, header, {**role_headers, **table.headers})
        return HeaderNames(**{role: header for role, header in named.items() if header is not None})
    except ConfigError as error:
        raise ConfigError(str(error), field="outbox.headers", hint=error.hint) from error


def _refuse_second_column(column: str, header: str | None, headers: Mapping[str, str | None]) -> None:
    """Refuse a header that two columns would write: a reader would confuse one with the other."""
    others = [other for other, name in headers.items() if name is not None and name == header and other != column]
    if others:
        raise ConfigError(f"the columns {column!r} and {others[0]!r} cannot both be the header {header!r}")


def _refuse_numbers_without_columns(table: OutboxTable, modes: Mapping[str, SequenceMode]) -> None:
    for aggregate_type, mode in modes.items():
        if mode.is_numbered and not table.is_numbered:
            raise ConfigError(
                f"{aggregate_type!r} is numbered ({mode}), but the outbox has no column for the sequence or the source",
                field=f"aggregates.{aggregate_type}",
                hint="Write `sequence: none`, or name both columns in outbox.columns.",
            )


def _option(value: str | float | bool) -> str:  # noqa: FBT001 - YAML's own variety
    return str(value).lower() if isinstance(value, bool) else str(value)


def _path_of(dotted: str) -> Path:
    return tuple(dotted.split(".")) if dotted else ()
