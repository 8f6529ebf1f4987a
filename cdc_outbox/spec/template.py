"""A spec to begin with: what must be said is said, and everything else stands there as a comment, at its default."""

import re
import textwrap
from collections.abc import Iterator, Mapping

from cdc_outbox.databases.database import DatabaseKind, default_identifier, default_server_id
from cdc_outbox.event import SequenceMode
from cdc_outbox.redaction import REFERENCE
from cdc_outbox.spec.reference import ANY, Key, keys, written
from cdc_outbox.text_files.yaml_text import as_yaml

EXAMPLE = "Example: "
"""What the comment of a line begins with that is commented out and no default."""

_MEANINGS: Mapping[tuple[str, ...], Mapping[DatabaseKind | None, str]] = {
    ("database", "name"): {
        DatabaseKind.ORACLE: "The root container's name where there are containers, otherwise the database's.",
        None: "The database's name.",
    },
    ("outbox", "schema"): {
        DatabaseKind.MARIADB: "Its database.",
        DatabaseKind.MYSQL: "Its database.",
        DatabaseKind.MONGODB: "Its database.",
        DatabaseKind.ORACLE: "Its owner.",
        None: "Its schema.",
    },
    ("outbox", "table"): {
        DatabaseKind.MONGODB: "The collection's name.",
        DatabaseKind.ORACLE: "Its name; it and all columns have capital letters unless you write others.",
        None: "Its name.",
    },
}
"""What keys mean on one kind of database, ``None`` for the others: their own text tells all kinds apart."""
_WIDTH = 116
_HEADER = """\
# {name}: its outbox, the connector that publishes it, and its topics.
#
# A line with # and a key shows the key's default, or an example if marked so. Every key with its type, default and
# reason: `cdc-outbox spec-schema --page`, or docs/spec.md. Next:
# {next}.{worker}
#
# For completion in editors, run `cdc-outbox spec-schema > spec.schema.json` in this folder.
# yaml-language-server: $schema=spec.schema.json
"""


def template(name: str, kind: DatabaseKind, aggregates: Mapping[str, SequenceMode]) -> str:
    """Return a spec with comments.

    Args:
        aggregates: How the events of each aggregate type are numbered.
    """
    values = {("version",): "1", ("name",): as_yaml(name), **_database(name, kind)}
    # YAML takes a key with nothing but comments below it for null.
    values = {**_first_defaults(), **values}
    defaults = _defaults(name)
    following = ", ".join(f"`cdc-outbox {each}`" for each in next_commands(kind))
    parts = [_HEADER.format(name=name, next=following, worker=_worker(values))]
    for key in keys():
        match key.path:
            case ("aggregates",):
                parts.append("\n" + "\n".join(_aggregates(key, kind, aggregates)) + "\n")
            case ("aggregates", *_) | ("outbox", "columns", _):
                continue
            case path if kind is DatabaseKind.SQLITE and path[0] == "database" and path not in values and path[1:]:
                continue  # a file takes no other key
            case _ if not key.kinds or kind in key.kinds:
                blank = "\n" if len(key.path) == 1 and key.path != ("version",) else ""
                parts.append(blank + "\n".join(_lines(key, kind, values, defaults.get(key.path))) + "\n")
    return "".join(parts)


def next_commands(kind: DatabaseKind) -> tuple[str, ...]:
    """Return the commands that come after the spec, in order."""
    if not kind.has_dialect:
        return "lint", "render"
    if kind is DatabaseKind.SQLITE:
        return "lint", "init"
    return "lint", "init", "init --grants", "deploy-connector" if kind is DatabaseKind.POSTGRESQL else "render"


def _defaults(name: str) -> dict[tuple[str, ...], str]:
    """Return the defaults that are made of the pipeline's name."""
    return {
        ("topic_prefix",): as_yaml(name),
        ("source",): as_yaml(name),
        ("database", "slot"): default_identifier(name),
        ("database", "publication"): default_identifier(name),
        ("database", "server_id"): str(default_server_id(name)),
        ("history", "topic"): f"{name}.schema-history",
    }


def _worker(values: Mapping[tuple[str, ...], str]) -> str:
    """Return what the worker must know, where a password is referred to."""
    reference = REFERENCE.fullmatch(values.get(("database", "password"), ""))
    if reference is None:
        return ""
    meanings = (
        "The Connect worker resolves references such as ${env:NAME}: give it the variables before it starts. For the "
        f"local stack, set {reference[2]} and run `cdc-outbox stack up --env {reference[2]}`."
    )
    return "\n#" + "".join(f"\n# {line}" for line in textwrap.wrap(meanings, _WIDTH - 2))


def _database(name: str, kind: DatabaseKind) -> dict[tuple[str, ...], str]:
    if kind is DatabaseKind.SQLITE:
        return {("database", "kind"): str(kind)}
    server = "POSTGRES" if kind is DatabaseKind.POSTGRESQL else kind.upper()
    database = re.sub(r"[^a-z0-9_]", "_", name.lower())[:40]
    reached = {"host": f"${{env:{server}_HOST}}", "port": f"${{env:{server}_PORT}}"}
    if kind is DatabaseKind.MONGODB:
        reached = {"connection_string": f"${{env:{server}_CONNECTION_STRING}}"}
    answers = {
        "kind": str(kind),
        **reached,
        "name": as_yaml(database),
        "user": f"{database}_connector",
        "password": f"${{env:{database.upper()}_CONNECTOR_PASSWORD}}",
    }
    table = {"schema": as_yaml(database.upper()), "table": "OUTBOX"} if kind is DatabaseKind.ORACLE else {}
    return {
        (part, key): each for part, said in (("database", answers), ("outbox", table)) for key, each in said.items()
    }


def _first_defaults() -> dict[tuple[str, ...], str]:
    """Return a default of each part of a spec that has any."""
    found: dict[tuple[str, ...], str] = {}
    for key in reversed([key for key in keys() if _has_default(key) and len(key.path) == 2]):
        found = {path: value for path, value in found.items() if path[0] != key.path[0]}
        found[key.path] = str(key.schema["default"])
    return found


def _has_default(key: Key) -> bool:
    return "default" in key.schema and "x-default" not in key.schema


def _lines(key: Key, kind: DatabaseKind, values: Mapping[tuple[str, ...], str], default: str | None) -> Iterator[str]:
    """Return one key with what it means: given, at its default, or as an example."""
    indent = "  " * (len(key.path) - 1)
    meanings: Mapping[DatabaseKind | None, str] = _MEANINGS.get(key.path, {None: key.meaning})
    meaning = re.split(r"(?<=[.:]) ", meanings.get(kind, meanings[None]))[0].rstrip(":.") + "."
    if "enum" in key.schema:
        meaning += f" ({' | '.join(key.schema['enum'])})"
    if key.has_keys and "examples" not in key.schema:
        yield from _commented(indent, f"{key.path[-1]}:", meaning)
    elif key.path in values:
        yield from _commented(indent, f"{key.path[-1]}: {values[key.path]}", meaning)
    elif default is not None or _has_default(key):
        yield from _commented(indent, f"#{key.path[-1]}: {default or written(key.schema['default'])}", meaning)
    else:
        example = key.schema.get("examples", [key.schema.get("default")])[0]
        yield from _commented(indent, f"#{key.path[-1]}: {_flow(example)}", EXAMPLE + meaning)


def _aggregates(key: Key, kind: DatabaseKind, aggregates: Mapping[str, SequenceMode]) -> Iterator[str]:
    """Return each aggregate type; the first one also shows the keys that are at their defaults."""
    yield from _commented("", "aggregates:", key.meaning)
    others = [each for each in keys() if each.path[:2] == ("aggregates", ANY) and each.path[2:] != ("sequence",)]
    for number, (aggregate_type, mode) in enumerate(aggregates.items()):
        yield f"  {as_yaml(aggregate_type)}:"
        yield f"    sequence: {mode}"
        for other in others if number == 0 else ():
            yield from _lines(other, kind, {}, None)


def _commented(indent: str, line: str, meaning: str) -> Iterator[str]:
    """Return a line with its comment behind it, or above it where it is too long."""
    behind = f"{indent + line:<40}  # {meaning}"
    if len(behind) <= _WIDTH:
        yield behind
        return
    yield from (f"{indent}# {each}" for each in textwrap.wrap(meaning, _WIDTH - len(indent) - 2))
    yield indent + line


def _flow(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(each)}" for key, each in value.items()) + "}"
    return str(value)
