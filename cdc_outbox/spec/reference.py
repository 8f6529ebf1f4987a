"""Every key of a spec, as its JSON Schema tells it, and the page that shows them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cdc_outbox.spec import spec_schema

ANY = "<type>"
"""Stands in a path for a name that the user gives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key of a spec.

    Args:
        path: From the top of the spec; :data:`ANY` for a name that the user gives.
        meaning: What it says.
        reason: Why its default is what it is, or why it has none.
        schema: Its part of the JSON Schema.
        needed: Whether what is around it must have it: ``required``, for which kinds of database, or empty.
    """

    path: tuple[str, ...]
    meaning: str
    reason: str
    schema: Mapping[str, Any]
    needed: str

    @property
    def type(self) -> str:
        """What its value may be, in words."""
        return " or ".join(dict.fromkeys(_types(self.schema)))

    @property
    def default(self) -> str:
        """What is taken where it is left out, as it is written; in words where that depends, empty for nothing."""
        if "x-default" in self.schema:
            return str(self.schema["x-default"])
        return f"`{written(self.schema['default'])}`" if "default" in self.schema else ""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of database that know it; none means all of them."""
        return tuple(self.schema.get("x-kinds", ()))

    @property
    def has_keys(self) -> bool:
        """Whether further keys of the spec stand in it."""
        return bool(_inside(self.schema))


def keys(schema: Mapping[str, Any] | None = None, around: tuple[str, ...] = ()) -> Iterator[Key]:
    """Return every key that a schema has, outer ones first; of a spec if none is given."""
    schema = spec_schema() if schema is None else schema
    for name, part in _inside(schema).items():
        path = (*around, *name.split("."))
        if "description" in part:
            yield Key(
                path=path,
                meaning=part["description"],
                reason=part.get("x-reason", ""),
                schema=part,
                needed=_needed(name, schema),
            )
        yield from keys(part, path)


def page() -> str:
    """Return them as one page of Markdown."""
    parts = ["# Spec\n", _INTRODUCTION]
    every = list(keys())
    for around in dict.fromkeys(key.path[:-1] for key in every):
        title = f"`{'.'.join(around)}`" if around else "At the top"
        parts.append(f"## {title}\n")
        parts += ["| key | type | default | what it says | why |", "|---|---|---|---|---|"]
        parts += [_row(key) for key in every if key.path[:-1] == around]
        parts += ["", _PROFILES] if around == ("outbox",) else [""]
    return "\n".join(parts)


_INTRODUCTION = """\
Every key of a pipeline's spec: its type, its default, and why that is the default, or why there is none.
`cdc-outbox new NAME --database KIND` writes a spec to begin with. `cdc-outbox spec-schema` prints the JSON Schema that
specs are checked by; in an editor that reads it (any with yaml-language-server), keys and values complete themselves
once this line stands in a spec, with the schema in a file beside it:

```yaml
# yaml-language-server: $schema=spec.schema.json
```

This page is made by `cdc-outbox spec-schema --page > docs/spec.md`.
"""


_PROFILES = """\
The profiles of a payload, and what says each; [profiles.md](profiles.md) has what arrives, and what each cannot:

| profile | `outbox.payload_type` | `outbox.format` |
|---|---|---|
| json | `json` | `plain` |
| bytes | `bytes` | `plain` |
| envelope | `json`, or `expanded` for an object in it | `envelope` |
| expanded | `expanded` | `plain` |
| cloudevents | `json`, or `bytes` where binary | `cloudevents-binary` or `cloudevents-structured` |
"""

_BAR = r"\|"
"""A bar that ends no cell."""


def _row(key: Key) -> str:
    only = f" Only {', '.join(key.kinds)}." if key.kinds else ""
    cells = (f"`{key.path[-1]}`", key.type, key.default or key.needed, _sentence(key.meaning) + only, key.reason)
    return f"| {' | '.join(cell.replace('|', _BAR) for cell in cells)} |"


def written(value: object) -> str:
    """Return a default as YAML has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _sentence(meaning: str) -> str:
    """Return a meaning without the default at its end, which has a column of its own."""
    return meaning.partition(" Default: ")[0]


def _needed(name: str, schema: Mapping[str, Any]) -> str:
    """Return whether a schema requires a key, in words."""
    if name in schema.get("required", ()):
        return "required"
    kinds = [kind for part in (schema, *schema.get("allOf", ())) for kind in _kinds_that_need(name, part)]
    return f"required for {', '.join(kinds)}" if kinds else ""


def _kinds_that_need(name: str, schema: Mapping[str, Any]) -> list[str]:
    kind = schema.get("if", {}).get("properties", {}).get("kind", {})
    needs = name in schema.get("then", {}).get("required", ())
    return list(kind.get("enum", [kind.get("const")])) if needs else []


def _inside(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return what stands in an object: its keys, and those below a name that the user gives."""
    found = dict(schema.get("properties", {}))
    rest = schema.get("additionalProperties")
    if isinstance(rest, dict) and "properties" in rest:
        found[ANY] = rest
    return found


def _types(schema: Mapping[str, Any]) -> Iterator[str]:
    """Return the words for what a value may be."""
    if "const" in schema:
        yield f"`{schema['const']}`"
    elif "enum" in schema:
        yield from (f"`{value}`" for value in schema["enum"])
    elif "oneOf" in schema:
        for way in schema["oneOf"]:
            yield from _types(way)
    elif schema.get("type") == "object":
        values = schema.get("additionalProperties")
        yield f"names with {_of(values)}" if isinstance(values, dict) and "properties" not in values else "keys"
    elif str(schema.get("pattern", "")).startswith(r"^\$\{"):
        yield "a reference such as `${env:NAME}`"
    else:
        yield _of(schema)


def _of(schema: Mapping[str, Any]) -> str:
    given = schema.get("type", "anything")
    return " or ".join(given) if isinstance(given, list) else str(given)
