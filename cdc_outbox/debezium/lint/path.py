"""The path of a typical row: capture filter → transforms in order, with their predicates → topic. Pure.

Rules about lost events use these paths, and compare no patterns themselves. A path ends if the next step is not known:
at an unknown transform, or at an expression that Java may interpret differently. Rules report nothing after it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import takewhile

from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.debezium.config import TOPIC_NAMES, Config, ConfiguredPlugin, Router, listed
from cdc_outbox.debezium.event_router import Change, ConnectRecord, ConnectType, ConnectValue, EventRouter
from cdc_outbox.debezium.java_regex import literal, matches
from cdc_outbox.debezium.lint.records import change, heartbeat, logical_message, typical_row
from cdc_outbox.debezium.lint.routers import compiled_router, routed
from cdc_outbox.debezium.lint.transforms import holds, keeps_topic, transformed
from cdc_outbox.errors import ConfigError, RoutingError

_MOST_TRANSFORMS = 50
FEW = 20
"""Maximum number of tables whose rows are followed."""
_SCHEMAS = {DatabaseKind.POSTGRESQL: "public", DatabaseKind.SQLSERVER: "dbo"}
_OTHER_ROW = {"cdc_outbox_other": ConnectValue(ConnectType.STRING, "x")}
"""A row of a table that is not an outbox: it has no column of an outbox."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathStep:
    """One transform on a record's path.

    Args:
        runs: Whether its predicate selects the record.
        after: ``None`` if the record is dropped, or the task fails.
        failure: The reason why the task fails, empty if it does not.
    """

    transform: ConfiguredPlugin
    runs: bool
    before: ConnectRecord
    after: ConnectRecord | None
    failure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """One record's path.

    Args:
        table: As in include lists, empty if its name is not known.
        start: Before the first transform; its topic is empty if it is not known.
        steps: Up to the first step whose result is not known.
    """

    table: str
    start: ConnectRecord
    steps: tuple[PathStep, ...]

    def step(self, plugin: ConfiguredPlugin) -> PathStep | None:
        """Return the step at a transform, ``None`` if the record does not reach it, or if that is not known."""
        return next((step for step in self.steps if step.transform.alias == plugin.alias), None)

    @property
    def topic(self) -> str:
        """The topic as far as the path is known; empty if it is not known, or the record is dropped."""
        end = self.steps[-1].after if self.steps else self.start
        return "" if end is None else end.topic


@dataclass(frozen=True, slots=True)
class Paths:
    """The typical records of one configuration.

    Args:
        outboxes: A path for each captured outbox, or one for a table with an unknown name.
    """

    config: Config
    routers: dict[str, tuple[EventRouter, bool] | RoutingError]
    row: dict[str, ConnectValue]
    outboxes: tuple[Path, ...] = field(default=())

    def of_other(self, table: str) -> list[Path]:
        """Return the paths of a row of a table that is not an outbox; empty for a table with an unknown name."""
        topics = self.config.topics_of(table) if table else ()
        of_mongo = self.config.kind is DatabaseKind.MONGODB
        return [self.walk(change(topic, _OTHER_ROW, of_mongo=of_mongo), table) for topic in topics or [""]]

    def of_heartbeats(self) -> Path:
        """Return the path of a heartbeat."""
        prefix = self.config.get("topic.heartbeat.prefix", "__debezium-heartbeat")
        return self.walk(heartbeat(f"{prefix}.{self.config.get('topic.prefix')}"), "")

    def topic_by(self, router: Router, step: PathStep) -> str:
        """Return the topic of a router with a predicate for a row that another one routes, empty if not known."""
        try:
            after = self._apply(router, step.before) if router.predicate else None
        except (ConfigError, RoutingError):
            return ""
        return "" if after is None else after.topic

    def walk(self, record: ConnectRecord, table: str, *, is_outbox: bool = False) -> Path:
        """Follow a record.

        Args:
            is_outbox: Whether a router receives it if the topic, and so the predicate's result, is not known.
        """
        start, steps = record, []
        for plugin in self.config.transforms[:_MOST_TRANSFORMS]:
            try:
                runs = self._runs(plugin, record, is_outbox=is_outbox)
                after = self._apply(plugin, record) if runs else record
            except ConfigError:
                break
            except RoutingError as error:
                steps.append(PathStep(transform=plugin, runs=True, before=record, after=None, failure=str(error)))
                break
            steps.append(PathStep(transform=plugin, runs=runs, before=record, after=after))
            if after is None:
                break
            record = after
        return Path(table=table, start=start, steps=tuple(steps))

    def _runs(self, plugin: ConfiguredPlugin, record: ConnectRecord, *, is_outbox: bool) -> bool:
        name = plugin.predicate
        if not name:
            return True
        predicate = self.config.predicates.get(name)
        if predicate is None:
            raise ConfigError(f"there is no predicate {name}")
        if is_outbox and not record.topic and predicate.type == TOPIC_NAMES and plugin.alias in self.routers:
            return True
        try:
            return holds(predicate, record) is not plugin.on("negate")
        except ConfigError:
            expected = self._expected_result(plugin, record) if is_outbox else None
            if expected is None:
                raise
            return expected is not plugin.on("negate")

    def _expected_result(self, plugin: ConfiguredPlugin, record: ConnectRecord) -> bool | None:
        """Return the result that the only router's predicate must have so that a row is routed.

        With another result the row is not routed, and later transforms do not matter. ``None`` for other predicates.
        """
        if len(self.config.routers) != 1 or not isinstance(record.value, Change):
            return None
        [router] = self.config.routers
        asks_the_same = plugin.predicate == router.predicate
        is_first = plugin.alias == router.alias or (asks_the_same and sees_raw_topics(self.config, router))
        return not router.on("negate") if is_first else None

    def _apply(self, plugin: ConfiguredPlugin, record: ConnectRecord) -> ConnectRecord | None:
        known = self.routers.get(plugin.alias)
        if isinstance(known, RoutingError):
            raise known
        if known is None:
            return transformed(plugin, record, self.row)
        router = next(router for router in self.config.routers if router.alias == plugin.alias)
        return routed(router, known[0], record, knows_topic=known[1])


@lru_cache(maxsize=4)
def paths_of(config: Config) -> Paths:
    """Return the paths of a configuration's typical rows. Cached: every rule uses the same ones."""
    routers = dict(_routers(config))
    compiled = [found[0] for found in routers.values() if not isinstance(found, RoutingError)]
    paths = Paths(config, routers, typical_row(compiled))
    if config.reads_messages:
        starts = [("message", logical_message(topic)) for topic in config.topics_of("message") or [""]]
    else:
        of_mongo = config.kind is DatabaseKind.MONGODB
        starts = [(table, change(topic, paths.row, of_mongo=of_mongo)) for table, topic in _outbox_topics(config)]
    return Paths(config, routers, paths.row, tuple(paths.walk(start, name, is_outbox=True) for name, start in starts))


def _routers(config: Config) -> Iterator[tuple[str, tuple[EventRouter, bool] | RoutingError]]:
    for router in config.routers[:_MOST_TRANSFORMS]:
        try:
            yield router.alias, compiled_router(router, config)
        except RoutingError as error:
            yield router.alias, error
        except (ConfigError, RecursionError):
            continue


def _outbox_topics(config: Config) -> list[tuple[str, str]]:
    """Return the captured outboxes, each with a topic before routing, which is empty if it is not known."""
    tables = [table for table in named_outboxes(config) if find_exclusion(config, table) is None]
    return [(table, topic) for table in tables for topic in config.topics_of(table) or [""]] or [("", "")]


def named_outboxes(config: Config) -> list[str]:
    """Return the tables that the include list or the routers' predicates name as outboxes."""
    included = list(config.tables)
    found = [table for table in included if is_outbox(table)] or included
    return list(dict.fromkeys(found or _named_by_predicates(config)))[:FEW]


def is_outbox(pattern: str) -> bool:
    """Return whether a table's name contains "outbox"."""
    return "outbox" in pattern.lower()


def _named_by_predicates(config: Config) -> Iterator[str]:
    start = f"{config.get('topic.prefix')}{config.get('topic.delimiter', '.')}"
    for router in config.routers:
        predicate = config.predicates.get(router.predicate)
        if predicate is None or predicate.type != TOPIC_NAMES or router.on("negate"):
            continue
        topic = literal(predicate.get("pattern"))
        if topic is None or not topic.startswith(start) or not sees_raw_topics(config, router):
            continue
        for table in _tables_of(config, topic.removeprefix(start)):
            if config.topics_of(table):
                yield table


def sees_raw_topics(config: Config, router: Router) -> bool:
    """Return whether the topics that a router's predicate receives are those of tables."""
    before = takewhile(lambda plugin: plugin.alias != router.alias, config.transforms)
    return all(map(keeps_topic, before))


def _tables_of(config: Config, name: str) -> Iterator[str]:
    """Yield the tables to which a topic name without its prefix may belong."""
    delimiter = config.get("topic.delimiter", ".")
    parts = name.split(delimiter)
    if config.kind is DatabaseKind.SQLSERVER:
        parts = parts[1:]
    if len(parts) == 2:
        yield ".".join(parts)


def names_database(config: Config, table: str) -> bool:
    """Return whether a table's name includes its database, while Debezium compares schema and table alone."""
    compares_schemas = config.kind in {DatabaseKind.POSTGRESQL, DatabaseKind.SQLSERVER, DatabaseKind.ORACLE}
    # With escaped dots one of them may belong to a name.
    return compares_schemas and table.count(".") == 2 and "\\." not in config.get("table.include.list")


def find_exclusion(config: Config, table: str) -> str | None:
    """Return the option that excludes a table from capture, ``None`` if there is none, or if that is not known.

    Debezium ignores case, and compares names literally if ``filters.match.mode`` is ``literal``.
    """
    if config.kind is None or config.reads_messages:
        return None
    around, noun = config.kind.nouns
    if names_database(config, table):
        return f"{noun}.include.list"
    fits = _comparison(config)
    for name, what in ((around, table.rpartition(".")[0]), (noun, table)):
        included, excluded = (listed(config.get(f"{name}.{which}.list")) for which in ("include", "exclude"))
        if included and all(fits(pattern, what) is False for pattern in included):
            return f"{name}.include.list"
        if not included and any(fits(pattern, what) for pattern in excluded):
            return f"{name}.exclude.list"
    return None


def _comparison(config: Config) -> Callable[[str, str], bool | None]:
    if config.kind is DatabaseKind.MONGODB and config.get("filters.match.mode").lower() == "literal":
        return lambda pattern, text: pattern.lower() == text.lower()
    return lambda pattern, text: matches(pattern, text, ignores_case=True)


def imagined_table(config: Config, pattern: str = "") -> str:
    """Return an invented table that is not an outbox and that would be captured, empty if none is found.

    Args:
        pattern: A pattern of an include list that the table must match.
    """
    kind = config.kind
    named = [table.rpartition(".")[0] for table in named_outboxes(config)]
    listed_literally = [literal(each) for each in listed(config.get(f"{kind.nouns[0]}.include.list"))] if kind else []
    default = _SCHEMAS[kind] if kind in _SCHEMAS else config.get("database.dbname", "app")
    begins = [literal(pattern.partition(r"\.")[0].partition(".")[0])]
    for around in (*begins, *named, *listed_literally, default):
        table = f"{around}.customers"
        fits = not pattern or matches(pattern, table, ignores_case=True)
        if around and fits and find_exclusion(config, table) is None:
            return table
    return ""


def reaches(config: Config, router: Router, table: str) -> bool:
    """Return whether a row of a table that is not an outbox reaches a router as a change, which fails the task."""
    steps = [path.step(router) for path in paths_of(config).of_other(table)]
    return any(step is not None and step.runs and isinstance(step.before.value, Change) for step in steps)
