"""Where typical rows and heartbeats go: not captured, past the router, dropped, or into a failing transform."""

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
def outbox_that_is_left_out(config: Config) -> Hits:
    if not config.routers:
        return
    for table in named_outboxes(config):
        option = find_exclusion(config, table)
        # Of a schema that an include list lacks CC510 tells.
        if option is not None and (option.endswith(".exclude.list") or not config.tables):
            excludes = option.endswith(".exclude.list")
            remedy = f"Remove from {option} what matches it." if excludes else f"Add it to {option}."
            yield Hit(option, f"{table} is not captured: {option} leaves it out.", remedy)
    if not named_outboxes(config) and config.kind is not None:
        option = f"{config.kind.nouns[1]}.exclude.list"
        for table in filter(None, map(literal, listed(config.get(option)))):
            if is_outbox(table) and any(reaches(config, router, table) for router in config.routers):
                yield Hit(option, f"{table} is not captured: {option} leaves it out.", f"Remove it from {option}.")


@book.rule("CC524", ERROR, DatabaseKind.POSTGRESQL)
def messages_that_are_left_out(config: Config) -> Hits:
    if config.routers and config.reads_messages and config.message_exclusion is not None:
        message = "events are logical messages, and every one of them is left out."
        remedy = "Set message.prefix.include.list to the prefix of events instead."
        yield Hit("message.prefix.exclude.list", message, remedy)


@book.router_rule("CC505", ERROR, *CAPTURED)
def predicate_that_never_matches(config: Config, router: Router) -> Hits:
    predicate = config.predicates.get(router.predicate)
    paths = paths_of(config).outboxes
    steps = [path.step(router) for path in paths]
    others = () if config.reads_messages else config.tables[:FEW]
    if predicate is None or any(reaches(config, router, table) for table in others):
        return
    taken = [_taking_step(path, router) for path in paths]
    past = [step for step, first in zip(steps, taken, strict=True) if step and not step.runs and not first]
    first = _took(config, router)
    if first is not None and first.after is not None:
        message = f"the router never runs: {first.transform.alias!r} takes all rows before, to {first.after.topic}."
        yield Hit("transforms", message, f"Give {first.transform.alias!r} a predicate of its own rows.")
    expected = _names_no_table(config, router) if not any(path.table for path in paths) else ""
    if expected:
        message = f"the router never runs: its predicate matches no table's topic, which is {expected} before routing."
        yield Hit(f"{predicate.prefix}pattern", message, "Write the topic of the outbox before routing.")
    if not past or len(past) < len(steps):
        return
    topic = past[0].before.topic
    if predicate.type != TOPIC_NAMES:
        message = f"the router never runs: its predicate {predicate.alias!r} is never true of a new row."
        remedy = f"Take {TOPIC_NAMES} with the pattern of the outbox's topic."
        yield Hit(
            f"{router.prefix}predicate", f"{message[:-1]}, which goes to {topic or 'its topic'} unrouted.", remedy
        )
        return
    renaming = _renaming(paths_of(config).outboxes[0], router)
    if renaming is not None:
        message = (
            f"the router never runs: {renaming.transform.alias!r} gives rows the topic {topic}, and there they go."
        )
        remedy = f"List {renaming.transform.alias!r} behind the router, or leave it out."
        yield Hit("transforms", message, remedy)
    elif router.on("negate"):
        message = (
            f"the router never runs: its predicate matches {topic}, the topic before routing, and negate excludes it."
        )
        yield Hit(f"{router.prefix}negate", message, "Leave it out.")
    else:
        message = f"the router never runs: its predicate does not match {topic}, the topic before routing."
        pattern = topic.replace(".", r"\.")
        yield Hit(f"{predicate.prefix}pattern", message, f"Write {pattern}.")


def _took(config: Config, router: Router) -> PathStep | None:
    """Return the step at which another router takes every row, although a router is to send some to another topic."""
    paths = paths_of(config)
    for path in paths.outboxes:
        step = _taking_step(path, router)
        if step is None or step.transform.predicate:
            continue
        own = paths.topic_by(router, step)
        if step.after is not None and step.after.topic and own and own != step.after.topic:
            return step
    return None


def _names_no_table(config: Config, router: Router) -> str:
    """Return how topics of tables are written, where a router's predicate names one that is written otherwise."""
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
    """Return the step at which another router takes a row before it comes to a router."""
    before = takewhile(lambda step: step.transform.alias != router.alias, path.steps)
    routed = (step for step in before if step.runs and step.transform.type in _ROUTERS)
    return next((step for step in routed if isinstance(step.before.value, Change)), None)


def _renaming(path: Path, router: Router) -> PathStep | None:
    """Return the step before a router that gives a row another topic."""
    for step in path.steps:
        if step.transform.alias == router.alias:
            return None
        if step.after is not None and step.after.topic != step.before.topic:
            return step
    return None


@book.rule("CC222", ERROR)
def change_that_is_none_to_the_router(config: Config) -> Hits:
    for path in paths_of(config).outboxes:
        changed = [step for step in path.steps if isinstance(step.before.value, Change)]
        last = changed[-1] if changed else None
        if last is None or last.transform.type in _ROUTERS or not _is_opened(last.after):
            continue
        router = next((step for step in path.steps if step.runs and step.transform.type in _ROUTERS), None)
        if router is not None:
            what = "takes the envelope off" if last.transform.type in UNWRAPPING else "makes something else of a change"
            message = f"{last.transform.alias!r} {what} before the router, which passes such records unchanged."
            where = f"Rows go to {path.topic}." if path.topic else ""
            remedy = "Leave it out, or let it skip the outbox by a predicate."
            yield Hit("transforms", f"{message} {where}".strip(), remedy)
            return


def _is_opened(record: ConnectRecord | None) -> bool:
    return record is not None and not isinstance(record.value, Change)


@book.rule("CC227", ERROR)
def everything_is_dropped(config: Config) -> Hits:
    paths = paths_of(config).outboxes
    drops = [step for path in paths for step in path.steps if step.after is None and not step.failure]
    if not config.routers or not drops or len(drops) < len(paths):
        return
    plugin, topic = drops[0].transform, drops[0].before.topic
    if not plugin.predicate:
        message = f"{plugin.alias!r} drops every event: it has no predicate."
        yield Hit(f"{plugin.prefix}type", message, "Name a predicate of what is to be dropped.")
    else:
        message = f"{plugin.alias!r} drops every event: its predicate is asked about the topic {topic or 'of events'}."
        remedy = "A predicate sees a record as the transforms before left it: match that topic, or list it earlier."
        yield Hit(f"{plugin.prefix}predicate", message, remedy)


@book.rule("CC221", ERROR)
def transform_that_fails(config: Config) -> Hits:
    """What InsertField and its like do with the text that a router makes of the payload."""
    paths = list(paths_of(config).outboxes) if config.routers else []
    beats = config.kind is not None and bool(config.number("heartbeat.interval.ms", 0))
    records = [
        *(("an event", path) for path in paths),
        *([("a heartbeat", paths_of(config).of_heartbeats())] if beats else []),
    ]
    told = set()
    for record, path in records:
        step = path.steps[-1] if path.steps else None
        if step is None or not step.failure or step.transform.alias in told:
            continue
        if step.transform.type in _ROUTERS and step.before.value is path.start.value:
            continue  # what is wrong with a router itself is told by its own rules
        told.add(step.transform.alias)
        message = f"the task fails on {record} in the transform {step.transform.alias!r}: {step.failure}."
        yield Hit(f"{step.transform.prefix}type", message, "List it before the router, or give it a predicate.")


@book.rule("CC228", WARNING)
def topic_of_the_day(config: Config) -> Hits:
    for path in paths_of(config).outboxes:
        for step in path.steps:
            if step.transform.type == TIMESTAMP_ROUTER and step.runs and step.before.topic != path.start.topic:
                message = (
                    f"{step.transform.alias!r} puts a date into the topic: an aggregate's events go to several topics."
                )
                yield Hit(f"{step.transform.prefix}type", message, "Leave it out: topics have retention.ms.")
                return
