"""What the converters make of a key and of a payload."""

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
"""Converters that fail on a text; as header converters Debezium's have no delegate, whatever is configured."""
_DELEGATE = "delegate.converter.type"


@book.router_rule("CC401", WARNING)
def value_as_the_worker_likes(config: Config, router: Router) -> Hits:
    if not config.has("value.converter"):
        message = "value.converter is not set: what a message looks like depends on the worker."
        yield Hit("value.converter", message, f"Set it; {_STRING} passes JSON text as it is.")


@book.router_rule("CC402", WARNING)
def key_as_the_worker_likes(config: Config, router: Router) -> Hits:
    if not config.has("key.converter"):
        message = "key.converter is not set: the key's bytes, and with them the partition, depend on the worker."
        yield Hit("key.converter", message, f"Set it to {_STRING}.")


@book.router_rule("CC403", WARNING)
def key_in_an_envelope(config: Config, router: Router) -> Hits:
    if config.get("key.converter") == _JSON and config.get("key.converter.schemas.enable", "true").lower() != "false":
        message = 'keys become {"schema":…,"payload":…}: every consumer has to know, and every change moves keys.'
        yield Hit("key.converter", message, f"{_STRING} writes the id alone; the change moves keys once.")


@book.router_rule("CC404", NOTE)
def key_in_quotation_marks(config: Config, router: Router) -> Hits:
    if config.get("key.converter") == _JSON and config.get("key.converter.schemas.enable").lower() == "false":
        message = "keys that are text come in quotation marks."
        yield Hit("key.converter", message, f"{_STRING} writes the id alone; the change moves keys once.")


@book.router_rule("CC405", WARNING)
def json_in_json(config: Config, router: Router) -> Hits:
    if config.get("value.converter") == _JSON and not router.has_envelope and not router.expands:
        plain = config.get("value.converter.schemas.enable", "true").lower() == "false"
        becomes = r'"{\"a\":1}", JSON in a text' if plain else '{"schema":…,"payload":"…"}, JSON in a text in JSON'
        yield Hit("value.converter", f"a payload of JSON becomes {becomes}.", f"{_STRING} passes it as it is.")


@book.router_rule("CC406", ERROR)
def structure_as_text(config: Config, router: Router) -> Hits:
    remedy = f"Take {_JSON} with schemas.enable=false, or pass the payload alone."
    if config.get("value.converter") == _STRING and _is_structure(config, router):
        yield Hit(
            "value.converter",
            "the value is a structure, and becomes Struct{payload=…}, which no reader can decode.",
            remedy,
        )
    if config.get("key.converter") == _STRING and any(
        isinstance(end.key, ConnectStruct) for end in _routed(config, router)
    ):
        remedy = "Leave out the transform that makes one of the id."
        yield Hit("key.converter", "the key is a structure, and becomes Struct{…}, which no reader can decode.", remedy)


@book.router_rule("CC407", ERROR)
def structure_as_bytes(config: Config, router: Router) -> Hits:
    delegates = config.has(f"value.converter.{_DELEGATE}")
    if _is_structure(config, router) and (
        (_is_binary(config) and not delegates) or config.get("value.converter") == _BYTES
    ):
        message = "the value is a structure, and this converter takes bytes only: the task fails."
        yield Hit("value.converter", message, f"Name a value.converter.{_DELEGATE}, or pass the payload alone.")


@book.router_rule("CC408", ERROR)
def heartbeat_as_bytes(config: Config, router: Router) -> Hits:
    beats = config.number("heartbeat.interval.ms", 0)
    takes_bytes = _is_binary(config) and not config.has(f"value.converter.{_DELEGATE}")
    if beats and (takes_bytes or config.get("value.converter") == _BYTES):
        message = "a heartbeat is no bytes: this converter fails on it, and the task with it."
        yield Hit("value.converter", message, f"Set value.converter.{_DELEGATE} of {_BINARY} to {_JSON}.")


@book.rule("CC409", WARNING)
def delegate_that_hears_nothing(config: Config) -> Hits:
    for side in ("key", "value"):
        for option in config.under(f"{side}.converter.delegate.converter."):
            if option != "type" and not option.startswith("type."):
                wrong, right = (f"{side}.converter.{prefix}.{option}" for prefix in ("delegate.converter", _DELEGATE))
                yield Hit(wrong, f"{wrong} does not reach the delegate.", f"Write {right}.")


@book.router_rule("CC410", ERROR)
def bytes_that_are_text(config: Config, router: Router) -> Hits:
    mode = config.get("binary.handling.mode").lower()
    if mode not in {"", "bytes"} and (_is_binary(config) or config.get("value.converter") == _BYTES):
        message = f"binary columns come as {mode} text, which this converter does not take."
        yield Hit("binary.handling.mode", message, "Leave it out.")


@book.router_rule("CC411", NOTE)
def bytes_only(config: Config, router: Router) -> Hits:
    delegates = _is_binary(config) and config.has(f"value.converter.{_DELEGATE}")
    if (_is_binary(config) or config.get("value.converter") == _BYTES) and not delegates:
        message = "this converter takes payloads of bytes only; the first one of text fails the task."
        yield Hit("value.converter", message, "Make sure that the payload's column is binary.")


@book.router_rule("CC412", ERROR, *(kind for kind in CAPTURED if kind is not DatabaseKind.MONGODB))
def arrays_where_buffers_come(config: Config, router: Router) -> Hits:
    if config.get("value.converter") == _ARRAY:
        message = "this converter takes byte arrays, and a binary column comes as another kind of bytes."
        yield Hit("value.converter", message, f"Take {_BINARY}.")


@book.router_rule("CC413", NOTE)
def null_that_is_a_word(config: Config, router: Router) -> Hits:
    tombstones = router.has_envelope or router.on("route.tombstone.on.empty.payload")
    if config.get("value.converter") == _JSON and not tombstones:
        message = "a null payload arrives as the text null, and is no tombstone."
        yield Hit("value.converter", message, f"Set {router.prefix}route.tombstone.on.empty.payload to true.")


@book.router_rule("CC414", WARNING)
def schema_of_the_day(config: Config, router: Router) -> Hits:
    registered = any(name in config.get("value.converter") for name in ("Avro", "Protobuf", "JsonSchema"))
    if registered and router.expands:
        message = "expansion infers a schema a message: 1, 3000000000 and 1.5 are three types to a registry."
        yield Hit("value.converter", message, "Write Avro or Protobuf bytes, and pass them as they are.")


@book.router_rule("CC416", NOTE)
def headers_of_another_form(config: Config, router: Router) -> Hits:
    given = config.get("header.converter")
    if given and given not in {_STRING, "org.apache.kafka.connect.storage.SimpleHeaderConverter", *_NO_TEXT}:
        message = "the event's id and type come as this converter writes them, and not as plain text."
        yield Hit("header.converter", message, "Leave it out, unless consumers know.")


@book.router_rule("CC420", ERROR)
def headers_that_are_text(config: Config, router: Router) -> Hits:
    if config.get("header.converter") in _NO_TEXT:
        message = "headers are text, such as the event's id and type, which this converter fails on, and the task."
        yield Hit("header.converter", message, "Leave it out.")


@book.router_rule("CC417", WARNING)
def name_of_the_first(config: Config, router: Router) -> Hits:
    registered = any(name in config.get("value.converter") for name in ("Avro", "Protobuf", "JsonSchema"))
    if registered and router.has_envelope and "$" in router.get("route.topic.replacement", "$"):
        message = "the first aggregate type gives every envelope its schema's name, in every topic."
        yield Hit("value.converter", message, "Place headers instead of an envelope.")


@book.router_rule("CC418", WARNING)
def schema_in_every_message(config: Config, router: Router) -> Hits:
    option = "value.converter.schemas.enable"
    if config.get("value.converter") == _JSON and (router.has_envelope or router.expands) and not config.has(option):
        message = 'every message becomes {"schema":…,"payload":…}: its schema is several times as long as the event.'
        yield Hit("value.converter", message, f"Set {option} to false, or to true if that is meant.")


@book.router_rule("CC419", ERROR)
def key_that_is_none_of_these(config: Config, router: Router) -> Hits:
    given = config.get("key.converter")
    delegates = given == _BINARY and config.has(f"key.converter.{_DELEGATE}")
    if given in _NO_TEXT and not delegates and config.number("heartbeat.interval.ms", 0):
        message = "the key of a heartbeat is a structure: this converter fails on it, and the task with it."
        yield Hit("key.converter", message, f"{_STRING} takes keys of any type.")
    if config.get("value.converter") in _NO_TEXT - {_BYTES, _BINARY, _ARRAY}:
        message = "a payload is no number or truth value: this converter fails on it, and the task with it."
        yield Hit("value.converter", message, f"{_STRING} passes it as it is.")


@book.rule("CC415", ERROR)
def unknown_converter(config: Config) -> Hits:
    for option in ("key.converter", "value.converter", "header.converter"):
        given = config.get(option)
        if given == _BUFFER:
            yield Hit(
                option, "ByteBufferConverter is called BinaryDataConverter since Debezium 2.0.", f"Write {_BINARY}."
            )
        elif given.startswith("io.debezium.converters.") and given not in _KNOWN:
            yield Hit(option, f"Debezium has no converter {given}.", did_you_mean(given, list(_KNOWN)))
        elif near := meant_class(given):
            yield Hit(option, f"there is no converter {given}.", f"Did you mean {near!r}?")


def _is_structure(config: Config, router: Router) -> bool:
    """Whether the router makes a structure of a row, or a transform behind it does."""
    made = any(isinstance(end.value, ConnectStruct) for end in _routed(config, router))
    return router.has_envelope or router.expands or made


def _routed(config: Config, router: Router) -> Iterator[ConnectRecord]:
    """Yield what becomes of the rows that a router routes, as far as their paths are known."""
    for path in paths_of(config).outboxes:
        step, end = path.step(router), path.steps[-1].after if path.steps else None
        if step is not None and step.runs and isinstance(step.before.value, Change) and end is not None:
            yield end


def _is_binary(config: Config) -> bool:
    return config.get("value.converter") in {_BINARY, _ARRAY}
