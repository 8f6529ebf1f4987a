"""Rules about several configurations: values that two connectors must not share."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.debezium.config import BINLOG, DEFAULT_SLOT, HISTORY, Config, is_reference
from cdc_outbox.finding import Finding, Severity

_Key = Callable[[Config], tuple[str, ...] | None]


def compare(configs: Sequence[Config]) -> Iterator[Finding]:
    """Return findings about values that two connectors share; each is located in the later one and names the first."""
    for code, severity, option, key, message, remedy in _SHARED:
        known: dict[tuple[str, ...], Config] = {}
        for config in configs:
            shared = key(config)
            if shared is None:
                continue
            first = known.setdefault(shared, config)
            if first is not config:
                yield Finding(
                    code=code,
                    severity=severity,
                    location=config.locations(option),
                    message=f"{message} (as in {_where(first, option)}).",
                    remedy=remedy,
                )
    yield from _tables_twice(configs)


def _server(config: Config) -> tuple[str, ...] | None:
    """Return the server that a connector reads; equal references count as the same server."""
    host = config.get("database.hostname") or config.get("mongodb.connection.string")
    return (host, config.get("database.port")) if host else None


def _own(option: str, *kinds: DatabaseKind, default: str = "", per_server: bool = False) -> _Key:
    def key(config: Config) -> tuple[str, ...] | None:
        value = config.get(option, default)
        if not value or (kinds and config.kind not in kinds) or is_reference(value):
            return None
        server = _server(config) if per_server else ()
        return None if server is None else (value, *server)

    return key


def _named(config: Config) -> tuple[str, ...] | None:
    return (config.name,) if config.name else None


def _publication(config: Config) -> tuple[str, ...] | None:
    server = _server(config)
    if config.kind is not DatabaseKind.POSTGRESQL or server is None:
        return None
    return (config.get("publication.name", "dbz_publication"), config.get("database.dbname"), *server)


_SHARED: Iterable[tuple[str, Severity, str, _Key, str, str]] = (
    (
        "CC901",
        Severity.ERROR,
        "slot.name",
        _own("slot.name", DatabaseKind.POSTGRESQL, default=DEFAULT_SLOT, per_server=True),
        "another connector uses the same slot, and this one waits for it",
        "Use one slot for each connector.",
    ),
    (
        "CC902",
        Severity.ERROR,
        "topic.prefix",
        _own("topic.prefix"),
        "another connector uses the same topic.prefix: topics, heartbeats and metrics collide",
        "Use one prefix for each connector.",
    ),
    (
        "CC903",
        Severity.ERROR,
        "database.server.id",
        _own("database.server.id", *BINLOG, per_server=True),
        "another connector uses the same database.server.id: the server closes one connection",
        "Use one id for each connector.",
    ),
    (
        "CC904",
        Severity.WARNING,
        "publication.name",
        _publication,
        "another connector uses the same publication: each may change the other's tables",
        "Use one publication for each connector.",
    ),
    (
        "CC905",
        Severity.WARNING,
        "schema.history.internal.kafka.topic",
        _own("schema.history.internal.kafka.topic", *HISTORY),
        "another connector uses the same schema history topic: each start reads both histories",
        "Use one topic for each connector.",
    ),
    (
        "CC906",
        Severity.ERROR,
        "name",
        _named,
        "another connector has the same name: this configuration replaces it",
        "Use one name for each connector.",
    ),
)


def captured_tables(config: Config) -> dict[tuple[object, ...], str]:
    """Return the names of the tables that an outbox connector captures, each by a key unique across servers."""
    if not config.routers or config.kind is None:
        return {}
    databases = (config.get(f"database.{option}") for option in ("dbname", "pdb.name", "names"))
    shared = (config.kind, _server(config), *databases)
    return {(*shared, table): table for table in config.tables}


def _tables_twice(configs: Sequence[Config]) -> Iterator[Finding]:
    known: dict[tuple[object, ...], Config] = {}
    for config in configs:
        firsts = [(table, known.setdefault(key, config)) for key, table in captured_tables(config).items()]
        twice = next(((table, first) for table, first in firsts if first is not config), None)
        if twice is not None and config.kind is not None:
            table, first = twice
            option = config.kind.include_list
            yield Finding(
                code="CC907",
                severity=Severity.WARNING,
                location=config.locations(option),
                message=f"two connectors publish {table} (as in {_where(first, option)}).",
                remedy="Publish the table with one connector.",
            )


def _where(config: Config, option: str) -> str:
    location = config.locations(option)
    return location.document if location.line is None else f"{location.document}:{location.line}"
