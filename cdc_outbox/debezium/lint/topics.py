"""Rules about topics that Connect creates for events."""

import re

from cdc_outbox.debezium.config import Config, listed
from cdc_outbox.debezium.java_regex import literal, refusal
from cdc_outbox.debezium.lint.rule import ERROR, NOTE, WARNING, Hit, Hits, Rulebook
from cdc_outbox.debezium.options.kafka_options import COMPACTION

book = Rulebook()

_CREATION = "topic.creation."
_DEFAULT = f"{_CREATION}default."


@book.rule("CC251", ERROR)
def creation_without_defaults(config: Config) -> Hits:
    if not any(option.startswith(_CREATION) for option in config.options):
        return
    for option in (f"{_DEFAULT}replication.factor", f"{_DEFAULT}partitions"):
        if not config.has(option):
            yield Hit(
                option,
                f"{option} is missing: the task fails, because other topic.creation options are set.",
                f"Set {option}.",
            )


@book.rule("CC252", WARNING)
def group_without_pattern(config: Config) -> Hits:
    for group in _groups(config):
        option = f"{_CREATION}{group}.include"
        if not config.has(option):
            yield Hit(option, f"the group {group!r} matches no topic, so its options have no effect.", f"Set {option}.")


@book.rule("CC253", WARNING)
def unlisted_group(config: Config) -> Hits:
    known = {"default", *_groups(config)}
    for option in config.options:
        group = re.fullmatch(r"topic\.creation\.([^.]+)\..+", option)
        if group and group[1] not in known:
            yield Hit(
                option,
                f"topic.creation.groups does not list {group[1]!r}, so the option has no effect.",
                "Add the group.",
            )


@book.rule("CC254", ERROR)
def invalid_group_pattern(config: Config) -> Hits:
    for group in _groups(config):
        for option in (f"{_CREATION}{group}.include", f"{_CREATION}{group}.exclude"):
            for pattern in listed(config.get(option)):
                reason = refusal(pattern)
                if reason:
                    yield Hit(
                        option, f"the pattern is not a valid regular expression: {reason}.", "Correct the pattern."
                    )


@book.rule("CC255", WARNING)
def compacted_events(config: Config) -> Hits:
    for option in config.options:
        is_policy = option.startswith(_CREATION) and option.endswith(".cleanup.policy")
        if is_policy and "compact" in config.get(option).lower():
            yield Hit(option, f"{COMPACTION}.", "Set it to delete.")


@book.rule("CC256", WARNING)
def one_replica(config: Config) -> Hits:
    for option in config.options:
        if option.startswith(_CREATION) and option.endswith(".replication.factor") and config.get(option) == "1":
            yield Hit(option, "with one replica events are lost with its broker.", "Set it to 3, or to -1.")


@book.rule("CC257", NOTE)
def one_partition(config: Config) -> Hits:
    for option in config.options:
        group = option.removeprefix(_CREATION).removesuffix(".partitions")
        # A group for one named topic is a deliberate choice.
        named = literal(config.get(f"{_CREATION}{group}.include")) is not None and group != "default"
        if option == f"{_CREATION}{group}.partitions" and config.get(option) == "1" and not named:
            message = "one partition allows one consumer only; adding partitions later breaks the order per aggregate."
            yield Hit(option, message, "Create as many partitions as you will need.")


@book.rule("CC258", NOTE)
def topics_created_by_the_broker(config: Config) -> Hits:
    if config.routers and not any(option.startswith(_CREATION) for option in config.options):
        message = "the broker creates topics with its defaults: often with one partition, or not at all."
        yield Hit(f"{_DEFAULT}partitions", message, f"Set {_DEFAULT}partitions and {_DEFAULT}replication.factor.")


def _groups(config: Config) -> list[str]:
    return [group for group in dict.fromkeys(listed(config.get(f"{_CREATION}groups"))) if group != "default"]
