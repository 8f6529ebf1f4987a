"""Specs of several pipelines, from files and folders, and a connector's configuration from either."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cdc_outbox.cli.files import files_of
from cdc_outbox.cli.options import read_spec
from cdc_outbox.databases.table import OutboxTable, TableName
from cdc_outbox.debezium.lint import compare
from cdc_outbox.debezium.lint.specs import rendered
from cdc_outbox.debezium.render import raw_topic, render
from cdc_outbox.errors import ConfigError
from cdc_outbox.finding import errors_in
from cdc_outbox.spec import Spec


def read_specs(paths: Sequence[Path]) -> dict[Path, Spec]:
    """Read specs, in the order in which they are named; a folder stands for its YAML files, by name.

    Raises:
        ConfigError: One cannot be read or is wrong, a folder has none, or two do not go together.
    """
    found: dict[Path, Spec] = {file: read_spec(file) for file in files_of(paths)}
    _refuse_twins(found)
    findings = errors_in(tuple(compare([rendered(spec) for spec in found.values()])))
    if findings:
        raise ConfigError("the specs do not go together", findings=findings, hint="Correct one of them.")
    return found


def _refuse_twins(found: dict[Path, Spec]) -> None:
    files: dict[str, Path] = {}
    for path, spec in found.items():
        if spec.name in files:
            raise ConfigError(f"{files[spec.name]} and {path} are both the pipeline {spec.name}", field="name")
        files[spec.name] = path


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorConfig:
    """What a file says about a connector.

    Args:
        name: The connector's; where the file does not say it, the file's own.
        options: The flat configuration.
        table: The one that it reads, as far as can be told.
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
    """Read a spec, or a connector's JSON: the configuration alone, or beside its name, as Connect's API takes it.

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
    options = {**_flat(path), **settings}
    captured = options.get("table.include.list") or options.get("collection.include.list", "public.outbox")
    first = captured.split(",")[0]
    table = _table(first.replace("\\", "").strip())
    return ConnectorConfig(name=options.get("name", path.stem), options=options, table=table, source=str(table))


def _table(name: str) -> TableName:
    schema, dot, table = name.rpartition(".")
    return TableName(schema=schema if dot else "public", name=table)


def _flat(path: Path) -> dict[str, str]:
    try:
        content = json.loads(path.read_bytes())
        json.dumps(content, ensure_ascii=False).encode()  # half a surrogate pair is no text
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is no JSON: {error}") from error
    if isinstance(content, dict) and isinstance(content.get("config"), dict):
        content = content["config"]
    if not isinstance(content, dict) or any(isinstance(value, dict | list) for value in content.values()):
        raise ConfigError(f"{path} is no connector's configuration", hint='It looks like {"connector.class": "…", …}.')
    # What is null is not set; Connect takes every value as text.
    return {
        name: json.dumps(value) if isinstance(value, bool) else str(value)
        for name, value in content.items()
        if value is not None
    }
