"""What Kafka Connect does with a configuration, whoever wrote the connector."""

import re
from difflib import get_close_matches

from cdc_outbox.databases.database import CAPTURED, DatabaseKind
from cdc_outbox.debezium import options
from cdc_outbox.debezium.config import (
    IMPLICIT,
    MONGO_ROUTER,
    ROUTER,
    TOPIC_NAMES,
    Config,
    ConfiguredPlugin,
    class_of,
    listed,
)
from cdc_outbox.debezium.java_regex import refusal
from cdc_outbox.debezium.lint.rule import ERROR, NOTE, WARNING, Hit, Hits, Rulebook
from cdc_outbox.text_files.document import ALIKE_OPTION, did_you_mean

book = Rulebook()

_PRODUCER = "producer.override."
_DEBEZIUM = "io.debezium.transforms."
_OF_CONFLUENT_CLOUD = frozenset(
    {
        *(f"{name}CdcSource{version}" for name in ("Postgres", "MySql", "SqlServer") for version in ("", "V2")),
        *("MariaDbCdcSource", "OracleCdcSource", "OracleXStreamSource", "MongoDbAtlasSource"),
    }
)


_NAMINGS = tuple(
    f"io.debezium.schema.{names}{kind}TopicNamingStrategy"
    for names in ("Default", "Schema")
    for kind in ("", "Regex", "Unicode")
)


@book.rule("CC204", ERROR)
def order_given_away(config: Config) -> Hits:
    option = f"{_PRODUCER}max.in.flight.requests.per.connection"
    several, idempotent = config.number(option, 1), config.on(f"{_PRODUCER}enable.idempotence")
    if several is not None and several > (5 if idempotent else 1):
        message = "several requests are under way at once, and a retry writes events out of order."
        yield Hit(option, message, f"Set {_PRODUCER}enable.idempotence to true, and at most 5.")


@book.rule("CC206", ERROR)
def another_partitioner(config: Config) -> Hits:
    option = f"{_PRODUCER}partitioner.class"
    if config.has(option) and not config.get(option).endswith(".DefaultPartitioner"):
        yield Hit(option, "another partitioner may scatter an aggregate's events over partitions.", "Leave it out.")
    option = f"{_PRODUCER}partitioner.ignore.keys"
    if config.on(option):
        yield Hit(option, "keys are ignored, so an aggregate's events go to any partition.", "Leave it out.")


@book.rule("CC208", WARNING)
def deadline_for_delivery(config: Config) -> Hits:
    option = f"{_PRODUCER}delivery.timeout.ms"
    limit = config.number(option, 2**31 - 1)
    if limit is not None and limit < 2**31 - 1:
        message = "an outage of the broker that lasts longer fails the task, and Connect does not start it again."
        yield Hit(option, message, "Leave it out: Connect waits as long as it takes.")


@book.rule("CC209", ERROR, DatabaseKind.MYSQL, DatabaseKind.MARIADB, DatabaseKind.ORACLE)
def several_tasks(config: Config) -> Hits:
    tasks = config.number("tasks.max", 1)
    if tasks is not None and tasks > 1:
        yield Hit("tasks.max", "this connector refuses to start with more than one task.", "Set it to 1.")


@book.rule("CC210", NOTE, DatabaseKind.POSTGRESQL)
def several_tasks_for_one_slot(config: Config) -> Hits:
    tasks = config.number("tasks.max", 1)
    if tasks is not None and tasks > 1:
        yield Hit("tasks.max", "a slot has one reader: there will be one task.", "Set it to 1.")


@book.rule("CC211", ERROR)
def plugin_without_a_class(config: Config) -> Hits:
    for kind, plugins in _plugins(config):
        for plugin in plugins:
            if not plugin.type:
                yield Hit(
                    f"{plugin.prefix}type", f"the {kind} {plugin.alias!r} has no class.", f"Set {plugin.prefix}type."
                )


@book.rule("CC212", ERROR)
def alias_twice(config: Config) -> Hits:
    for option in ("transforms", "predicates", "topic.creation.groups"):
        aliases = listed(config.get(option))
        if option != "topic.creation.groups" and any(not each.strip() for each in _entries(config.get(option))):
            yield Hit(option, f"{option} has an entry that is empty, which Connect refuses.", "Leave out the comma.")
        for alias in sorted({alias for alias in aliases if aliases.count(alias) > 1}):
            yield Hit(option, f"{alias!r} is listed twice, which Connect refuses.", "Leave one out.")


def _entries(value: str) -> list[str]:
    return value.split(",") if value else []


@book.rule("CC229", ERROR, *CAPTURED)
def router_that_is_not_listed(config: Config) -> Hits:
    for option in config.options:
        alias = re.fullmatch(r"transforms\.([^.]+)\.type", option)
        routes = alias and class_of(config.get(option)) in {ROUTER, MONGO_ROUTER}
        if alias and routes and not config.transforms:
            message = f"the router {alias[1]!r} is not in transforms, so no event is routed."
            yield Hit(option, message, f"Set transforms to {alias[1]}.")


@book.rule("CC213", WARNING)
def plugin_that_is_not_listed(config: Config) -> Hits:
    for kind, plugins in _plugins(config):
        aliases = [plugin.alias for plugin in plugins]
        for option in config.options:
            alias = re.fullmatch(rf"{kind}s\.([^.]+)\.type", option)
            if alias and alias[1] not in aliases:
                offer = did_you_mean(alias[1], aliases) or f"Add it to {kind}s."
                yield Hit(option, f"the {kind} {alias[1]!r} is not in {kind}s, so it does nothing.", offer)


@book.rule("CC214", ERROR)
def predicate_that_is_not_there(config: Config) -> Hits:
    for plugin in config.transforms:
        wanted = plugin.predicate
        if wanted and wanted not in config.predicates:
            offer = did_you_mean(wanted.strip(), list(config.predicates)) or "List it in predicates."
            if wanted.strip() in config.predicates:
                offer = f"Write {wanted.strip()}: Connect takes the blanks for a part of the name."
            yield Hit(f"{plugin.prefix}predicate", f"the predicate {wanted!r} does not exist.", offer)


@book.rule("CC215", NOTE)
def predicate_that_nobody_asks(config: Config) -> Hits:
    asked = {plugin.predicate.strip() for plugin in config.transforms}
    for predicate in config.predicates.values():
        if predicate.alias not in asked:
            yield Hit(
                "predicates", f"no transform asks the predicate {predicate.alias!r}.", "Name it, or leave it out."
            )


@book.rule("CC216", ERROR)
def pattern_that_cannot_be_read(config: Config) -> Hits:
    for predicate in config.predicates.values():
        if predicate.type != TOPIC_NAMES:
            continue
        reason = refusal(predicate.get("pattern"))
        if reason:
            yield Hit(f"{predicate.prefix}pattern", f"no regular expression: {reason}.", "Correct the pattern.")
        if not predicate.get("pattern"):
            yield Hit(f"{predicate.prefix}pattern", f"the predicate {predicate.alias!r} has no pattern.", "Set it.")


@book.rule("CC217", NOTE)
def converters_of_old(config: Config) -> Hits:
    for option in config.options:
        if re.match(r"internal\.(key|value)\.converter(\.|$)", option):
            yield Hit(option, f"{option} is not read since Kafka 3.0.", "Leave it out.")


@book.rule("CC218", ERROR, *CAPTURED)
def boundaries_of_its_own(config: Config) -> Hits:
    if config.get("transaction.boundary").lower() == "connector":
        message = "Debezium defines no transaction boundaries, so Connect refuses to start it."
        yield Hit("transaction.boundary", message, "Set it to poll, or leave it out.")


@book.rule("CC219", NOTE, *CAPTURED)
def more_than_at_least_once(config: Config) -> Hits:
    if config.get("exactly.once.support").lower() == "required":
        message = "Connect's transactions spare the connector's own duplicates, and no others."
        remedy = "Every worker needs exactly.once.source.support=enabled; consumers still need to know what they had."
        yield Hit("exactly.once.support", message, remedy)


@book.rule("CC220", WARNING)
def login_that_runs_code(config: Config) -> Hits:
    for option in config.options:
        value = config.get(option)
        for module in ("JndiLoginModule", "LdapLoginModule"):
            if option.endswith("sasl.jaas.config") and module in value:
                message = f"{module} loads what another server tells it to (CVE-2023-25194, CVE-2025-27818)."
                yield Hit(option, message, "Use the login module of your SASL mechanism.")


@book.rule("CC223", ERROR)
def unknown_class(config: Config) -> Hits:
    for kind, plugins in _plugins(config):
        for plugin in plugins:
            near = meant_class(plugin.get("type"))
            if near:
                yield Hit(f"{plugin.prefix}type", f"there is no {kind} {plugin.type}.", f"Did you mean {near!r}?")
    strategy = config.get("topic.naming.strategy")
    meant = get_close_matches(strategy, _NAMINGS, n=1, cutoff=0.85)
    if meant and strategy not in _NAMINGS:
        yield Hit("topic.naming.strategy", f"there is no strategy {strategy}.", f"Did you mean {meant[0]!r}?")
    connector = _meant_connector(config)
    if connector:
        message = f"there is no connector {config.get('connector.class')}."
        yield Hit("connector.class", message, f"Did you mean {connector!r}?")
    elif (
        config.kind is DatabaseKind.POSTGRESQL and config.version >= (3, 6) and "." not in config.get("connector.class")
    ):
        message = "Connect knows the connector by this name, and Debezium's own code does not: the task fails."
        yield Hit("connector.class", message, f"Write {config.kind.connector_class!r}.")


@book.rule("CC225", WARNING, *CAPTURED)
def dead_letters_of_a_source(config: Config) -> Hits:
    for option in config.options:
        if option.startswith("errors.deadletterqueue."):
            message = "a source connector has no dead letter topic: what fails is in none."
            yield Hit(option, message, "Leave it out.")


@book.rule("CC226", WARNING)
def option_that_a_plugin_does_not_have(config: Config) -> Hits:
    for kind, plugins in _plugins(config):
        for plugin in plugins:
            given = plugin.options.get("type", "").strip()
            found = options.plugin(given, ".".join(map(str, config.version)))
            if found is None or plugin.type in {ROUTER, MONGO_ROUTER}:
                continue
            for option in sorted(plugin.options.keys() - found.options.keys() - {*IMPLICIT}):
                rename = options.renamed(option, plugin=given)
                offer = (
                    f"Write {rename.new}."
                    if rename and rename.new
                    else did_you_mean(option, list(found.options), alike=ALIKE_OPTION)
                )
                message = f"the {kind} {plugin.alias!r} has no option {option!r}, and does not say so."
                yield Hit(plugin.prefix + option, message, offer)


@book.rule("CC224", NOTE)
def connector_of_another_kind(config: Config) -> Hits:
    if config.kind is None and not _meant_connector(config):
        given = config.get("connector.class")
        near = did_you_mean(given, [kind.connector_class for kind in CAPTURED])
        message = "this is none of the six connectors of Debezium, so only what is Connect's was looked at."
        if given in _OF_CONFLUENT_CLOUD:
            message = "Confluent Cloud runs this connector with options of its own, so only Connect's were looked at."
            near = "Its documentation has the names; with Debezium's own connector lint looks at all of them."
        yield Hit("connector.class", message, near)


def _meant_connector(config: Config) -> str:
    """Return the connector whose class is misspelt, empty where the class is right or another vendor's."""
    given = config.get("connector.class")
    names = [name for kind in CAPTURED for name in (kind.connector_class, kind.connector_class.rpartition(".")[2])]
    simple = given.rpartition(".")[2]
    if config.kind is None and given.startswith("io.debezium.connector.") and simple in names:
        return next(name for name in names if name.endswith(f".{simple}"))
    # Debezium's other sources and its sinks have classes that are less alike than this.
    near = get_close_matches(given, names, n=1, cutoff=0.9) if config.kind is None and "Sink" not in given else []
    return near[0] if near else ""


def meant_class(given: str) -> str:
    """Return the plugin whose class is misspelt, empty where it is right, a short name, or another vendor's."""
    known = options.plugins()
    if given in known or f"{given}$Value" in known:
        return ""
    # Of another package of Kafka's or Debezium's, where such a class is not.
    simple = given.rpartition(".")[2]
    for vendor in ("io.debezium.", "org.apache.kafka."):
        names = [name for name in known if name.startswith(vendor) and name.partition("$")[0].endswith(f".{simple}")]
        if given.startswith(vendor) and names:
            return names[-1]
    # Others have classes of these names too: only what looks like a slip of the pen is one.
    cutoff = 0.85 if given.startswith("io.debezium.") else 0.95
    near = get_close_matches(given, known, n=1, cutoff=cutoff)
    return near[0] if near else ""


def _plugins(config: Config) -> tuple[tuple[str, tuple[ConfiguredPlugin, ...]], ...]:
    return ("transform", config.transforms), ("predicate", tuple(config.predicates.values()))
