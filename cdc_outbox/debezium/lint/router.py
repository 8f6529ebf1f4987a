"""Rules about options of the EventRouter: Connect's ``/validate`` checks only the booleans among them."""

import re
from collections.abc import Iterator
from dataclasses import replace

from cdc_outbox.databases.database import CAPTURED, DatabaseKind
from cdc_outbox.debezium.config import BINLOG, IMPLICIT, Config, Router, listed
from cdc_outbox.debezium.java_regex import matches
from cdc_outbox.debezium.lint.routers import compiled_router
from cdc_outbox.debezium.lint.rule import ERROR, NOTE, WARNING, Hit, Hits, Rulebook
from cdc_outbox.debezium.options import plugin, renamed
from cdc_outbox.errors import ConfigError, RoutingError
from cdc_outbox.text_files.document import ALIKE_OPTION, did_you_mean, nearest

book = Rulebook()

_MANY = 100
"""Maximum number of unknown options that are checked."""
_FEW = 50
"""Maximum number of columns, tables and patterns that are compared."""
_LATER = {"field.additional.missing": (3, 6), "json.payload.empty.array.behavior": (3, 7)}
_VALUES = {
    "op.invalid.behavior": ("warn", "error", "fatal"),
    "field.additional.missing": ("error", "ignore"),
    "json.payload.null.behavior": ("ignore", "optional_bytes"),
    "json.payload.empty.array.behavior": ("ignore", "optional_string"),
}
_STAYS = {"avro": re.compile(r"[A-Za-z_][A-Za-z0-9_]*"), "avro_unicode": re.compile(r"[A-Za-z][A-Za-z0-9]*")}
"""Column names that ``field.name.adjustment.mode`` does not change."""
_TRUTHS = ("expand.json.payload", "fields.additional.error.on.missing")


@book.router_rule("CC301", ERROR)
def misspelt_option(config: Config, router: Router) -> Hits:
    for option, meant in _unknown_options(config, router):
        if meant and _changes(config, router, option, meant):
            message = f"the router has no option {option!r}, and ignores it without an error."
            yield Hit(router.prefix + option, message, f"Did you mean {meant!r}?")


@book.router_rule("CC226", WARNING)
def unknown_option(config: Config, router: Router) -> Hits:
    for option, meant in _unknown_options(config, router):
        if not meant or not _changes(config, router, option, meant):
            message = f"the router has no option {option!r}, and ignores it without an error."
            yield Hit(router.prefix + option, message, f"Did you mean {meant!r}?" if meant else "")


def _unknown_options(config: Config, router: Router) -> Iterator[tuple[str, str]]:
    """Yield each unknown option with the known option that it resembles, empty if there is none."""
    found = plugin(router.type, ".".join(map(str, config.version)))
    known = [*IMPLICIT, *(found.options if found is not None else ())]
    unknown = router.options.keys() - {*known, *_found_elsewhere(router)} if found is not None else ()
    for option in sorted(unknown)[:_MANY]:
        rename = renamed(option, plugin=router.type)
        yield option, (rename.new if rename else "") or nearest(option, known, alike=ALIKE_OPTION)


def _changes(config: Config, router: Router, option: str, meant: str) -> bool:
    """Return whether routing would differ if an option had the name that it resembles."""
    kept = {name: value for name, value in router.options.items() if name != option}
    other = replace(router, options={**kept, meant: router.options[option]})
    if meant in IMPLICIT or other.expands is not router.expands:
        return True
    try:
        return compiled_router(router, config) != compiled_router(other, config)
    except (ConfigError, RoutingError):
        return True


def _found_elsewhere(router: Router) -> set[str]:
    """Return the wrong names that another rule reports."""
    renamed = {f"{router.table}.fields.additional.error.on.missing", *(f"{router.table}.{name}" for name in _LATER)}
    return renamed | ({"collection.op.invalid.behavior"} if router.of_mongo else set())


@book.router_rule("CC302", WARNING)
def event_type_without_effect(config: Config, router: Router) -> Hits:
    option = f"{router.table}.field.event.type"
    column = router.get(option)
    if column and column not in {parts[0] for parts in router.placements}:
        message = f"the router does not read {option}: messages do not contain the event type."
        yield Hit(router.prefix + option, message, f"Write {router.placement}={column}:header:eventType instead.")


@book.router_rule("CC309", ERROR)
def unknown_behavior(config: Config, router: Router) -> Hits:
    for prefix in ("table", router.table):
        for name, values in _VALUES.items():
            option = f"{prefix}.{name}"
            if option in router.options and router.get(option).lower() not in values:
                message = f"{option} must be one of {', '.join(values)}; the task fails when it starts."
                yield Hit(router.prefix + option, message, did_you_mean(router.get(option).lower(), list(values)))
        if prefix == router.table == "table":
            return


@book.router_rule("CC310", ERROR)
def invalid_boolean(config: Config, router: Router) -> Hits:
    truths = [f"{router.table}.{name}" for name in _TRUTHS]
    for option in (*truths, "route.tombstone.on.empty.payload", "tracing.with.context.field.only", "negate"):
        if router.options.get(option, "true").strip().lower() not in {"true", "false"}:
            yield Hit(router.prefix + option, f"{option} must be true or false.", "Write true or false.")


@book.router_rule("CC317", WARNING)
def event_id_as_key(config: Config, router: Router) -> Hits:
    key, event = router.column("key", "aggregateid"), router.column("id", "_id" if router.of_mongo else "id")
    if key == event:
        message = "the key is the event's id: an aggregate's events go to several partitions and lose their order."
        yield Hit(
            f"{router.prefix}{router.table}.field.event.key",
            message,
            "Use the column with the aggregate's id as the key.",
        )


@book.router_rule("CC318", ERROR)
def empty_column_name(config: Config, router: Router) -> Hits:
    columns = [f"{router.table}.field.event.{role}" for role in ("id", "key", "payload", "timestamp")]
    for option in (*columns, "route.by.field"):
        if option in router.options and not router.get(option):
            yield Hit(
                router.prefix + option,
                f"{option} is empty, and the task fails.",
                "Remove the option, or name a column.",
            )


@book.router_rule("CC319", WARNING)
def version_without_envelope(config: Config, router: Router) -> Hits:
    option = f"{router.table}.field.event.schema.version"
    if router.get(option) and not router.has_envelope:
        message = f"{option} has no effect: only an envelope has a schema version."
        yield Hit(router.prefix + option, message, "Remove the option, or place a column in the envelope.")


@book.router_rule("CC320", ERROR)
def version_with_expansion(config: Config, router: Router) -> Hits:
    option = f"{router.table}.field.event.schema.version"
    if router.get(option) and router.has_envelope and router.expands:
        message = "the router keeps one schema for each version: a payload with another structure fails the task."
        yield Hit(router.prefix + option, message, "Remove the version, or disable expansion.")


@book.router_rule("CC321", WARNING)
def expanded_payload(config: Config, router: Router) -> Hits:
    if router.expands and not config.expands_shapes:
        message = "expansion drops nulls and empty lists, rounds decimals, and fails the task on a top-level list."
        remedy = "Use StringConverter without expansion, which passes JSON on unchanged."
        if router.of_mongo:
            message = (
                "expansion fails the task on a list with values of different types, such as [1, 1.5] or [null, 1]."
            )
            remedy = "Store the payload as text, which is not expanded."
        yield Hit(f"{router.prefix}{router.table}.expand.json.payload", message, remedy)


@book.router_rule("CC322", ERROR)
def adjusted_field_names(config: Config, router: Router) -> Hits:
    mode = router.get("field.name.adjustment.mode").lower()
    if mode not in {"", "none"} and router.expands:
        message = "expansion sets every field to null whose name it adjusts."
        yield Hit(
            f"{router.prefix}field.name.adjustment.mode",
            message,
            "Remove the option, and choose field names that need no adjustment.",
        )


@book.router_rule("CC323", NOTE)
def expansion_option_without_expansion(config: Config, router: Router) -> Hits:
    for name in ("json.payload.null.behavior", "json.payload.empty.array.behavior"):
        if f"table.{name}" in router.options and not router.expands:
            yield Hit(
                f"{router.prefix}table.{name}", f"table.{name} has no effect without expansion.", "Remove the option."
            )


@book.router_rule("CC324", WARNING)
def renamed_option_for_missing_columns(config: Config, router: Router) -> Hits:
    option = f"{router.table}.fields.additional.error.on.missing"
    ignores = router.get(f"{router.table}.field.additional.missing").lower() == "ignore"
    if option in router.options and config.version >= (3, 6) and not router.on(option) and not ignores:
        message = f"Debezium ignores {option} since 3.6: a row without a placed column fails the task."
        yield Hit(router.prefix + option, message, f"Write {router.table}.field.additional.missing=ignore.")


@book.router_rule("CC325", WARNING)
def option_of_a_later_version(config: Config, router: Router) -> Hits:
    for name, since in _LATER.items():
        option = f"{router.table}.{name}"
        if option in router.options and config.version < since and not _is_set_by_older_name(router, name):
            message = f"{option} has no effect before Debezium {'.'.join(map(str, since))}."
            yield Hit(router.prefix + option, message, "Upgrade Debezium, or remove the option.")


def _is_set_by_older_name(router: Router, name: str) -> bool:
    """Return whether the option's older name, which MongoDB's router never had, sets the same."""
    ignored = name == "field.additional.missing" and router.get(f"table.{name}").lower() == "ignore"
    return ignored and router.get("table.fields.additional.error.on.missing").lower() == "false"


@book.router_rule("CC326", ERROR, DatabaseKind.MONGODB)
def event_router_on_mongodb(config: Config, router: Router) -> Hits:
    if not router.of_mongo:
        yield Hit(f"{router.prefix}type", "EventRouter cannot read MongoDB's documents.", "Use MongoEventRouter.")


@book.router_rule("CC327", ERROR, *(kind for kind in CAPTURED if kind is not DatabaseKind.MONGODB))
def mongo_event_router_on_tables(config: Config, router: Router) -> Hits:
    if router.of_mongo:
        yield Hit(f"{router.prefix}type", "MongoEventRouter cannot read rows of tables.", "Use EventRouter.")


@book.router_rule("CC328", ERROR)
def documented_name_of_invalid_behavior(config: Config, router: Router) -> Hits:
    option = "collection.op.invalid.behavior"
    if router.of_mongo and option in router.options:
        message = f"the router does not read {option}, although its documentation names it."
        yield Hit(router.prefix + option, message, "Use table.op.invalid.behavior.")


@book.router_rule("CC329", NOTE)
def invalid_behavior_without_effect(config: Config, router: Router) -> Hits:
    option = "table.op.invalid.behavior"
    if option in router.options and "u" in _skipped(config):
        yield Hit(
            router.prefix + option, f"{option} has no effect: skipped.operations contains u.", "Remove the option."
        )


@book.router_rule("CC337", WARNING)
def fatal_invalid_behavior(config: Config, router: Router) -> Hits:
    option = "table.op.invalid.behavior"
    if router.get(option).lower() == "fatal" and "u" not in _skipped(config):
        message = "an update of a published row fails the task, and fails it again after every restart."
        yield Hit(router.prefix + option, message, "Set skipped.operations to u,d,t, or set this option to warn.")


@book.rule("CC330", WARNING)
def second_router_without_rows(config: Config) -> Hits:
    for before, router in zip(config.routers, config.routers[1:], strict=False):
        if not before.predicate:
            message = f"{router.alias!r} receives no row: {before.alias!r} routes all of them."
            yield Hit("transforms", message, "Give each router a predicate.")


@book.router_rule("CC331", WARNING, DatabaseKind.ORACLE)
def lower_case_columns_on_oracle(config: Config, router: Router) -> Hits:
    options = [f"table.field.event.{role}" for role in ("id", "key", "payload", "timestamp", "schema.version")]
    for option in (*options, "route.by.field"):
        if router.get(option) != router.get(option).upper():
            message = f"{option} is in lower case, and unquoted columns are upper case in Oracle."
            yield Hit(
                router.prefix + option,
                message,
                f"Write {router.get(option).upper()}, unless the column was created with a quoted name.",
            )
    if any(parts[0] != parts[0].upper() for parts in router.placements):
        message = "placed columns are in lower case, and unquoted columns are upper case in Oracle."
        yield Hit(
            router.prefix + router.placement,
            message,
            "Write them in upper case, unless the columns were created with quoted names.",
        )


@book.rule("CC332", ERROR, *CAPTURED)
def skipped_inserts(config: Config) -> Hits:
    if config.routers and "c" in _skipped(config):
        yield Hit("skipped.operations", "the connector skips inserts, so it publishes no event.", "Write u,d,t.")


@book.rule("CC333", WARNING, DatabaseKind.POSTGRESQL, *BINLOG, DatabaseKind.ORACLE)
def truncate_not_skipped(config: Config) -> Hits:
    if config.routers and config.has("skipped.operations") and "t" not in _skipped(config):
        message = "a TRUNCATE of the outbox reaches the router and fails the task."
        yield Hit("skipped.operations", message, "Write u,d,t.")


def _skipped(config: Config) -> set[str]:
    return {operation.strip().lower() for operation in config.get("skipped.operations", "t").split(",")}


@book.router_rule("CC334", ERROR)
def unsupported_time_precision(config: Config, router: Router) -> Hits:
    mode = config.get("time.precision.mode").lower()
    if router.column("timestamp") and mode in {"connect", "isostring", "structured"}:
        message = f"the router does not support the time precision {mode}, and the task fails."
        yield Hit("time.precision.mode", message, "Remove the option.")


@book.router_rule("CC335", NOTE)
def missing_timestamp_column(config: Config, router: Router) -> Hits:
    option = f"{router.prefix}{router.table}.field.event.timestamp"
    if option not in config.options and not config.reads_messages:
        message = "a message's timestamp is the time of processing, not the event's time."
        yield Hit(option, message, "Name a column with the event's time, of a type without time zone.")


@book.router_rule("CC336", ERROR)
def hidden_columns(config: Config, router: Router) -> Hits:
    for option in config.options:
        if not re.fullmatch(r"column\.((in|ex)clude\.list|mask\..+|truncate\..+)", option):
            continue
        hidden = [column for column in sorted({*_columns(router)})[:_FEW] if _hides(config, option, column)]
        if hidden:
            message = f"the option filters or masks {', '.join(hidden)}, which the router needs unchanged."
            yield Hit(option, message, "Exclude the outbox's columns from this option.")
    option, stays = "field.name.adjustment.mode", _STAYS.get(config.get("field.name.adjustment.mode").lower())
    adjusted = [column for column in sorted({*_columns(router)})[:_FEW] if stays and not stays.fullmatch(column)]
    if adjusted:
        message = f"the router does not find {', '.join(adjusted)}: the option changes these column names."
        yield Hit(option, message, "Remove the option.")


def _columns(router: Router) -> Iterator[str]:
    defaults = {"id": "id", "key": "aggregateid", "payload": "payload"}
    yield from (router.column(role, default) for role, default in defaults.items())
    yield router.get("route.by.field", "aggregatetype")
    yield from filter(None, [router.column("timestamp")])
    yield from (parts[0] for parts in router.placements)


def _hides(config: Config, option: str, column: str) -> bool:
    patterns = listed(config.get(option))[:_FEW]
    names = [f"{table}.{column}" for table in config.tables[:_FEW]]
    found = [matches(pattern, name, ignores_case=True) for name in names for pattern in patterns]
    if option == "column.include.list":
        return bool(found) and not any(answer is not False for answer in found)
    return any(found)
