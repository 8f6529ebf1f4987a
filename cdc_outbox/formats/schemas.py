"""JSON Schemas by event type and version, against which a payload is checked before it is written."""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from cdc_outbox.errors import ConfigError, EventError
from cdc_outbox.event import Event
from cdc_outbox.formats import payload
from cdc_outbox.text_files.document import JsonValue

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError

Key = tuple[str, str | None]
"""An event type and, where there are several, the version as the header says it."""

VERSION_HEADER = "schema_version"
"""The event's header that says which version of its type's schema it keeps."""

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


@dataclass(frozen=True, slots=True)
class EventSchemas:
    """JSON Schemas, draft 2020-12, one for each event type and version.

    Schemas are copied and compiled once. A ``$ref`` must lead to its own schema or to JSON Schema itself; nothing is
    fetched. ``format`` is an annotation and is not checked, as in the draft.

    Args:
        schemas: By event type and version; the version is ``None`` for events without the header ``schema_version``. An
            event whose type has schemas for other versions only is always refused.
        strict: Refuse event types that have no schema.

    Raises:
        ConfigError: A schema is invalid, or has an unresolvable reference.
    """

    schemas: Mapping[Key, Mapping[str, Any]]
    strict: bool = field(default=False, kw_only=True)
    _validators: dict[Key, "Draft202012Validator"] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        copied = copy.deepcopy(dict(self.schemas))
        object.__setattr__(self, "schemas", MappingProxyType(copied))
        object.__setattr__(self, "_validators", {key: _compiled(key, schema) for key, schema in copied.items()})

    def check(self, event: Event, text: str | bytes | None) -> None:
        """Refuse the event if its payload, as :func:`cdc_outbox.formats.payload.encode` returned it, breaks its schema.

        A tombstone has no payload and is always valid.

        Raises:
            EventError: The payload violates its schema, is bytes although a schema exists, or has no schema although
                one is required. The message names paths and keywords, never the content.
        """
        validator = None if text is None else self._validator_of(event)
        if text is None or validator is None:
            return
        if isinstance(text, bytes):
            raise EventError(f"the payload of {event.type} is bytes, which a JSON Schema cannot check")
        try:
            error = _worst(validator, payload.decode(text.encode()))
        except (RecursionError, ArithmeticError, ValueError) as caught:
            # A schema that refers to itself in a circle, a number that multipleOf cannot divide, no JSON at all.
            raise EventError(f"the payload of {event.type} cannot be checked: {type(caught).__name__}") from caught
        if error is not None:
            # The schema `false` refuses everything and is no keyword; jsonschema reports it at what is around it.
            keyword = "false" if error.schema is False else error.validator
            raise EventError(
                f"the payload of {event.type} breaks its schema: {_path(error, validator.schema)} violates {keyword!r}",
                hint=f"$ is the payload. The violated rule is {_pointer(error)} of the schema, references resolved.",
            )

    def _validator_of(self, event: Event) -> "Draft202012Validator | None":
        version = event.headers.get(VERSION_HEADER)
        if (event.type, version) in self._validators:
            return self._validators[event.type, version]
        known = sorted(other or "none" for event_type, other in self.schemas if event_type == event.type)
        if known:
            raise EventError(
                f"{event.type} has no schema for {VERSION_HEADER} {version or 'none'}",
                hint=f"Schemas exist for {', '.join(known)}.",
            )
        if self.strict:
            raise EventError(f"{event.type} has no schema", hint="Add one to EventSchemas, or remove strict.")
        return None


def _compiled(key: Key, schema: JsonValue) -> "Draft202012Validator":
    # Imported here because it takes longer than everything else that a writer imports, and most have no schemas.
    from jsonschema import Draft202012Validator  # noqa: PLC0415
    from jsonschema.exceptions import SchemaError  # noqa: PLC0415
    from referencing import Registry  # noqa: PLC0415

    match key:
        case (str(event_type), None | str() as version):
            field = f"schemas[{event_type!r}, {version!r}]"
        case _:
            raise ConfigError(
                f"the key {key!r} of schemas must be an event type and a version",
                field="schemas",
                hint='Write ("OrderPlaced", "1"), or ("OrderPlaced", None) for events without a version.',
            )
    try:
        for part in _parts(schema, field):
            Draft202012Validator.check_schema(part)
    except SchemaError as error:
        raise ConfigError(f"{field} is not a JSON Schema: {error.message} at {error.json_path}", field=field) from error
    return Draft202012Validator(schema, registry=Registry())


def _parts(schema: object, field: str) -> Iterator[Any]:
    """Yield the schema and everything that its references lead to; the caller checks each before asking for more."""
    from jsonschema_specifications import REGISTRY  # noqa: PLC0415 - as above
    from referencing.jsonschema import DRAFT202012  # noqa: PLC0415

    if not isinstance(schema, dict):
        raise ConfigError(f"{field} is of type {type(schema).__name__}, not dict", field=field)
    yield schema
    pending: list[tuple[Any, Any]] = [(schema, REGISTRY.resolver_with_root(DRAFT202012.create_resource(schema)))]
    seen = set()
    while pending:
        part, resolver = pending.pop()
        if not isinstance(part, dict) or id(part) in seen:
            continue
        seen.add(id(part))
        if part.get("$schema", _DIALECT).rstrip("#") != _DIALECT:
            raise ConfigError(f"{field} is of draft {part['$schema']}, not 2020-12", field=field)
        for reference in (part[keyword] for keyword in ("$ref", "$dynamicRef") if keyword in part):
            try:
                found = resolver.lookup(reference)
            except Exception as error:  # Unresolvable, or whatever a pointer stumbles over on its way
                raise ConfigError(
                    f"{field} refers to {reference!r}, which it does not contain",
                    field=field,
                    hint="References are not fetched: put the target into the schema's own $defs.",
                ) from error
            yield found.contents
            pending.append((found.contents, found.resolver))
        for inner in DRAFT202012.subresources_of(part):
            pending.append((inner, resolver.in_subresource(DRAFT202012.create_resource(inner))))  # noqa: PERF401


def _worst(validator: "Draft202012Validator", content: object) -> "ValidationError | None":
    from jsonschema.exceptions import best_match  # noqa: PLC0415 - as above

    worst: ValidationError | None = best_match(validator.iter_errors(content))
    return worst


def _path(error: "ValidationError", schema: object) -> str:
    """Return where in the payload; a key that the schema does not mention is content, and becomes a star."""
    mentioned = set(_words(schema))
    steps = error.absolute_path
    return "$" + "".join(
        f"[{step}]" if isinstance(step, int) else f".{step}" if step in mentioned else ".*" for step in steps
    )


def _words(schema: object) -> Iterator[str]:
    match schema:
        case dict():
            yield from schema
            for inner in schema.values():
                yield from _words(inner)
        case list():
            for inner in schema:
                yield from _words(inner)


def _pointer(error: "ValidationError") -> str:
    steps = (str(step).replace("~", "~0").replace("/", "~1") for step in error.absolute_schema_path)
    return "/".join(["#", *steps])
