"""The EventRouter's own options: Connect's ``/validate`` looks at none of them but the truth values."""

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
"""Options that the router does not have, and that are looked at."""
_FEW = 50
"""Columns, tables and patterns that are held against each other."""
_LATER = {"field.additional.missing": (3, 6), "json.payload.empty.array.behavior": (3, 7)}
_VALUES = {
    "op.invalid.behavior": ("warn", "error", "fatal"),
    "field.additional.missing": ("error", "ignore"),
    "json.payload.null.behavior": ("ignore", "optional_bytes"),
    "json.payload.empty.array.behavior": ("ignore", "optional_string"),
}
_STAYS = {"avro": re.compile(r"[A-Za-z_][A-Za-z0-9_]*"), "avro_unicode": re.compile(r"[A-Za-z][A-Za-z0-9]*")}
"""Names of columns that ``field.name.adjustment.mode`` leaves as they are."""
_TRUTHS = ("expand.json.payload", "fields.additional.error.on.missing")


@book.router_rule("CC301", ERROR)
def misspelt_option(config: Config, router: Router) -> Hits:
    for option, meant in _unknown_options(config, router):
        if meant and _changes(config, router, option, meant):
            message = f"the router has no option {option!r}, and does not say so."
            yield Hit(router.prefix + option, message, f"Did you mean {meant!r}?")


@book.router_rule("CC226", WARNING)
def unknown_option(config: Config, router: Router) -> Hits:
    for option, meant in _unknown_options(config, router):
        if not meant or not _changes(config, router, option, meant):
            message = f"the router has no option {option!r}, and does not say so."
            yield Hit(router.prefix + option, message, f"Did you mean {meant!r}?" if meant else "")


def _unknown_options(config: Config, router: Router) -> Iterator[tuple[str, str]]:
    """Yield each option that the router does not have, with the one that is meant, which is empty where none is."""
    found = plugin(router.type, ".".join(map(str, config.version)))
    known = [*IMPLICIT, *(found.options if found is not None else ())]
    unknown = router.options.keys() - {*known, *_found_elsewhere(router)} if found is not None else ()
    for option in sorted(unknown)[:_MANY]:
        rename = renamed(option, plugin=router.type)
        yield option, (rename.new if rename else "") or nearest(option, known, alike=ALIKE_OPTION)


def _changes(config: Config, router: Router, option: str, meant: str) -> bool:
    """Tell whether the router would route otherwise if an option had the name that is meant."""
    kept = {name: value for name, value in router.options.items() if name != option}
    other = replace(router, options={**kept, meant: router.options[option]})
    if meant in IMPLICIT or other.expands is not router.expands:
        return True
    try:
        return compiled_router(router, config) != compiled_router(other, config)
    except (ConfigError, RoutingError):
        return True


def _found_elsewhere(router: Router) -> set[str]:
    """Return the wrong names that have a rule of their own."""
    renamed = {f"{router.table}.fields.additional.error.on.missing", *(f"{router.table}.{name}" for name in _LATER)}
    return renamed | ({"collection.op.invalid.behavior"} if router.of_mongo else set())


@book.router_rule("CC302", WARNING)
def dead_type(config: Config, router: Router) -> Hits:
    option = f"{router.table}.field.event.type"
    column = router.get(option)
    if column and column not in {parts[0] for parts in router.placements}:
        message = f"nothing reads {option}: messages carry no event type."
        yield Hit(router.prefix + option, message, f"Write {router.placement}={column}:header:eventType instead.")


@book.router_rule("CC309", ERROR)
def value_out_of_the_list(config: Config, router: Router) -> Hits:
    for prefix in ("table", router.table):
        for name, values in _VALUES.items():
            option = f"{prefix}.{name}"
            if option in router.options and router.get(option).lower() not in values:
                message = f"{option} is none of {', '.join(values)}; the task fails at its start."
                yield Hit(router.prefix + option, message, did_you_mean(router.get(option).lower(), list(values)))
        if prefix == router.table == "table":
            return


@book.router_rule("CC310", ERROR)
def neither_true_nor_false(config: Config, router: Router) -> Hits:
    truths = [f"{router.table}.{name}" for name in _TRUTHS]
    for option in (*truths, "route.tombstone.on.empty.payload", "tracing.with.context.field.only", "negate"):
        if router.options.get(option, "true").strip().lower() not in {"true", "false"}:
            yield Hit(router.prefix + option, f"{option} is neither true nor false.", "Write true or false.")


@book.router_rule("CC317", WARNING)
def key_that_keeps_no_order(config: Config, router: Router) -> Hits:
    key, event = router.column("key", "aggregateid"), router.column("id", "_id" if router.of_mongo else "id")
    if key == event:
        message = "the key is the event's own id: an aggregate's events scatter over partitions, and lose their order."
        yield Hit(f"{router.prefix}{router.table}.field.event.key", message, "Take the aggregate's id as the key.")


@book.router_rule("CC318", ERROR)
def column_without_a_name(config: Config, router: Router) -> Hits:
    columns = [f"{router.table}.field.event.{role}" for role in ("id", "key", "payload", "timestamp")]
    for option in (*columns, "route.by.field"):
        if option in router.options and not router.get(option):
            yield Hit(router.prefix + option, f"{option} is empty, and the task fails.", "Leave it out, or name one.")


@book.router_rule("CC319", WARNING)
def version_without_an_envelope(config: Config, router: Router) -> Hits:
    option = f"{router.table}.field.event.schema.version"
    if router.get(option) and not router.has_envelope:
        message = f"{option} does nothing: only an envelope has a version."
        yield Hit(router.prefix + option, message, "Leave it out, or place a column in the envelope.")


@book.router_rule("CC320", ERROR)
def versions_of_many_shapes(config: Config, router: Router) -> Hits:
    option = f"{router.table}.field.event.schema.version"
    if router.get(option) and router.has_envelope and router.expands:
        message = "a second shape of payload under the same version fails the task: the router keeps one a version."
        yield Hit(router.prefix + option, message, "Leave out the version, or do not expand.")


@book.router_rule("CC321", WARNING)
def expanded_payload(config: Config, router: Router) -> Hits:
    if router.expands and not config.expands_shapes:
        message = "expansion drops nulls and empty lists, rounds decimals, and fails the task on a list at the top."
        remedy = "StringConverter without expansion passes JSON as it is."
        if router.of_mongo:
            message = "expansion fails the task on a list of values of several types, such as [1, 1.5] or [null, 1]."
            remedy = "Store the payload as text, which passes as it is."
        yield Hit(f"{router.prefix}{router.table}.expand.json.payload", message, remedy)


@book.router_rule("CC322", ERROR)
def names_that_lose_values(config: Config, router: Router) -> Hits:
    mode = router.get("field.name.adjustment.mode").lower()
    if mode not in {"", "none"} and router.expands:
        message = "expansion with adjusted names loses the value of every field whose name it adjusts."
        yield Hit(f"{router.prefix}field.name.adjustment.mode", message, "Leave it out, and choose other names.")


@book.router_rule("CC323", NOTE)
def refinement_of_nothing(config: Config, router: Router) -> Hits:
    for name in ("json.payload.null.behavior", "json.payload.empty.array.behavior"):
        if f"table.{name}" in router.options and not router.expands:
            yield Hit(f"{router.prefix}table.{name}", f"table.{name} does nothing without expansion.", "Leave it out.")


@book.router_rule("CC324", WARNING)
def missing_columns_by_an_old_name(config: Config, router: Router) -> Hits:
    option = f"{router.table}.fields.additional.error.on.missing"
    told = router.get(f"{router.table}.field.additional.missing").lower() == "ignore"
    if option in router.options and config.version >= (3, 6) and not router.on(option) and not told:
        message = f"{option} is not read since Debezium 3.6: a row that lacks a placed column fails the task."
        yield Hit(router.prefix + option, message, f"Write {router.table}.field.additional.missing=ignore.")


@book.router_rule("CC325", WARNING)
def option_of_a_later_version(config: Config, router: Router) -> Hits:
    for name, since in _LATER.items():
        option = f"{router.table}.{name}"
        if option in router.options and config.version < since and not _is_told_earlier(router, name):
            message = f"{option} does nothing before Debezium {'.'.join(map(str, since))}."
            yield Hit(router.prefix + option, message, "Upgrade, or leave it out.")


def _is_told_earlier(router: Router, name: str) -> bool:
    """Tell whether an option's older name, which MongoDB's router never had, says the same."""
    ignored = name == "field.additional.missing" and router.get(f"table.{name}").lower() == "ignore"
    return ignored and router.get("table.fields.additional.error.on.missing").lower() == "false"


@book.router_rule("CC326", ERROR, DatabaseKind.MONGODB)
def router_of_tables(config: Config, router: Router) -> Hits:
    if not router.of_mongo:
        yield Hit(f"{router.prefix}type", "this EventRouter reads tables, not documents.", "Take MongoEventRouter.")


@book.router_rule("CC327", ERROR, *(kind for kind in CAPTURED if kind is not DatabaseKind.MONGODB))
def router_of_documents(config: Config, router: Router) -> Hits:
    if router.of_mongo:
        yield Hit(f"{router.prefix}type", "MongoEventRouter reads documents, not tables.", "Take EventRouter.")


@book.router_rule("CC328", ERROR)
def invalid_operations_by_the_documented_name(config: Config, router: Router) -> Hits:
    option = "collection.op.invalid.behavior"
    if router.of_mongo and option in router.options:
        message = f"{option} stands in the documentation, and the router does not read it."
        yield Hit(router.prefix + option, message, "Write table.op.invalid.behavior.")


@book.router_rule("CC329", NOTE)
def behaviour_that_never_shows(config: Config, router: Router) -> Hits:
    option = "table.op.invalid.behavior"
    if option in router.options and "u" in _skipped(config):
        yield Hit(router.prefix + option, f"{option} does nothing: updates are skipped before.", "Leave it out.")


@book.router_rule("CC337", WARNING)
def update_that_fails_the_task(config: Config, router: Router) -> Hits:
    option = "table.op.invalid.behavior"
    if router.get(option).lower() == "fatal" and "u" not in _skipped(config):
        message = "an update of a row that is published fails the task, and every restart meets it again."
        yield Hit(router.prefix + option, message, "Set skipped.operations to u,d,t, or leave updates at warn.")


@book.rule("CC330", WARNING)
def routers_in_a_row(config: Config) -> Hits:
    for before, router in zip(config.routers, config.routers[1:], strict=False):
        if not before.predicate:
            message = f"{router.alias!r} never sees a row: {before.alias!r} routes them all."
            yield Hit("transforms", message, "Give each a predicate.")


@book.router_rule("CC331", WARNING, DatabaseKind.ORACLE)
def column_in_small_letters(config: Config, router: Router) -> Hits:
    options = [f"table.field.event.{role}" for role in ("id", "key", "payload", "timestamp", "schema.version")]
    for option in (*options, "route.by.field"):
        if router.get(option) != router.get(option).upper():
            message = f"{option} is taken as it is written, and Oracle's columns are in capital letters."
            yield Hit(router.prefix + option, message, f"Write {router.get(option).upper()}, unless it was quoted.")
    if any(parts[0] != parts[0].upper() for parts in router.placements):
        message = "placed columns are taken as they are written, and Oracle's are in capital letters."
        yield Hit(router.prefix + router.placement, message, "Write them so, unless they were quoted.")


@book.rule("CC332", ERROR, *CAPTURED)
def operations_that_are_skipped(config: Config) -> Hits:
    if config.routers and "c" in _skipped(config):
        yield Hit("skipped.operations", "inserts are skipped, so no event is published.", "Write u,d,t.")


@book.rule("CC333", WARNING, DatabaseKind.POSTGRESQL, *BINLOG, DatabaseKind.ORACLE)
def truncation_that_arrives(config: Config) -> Hits:
    if config.routers and config.has("skipped.operations") and "t" not in _skipped(config):
        message = "a TRUNCATE of the outbox reaches the router, and fails the task."
        yield Hit("skipped.operations", message, "Write u,d,t.")


def _skipped(config: Config) -> set[str]:
    return {operation.strip().lower() for operation in config.get("skipped.operations", "t").split(",")}


@book.router_rule("CC334", ERROR)
def time_that_is_none(config: Config, router: Router) -> Hits:
    mode = config.get("time.precision.mode").lower()
    if router.column("timestamp") and mode in {"connect", "isostring", "structured"}:
        message = f"with the time precision {mode} no column is a time to the router, and the task fails."
        yield Hit("time.precision.mode", message, "Leave it out.")


@book.router_rule("CC335", NOTE)
def clock_of_the_connector(config: Config, router: Router) -> Hits:
    option = f"{router.prefix}{router.table}.field.event.timestamp"
    if option not in config.options and not config.reads_messages:
        message = "messages have the time at which the connector met them, not the event's."
        yield Hit(option, message, "Name a column without time zone that has it.")


@book.router_rule("CC336", ERROR)
def columns_that_are_hidden(config: Config, router: Router) -> Hits:
    for option in config.options:
        if not re.fullmatch(r"column\.((in|ex)clude\.list|mask\..+|truncate\..+)", option):
            continue
        hidden = [column for column in sorted({*_columns(router)})[:_FEW] if _hides(config, option, column)]
        if hidden:
            message = f"the router does not find {', '.join(hidden)} as it was written."
            yield Hit(option, message, "Let the outbox's columns be.")
    option, stays = "field.name.adjustment.mode", _STAYS.get(config.get("field.name.adjustment.mode").lower())
    adjusted = [column for column in sorted({*_columns(router)})[:_FEW] if stays and not stays.fullmatch(column)]
    if adjusted:
        message = f"the router does not find {', '.join(adjusted)}: columns come under other names."
        yield Hit(option, message, "Leave it out.")


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
