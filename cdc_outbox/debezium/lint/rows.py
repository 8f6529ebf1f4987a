"""Rules about the path of rows and heartbeats: not captured, not routed, dropped, or in a failing transform."""

import re
from itertools import takewhile

from cdc_outbox.databases.database import CAPTURED, DatabaseKind
from cdc_outbox.debezium.config import MONGO_ROUTER, ROUTER, TOPIC_NAMES, Config, Router, listed
from cdc_outbox.debezium.event_router import Change, ConnectRecord
from cdc_outbox.debezium.java_regex import literal
from cdc_outbox.debezium.lint.path import (
    FEW,
    Path,
    PathStep,
    find_exclusion,
    is_outbox,
    named_outboxes,
    paths_of,
    reaches,
    sees_raw_topics,
)
from cdc_outbox.debezium.lint.rule import ERROR, WARNING, Hit, Hits, Rulebook
from cdc_outbox.debezium.lint.transforms import TIMESTAMP_ROUTER, UNWRAPPING

book = Rulebook()

_ROUTERS = frozenset({ROUTER, MONGO_ROUTER})


@book.rule("CC523", ERROR, *CAPTURED)
def outbox_not_captured(config: Config) -> Hits:
    if not config.routers:
        return
    for table in named_outboxes(config):
        option = find_exclusion(config, table)
        # CC510 reports a schema that an include list lacks.
        if option is not None and (option.endswith(".exclude.list") or not config.tables):
            excludes = option.endswith(".exclude.list")
            remedy = f"Remove the matching pattern from {option}." if excludes else f"Add it to {option}."
            yield Hit(option, f"{table} is not captured: {option} excludes it.", remedy)
    if not named_outboxes(config) and config.kind is not None:
        option = f"{config.kind.nouns[1]}.exclude.list"
        for table in filter(None, map(literal, listed(config.get(option)))):
            if is_outbox(table) and any(reaches(config, router, table) for router in config.routers):
                yield Hit(option, f"{table} is not captured: {option} excludes it.", f"Remove it from {option}.")


@book.rule("CC524", ERROR, DatabaseKind.POSTGRESQL)
def messages_excluded(config: Config) -> Hits:
    if config.routers and config.reads_messages and config.message_exclusion is not None:
        message = "events are logical messages, and this list excludes all of them."
        remedy = "Set message.prefix.include.list to the prefix of the events instead."
        yield Hit("message.prefix.exclude.list", message, remedy)


@book.router_rule("CC505", ERROR, *CAPTURED)
def router_without_rows(config: Config, router: Router) -> Hits:
    predicate = config.predicates.get(router.predicate)
    paths = paths_of(config).outboxes
    steps = [path.step(router) for path in paths]
    others = () if config.reads_messages else config.tables[:FEW]
    if predicate is None or any(reaches(config, router, table) for table in others):
        return
    taken = [_taking_step(path, router) for path in paths]
    past = [step for step, first in zip(steps, taken, strict=True) if step and not step.runs and not first]
    first = _routed_elsewhere(config, router)
    if first is not None and first.after is not None:
        message = f"the router never runs: {first.transform.alias!r} routes all rows first, to {first.after.topic}."
        yield Hit("transforms", message, f"Give {first.transform.alias!r} a predicate that matches its own rows only.")
    expected = _expected_topic_form(config, router) if not any(path.table for path in paths) else ""
    if expected:
        message = f"the router never runs: its predicate matches no table's topic, which is {expected} before routing."
        yield Hit(f"{predicate.prefix}pattern", message, "Use the outbox's topic before routing.")
    if not past or len(past) < len(steps):
        return
    topic = past[0].before.topic
    if predicate.type != TOPIC_NAMES:
        message = f"the router never runs: its predicate {predicate.alias!r} is false for every new row."
        remedy = f"Use {TOPIC_NAMES} with a pattern for the outbox's topic."
        yield Hit(
            f"{router.prefix}predicate", f"{message[:-1]}, which goes unrouted to {topic or 'its topic'}.", remedy
        )
        return
    renaming = _renaming(paths_of(config).outboxes[0], router)
    if renaming is not None:
        message = f"the router never runs: {renaming.transform.alias!r} sends rows to the topic {topic}."
        remedy = f"List {renaming.transform.alias!r} after the router, or remove it."
        yield Hit("transforms", message, remedy)
    elif router.on("negate"):
        message = (
            f"the router never runs: its predicate matches {topic}, the topic before routing, and negate excludes it."
        )
        yield Hit(f"{router.prefix}negate", message, "Remove the option.")
    else:
        message = f"the router never runs: its predicate does not match {topic}, the topic before routing."
        pattern = topic.replace(".", r"\.")
        yield Hit(f"{predicate.prefix}pattern", message, f"Set it to {pattern}.")


def _routed_elsewhere(config: Config, router: Router) -> PathStep | None:
    """Return the step at which another router routes every row that this one would send to another topic."""
    paths = paths_of(config)
    for path in paths.outboxes:
        step = _taking_step(path, router)
        if step is None or step.transform.predicate:
            continue
        own = paths.topic_by(router, step)
        if step.after is not None and step.after.topic and own and own != step.after.topic:
            return step
    return None


def _expected_topic_form(config: Config, router: Router) -> str:
    """Return the form of table topics if a router's predicate has another form, else an empty text."""
    predicate = config.predicates[router.predicate]
    [example, *_] = config.topics_of("SCHEMA.TABLE") or [""]
    delimiter = config.get("topic.delimiter", ".")
    named = re.fullmatch(r"\^?((?:[\w\-]|\\\.)+)\$?", predicate.get("pattern"))
    is_judged = named and example and sees_raw_topics(config, router) and config.kind is DatabaseKind.POSTGRESQL
    if not named or not is_judged or predicate.type != TOPIC_NAMES or router.on("negate") or config.reads_messages:
        return ""
    topic, start = named[1].replace("\\.", "."), f"{config.get('topic.prefix')}{delimiter}"
    parts = example.removeprefix(start).count(delimiter)
    fits = topic.startswith(start) and topic.removeprefix(start).count(delimiter) >= parts
    return "" if fits else example


def _taking_step(path: Path, router: Router) -> PathStep | None:
    """Return the step at which another router routes a row before this router."""
    before = takewhile(lambda step: step.transform.alias != router.alias, path.steps)
    routed = (step for step in before if step.runs and step.transform.type in _ROUTERS)
    return next((step for step in routed if isinstance(step.before.value, Change)), None)


def _renaming(path: Path, router: Router) -> PathStep | None:
    """Return the step before a router that changes the topic of a row."""
    for step in path.steps:
        if step.transform.alias == router.alias:
            return None
        if step.after is not None and step.after.topic != step.before.topic:
            return step
    return None


@book.rule("CC222", ERROR)
def change_unwrapped_before_router(config: Config) -> Hits:
    for path in paths_of(config).outboxes:
        changed = [step for step in path.steps if isinstance(step.before.value, Change)]
        last = changed[-1] if changed else None
        if last is None or last.transform.type in _ROUTERS or not _is_opened(last.after):
            continue
        router = next((step for step in path.steps if step.runs and step.transform.type in _ROUTERS), None)
        if router is not None:
            what = "removes the envelope" if last.transform.type in UNWRAPPING else "replaces the change"
            message = f"{last.transform.alias!r} {what} before the router, which passes such records on unchanged."
            where = f"Rows go to {path.topic}." if path.topic else ""
            remedy = "Remove the transform, or exclude the outbox from it with a predicate."
            yield Hit("transforms", f"{message} {where}".strip(), remedy)
            return


def _is_opened(record: ConnectRecord | None) -> bool:
    return record is not None and not isinstance(record.value, Change)


@book.rule("CC227", ERROR)
def every_event_dropped(config: Config) -> Hits:
    paths = paths_of(config).outboxes
    drops = [step for path in paths for step in path.steps if step.after is None and not step.failure]
    if not config.routers or not drops or len(drops) < len(paths):
        return
    plugin, topic = drops[0].transform, drops[0].before.topic
    if not plugin.predicate:
        message = f"{plugin.alias!r} drops every event: it has no predicate."
        yield Hit(f"{plugin.prefix}type", message, "Add a predicate that matches only the records to drop.")
    else:
        message = (
            f"{plugin.alias!r} drops every event: its predicate is evaluated for the topic {topic or 'of events'}."
        )
        remedy = "Write a predicate for the topic at this position, or list the transform earlier."
        yield Hit(f"{plugin.prefix}predicate", message, remedy)


@book.rule("CC221", ERROR)
def failing_transform(config: Config) -> Hits:
    """Report transforms such as InsertField that fail on the text or bytes that a router writes."""
    paths = list(paths_of(config).outboxes) if config.routers else []
    beats = config.kind is not None and bool(config.number("heartbeat.interval.ms", 0))
    records = [
        *(("an event", path) for path in paths),
        *([("a heartbeat", paths_of(config).of_heartbeats())] if beats else []),
    ]
    reported = set()
    for record, path in records:
        step = path.steps[-1] if path.steps else None
        if step is None or not step.failure or step.transform.alias in reported:
            continue
        if step.transform.type in _ROUTERS and step.before.value is path.start.value:
            continue  # other rules report a failing router
        reported.add(step.transform.alias)
        message = f"the task fails on {record} in the transform {step.transform.alias!r}: {step.failure}."
        yield Hit(f"{step.transform.prefix}type", message, "Place the transform before the router, or add a predicate.")


@book.rule("CC228", WARNING)
def dated_topic(config: Config) -> Hits:
    for path in paths_of(config).outboxes:
        for step in path.steps:
            if step.transform.type == TIMESTAMP_ROUTER and step.runs and step.before.topic != path.start.topic:
                message = (
                    f"{step.transform.alias!r} adds a date to the topic: an aggregate's events go to several topics."
                )
                yield Hit(
                    f"{step.transform.prefix}type",
                    message,
                    "Remove the transform; retention.ms limits how long a topic keeps events.",
                )
                return
