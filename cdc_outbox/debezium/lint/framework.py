"""Rules about options of Kafka Connect itself, which apply to every connector."""

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
def requests_in_flight_without_idempotence(config: Config) -> Hits:
    option = f"{_PRODUCER}max.in.flight.requests.per.connection"
    several, idempotent = config.number(option, 1), config.on(f"{_PRODUCER}enable.idempotence")
    if several is not None and several > (5 if idempotent else 1):
        message = "several requests may be in flight at once, so a retry may write events out of order."
        yield Hit(option, message, f"Set {_PRODUCER}enable.idempotence to true, and this option to at most 5.")


@book.rule("CC206", ERROR)
def custom_partitioner(config: Config) -> Hits:
    option = f"{_PRODUCER}partitioner.class"
    if config.has(option) and not config.get(option).endswith(".DefaultPartitioner"):
        yield Hit(
            option, "a custom partitioner may write an aggregate's events to several partitions.", "Remove the option."
        )
    option = f"{_PRODUCER}partitioner.ignore.keys"
    if config.on(option):
        yield Hit(
            option, "the partitioner ignores keys: an aggregate's events go to any partition.", "Remove the option."
        )


@book.rule("CC208", WARNING)
def delivery_timeout(config: Config) -> Hits:
    option = f"{_PRODUCER}delivery.timeout.ms"
    limit = config.number(option, 2**31 - 1)
    if limit is not None and limit < 2**31 - 1:
        message = "a longer outage of the broker fails the task, and Connect does not restart a failed task."
        yield Hit(option, message, "Remove the option; Connect then retries without a time limit.")


@book.rule("CC209", ERROR, DatabaseKind.MYSQL, DatabaseKind.MARIADB, DatabaseKind.ORACLE)
def more_than_one_task(config: Config) -> Hits:
    tasks = config.number("tasks.max", 1)
    if tasks is not None and tasks > 1:
        yield Hit("tasks.max", "this connector does not support more than one task.", "Set it to 1.")


@book.rule("CC210", NOTE, DatabaseKind.POSTGRESQL)
def tasks_max_without_effect(config: Config) -> Hits:
    tasks = config.number("tasks.max", 1)
    if tasks is not None and tasks > 1:
        yield Hit("tasks.max", "the connector creates one task only, because a slot has one consumer.", "Set it to 1.")


@book.rule("CC211", ERROR)
def plugin_without_class(config: Config) -> Hits:
    for kind, plugins in _plugins(config):
        for plugin in plugins:
            if not plugin.type:
                yield Hit(
                    f"{plugin.prefix}type", f"the {kind} {plugin.alias!r} has no class.", f"Set {plugin.prefix}type."
                )


@book.rule("CC212", ERROR)
def duplicate_alias(config: Config) -> Hits:
    for option in ("transforms", "predicates", "topic.creation.groups"):
        aliases = listed(config.get(option))
        if option != "topic.creation.groups" and any(not each.strip() for each in _entries(config.get(option))):
            yield Hit(option, f"{option} contains an empty entry, which Connect refuses.", "Remove the extra comma.")
        for alias in sorted({alias for alias in aliases if aliases.count(alias) > 1}):
            yield Hit(option, f"{alias!r} is listed twice, which Connect refuses.", "Remove one of them.")


def _entries(value: str) -> list[str]:
    return value.split(",") if value else []


@book.rule("CC229", ERROR, *CAPTURED)
def unlisted_router(config: Config) -> Hits:
    for option in config.options:
        alias = re.fullmatch(r"transforms\.([^.]+)\.type", option)
        routes = alias and class_of(config.get(option)) in {ROUTER, MONGO_ROUTER}
        if alias and routes and not config.transforms:
            message = f"transforms does not list the router {alias[1]!r}, so Connect does not route events."
            yield Hit(option, message, f"Set transforms to {alias[1]}.")


@book.rule("CC213", WARNING)
def unlisted_plugin(config: Config) -> Hits:
    for kind, plugins in _plugins(config):
        aliases = [plugin.alias for plugin in plugins]
        for option in config.options:
            alias = re.fullmatch(rf"{kind}s\.([^.]+)\.type", option)
            if alias and alias[1] not in aliases:
                offer = did_you_mean(alias[1], aliases) or f"Add it to {kind}s."
                yield Hit(option, f"{kind}s does not list the {kind} {alias[1]!r}, so it has no effect.", offer)


@book.rule("CC214", ERROR)
def missing_predicate(config: Config) -> Hits:
    for plugin in config.transforms:
        wanted = plugin.predicate
        if wanted and wanted not in config.predicates:
            offer = did_you_mean(wanted.strip(), list(config.predicates)) or "Add it to predicates."
            if wanted.strip() in config.predicates:
                offer = f"Write {wanted.strip()}: Connect reads the spaces as a part of the name."
            yield Hit(f"{plugin.prefix}predicate", f"the predicate {wanted!r} does not exist.", offer)


@book.rule("CC215", NOTE)
def unused_predicate(config: Config) -> Hits:
    asked = {plugin.predicate.strip() for plugin in config.transforms}
    for predicate in config.predicates.values():
        if predicate.alias not in asked:
            yield Hit("predicates", f"no transform uses the predicate {predicate.alias!r}.", "Use it, or remove it.")


@book.rule("CC216", ERROR)
def invalid_predicate_pattern(config: Config) -> Hits:
    for predicate in config.predicates.values():
        if predicate.type != TOPIC_NAMES:
            continue
        reason = refusal(predicate.get("pattern"))
        if reason:
            yield Hit(
                f"{predicate.prefix}pattern",
                f"the pattern is not a valid regular expression: {reason}.",
                "Correct the pattern.",
            )
        if not predicate.get("pattern"):
            yield Hit(
                f"{predicate.prefix}pattern", f"the predicate {predicate.alias!r} has no pattern.", "Set the pattern."
            )


@book.rule("CC217", NOTE)
def removed_worker_converters(config: Config) -> Hits:
    for option in config.options:
        if re.match(r"internal\.(key|value)\.converter(\.|$)", option):
            yield Hit(option, f"Kafka ignores {option} since version 3.0.", "Remove the option.")


@book.rule("CC218", ERROR, *CAPTURED)
def unsupported_transaction_boundary(config: Config) -> Hits:
    if config.get("transaction.boundary").lower() == "connector":
        message = "Debezium defines no transaction boundaries, so Connect refuses the configuration."
        yield Hit("transaction.boundary", message, "Set it to poll, or remove the option.")


@book.rule("CC219", NOTE, *CAPTURED)
def exactly_once_support(config: Config) -> Hits:
    if config.get("exactly.once.support").lower() == "required":
        message = "Connect's transactions prevent only the connector's own duplicates."
        remedy = "Set exactly.once.source.support=enabled on every worker, and keep detecting duplicates in consumers."
        yield Hit("exactly.once.support", message, remedy)


@book.rule("CC220", WARNING)
def unsafe_login_module(config: Config) -> Hits:
    for option in config.options:
        value = config.get(option)
        for module in ("JndiLoginModule", "LdapLoginModule"):
            if option.endswith("sasl.jaas.config") and module in value:
                message = f"{module} may load code from a remote server (CVE-2023-25194, CVE-2025-27818)."
                yield Hit(option, message, "Use the login module of your SASL mechanism.")


@book.rule("CC223", ERROR)
def misspelt_class(config: Config) -> Hits:
    for kind, plugins in _plugins(config):
        for plugin in plugins:
            near = meant_class(plugin.get("type"))
            if near:
                yield Hit(
                    f"{plugin.prefix}type", f"the {kind} class {plugin.type} does not exist.", f"Did you mean {near!r}?"
                )
    strategy = config.get("topic.naming.strategy")
    meant = get_close_matches(strategy, _NAMINGS, n=1, cutoff=0.85)
    if meant and strategy not in _NAMINGS:
        yield Hit("topic.naming.strategy", f"the class {strategy} does not exist.", f"Did you mean {meant[0]!r}?")
    connector = _meant_connector(config)
    if connector:
        message = f"the connector class {config.get('connector.class')} does not exist."
        yield Hit("connector.class", message, f"Did you mean {connector!r}?")
    elif (
        config.kind is DatabaseKind.POSTGRESQL and config.version >= (3, 6) and "." not in config.get("connector.class")
    ):
        message = "Connect accepts this short name and Debezium does not: the task fails."
        yield Hit("connector.class", message, f"Write {config.kind.connector_class!r}.")


@book.rule("CC225", WARNING, *CAPTURED)
def dead_letter_queue_of_a_source(config: Config) -> Hits:
    for option in config.options:
        if option.startswith("errors.deadletterqueue."):
            message = "a source connector has no dead letter queue: the option has no effect."
            yield Hit(option, message, "Remove the option.")


@book.rule("CC226", WARNING)
def unknown_plugin_option(config: Config) -> Hits:
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
                message = f"the {kind} {plugin.alias!r} has no option {option!r}, and ignores it without an error."
                yield Hit(plugin.prefix + option, message, offer)


@book.rule("CC224", NOTE)
def other_connector(config: Config) -> Hits:
    if config.kind is None and not _meant_connector(config):
        given = config.get("connector.class")
        near = did_you_mean(given, [kind.connector_class for kind in CAPTURED])
        message = "this is not one of Debezium's six connectors: only options of Connect were checked."
        if given in _OF_CONFLUENT_CLOUD:
            message = "this connector of Confluent Cloud has its own options: only options of Connect were checked."
            near = "See its documentation for the options; lint checks all options of Debezium's own connector."
        yield Hit("connector.class", message, near)


def _meant_connector(config: Config) -> str:
    """Return the connector whose class is misspelt, empty if the class is correct or another vendor's."""
    given = config.get("connector.class")
    names = [name for kind in CAPTURED for name in (kind.connector_class, kind.connector_class.rpartition(".")[2])]
    simple = given.rpartition(".")[2]
    if config.kind is None and given.startswith("io.debezium.connector.") and simple in names:
        return next(name for name in names if name.endswith(f".{simple}"))
    # Debezium's other sources and its sinks have classes that are less alike than this.
    near = get_close_matches(given, names, n=1, cutoff=0.9) if config.kind is None and "Sink" not in given else []
    return near[0] if near else ""


def meant_class(given: str) -> str:
    """Return the plugin whose class is misspelt, empty if it is correct, a short name, or another vendor's."""
    known = options.plugins()
    if given in known or f"{given}$Value" in known:
        return ""
    # A class of Kafka or Debezium in the wrong package.
    simple = given.rpartition(".")[2]
    for vendor in ("io.debezium.", "org.apache.kafka."):
        names = [name for name in known if name.startswith(vendor) and name.partition("$")[0].endswith(f".{simple}")]
        if given.startswith(vendor) and names:
            return names[-1]
    # Other vendors have classes of the same names: only a likely typing error counts.
    cutoff = 0.85 if given.startswith("io.debezium.") else 0.95
    near = get_close_matches(given, known, n=1, cutoff=cutoff)
    return near[0] if near else ""


def _plugins(config: Config) -> tuple[tuple[str, tuple[ConfiguredPlugin, ...]], ...]:
    return ("transform", config.transforms), ("predicate", tuple(config.predicates.values()))
