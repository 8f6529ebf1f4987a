"""Several configurations beside each other: what only one connector may have."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.debezium.config import BINLOG, DEFAULT_SLOT, HISTORY, Config, is_reference
from cdc_outbox.finding import Finding, Severity

_Key = Callable[[Config], tuple[str, ...] | None]


def compare(configs: Sequence[Config]) -> Iterator[Finding]:
    """Return what connectors have in common and must not; each finding stands at the later one and names the first."""
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
    """Return which server it reads; one that the worker resolves is the same where it is written the same."""
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
        "the slot is that of another connector, and the second waits for it",
        "Give each a slot of its own.",
    ),
    (
        "CC902",
        Severity.ERROR,
        "topic.prefix",
        _own("topic.prefix"),
        "the topic.prefix is that of another connector: topics, heartbeats and metrics mix",
        "Give each a prefix of its own.",
    ),
    (
        "CC903",
        Severity.ERROR,
        "database.server.id",
        _own("database.server.id", *BINLOG, per_server=True),
        "the database.server.id is that of another connector, and the server hangs up on one of them",
        "Give each an id of its own.",
    ),
    (
        "CC904",
        Severity.WARNING,
        "publication.name",
        _publication,
        "the publication is that of another connector: each may change what the other gets",
        "Give each a publication of its own.",
    ),
    (
        "CC905",
        Severity.WARNING,
        "schema.history.internal.kafka.topic",
        _own("schema.history.internal.kafka.topic", *HISTORY),
        "the schema's history is that of another connector, and each start reads both",
        "Give each a topic of its own.",
    ),
    (
        "CC906",
        Severity.ERROR,
        "name",
        _named,
        "the connector's name is that of another one, which it replaces",
        "Give each a name of its own.",
    ),
)


def captured_tables(config: Config) -> dict[tuple[object, ...], str]:
    """Return the tables that an outbox connector captures, each by what tells it from all others, with its name."""
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
                message=f"{table} is published twice (also as in {_where(first, option)}).",
                remedy="Leave it to one connector.",
            )


def _where(config: Config, option: str) -> str:
    location = config.locations(option)
    return location.document if location.line is None else f"{location.document}:{location.line}"
