"""What a configuration comes to, so that two of them can be compared by what they mean. Pure.

Different notations mean the same: a default that is spelled out, a list in another order, an option by a
name that it had before, a transform under another alias, a predicate that lets everything pass. What no plugin reads
means nothing.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.debezium import options as catalogue
from cdc_outbox.debezium.config import DECODER, IMPLICIT, MONGO_ROUTER, ROUTER, ConfiguredPlugin, Router, listed
from cdc_outbox.debezium.java_regex import InvalidRegexError, literal, matches, read_regex
from cdc_outbox.debezium.java_replacement import ReplacementPart, read_replacement
from cdc_outbox.debezium.lint import RULES, Config
from cdc_outbox.debezium.lint.options import find_rename, find_renamed_value
from cdc_outbox.debezium.options import Option
from cdc_outbox.debezium.options.behavior import Value
from cdc_outbox.debezium.options.lookup import untold_default
from cdc_outbox.debezium.regex_program import Pattern, UnknownRegexError

PLACEHOLDER = "{aggregate_type}"
"""Stands in a topic's name for the aggregate type, as in a spec."""

_DEFAULT_TOPIC = f"outbox.event.{PLACEHOLDER}"
_CONVERTERS = ("key.converter", "value.converter", "header.converter")
_PASSED_ON = ("delegate.converter.type.", "json.", "avro.")
"""What begins so is another converter's, which Debezium's converters have inside; Kafka's have nothing of that name."""
_NUMBERS = {"int", "long", "short"}
_DEAD = {"CC101", "CC103", "CC225", "CC302", "CC319", "CC323", "CC329"}
"""The rules that find options which do nothing."""
_NAMES = re.compile(r".*\.(include|exclude)\.list")
_EVERYTHING = [read_regex(regex).program for regex in (".*", "(.*)")]
"""Regular expressions that take an aggregate type whole."""
_PLUGIN = re.compile(r"(transforms|predicates)(\..*)?")


class Setting(NamedTuple):
    """An option as a configuration has it, and what it comes to."""

    option: str
    value: Value


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionDifference:
    """One thing in which two configurations differ.

    Args:
        key: The option by today's name; a transform's has its class in the alias's place.
        option: As the first configuration has it, or would have it.
        before: ``None`` where it is at its default, or there is none.
        after: Likewise.
    """

    key: str
    option: str
    before: Value | None
    after: Value | None


def differences(before: Config, after: Config) -> tuple[OptionDifference, ...]:
    """Return everything in which two configurations differ by meaning, sorted."""
    first, second = NormalizedConfig(before), NormalizedConfig(after)
    found = (
        OptionDifference(
            key=key,
            option=first.said[key].option if key in first.said else first.option(key),
            before=first.said[key].value if key in first.said else None,
            after=second.said[key].value if key in second.said else None,
        )
        for key in sorted(first.said.keys() | second.said.keys())
    )
    return tuple(each for each in found if each.before != each.after)


def default_of(config: Config, option: str) -> str | None:
    """Return the default of an option of a connector, or of Connect itself; ``None`` if not known."""
    found = _find(config, option)
    return None if found is None else found.default


def topic_template(router: Router) -> str | None:
    """Return where events go, the aggregate type as :data:`PLACEHOLDER`; ``None`` if it cannot be said so."""
    try:
        regex = read_regex(router.get("route.topic.regex", "(?<routedByValue>.*)"))
    except (InvalidRegexError, UnknownRegexError):
        return None
    parts = read_replacement(router.get("route.topic.replacement", "outbox.event.${routedByValue}"), regex.groups)
    if regex.program not in _EVERYTHING or not all(_is_plain(part, regex) for part in parts):
        return None
    return "".join(part.text if part.group is None else PLACEHOLDER for part in parts)


def _is_plain(part: ReplacementPart, regex: Pattern) -> bool:
    """Return whether a part of a topic's replacement is a group that there is, or text like a topic's name."""
    if part.group is None:
        return not part.is_malformed and not set(part.text) & set("$\\{}")
    return part.group in regex.names if isinstance(part.group, str) else part.group <= regex.groups


def in_todays_names(config: Config) -> tuple[Config, Mapping[str, str]]:
    """Return a configuration without names and values of earlier versions, and what was called otherwise before."""
    options: dict[str, str] = {}
    before: dict[str, str] = {}
    for option, value in config.options.items():
        rename, now = find_rename(config, option), find_renamed_value(config, option)
        if rename is not None and rename.new and rename.same_values and not config.has(rename.new):
            before[rename.new] = option
        if now is not None and now.same_values and now.new:
            value = now.new  # noqa: PLW2901 - the same value
        options[next((new for new, old in before.items() if old == option), option)] = value
    return replace(config, options=options), before


class NormalizedConfig:
    """One configuration, as far as anything reads it."""

    def __init__(self, config: Config) -> None:
        self.given = config
        self.config, self._before = in_todays_names(config)

    @cached_property
    def said(self) -> Mapping[str, Setting]:
        """The options that are not at their default, by today's name."""
        found = {"name": Setting("name", self.config.name)} if self.config.name else {}
        for key, (option, value) in (*self._own(), *self._plugins(), *self._converters()):
            found.setdefault(key, Setting(self._before.get(option, option), value))
        return found

    @cached_property
    def idle(self) -> tuple[str, ...]:
        """The options that nothing reads, in their order."""
        return tuple(self._before.get(option, option) for option in self.config.options if self._is_idle(option))

    def option(self, key: str) -> str:
        """Return how this configuration calls, or would call, what goes by a key."""
        for plugin, prefix in self._prefixes:
            if key.startswith(prefix):
                return plugin.prefix + key.removeprefix(prefix)
        return key

    @cached_property
    def _dead(self) -> frozenset[str]:
        rules = (rule for rule in RULES if rule.code in _DEAD)
        return frozenset(hit.option for rule in rules for hit in rule.hits(self.config))

    def _is_idle(self, option: str) -> bool:
        config = self.config
        if option.startswith("transforms."):
            plugin = next((plugin for plugin in config.transforms if option.startswith(plugin.prefix)), None)
            return plugin is None or option in self._dead or not _reads(plugin, option.removeprefix(plugin.prefix))
        if option.startswith("predicates."):
            used = {plugin.get("predicate") for plugin in config.transforms}
            return not any(option.startswith(f"predicates.{alias}.") for alias in used if alias)
        converter = next((each for each in _CONVERTERS if option.startswith(f"{each}.")), None)
        if converter is not None:
            found = catalogue.plugin(config.get(converter))
            own = option.removeprefix(f"{converter}.")
            known = found is None or own in {*found.options, "plugin.version"}
            passed_on = found is not None and found.class_name.startswith("io.debezium.") and own.startswith(_PASSED_ON)
            return not config.has(converter) or not (known or passed_on)
        if option == "tasks.max":
            return config.kind not in {DatabaseKind.SQLSERVER, DatabaseKind.MONGODB, None}
        return option in self._dead and option not in self._of_listed

    @cached_property
    def _of_listed(self) -> frozenset[str]:
        """The options of custom converters and post processors, which have the names that their list gives them."""
        aliases = [*listed(self.config.get("converters")), *listed(self.config.get("post.processors"))]
        prefixes = tuple(f"{alias}." for alias in aliases)
        return frozenset(option for option in self.config.options if prefixes and option.startswith(prefixes))

    def _own(self) -> Iterator[tuple[str, Setting]]:
        """Return what is the connector's, and Connect's."""
        for option in self.config.options:
            if option == "name" or _PLUGIN.fullmatch(option) or option.startswith(_CONVERTERS):
                continue
            if not self.config.has(option) or self._is_idle(option):
                continue
            known = _find(self.config, option)
            key = known.name if known is not None and option in known.aliases else option
            spelled = self._spelled(key, self.config.get(option), known)
            if self._narrows_nothing(key, spelled):
                continue
            if known is None or known.default is None or spelled != self._spelled(key, known.default, known):
                yield key, Setting(option, spelled)

    def _spelled(self, key: str, value: str, known: Option | None) -> Value:
        """Return a value in one of the ways in which it can be written."""
        if key == "connector.class":
            return self.config.kind.connector_class if self.config.kind is not None else value
        if _NAMES.fullmatch(key):
            return tuple(sorted(literal(entry) or entry for entry in listed(value)))
        kind = known.type if known is not None else ""
        if kind == "list":
            return tuple(sorted(listed(value)))
        if kind in _NUMBERS and re.fullmatch(r"[-+]?[0-9]{1,18}", value):
            return str(int(value))
        closed = known is not None and known.allowed
        return value.lower() if kind == "boolean" or closed else value

    def _narrows_nothing(self, key: str, value: Value) -> bool:
        """Return whether a list names what stands before the tables that are captured anyway."""
        if key not in {"schema.include.list", "database.include.list"} or not self.config.tables:
            return False
        if len(self.config.tables) < len(self.config.captured) or isinstance(value, str):
            return False
        before = {table.partition(".")[0] for table in self.config.tables if "." in table}
        return all(any(matches(pattern, each, ignores_case=True) for pattern in value) for each in before)

    @cached_property
    def _prefixes(self) -> tuple[tuple[ConfiguredPlugin, str], ...]:
        """Every transform, with what stands for its alias: its class, and a number if it is not the first of it."""
        found: list[tuple[ConfiguredPlugin, str]] = []
        for plugin in self.config.transforms:
            name = _class_of(plugin).rpartition(".")[2]
            number = 1 + sum(prefix.startswith((f"transforms.{name}.", f"transforms.{name}#")) for _, prefix in found)
            found.append((plugin, f"transforms.{name}{f'#{number}' * (number > 1)}."))
        return tuple(found)

    def _plugins(self) -> Iterator[tuple[str, Setting]]:
        chain = tuple(_class_of(plugin) for plugin in self.config.transforms)
        if chain:
            yield "transforms", Setting("transforms", chain)
        for plugin, prefix in self._prefixes:
            router = next((router for router in self.config.routers if router.alias == plugin.alias), None)
            yield from self._predicate(plugin, prefix)
            known = catalogue.plugin(plugin.type)
            for option in plugin.options:
                whole = plugin.prefix + option
                if option in {"type", "predicate", "negate"} or self._is_idle(whole) or not plugin.get(option):
                    continue
                rename = catalogue.renamed(option, plugin=plugin.type)
                name = rename.new if rename is not None and option not in (known.options if known else ()) else option
                found = known.options.get(name) if known is not None else None
                value = self._spelled_in_plugin(name, plugin, option, found, router)
                if value is not None:
                    yield prefix + name, Setting(whole, value)

    def _spelled_in_plugin(
        self, name: str, plugin: ConfiguredPlugin, option: str, known: Option | None, router: Router | None
    ) -> Value | None:
        """Return an option of a transform, ``None`` if it is at its default."""
        if router is not None and name == router.placement:
            placed = ([*parts, parts[0]][:3] for parts in router.placements)
            # Of two for the same place the order counts.
            placements = sorted(placed, key=lambda parts: parts[1:] if parts[1].lower() != "partition" else parts[1:2])
            return tuple(map(":".join, placements))
        if router is not None and name.startswith("route.topic.") and topic_template(router) is not None:
            template = topic_template(router)
            return None if name.endswith(".regex") or template == _DEFAULT_TOPIC else template
        default = None if known is None else known.default
        default = default or untold_default(f"transforms.{plugin.type.rpartition('.')[2]}.{name}")
        if router is not None and default is not None and self.config.kind is DatabaseKind.ORACLE:
            # The router of Oracle's connector has the names of its columns in capital letters.
            default = default.upper() if name.startswith("table.field.event.") or name == "route.by.field" else default
        if known is not None and known.type == "list":  # a transform may take two lists side by side
            entries = listed(plugin.get(option))
            return None if default is not None and entries == listed(default) else entries
        value = self._spelled(name, plugin.get(option), known)
        return None if default is not None and value == self._spelled(name, default, known) else value

    def _predicate(self, plugin: ConfiguredPlugin, prefix: str) -> Iterator[tuple[str, Setting]]:
        alias = plugin.get("predicate")
        if not alias or (plugin.type in {ROUTER, MONGO_ROUTER, DECODER} and self._sees_everything(plugin)):
            return
        predicate = self.config.predicates.get(alias)
        options = () if predicate is None else tuple(f"{key}={value}" for key, value in predicate.options.items())
        negated = ("not",) if plugin.on("negate") else ()
        yield f"{prefix}predicate", Setting(f"{plugin.prefix}predicate", (*negated, *sorted(options)))

    def _sees_everything(self, plugin: ConfiguredPlugin) -> bool:
        """Return whether a predicate lets every captured table pass; a router passes other records unchanged."""
        all_named = len(self.config.tables) == len(self.config.captured)
        return all_named and bool(self.config.raw_topics) and self.seen_by(plugin) == self.config.raw_topics

    def seen_by(self, plugin: ConfiguredPlugin) -> tuple[str, ...] | None:
        """Return which of the tables' topics a transform sees, ``None`` where that is not known."""
        topics, predicate = self.config.raw_topics, self.config.predicates.get(plugin.get("predicate"))
        if not plugin.get("predicate"):
            return topics
        if predicate is None or not predicate.type.endswith("TopicNameMatches"):
            return None
        found = {topic: matches(predicate.get("pattern"), topic) for topic in topics}
        if None in found.values():
            return None
        return tuple(topic for topic, fits in found.items() if fits is not plugin.on("negate"))

    def _converters(self) -> Iterator[tuple[str, Setting]]:
        for converter in _CONVERTERS:
            found = catalogue.plugin(self.config.get(converter))
            name = self.config.get(converter) if found is None else found.class_name
            if name and name != untold_default(converter):
                yield converter, Setting(converter, name)
            for option in self.config.options:
                if not option.startswith(f"{converter}.") or self._is_idle(option) or not self.config.has(option):
                    continue
                known = None if found is None else found.options.get(option.removeprefix(f"{converter}."))
                value = self._spelled(option, self.config.get(option), known)
                if known is None or known.default is None or value != self._spelled(option, known.default, known):
                    yield option, Setting(option, value)


def _find(config: Config, option: str) -> Option | None:
    version = ".".join(map(str, config.version))
    own = None if config.kind is None else catalogue.catalogue(config.kind, version).find(option)
    return own or catalogue.find_framework(option)


def _class_of(plugin: ConfiguredPlugin) -> str:
    found = catalogue.plugin(plugin.get("type"))
    return plugin.get("type") if found is None else found.class_name


def _reads(plugin: ConfiguredPlugin, option: str) -> bool:
    """Return whether a transform reads an option, as far as is known."""
    found = catalogue.plugin(plugin.get("type"))
    if found is None or option in {*found.options, *IMPLICIT}:
        # Declared, and never read: the router takes no type but from a placed column.
        return not option.endswith(".field.event.type")
    rename = catalogue.renamed(option, plugin=plugin.get("type"))
    return rename is not None and bool(rename.new) and rename.same_values and rename.new not in plugin.options
