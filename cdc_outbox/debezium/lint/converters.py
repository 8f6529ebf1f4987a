"""Rules about converters of keys, values and headers."""

from collections.abc import Iterator

from cdc_outbox.databases.database import CAPTURED, DatabaseKind
from cdc_outbox.debezium.config import Config, Router
from cdc_outbox.debezium.event_router import Change, ConnectRecord, ConnectStruct
from cdc_outbox.debezium.lint.framework import meant_class
from cdc_outbox.debezium.lint.path import paths_of
from cdc_outbox.debezium.lint.rule import ERROR, NOTE, WARNING, Hit, Hits, Rulebook
from cdc_outbox.text_files.document import did_you_mean

book = Rulebook()

_STRING = "org.apache.kafka.connect.storage.StringConverter"
_JSON = "org.apache.kafka.connect.json.JsonConverter"
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
_BINARY = "io.debezium.converters.BinaryDataConverter"
_ARRAY = "io.debezium.converters.ByteArrayConverter"
_BUFFER = "io.debezium.converters.ByteBufferConverter"
_KNOWN = (_STRING, _JSON, _BYTES, _BINARY, _ARRAY, "io.debezium.converters.CloudEventsConverter")
_NO_TEXT = frozenset(
    {
        *(_BYTES, _BINARY, _ARRAY),
        *(f"{_BYTES.rpartition('.')[0]}.{kind}Converter" for kind in ("Boolean", "Double", "Float", "Integer")),
        *(f"{_BYTES.rpartition('.')[0]}.{kind}Converter" for kind in ("Long", "Short")),
    }
)
"""Converters that fail on text. Debezium's ignore their delegate when used as header converters."""
_DELEGATE = "delegate.converter.type"


@book.router_rule("CC401", WARNING)
def missing_value_converter(config: Config, router: Router) -> Hits:
    if not config.has("value.converter"):
        message = "value.converter is not set: the format of messages depends on the worker."
        yield Hit("value.converter", message, f"Set it; {_STRING} passes JSON text on unchanged.")


@book.router_rule("CC402", WARNING)
def missing_key_converter(config: Config, router: Router) -> Hits:
    if not config.has("key.converter"):
        message = "key.converter is not set: the bytes of the key, and so the partition, depend on the worker."
        yield Hit("key.converter", message, f"Set it to {_STRING}.")


@book.router_rule("CC403", WARNING)
def key_with_schema(config: Config, router: Router) -> Hits:
    if config.get("key.converter") == _JSON and config.get("key.converter.schemas.enable", "true").lower() != "false":
        message = 'keys become {"schema":…,"payload":…}: every consumer must parse this, and a change moves keys.'
        yield Hit("key.converter", message, f"Use {_STRING}, which writes the id alone; the change moves keys once.")


@book.router_rule("CC404", NOTE)
def key_in_quotation_marks(config: Config, router: Router) -> Hits:
    if config.get("key.converter") == _JSON and config.get("key.converter.schemas.enable").lower() == "false":
        message = "text keys are written in quotation marks."
        yield Hit("key.converter", message, f"Use {_STRING}, which writes the id alone; the change moves keys once.")


@book.router_rule("CC405", WARNING)
def json_as_string(config: Config, router: Router) -> Hits:
    if config.get("value.converter") == _JSON and not router.has_envelope and not router.expands:
        plain = config.get("value.converter.schemas.enable", "true").lower() == "false"
        becomes = r'the JSON string "{\"a\":1}"' if plain else '{"schema":…,"payload":"…"}, with the JSON in a string'
        yield Hit(
            "value.converter", f"a JSON payload becomes {becomes}.", f"Use {_STRING}, which passes it on unchanged."
        )


@book.router_rule("CC406", ERROR)
def structure_with_string_converter(config: Config, router: Router) -> Hits:
    remedy = f"Use {_JSON} with schemas.enable=false, or publish the payload without a structure."
    if config.get("value.converter") == _STRING and _is_structure(config, router):
        yield Hit(
            "value.converter",
            "the value is a structure and becomes the text Struct{payload=…}, which consumers cannot parse.",
            remedy,
        )
    if config.get("key.converter") == _STRING and any(
        isinstance(end.key, ConnectStruct) for end in _routed(config, router)
    ):
        remedy = "Remove the transform that turns the id into a structure."
        yield Hit(
            "key.converter",
            "the key is a structure and becomes the text Struct{…}, which consumers cannot parse.",
            remedy,
        )


@book.router_rule("CC407", ERROR)
def structure_with_bytes_converter(config: Config, router: Router) -> Hits:
    delegates = config.has(f"value.converter.{_DELEGATE}")
    if _is_structure(config, router) and (
        (_is_binary(config) and not delegates) or config.get("value.converter") == _BYTES
    ):
        message = "the value is a structure, and this converter accepts bytes only: the task fails."
        yield Hit(
            "value.converter", message, f"Set value.converter.{_DELEGATE}, or publish the payload without a structure."
        )


@book.router_rule("CC408", ERROR)
def heartbeat_with_bytes_converter(config: Config, router: Router) -> Hits:
    beats = config.number("heartbeat.interval.ms", 0)
    takes_bytes = _is_binary(config) and not config.has(f"value.converter.{_DELEGATE}")
    if beats and (takes_bytes or config.get("value.converter") == _BYTES):
        message = "a heartbeat is a structure: this converter fails on it, and the task with it."
        yield Hit("value.converter", message, f"Use {_BINARY}, and set value.converter.{_DELEGATE} to {_JSON}.")


@book.rule("CC409", WARNING)
def misplaced_delegate_option(config: Config) -> Hits:
    for side in ("key", "value"):
        for option in config.under(f"{side}.converter.delegate.converter."):
            if option != "type" and not option.startswith("type."):
                wrong, right = (f"{side}.converter.{prefix}.{option}" for prefix in ("delegate.converter", _DELEGATE))
                yield Hit(wrong, f"{wrong} does not reach the delegate.", f"Use {right}.")


@book.router_rule("CC410", ERROR)
def binary_handling_with_bytes_converter(config: Config, router: Router) -> Hits:
    mode = config.get("binary.handling.mode").lower()
    if mode not in {"", "bytes"} and (_is_binary(config) or config.get("value.converter") == _BYTES):
        message = f"binary columns arrive as {mode} text, which this converter does not accept."
        yield Hit("binary.handling.mode", message, "Remove the option.")


@book.router_rule("CC411", NOTE)
def text_with_bytes_converter(config: Config, router: Router) -> Hits:
    delegates = _is_binary(config) and config.has(f"value.converter.{_DELEGATE}")
    if (_is_binary(config) or config.get("value.converter") == _BYTES) and not delegates:
        message = "this converter accepts only bytes; the first text payload fails the task."
        yield Hit("value.converter", message, "Check that the payload column is binary.")


@book.router_rule("CC412", ERROR, *(kind for kind in CAPTURED if kind is not DatabaseKind.MONGODB))
def byte_array_converter(config: Config, router: Router) -> Hits:
    if config.get("value.converter") == _ARRAY:
        message = "this converter accepts byte arrays, and a binary column arrives as a byte buffer."
        yield Hit("value.converter", message, f"Use {_BINARY}.")


@book.router_rule("CC413", NOTE)
def null_without_tombstone(config: Config, router: Router) -> Hits:
    tombstones = router.has_envelope or router.on("route.tombstone.on.empty.payload")
    if config.get("value.converter") == _JSON and not tombstones:
        message = "a null payload becomes the text null, not a tombstone."
        yield Hit("value.converter", message, f"Set {router.prefix}route.tombstone.on.empty.payload to true.")


@book.router_rule("CC414", WARNING)
def inferred_schema_with_registry(config: Config, router: Router) -> Hits:
    registered = any(name in config.get("value.converter") for name in ("Avro", "Protobuf", "JsonSchema"))
    if registered and router.expands:
        message = "expansion infers a schema for each message: 1, 3000000000 and 1.5 have three types in a registry."
        yield Hit("value.converter", message, "Write Avro or Protobuf bytes in the writer, and publish them unchanged.")


@book.router_rule("CC416", NOTE)
def custom_header_converter(config: Config, router: Router) -> Hits:
    given = config.get("header.converter")
    if given and given not in {_STRING, "org.apache.kafka.connect.storage.SimpleHeaderConverter", *_NO_TEXT}:
        message = "the headers with the event's id and type are not plain text with this converter."
        yield Hit("header.converter", message, "Remove the option, unless consumers expect this form.")


@book.router_rule("CC420", ERROR)
def header_converter_without_text(config: Config, router: Router) -> Hits:
    if config.get("header.converter") in _NO_TEXT:
        message = (
            "the headers with the event's id and type are text: this converter fails on them, and the task with it."
        )
        yield Hit("header.converter", message, "Remove the option.")


@book.router_rule("CC417", WARNING)
def envelope_with_registry(config: Config, router: Router) -> Hits:
    registered = any(name in config.get("value.converter") for name in ("Avro", "Protobuf", "JsonSchema"))
    if registered and router.has_envelope and "$" in router.get("route.topic.replacement", "$"):
        message = "every envelope has the schema name of the first aggregate type, in every topic."
        yield Hit("value.converter", message, "Use headers instead of an envelope.")


@book.router_rule("CC418", WARNING)
def schema_in_every_message(config: Config, router: Router) -> Hits:
    option = "value.converter.schemas.enable"
    if config.get("value.converter") == _JSON and (router.has_envelope or router.expands) and not config.has(option):
        message = 'every message becomes {"schema":…,"payload":…}, with a schema several times as long as the event.'
        yield Hit("value.converter", message, f"Set {option} to false, or to true if consumers need the schema.")


@book.router_rule("CC419", ERROR)
def converter_of_one_type(config: Config, router: Router) -> Hits:
    given = config.get("key.converter")
    delegates = given == _BINARY and config.has(f"key.converter.{_DELEGATE}")
    if given in _NO_TEXT and not delegates and config.number("heartbeat.interval.ms", 0):
        message = "the key of a heartbeat is a structure: this converter fails on it, and the task with it."
        yield Hit("key.converter", message, f"Use {_STRING}, which accepts keys of any type.")
    if config.get("value.converter") in _NO_TEXT - {_BYTES, _BINARY, _ARRAY}:
        message = "a payload is not a number or boolean: this converter fails on it, and the task with it."
        yield Hit("value.converter", message, f"Use {_STRING}, which passes it on unchanged.")


@book.rule("CC415", ERROR)
def unknown_converter(config: Config) -> Hits:
    for option in ("key.converter", "value.converter", "header.converter"):
        given = config.get(option)
        if given == _BUFFER:
            yield Hit(
                option, "ByteBufferConverter is called BinaryDataConverter since Debezium 2.0.", f"Use {_BINARY}."
            )
        elif given.startswith("io.debezium.converters.") and given not in _KNOWN:
            yield Hit(option, f"Debezium has no converter {given}.", did_you_mean(given, list(_KNOWN)))
        elif near := meant_class(given):
            yield Hit(option, f"the converter class {given} does not exist.", f"Did you mean {near!r}?")


def _is_structure(config: Config, router: Router) -> bool:
    """Return whether the router, or a transform after it, turns a row into a structure."""
    made = any(isinstance(end.value, ConnectStruct) for end in _routed(config, router))
    return router.has_envelope or router.expands or made


def _routed(config: Config, router: Router) -> Iterator[ConnectRecord]:
    """Yield the final records of the rows that a router routes, as far as their paths are known."""
    for path in paths_of(config).outboxes:
        step, end = path.step(router), path.steps[-1].after if path.steps else None
        if step is not None and step.runs and isinstance(step.before.value, Change) and end is not None:
            yield end


def _is_binary(config: Config) -> bool:
    return config.get("value.converter") in {_BINARY, _ARRAY}
