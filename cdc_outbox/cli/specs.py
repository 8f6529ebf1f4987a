"""Specs of several pipelines, from files and folders, and a connector's configuration from either."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cdc_outbox.cli.files import files_of
from cdc_outbox.cli.options import read_spec
from cdc_outbox.databases.table import OutboxTable, TableName
from cdc_outbox.debezium.config import Config
from cdc_outbox.debezium.config_texts import find_in_text
from cdc_outbox.debezium.lint import compare
from cdc_outbox.debezium.render import raw_topic, render
from cdc_outbox.debezium.render.spec_config import rendered_config
from cdc_outbox.errors import ConfigError
from cdc_outbox.finding import errors_in
from cdc_outbox.spec import Spec
from cdc_outbox.text_files.document import read_text_file


def read_specs(paths: Sequence[Path]) -> dict[Path, Spec]:
    """Read specs, in the order in which they are named; a folder stands for its YAML files, by name.

    Raises:
        ConfigError: One cannot be read or is wrong, a folder has none, or two do not go together.
    """
    found: dict[Path, Spec] = {file: read_spec(file) for file in files_of(paths)}
    _refuse_twins(found)
    findings = errors_in(tuple(compare([rendered_config(spec) for spec in found.values()])))
    if findings:
        raise ConfigError("the specs contradict each other", findings=findings, hint="Correct one of them.")
    return found


def _refuse_twins(found: dict[Path, Spec]) -> None:
    files: dict[str, Path] = {}
    for path, spec in found.items():
        if spec.name in files:
            raise ConfigError(f"{files[spec.name]} and {path} both define the pipeline {spec.name}", field="name")
        files[spec.name] = path


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorConfig:
    """What a file says about a connector.

    Args:
        name: The connector's; where the file does not say it, the file's own.
        options: The flat configuration.
        table: The one that it reads, as far as is known.
        source: What Debezium calls that, behind the topics' prefix: the table, or ``message`` for logical messages.
        outbox: Where it is a spec.
    """

    name: str
    options: Mapping[str, str]
    table: TableName
    source: str
    outbox: OutboxTable | None = None

    def named(self, table: str | None) -> TableName:
        """Return the table of a name, by default the configuration's own."""
        return self.table if table is None else _table(table)


def read_config(path: Path, settings: Mapping[str, str]) -> ConnectorConfig:
    """Read a spec, or a connector's configuration as JSON, in every form that ``lint`` reads.

    Args:
        settings: Options to add or to change.

    Raises:
        ConfigError: It cannot be read, or is wrong.
    """
    if path.suffix != ".json":
        spec = read_spec(path)
        return ConnectorConfig(
            name=spec.name,
            options={**render(spec), **settings},
            table=spec.outbox.table,
            source=raw_topic(spec).removeprefix(f"{spec.topic_prefix}."),
            outbox=spec.outbox,
        )
    config = _only_config(path)
    config = replace(config, options={**config.options, **settings})
    table = _table(next(iter(config.tables), "public.outbox"))
    return ConnectorConfig(name=config.name or path.stem, options=config.options, table=table, source=str(table))


def _table(name: str) -> TableName:
    schema, dot, table = name.rpartition(".")
    return TableName(schema=schema if dot else "public", name=table)


def _only_config(path: Path) -> Config:
    found, findings = find_in_text(read_text_file(path), name=str(path))
    if findings:
        raise ConfigError(f"{path} is not a connector configuration", findings=tuple(findings))
    if len(found) > 1:
        raise ConfigError(f"{path} holds {len(found)} connectors", hint="Give a file with one of them.")
    return found[0]
