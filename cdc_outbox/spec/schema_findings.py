"""What the schema finds in a spec, in words of a spec's readers."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.validators import extend
from referencing import Registry

from cdc_outbox.finding import Finding
from cdc_outbox.redaction import either, shortened
from cdc_outbox.text_files.document import Document, Path, did_you_mean

_TYPES = {
    "object": "keys with values",
    "array": "a list",
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
}
_BOUNDS = {
    "minimum": "must be at least {}",
    "maximum": "must be at most {}",
    "minLength": "must not be empty",
    "minProperties": "must have at least one entry",
}


def schema_findings(document: Document, schema: Mapping[str, Any]) -> list[Finding]:
    """Return what the schema finds, in the order of the lines."""
    # An empty registry: the default one fetches remote references over HTTP.
    validator = _Validator(schema, registry=Registry())
    findings = [finding for error in validator.iter_errors(document.content) for finding in _explain(document, error)]
    return sorted(findings, key=lambda finding: (finding.location.line or 0, str(finding)))


def _check_pattern(_validator: object, pattern: str, instance: object, _schema: object) -> Iterator[ValidationError]:
    # JSON Schema's `$` is the end; Python's also stands before a last newline.
    if isinstance(instance, str) and (instance.endswith("\n") or not re.search(pattern, instance)):
        yield ValidationError("does not match")


_Validator = extend(Draft202012Validator, {"pattern": _check_pattern})  # type: ignore[no-untyped-call]


def _explain(document: Document, error: ValidationError) -> Iterator[Finding]:
    path: Path = tuple(error.absolute_path)
    here = ".".join(map(str, path)) or "the spec"
    instance: Any = error.instance
    wanted: Any = error.validator_value
    schema = error.schema if isinstance(error.schema, Mapping) else {}
    not_this = _shown(path, instance)
    match error.validator:
        case "additionalProperties":
            known = list(schema.get("properties", {}))
            for key in set(instance) - set(known):
                offer = did_you_mean(key, known) or f"Known are {', '.join(known)}."
                yield document.error("SP101", (*path, key), f"unknown key {key!r}.", offer)
        case "required":
            # The validator reports each missing key on its own, and names it in its message only.
            key = next(key for key in wanted if error.message.startswith(repr(key)))
            yield document.error("SP102", path, f"the key {key!r} is missing in {here}.")
        case _ if "x-refusal" in schema:
            yield document.error("SP105", path, f"{here} {schema['x-refusal']}")
        case "type" if instance is None and not path:
            yield document.error("SP103", path, "the spec is empty.", "`cdc-outbox new` creates one.")
        case "type":
            yield document.error("SP103", path, f"{here} must be {_words(wanted, _TYPES)}{not_this}.")
        case "enum" | "const":
            # Words that belong to another key, and which one that is.
            elsewhere = schema.get("x-elsewhere", {}).get(instance, "") if isinstance(instance, str) else ""
            offer = elsewhere or did_you_mean(str(instance), [str(word) for word in _listed(wanted)])
            yield document.error("SP104", path, f"{here} must be {_words(wanted)}{not_this}.", offer)
        case "not":
            yield document.error("SP104", path, f"{here} must not be {_words(wanted['const'])}.")
        case "pattern" if "x-form" in schema:
            braces = re.findall(r"\{(\w*)\}", instance)
            offer = next(("Did you mean {aggregate_type}?" for word in braces if did_you_mean(word, _PLACEHOLDERS)), "")
            yield document.error("SP104", path, f"{here} must be {schema['x-form']}{not_this}.", offer)
        case constraint:
            rule = _BOUNDS.get(str(constraint), f"does not satisfy {constraint} {{}}")
            yield document.error("SP104", path, f"{here} {rule.format(wanted)}{not_this}.")


_PLACEHOLDERS = ["aggregate_type"]
_PUBLIC = {("kind",), ("slot",)}
"""Keys that are no part of a login to the database."""


def _shown(path: Path, instance: object) -> str:
    """Return a value as part of a sentence; nothing for what is no scalar, or may be a secret."""
    is_public = path and path[0] != "overrides" and (path[0] != "database" or path[1:] in _PUBLIC)
    if not isinstance(instance, str | int | float) or instance == "" or not is_public:
        return ""
    return f", not {shortened(instance)!r}" if isinstance(instance, str) else f", not {str(instance).lower()}"


def _listed(allowed: object) -> list[Any]:
    return allowed if isinstance(allowed, list) else [allowed]


def _words(allowed: object, names: Mapping[str, str] | None = None) -> str:
    return either([(names or {}).get(str(each), str(each)) for each in _listed(allowed)])
