"""A spec as the rules see it: rendered, with every option's place in the YAML that it came from."""

from dataclasses import dataclass

from cdc_outbox.debezium.config import NEWEST, Config, Version
from cdc_outbox.debezium.render import refuse_file, render
from cdc_outbox.errors import ConfigError
from cdc_outbox.finding import Finding, Location, Severity
from cdc_outbox.spec import Spec, parse_spec
from cdc_outbox.text_files.document import Document, Path

_ORIGINS: tuple[tuple[str, Path], ...] = (
    ("database.hostname", ("database", "host")),
    ("database.dbname", ("database", "name")),
    ("database.include.list", ("database", "name")),
    ("database.names", ("database", "name")),
    ("database.pdb.name", ("database", "pdb")),
    ("mongodb.connection.string", ("database", "connection_string")),
    ("mongodb.", ("database",)),
    ("capture.", ("database", "name")),
    ("collection.include.list", ("outbox", "table")),
    ("database.server.id", ("database", "server_id")),
    ("schema.history.internal.kafka.topic", ("history", "topic")),
    ("schema.history.internal.kafka.bootstrap.servers", ("history", "bootstrap_servers")),
    ("schema.history.internal", ("history",)),
    ("slot.", ("database", "slot")),
    ("publication.", ("database", "publication")),
    ("database.", ("database",)),
    ("transforms.outbox.route.topic.", ("topics", "name")),
    ("transforms", ("outbox",)),
    ("predicates", ("outbox",)),
    ("table.include.list", ("outbox", "table")),
    ("message.prefix", ("outbox", "mode")),
    ("value.converter", ("outbox", "payload_type")),
    ("topic.creation.", ("topics",)),
    ("poll.interval.ms", ("latency",)),
    ("producer.override.linger.ms", ("latency",)),
    ("topic.prefix", ("name",)),
    ("name", ("name",)),
)
"""What of a spec an option is made of; the first that fits."""


@dataclass(frozen=True, slots=True)
class _InSpec:
    spec: Spec

    def __call__(self, option: str) -> Location:
        return self.spec.document.location(self.path(option))

    def path(self, option: str) -> Path:
        """Return the path of what an option is made of."""
        if option in self.spec.overrides:
            return "overrides", option
        return next((path for prefix, path in _ORIGINS if option.startswith(prefix)), ("overrides", option))


def rendered_config(spec: Spec, version: Version = NEWEST) -> Config:
    """Return the configuration that a spec becomes.

    Raises:
        ConfigError: As :func:`cdc_outbox.debezium.render.render` does.
    """
    return Config(
        name=spec.name,
        options=render(spec),
        locations=_InSpec(spec),
        version=version,
        expands_shapes=spec.database.kind.has_dialect,
    )


def spec_config(document: Document, version: Version = NEWEST) -> tuple[list[Config], list[Finding]]:
    """Return the configuration that a spec becomes, or what keeps it from becoming one."""
    try:
        spec = parse_spec(document)
    except ConfigError as error:
        return [], list(error.findings)
    try:
        refuse_file(spec)
    except ConfigError as error:
        location = document.location(("database", "kind"))
        return [], [Finding(code="SP108", severity=Severity.NOTE, location=location, message=f"{error}.")]
    try:
        return [rendered_config(spec, version)], []
    except ConfigError as error:
        return [], list(error.findings)
