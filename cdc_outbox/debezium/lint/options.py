"""Rules about names and values of connector options: unknown, renamed, required, not allowed."""

import re
from difflib import get_close_matches
from functools import cache

from cdc_outbox.databases.database import CAPTURED, DatabaseKind
from cdc_outbox.debezium.config import BINLOG, HISTORY, Config, is_placeholder, is_reference
from cdc_outbox.debezium.lint.rule import ERROR, NOTE, WARNING, Hit, Hits, Rule, Rulebook
from cdc_outbox.debezium.options import (
    Catalogue,
    Option,
    Rename,
    catalogue,
    find_framework,
    renamed,
    renamed_value,
)
from cdc_outbox.debezium.options.behavior import OptionBehavior, Promise
from cdc_outbox.debezium.options.lookup import OPTIONS
from cdc_outbox.text_files.document import ALIKE_OPTION, did_you_mean

book = Rulebook()

_OPERATIONS = frozenset({"c", "r", "u", "d", "t", "none"})

_HISTORY_BEFORE, _HISTORY = "database.history.", "schema.history.internal."

_ELSEWHERE = re.compile(
    r"(transforms|predicates|(key|value|header)\.converter|converters|config|post\.processors|internal|openlineage|"
    r"log\.mining\.buffer\.infinispan\.client|_aiven|errors\.deadletterqueue)(\..*)?"
)
"""Options that a plugin or a library reads, or that another rule checks."""


_OF_THE_WORKER = re.compile(
    r"(offset|config|status)\.(flush|storage)\..+|topic\.creation\.enable|plugin\.(path|discovery)|bootstrap\.servers|"
    r"group\.id|rest\..+|listeners|producer\.(?!override\.).+"
)
_SET_THERE = "This is an option of the worker: set it in the worker's configuration."


def _known_to(config: Config) -> Catalogue | None:
    """Return the options of a configuration's connector in its version, ``None`` if it is not one of the six."""
    return None if config.kind is None else catalogue(config.kind, ".".join(map(str, config.version)))


@cache
def _find(connector: str, version: str, option: str) -> Option | None:
    """Return a connector's option. Cached: every rule of this module asks, and names with an argument are slow."""
    return catalogue(connector, version).find(option)


@cache
def _find_framework(option: str) -> Option | None:
    return find_framework(option)


def find_option(config: Config, option: str) -> Option | None:
    """Return an option of the connector, of Connect or of the producer, ``None`` if none of them has it."""
    known = _known_to(config)
    found = None if known is None else _find(known.connector, known.version, option)
    return found or _find_framework(option)


def find_rename(config: Config, option: str) -> Rename | None:
    """Return how an option was renamed, ``None`` if its connector still reads it, or never did."""
    known = _known_to(config)
    return None if known is None else _find_rename(known.connector, known.version, option)


@cache
def _find_rename(connector: str, version: str, option: str) -> Rename | None:
    if _find(connector, version, option) is not None:
        return None
    found = renamed(option, connector)
    if found is None and option.startswith(_HISTORY_BEFORE):
        return Rename(option, "", "2.0.0")  # on a connector without schema history
    return found


@book.rule("CC101", WARNING, *CAPTURED)
def unknown_option(config: Config) -> Hits:
    known = _known_to(config)
    for option in config.options:
        if known is None or _ELSEWHERE.fullmatch(option) or _find_framework(option):
            continue
        if _find(known.connector, known.version, option) is not None or _fails(config, option):
            continue
        near = get_close_matches(option, list(known.options), n=1, cutoff=0.9)
        # Options with this prefix go to the JDBC driver: only a likely typing error counts.
        if find_rename(config, option) is None and (near or not option.startswith("database.")):
            offer = did_you_mean(option, list(known.options), alike=ALIKE_OPTION)
            offer = _SET_THERE if _OF_THE_WORKER.fullmatch(option) else offer
            yield Hit(option, f"this connector has no option {option!r}, so it has no effect.", offer)


def _fails(config: Config, option: str) -> bool:
    """Return whether an unknown option fails the task, which CC805 reports."""
    return config.kind is DatabaseKind.MONGODB and option == "heartbeat.action.query" and config.version < (3, 7)


@book.rule("CC102", ERROR, *CAPTURED)
def renamed_option(config: Config) -> Hits:
    for option in config.options:
        rename = find_rename(config, option)
        if rename is not None and rename.new and not config.has(rename.new):
            message = f"{option} was renamed to {rename.new} in Debezium {_short(rename)}, and has no effect."
            yield Hit(option, message, f"Use {rename.new}.")


@book.rule("CC103", WARNING, *CAPTURED)
def removed_option(config: Config) -> Hits:
    for option in config.options:
        rename = find_rename(config, option)
        if rename is not None and (not rename.new or config.has(rename.new)):
            change = f"renamed to {rename.new}" if rename.new else "removed"
            message = f"{option} was {change} in Debezium {_short(rename)}, and has no effect."
            yield Hit(option, message, "Remove the option.")


def _short(rename: Rename) -> str:
    return rename.version.removesuffix(".0")


@book.rule("CC104", ERROR, *CAPTURED)
def removed_value(config: Config) -> Hits:
    for option in config.options:
        rename = find_renamed_value(config, option)
        if rename is not None:
            message = f"the value {rename.old} of {option} was removed in Debezium {_short(rename)}."
            yield Hit(option, message, f"Use {rename.new}." if rename.new else "Remove the option.")


def find_renamed_value(config: Config, option: str) -> Rename | None:
    known, value = _known_to(config), config.get(option).lower()
    return None if known is None or value in _allowed(config, option) else renamed_value(option, value, known.connector)


@book.rule("CC105", ERROR, *CAPTURED)
def value_not_allowed(config: Config) -> Hits:
    for option in config.options:
        value, allowed = config.get(option), _allowed(config, option)
        fits = not allowed or not value or value.lower() in allowed or is_reference(value)
        if not fits and find_renamed_value(config, option) is None:
            offer = did_you_mean(value.lower(), list(allowed)) or f"Use one of {', '.join(allowed)}."
            yield Hit(option, f"{option} has a value that this connector does not support.", offer)
    yield from _wrong_operations(config)


def _wrong_operations(config: Config) -> Hits:
    option = "skipped.operations"
    # Java's split drops empty parts at the end only.
    given = [entry.strip() for entry in config.get(option).rstrip(",").split(",")]
    wrong = [entry for entry in given if entry not in _OPERATIONS]
    if option not in config.options or is_reference(config.get(option)):
        return
    if wrong:
        yield Hit(option, f"{wrong[0]!r} is not an operation; Debezium refuses it.", "Write u,d,t.")
    elif "none" in given and len(given) > 1:
        yield Hit(option, "none is combined with other operations, which Debezium refuses.", "Write u,d,t.")


def _allowed(config: Config, option: str) -> tuple[str, ...]:
    found = find_option(config, option)
    return () if found is None else tuple(value.lower() for value in found.allowed)


@book.rule("CC106", ERROR, *CAPTURED)
def missing_option(config: Config) -> Hits:
    known = _known_to(config)
    given = {rename.new for option in config.options if (rename := find_rename(config, option)) is not None}
    if config.kind is DatabaseKind.ORACLE and config.has("database.url"):
        given.add("database.hostname")
    for option in [] if known is None else sorted(name for name, found in known.options.items() if found.required):
        if not config.has(option) and option not in given:
            yield Hit(option, f"{option} is missing; this connector does not start without it.", f"Set {option}.")


@book.rule("CC107", ERROR, *CAPTURED)
def invalid_topic_prefix(config: Config) -> Hits:
    prefix = config.get("topic.prefix")
    if prefix and not is_placeholder(prefix) and not re.fullmatch(r"[A-Za-z0-9._-]+", prefix):
        message = (
            "topic.prefix may contain only letters, digits, dots, hyphens and underscores; Debezium refuses others."
        )
        yield Hit(
            "topic.prefix", message, "Choose another prefix, and do not change the prefix of a deployed connector."
        )


@book.rule("CC108", ERROR, *CAPTURED)
def queue_not_larger_than_a_batch(config: Config) -> Hits:
    queue, batch = config.number("max.queue.size", 8192), config.number("max.batch.size", 2048)
    if queue is not None and batch is not None and queue <= batch:
        option = "max.queue.size" if config.has("max.queue.size") else "max.batch.size"
        yield Hit(
            option,
            f"max.queue.size ({queue}) must be greater than max.batch.size ({batch}).",
            "Set it to four times a batch.",
        )


@book.rule("CC109", ERROR, *CAPTURED)
def invalid_poll_interval(config: Config) -> Hits:
    pause = config.number("poll.interval.ms", 500)
    if pause is not None and pause <= 0:
        message = "poll.interval.ms must be greater than 0; Debezium refuses other values."
        yield Hit("poll.interval.ms", message, "Set it to a value from 5 to 20, which is fast and costs little CPU.")


@book.rule("CC110", NOTE, *CAPTURED)
def default_poll_interval(config: Config) -> Hits:
    if config.routers and not config.has("poll.interval.ms"):
        message = (
            "poll.interval.ms is not set: with its default of 500, events are a quarter of a second late on average."
        )
        yield Hit("poll.interval.ms", message, "Set it to 10; an idle connector then uses a tenth of a core.")


@book.rule("CC114", NOTE, *CAPTURED)
def delay_before_each_batch(config: Config) -> Hits:
    pause = config.number("poll.dispatch.interval.ms", 0)
    if config.routers and pause:
        message = f"every batch is delayed by {pause} ms."
        yield Hit("poll.dispatch.interval.ms", message, "Remove the option.")


@book.rule("CC111", ERROR, *BINLOG)
def invalid_server_id(config: Config) -> Hits:
    number = config.number("database.server.id", 1)
    if number is not None and not 0 < number < 2**32:
        yield Hit(
            "database.server.id",
            f"database.server.id is {number}; it must be from 1 to 4294967295.",
            "Choose an id in this range.",
        )


@book.rule("CC112", ERROR, *HISTORY)
def missing_schema_history_topic(config: Config) -> Hits:
    if "kafka" not in config.get("schema.history.internal", "kafka").lower():
        return
    for option in ("schema.history.internal.kafka.topic", "schema.history.internal.kafka.bootstrap.servers"):
        renamed = config.has(option.replace(_HISTORY, _HISTORY_BEFORE))
        if not config.has(option) and not renamed:
            yield Hit(option, f"{option} is missing: the connector cannot store its schema history.", f"Set {option}.")


def _rule_of(entry: OptionBehavior, promise: Promise) -> Rule:
    def check(config: Config) -> Hits:
        for option in config.options:
            if entry.covers(option) and config.get(option).lower() not in promise.kept_by:
                yield Hit(option, f"{option} is set: {promise.reason}.", f"Remove {option}.")

    return Rule(promise.code, promise.severity, check)


book.rules.extend(_rule_of(entry, entry.promise) for entry in OPTIONS if entry.promise and entry.promise.code)
