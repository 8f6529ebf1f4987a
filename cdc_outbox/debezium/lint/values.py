"""Rules about values of options: numbers, booleans, references, patterns, and values that require another option."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from cdc_outbox.databases.database import CAPTURED
from cdc_outbox.debezium.config import Config, is_placeholder, listed
from cdc_outbox.debezium.java_regex import refusal
from cdc_outbox.debezium.lint.options import find_option
from cdc_outbox.debezium.lint.rule import ERROR, Hit, Hits, Rulebook

book = Rulebook()

_BITS = {"short": 16, "int": 32, "long": 64}
_LEAST = {"tasks.max": 1, "heartbeat.interval.ms": 0}
_CREATED = re.compile(r"topic\.creation\.[^.]+\.(partitions|replication\.factor)")
_WITHOUT_KEY = re.compile(r"\$\{(file|dir|directory):([^:}]*)\}")
"""A reference to Kafka's file or directory provider with one part only, which has a path and no key."""
_WITHOUT_END = re.compile(r"\$\{[\w-]+:[^}]*$")
_LISTS = re.compile(r"(database|schema|table|collection|column|message\.prefix)\.(include|exclude)\.list")


@book.rule("CC120", ERROR, *CAPTURED)
def wrong_type(config: Config) -> Hits:
    for option in config.options:
        value, found = config.get(option), find_option(config, option)
        if found is None or not value or is_placeholder(value) or option.startswith(("transforms.", "predicates.")):
            continue
        if found.type == "boolean" and value.lower() not in {"true", "false"}:
            yield Hit(option, f"{option} must be true or false.", "Write true or false.")
        elif found.type in _BITS and not _is_whole(value, _BITS[found.type]):
            yield Hit(option, f"{option} must be a {_BITS[found.type]}-bit integer.", "Write the number in digits.")
        elif option in _LEAST and int(value) < _LEAST[option]:
            least = _LEAST[option]
            yield Hit(
                option,
                f"{option} must be at least {least}; Connect refuses {value}.",
                f"Set {option} to {least} or more.",
            )
        elif _CREATED.fullmatch(option) and (int(value) == 0 or int(value) < -1):
            message = f"{option} is {value}: it must be -1 (the broker's default) or greater than 0, or the task fails."
            yield Hit(option, message, "Set it to -1, or to a number greater than 0.")


def _is_whole(value: str, bits: int) -> bool:
    return bool(re.fullmatch(r"[-+]?[0-9]{1,19}", value)) and -(2 ** (bits - 1)) <= int(value) < 2 ** (bits - 1)


@book.rule("CC121", ERROR)
def incomplete_reference(config: Config) -> Hits:
    for option in config.options:
        if _WITHOUT_END.search(config.get(option)):
            message = f"{option} is not resolved: it has a reference without a closing brace."
            yield Hit(option, message, "Add the brace, as in ${env:NAME}.")
        found = _WITHOUT_KEY.search(config.get(option))
        if found:
            message = f"{option} is not resolved: a reference to the provider {found[1]} needs a path and a key."
            yield Hit(option, message, f"Write ${{{found[1]}:PATH:KEY}}.")


class _Requirement(NamedTuple):
    """A value that requires another option.

    Args:
        value: In lower case, or one entry of a list.
        needed: Options of which one must be set.
    """

    option: str
    value: str
    needed: tuple[str, ...]


_NEEDS = (
    *(
        _Requirement(f"snapshot.{which}", "custom", (f"snapshot.{which}.custom.name",))
        for which in ("mode", "query.mode", "locking.mode")
    ),
    _Requirement("signal.enabled.channels", "kafka", ("signal.kafka.bootstrap.servers",)),
    _Requirement("notification.enabled.channels", "sink", ("notification.sink.topic.name",)),
    _Requirement("database.connection.adapter", "xstream", ("xstream.out.server.name", "database.out.server.name")),
)
_REGISTRY = ("Avro", "Protobuf", "JsonSchema")
_CONFLUENT = "io.confluent.connect."


@book.rule("CC118", ERROR, *CAPTURED)
def missing_dependent_option(config: Config) -> Hits:
    for option, value, needed in (*_NEEDS, *_registries(config)):
        given = [entry.lower() for entry in listed(config.get(option))]
        if value in given and not any(config.has(name) for name in needed):
            message = f"this value of {option} requires {needed[0]}; the task fails without it."
            yield Hit(option, message, f"Set {needed[0]}.")


def _registries(config: Config) -> Iterator[_Requirement]:
    for side in ("key", "value", "header"):
        option = f"{side}.converter"
        given = config.get(option)
        if given.startswith(_CONFLUENT) and any(name in given for name in _REGISTRY):
            # A converter that the connector configures does not read the worker's options.
            yield _Requirement(option, given.lower(), (f"{option}.schema.registry.url",))


@book.rule("CC525", ERROR, *CAPTURED)
def invalid_list_pattern(config: Config) -> Hits:
    if config.get("filters.match.mode").lower() == "literal":
        return
    for option in filter(_LISTS.fullmatch, config.options):
        for pattern in listed(config.get(option)):
            reason = refusal(pattern, ignores_case=True)
            if reason:
                yield Hit(
                    option, f"{option} contains an invalid regular expression: {reason}.", "Correct the expression."
                )
                break
