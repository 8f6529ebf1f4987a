import subprocess
import sys
from typing import Any

import pytest

from cdc_outbox import TOMBSTONE, ConfigError, Event, EventError, EventSchemas
from cdc_outbox.formats.payload import encode

ORDER: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["lines"],
    "properties": {
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
        "note": {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}]},
        "never": False,
    },
    "additionalProperties": {"type": "integer"},
    "$defs": {"line": {"type": "object", "properties": {"sku": {"type": "string", "pattern": "^[A-Z]+$"}}}},
}
SCHEMAS = EventSchemas({("OrderPlaced", None): ORDER, ("OrderPlaced", "2"): {"type": "array"}, ("Any", "1"): {}})


def check(payload: Any, *, type: str = "OrderPlaced", version: str | None = None, in_: EventSchemas = SCHEMAS) -> None:  # noqa: A002
    headers = {} if version is None else {"schema_version": version}
    event = Event(aggregate_type="order", aggregate_id="1", type=type, payload=payload, headers=headers)
    in_.check(event, encode(payload))


@pytest.mark.parametrize(
    "payload", [{"lines": []}, {"lines": [{"sku": "A"}], "note": "abc", "hunter2": 1}, '{"lines":[]}', TOMBSTONE]
)
def test_a_payload_that_keeps_its_schema_passes(payload: object) -> None:
    check(payload)


@pytest.mark.parametrize(
    ("payload", "path", "keyword", "pointer"),
    [
        ([], "$", "type", "#/type"),
        ({"note": "hunter2"}, "$", "required", "#/required"),
        (
            {"lines": [{}, {"sku": "hunter2"}]},
            "$.lines[1].sku",
            "pattern",
            "#/properties/lines/items/properties/sku/pattern",
        ),
        ({"lines": [], "note": "hunter2"}, "$.note", "maxLength", "#/properties/note/anyOf/0/maxLength"),
        ({"lines": [], "hunter2": "x"}, "$.*", "type", "#/additionalProperties/type"),
        ({"lines": [], "never": "hunter2"}, "$", "false", "#/properties"),
    ],
)
def test_a_refusal_names_type_path_and_keyword_and_no_content(
    payload: object, path: str, keyword: str, pointer: str
) -> None:
    with pytest.raises(EventError) as caught:
        check(payload)
    assert str(caught.value) == f"the payload of OrderPlaced breaks its schema: {path} violates {keyword!r}"
    assert pointer in caught.value.hint
    assert "hunter2" not in caught.value.hint
    assert caught.value.__cause__ is None


def test_the_version_picks_the_schema() -> None:
    check([], version="2")
    with pytest.raises(EventError, match="violates 'type'"):
        check({"lines": []}, version="2")


def test_an_unknown_version_of_a_known_type_is_refused() -> None:
    with pytest.raises(EventError, match="OrderPlaced has no schema for schema_version 3") as caught:
        check({"lines": []}, version="3")
    assert caught.value.hint == "Schemas exist for 2, none."
    with pytest.raises(EventError, match="Any has no schema for schema_version none"):
        check({}, type="Any")


def test_an_unknown_type_passes_unless_strict() -> None:
    strict = EventSchemas(SCHEMAS.schemas, strict=True)
    check({}, type="OrderShipped")
    check(b"\0", type="OrderShipped")
    check({"lines": []}, in_=strict)
    payloads: list[Any] = [{}, b"\0"]
    for payload in payloads:
        with pytest.raises(EventError, match="OrderShipped has no schema"):
            check(payload, type="OrderShipped", in_=strict)


def test_bytes_cannot_keep_a_schema() -> None:
    with pytest.raises(EventError, match="OrderPlaced is bytes"):
        check(b"{}")


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "strin"}, "'strin' is not valid"),
        ({"properties": {"a": {"pattern": "("}}}, "is not a 'regex'"),
        ({"patternProperties": {"(": {}}}, "is not a 'regex'"),
        ({"$ref": "#/$defs/none"}, "refers to '#/\\$defs/none'"),
        ({"properties": {"a": {"items": {"$ref": "#nowhere"}}}}, "refers to '#nowhere'"),
        ({"$ref": "https://example.com/schema.json"}, "refers to 'https://example.com/schema.json'"),
        ({"$ref": "file:///etc/hostname"}, "refers to 'file:///etc/hostname'"),
        ({"$dynamicRef": "#nowhere"}, "refers to '#nowhere'"),
        ({"allOf": [{}], "$ref": "#/allOf/x"}, "refers to '#/allOf/x'"),
        ({"x": {"y": {"$ref": "#/gone"}}, "$ref": "#/x/y"}, "refers to '#/gone'"),
        ({"x": {"type": "strin"}, "$ref": "#/x"}, "'strin' is not valid"),
        ({"x": 5, "$ref": "#/x"}, "5 is not of type"),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, "of draft .*, not 2020-12"),
        ({"$schema": 5}, "5 is not of type 'string'"),
        (True, "of type bool, not dict"),
        (None, "of type NoneType, not dict"),
    ],
)
def test_a_schema_that_would_fail_later_is_refused_at_once(schema: Any, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        EventSchemas({("OrderPlaced", "1"): schema})
    assert caught.value.field == "schemas['OrderPlaced', '1']"


@pytest.mark.parametrize("key", ["OrderPlaced", ("OrderPlaced", 1), (None, None)])
def test_a_key_that_no_event_can_match_is_refused(key: Any) -> None:
    with pytest.raises(ConfigError, match="be an event type and a version"):
        EventSchemas({key: {}})


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "https://json-schema.org/draft/2020-12/schema"},
        {"$id": "https://example.com/a", "$ref": "https://example.com/b", "$defs": {"b": {"$id": "b"}}},
        {"$ref": "#there", "$defs": {"a": {"$anchor": "there"}}},
        {"properties": {"more": {"$ref": "#"}}},
        {"$dynamicAnchor": "node", "properties": {"more": {"$dynamicRef": "#node"}}},
    ],
)
def test_references_may_stay_at_home_or_lead_to_json_schema(schema: dict[str, Any]) -> None:
    check({}, type="T", in_=EventSchemas({("T", None): schema}))


@pytest.mark.parametrize(
    ("schema", "payload"), [({"$ref": "#"}, {}), ({"multipleOf": 0.5}, 10**400), ({"multipleOf": 7.5}, "1e999")]
)
def test_what_cannot_be_checked_is_refused(schema: dict[str, Any], payload: object) -> None:
    with pytest.raises(EventError, match="the payload of T"):
        check(payload, type="T", in_=EventSchemas({("T", None): schema}))


def test_text_that_no_encoder_made_is_refused_too() -> None:
    event = Event(aggregate_type="order", aggregate_id="1", type="OrderPlaced", payload={})
    with pytest.raises(EventError, match="cannot be checked: ValueError"):
        SCHEMAS.check(event, "{")


def test_schemas_are_copied() -> None:
    schema: dict[str, Any] = {"properties": {"a": {"type": "string"}}}
    given: dict[tuple[str, str | None], dict[str, Any]] = {("T", None): schema}
    schemas = EventSchemas(given)
    schema["properties"]["a"]["type"] = "integer"
    given.clear()
    check({"a": "text"}, type="T", in_=schemas)
    with pytest.raises(EventError):
        check({"a": 1}, type="T", in_=schemas)


def test_json_schema_is_imported_by_the_first_schemas_only() -> None:
    code = (
        "import sys; from cdc_outbox import EventSchemas; EventSchemas({});"
        "assert not {'jsonschema', 'referencing', 'jsonschema_specifications'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
