"""The options that Connect and Debezium know, by version, as `infra/catalogue` found them in the plugins themselves."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from cdc_outbox.databases.database import CAPTURED, DatabaseKind

_FOLDER = Path(__file__).parent

CONNECTORS: Mapping[str, str] = {kind.value: kind.connector_class for kind in CAPTURED}
"""The connectors that there are options of, and the class that each goes by in a config."""

_JDBC = frozenset(CONNECTORS) - {DatabaseKind.MONGODB}
_HISTORY = frozenset(kind.value for kind in CAPTURED if kind.keeps_history)
_PASSED_ON: Mapping[str, frozenset[str]] = {
    # Debezium strips these and gives the rest to a library that it does not know the options of.
    "driver.": _JDBC,
    "schema.history.internal.consumer.": _HISTORY,
    "schema.history.internal.producer.": _HISTORY,
    "signal.consumer.": frozenset(CONNECTORS),
    "snapshot.select.statement.overrides.": frozenset(CONNECTORS),
}

_TOPIC_CREATION = {
    # A worker tells of the groups, not of what a group may have.
    "topic.creation.<group>.exclude": "list",
    "topic.creation.<group>.include": "list",
    "topic.creation.<group>.partitions": "int",
    "topic.creation.<group>.replication.factor": "short",
}
_TO_KAFKA = re.compile(r"(admin|consumer)\.override\..+|topic\.creation\.[^.]+\..+")
"""What Connect passes on without knowing it."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option, as the version that was looked at declares it.

    Args:
        name: May hold groups of a regular expression, as Debezium writes the names of those with an argument.
        type: As Connect names it, in small letters; empty for one that is passed on to a library.
        default: ``None`` for none, or one that depends on the installation.
        allowed: Empty where the plugin reports no closed list.
        aliases: Older names that still work.
        since: The first version that was looked at and has it like this; empty if all older ones do.
        until: The last one; empty if all newer ones do.
    """

    name: str
    type: str
    default: str | None = None
    importance: str = ""
    required: bool = False
    is_reported: bool = True
    """Whether the plugin reports the option to a worker; the others are declared in its classes only."""
    allowed: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    since: str = ""
    until: str = ""

    @property
    def pattern(self) -> re.Pattern[str] | None:
        """What the name matches if it is none by itself."""
        return _pattern(self.name)


@dataclass(frozen=True, slots=True)
class Catalogue:
    """What one version of a connector knows.

    Args:
        version: The one that was looked at.
        exact: Whether that is the one that was asked for; if not, it is the nearest older one.
    """

    connector: str
    version: str
    exact: bool
    options: Mapping[str, Option]
    _of_many_names: Mapping[str, Option] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_of_many_names", {o.name: o for o in self.options.values() if o.aliases or o.pattern})

    def find(self, name: str) -> Option | None:
        """Return the option of this name, by name or by pattern, ``None`` if the connector knows none.

        Connect's own are in :func:`framework`.
        """
        found = self.options.get(name) or _find(self._of_many_names, name)
        prefixes = tuple(prefix for prefix, theirs in _PASSED_ON.items() if self.connector in theirs)
        return found or (Option(name, "", is_reported=False) if name.startswith(prefixes) else None)


@dataclass(frozen=True, slots=True)
class Plugin:
    """A transformation, predicate or converter, and its options in one version."""

    class_name: str
    kinds: tuple[str, ...]
    version: str
    exact: bool
    options: Mapping[str, Option]


@dataclass(frozen=True, slots=True)
class Rename:
    """An option, or a value of one, that has gone, and what took its place.

    Args:
        old: A name, or a prefix that ends with a dot.
        new: Empty if nothing took its place.
        version: The first Debezium version without the old one.
        connectors: Whose option it is, as in :data:`CONNECTORS`.
        plugin: Whose option it is, if a transformation's or converter's.
        value_of: The option whose value it is; empty if it is an option itself.
        same_values: Whether the old option's value can be taken over as it is.
        source: Where it was seen: the commit's or release notes' issue.
    """

    old: str
    new: str
    version: str
    connectors: tuple[str, ...] = ()
    plugin: str = ""
    value_of: str = ""
    same_values: bool = True
    source: str = ""


def versions(connector: str) -> tuple[str, ...]:
    """Return the versions of a connector that were looked at, oldest first."""
    return tuple(_load(connector)["versions"])


@cache
def catalogue(connector: str, version: str = "") -> Catalogue:
    """Return the options of a connector.

    Args:
        connector: One of :data:`CONNECTORS`.
        version: Of Debezium, with or without ``.Final``; the newest that was looked at if not given.
    """
    content = _load(connector)
    chosen, exact = _nearest(content["versions"], version)
    return Catalogue(connector, chosen, exact, options_in(content, chosen))


def find(option: str) -> dict[str, Option]:
    """Return what each connector knows by this name in its newest version, by connector."""
    found = ((connector, catalogue(connector).find(option)) for connector in CONNECTORS)
    return {connector: known for connector, known in found if known is not None}


@cache
def framework() -> Mapping[str, Option]:
    """Return the options of every source connector that are Connect's own."""
    return {
        **_newest("framework"),
        **{name: Option(name, kind, is_reported=False) for name, kind in _TOPIC_CREATION.items()},
    }


@cache
def producer() -> Mapping[str, Option]:
    """Return what may stand behind ``producer.override.``."""
    return _newest("producer")


def find_framework(name: str) -> Option | None:
    """Return the option of Connect's own that a name is, the transformations' common ones and overrides included."""
    override = name.removeprefix("producer.override.")
    found = _find(framework(), name) if override == name else _find(producer(), override)
    if found is None and _TO_KAFKA.fullmatch(name):
        return Option(name, "", is_reported=False)
    return found


@cache
def plugin(class_name: str, version: str = "") -> Plugin | None:
    """Return a transformation, predicate or converter by its class or a short name, ``None`` if it is another's.

    Args:
        version: As for :func:`catalogue`; the plugins that are Kafka's own are known in one version.
    """
    carriers = ((name, file) for file in ("debezium", "connect") for name in _load(file)["plugins"])
    found = [(name, file) for name, file in carriers if class_name in _names(name)]
    # Connect takes a short name only while it is one plugin's.
    if len(found) != 1:
        return None
    [(name, file)] = found
    content = _load(file)["plugins"][name]
    chosen, exact = _nearest(content["versions"], version if file == "debezium" else "")
    return Plugin(name, tuple(content["kinds"]), chosen, exact, options_in(content, chosen))


def plugins() -> tuple[str, ...]:
    """Return the classes of all plugins, sorted."""
    return tuple(sorted({*_load("debezium")["plugins"], *_load("connect")["plugins"]}))


@cache
def renames() -> tuple[Rename, ...]:
    """Return all that has gone since Debezium 1.9, and what took its place."""
    stored = _load("renames")["renames"]
    return tuple(Rename(**{**entry, "connectors": tuple(entry.get("connectors", ()))}) for entry in stored)


def renamed(option: str, connector: str = "", *, plugin: str = "") -> Rename | None:
    """Return what became of an option that a version since 1.9 has lost, ``None`` if nothing is known.

    Args:
        connector: Only what this one has lost.
        plugin: The class whose option it is, of a transformation or converter; a connector's if not given.
    """
    theirs = _renames_of(connector, plugin)
    for entry in theirs:
        if entry.old == option:
            return entry
    for entry in theirs:
        if entry.old.endswith(".") and option.startswith(entry.old):
            return replace(entry, old=option, new=entry.new + option.removeprefix(entry.old))
    return None


@cache
def _renames_of(connector: str, plugin: str) -> tuple[Rename, ...]:
    return tuple(entry for entry in renames() if not entry.value_of and _is_of(entry, connector, plugin))


def renamed_value(option: str, value: str, connector: str = "") -> Rename | None:
    """Return what became of a value of an option, ``None`` if nothing is known."""
    for entry in renames():
        theirs = entry.old == value and entry.value_of and _is_of(entry, connector, "")
        if theirs and _find({entry.value_of: Option(entry.value_of, "")}, option):
            return entry
    return None


def _is_of(entry: Rename, connector: str, plugin: str) -> bool:
    theirs = plugin in _names(entry.plugin) if plugin else not entry.plugin
    return theirs and (not connector or not entry.connectors or connector in entry.connectors)


def unfold(content: Mapping[str, Any]) -> dict[str, dict[str, Option]]:
    """Return the options of each version of a stored file, by version and name."""
    return {version: options_in(content, version) for version in content["versions"]}


def options_in(content: Mapping[str, Any], version: str) -> dict[str, Option]:
    """Return the options of one version of a stored file, by name."""
    order = {each: index for index, each in enumerate(content["versions"])}
    at, newest = order[version], len(order) - 1
    options = map(option_of, content["options"])
    return {
        option.name: option for option in options if order.get(option.since, 0) <= at <= order.get(option.until, newest)
    }


def option_of(row: Sequence[Any]) -> Option:
    """Return the option that a stored line is."""
    name, kind, default, importance, marks, allowed, aliases, since, until = [*row, *_EMPTY[len(row) :]]
    return Option(
        name, kind, default, importance, "r" in marks, "u" not in marks, tuple(allowed), tuple(aliases), since, until
    )


def row_of(option: Option) -> list[Any]:
    """Return an option as it is stored: a line, without what is empty at its end."""
    marks = "r" * option.required + "u" * (not option.is_reported)
    row = [
        *(option.name, option.type, option.default, option.importance, marks),
        *(list(option.allowed), list(option.aliases), option.since, option.until),
    ]
    while row[-1] == _EMPTY[len(row) - 1]:
        row.pop()
    return row


_EMPTY: list[Any] = ["-", "-", None, "", "", [], [], "", ""]
"""A stored line that leaves out everything; a name and a type are always stored."""


@cache
def _load(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((_FOLDER / f"{name}.json").read_text("utf-8"))
    return content


def _newest(part: str) -> Mapping[str, Option]:
    options = map(option_of, _load("connect")[part])
    return {option.name: option for option in options}


def _find(options: Mapping[str, Option], name: str) -> Option | None:
    if name in options:
        return options[name]
    for option in options.values():
        pattern = option.pattern
        if name in option.aliases or (pattern is not None and pattern.fullmatch(name)):
            return option
    return None


@cache
def _pattern(name: str) -> re.Pattern[str] | None:
    if "(" not in name and "<" not in name:
        return None
    return re.compile("".join(map(_piece, re.split(r"(\([^)]*\)|<[^>]*>)", name))))


def _piece(text: str) -> str:
    if text.startswith("<"):
        return "[^.]+"
    # Debezium writes (d+) and means digits.
    return text.replace("(d+)", r"\d+") if text.startswith("(") else re.escape(text)


def _nearest(known: Sequence[str], version: str) -> tuple[str, bool]:
    wanted = version.removesuffix(".Final")
    if not wanted:
        return known[-1], True
    older = [each for each in known if _number(each) <= _number(wanted)]
    return (older[-1] if older else known[0]), wanted in known


def _number(version: str) -> tuple[int, ...]:
    # A pre-release counts as its release: it is nearer to that than to the one before.
    return tuple(int(digits) for digits in re.findall(r"\d+", version)[:3])


def _names(class_name: str) -> tuple[str, ...]:
    """Return the names that Connect takes of a class: whole, its last part, and that without the word for its kind."""
    if "$" in class_name:
        return (class_name,)
    simple = class_name.rsplit(".", 1)[-1]
    return class_name, simple, re.sub(r"(.)(?:Connector|Converter|Transformation|Predicate)$", r"\1", simple)
