"""What a proof begins with: the configuration that the linter flags, and the one beside it that is fixed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.debezium.lint import NEWEST, Config, Version
from tests.support.configs import CLEAN, config_of

Changes = Mapping[str, str | None]
"""Options by their names; ``None`` takes one away, and ``{name}`` stands for the connector's name."""

NAMED = {
    "name": "{name}",
    "topic.prefix": "{name}",
    "transforms.outbox.route.topic.replacement": "{name}.${routedByValue}",
    "heartbeat.interval.ms": "200",
}
"""What keeps a connector apart from the others."""

_SERVERS: Mapping[DatabaseKind, Mapping[str, str]] = {
    DatabaseKind.POSTGRESQL: {
        "table.include.list": "{name}\\.outbox",
        "predicates.isOutbox.pattern": "{name}\\.{name}\\.outbox",
        "database.hostname": "${env:POSTGRES_HOST}",
        "database.port": "${env:POSTGRES_PORT}",
        "database.user": "connector",
        "database.password": "${env:CONNECTOR_PASSWORD}",
        "database.dbname": "{database}",
        "slot.name": "{name}",
        "publication.name": "{name}",
        "message.prefix.exclude.list": ".*",
    },
    DatabaseKind.MARIADB: {
        "table.include.list": "{name}\\.outbox",
        "predicates.isOutbox.pattern": "{name}\\.{name}\\.outbox",
        "database.hostname": "127.0.0.1",
        "database.port": "{port}",
        "database.user": "{name}",
        "database.password": "${env:CONNECTOR_PASSWORD}",
        "database.server.id": "{id}",
        "schema.history.internal.kafka.topic": "{name}.history",
        "schema.history.internal.kafka.bootstrap.servers": "{brokers}",
        "connect.keep.alive.interval.ms": "2000",
        "binlog.buffer.size": "{buffer}",
    },
}


@dataclass(frozen=True, kw_only=True)
class Proof:
    """One hazard, provoked.

    Args:
        code: What the linter finds in the configuration that is run.
        changes: What is changed in a clean configuration, and is the hazard.
        fixed: What is changed in it instead, so that the hazard does not show: nothing, or something else that is
            needed to see it.
        also: Further codes that the linter finds in it, because one comes with the other.
    """

    code: str
    changes: Changes
    fixed: Changes = field(default_factory=dict)
    kind: DatabaseKind = DatabaseKind.POSTGRESQL
    version: Version = NEWEST
    also: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.code

    def config(self, changes: Changes, **names: str) -> dict[str, str]:
        """Return a configuration; what distinguishes a running one from another is given by its name."""
        return config_with(self.kind, changes, **names)

    def flagged(self) -> Sequence[Config]:
        """Return what the linter is asked about."""
        return self.linted(self.changes)

    def cleared(self) -> Sequence[Config]:
        """Return the same, fixed."""
        return self.linted(self.fixed)

    def linted(self, changes: Changes) -> Sequence[Config]:
        """Return configurations as the linter reads them."""
        return [config_of(self.config(changes), version=self.version)]


def config_with(kind: DatabaseKind, changes: Changes, **names: str) -> dict[str, str]:
    """Return a clean configuration with changes in it."""
    options: dict[str, str | None] = {**CLEAN[kind], **NAMED, **_SERVERS.get(kind, {}), **changes}
    filled = {"name": "orders", "database": "orders", "port": "3306", "id": "4711", "brokers": "kafka:9092"}
    filled |= {"buffer": "5000000", **names}
    return {option: _fill(value, filled) for option, value in options.items() if value is not None}


def _fill(value: str, names: Mapping[str, str]) -> str:
    # Not str.format: regular expressions and references have braces of their own.
    for name, replacement in names.items():
        value = value.replace(f"{{{name}}}", replacement)
    return value
