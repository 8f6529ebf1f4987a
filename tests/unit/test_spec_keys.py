"""Every option of a connector comes from a key of the spec, and its change is told by that key."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import chain

import pytest

from cdc_outbox import ConfigError
from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.debezium.adopt.recognition import WORDS
from cdc_outbox.debezium.diff import changes_between
from cdc_outbox.debezium.render import origins_of, render, rendered_options
from cdc_outbox.spec import Spec, parse_spec
from cdc_outbox.spec.reference import keys
from tests.support.specs import MINIMAL, MONGODB

PLACEMENT = "transforms.outbox.table.fields.additional.placement"


def keys_of(changes: str, before: str = MINIMAL) -> set[str]:
    old, new = parse_spec(before), parse_spec(before + changes)
    return {change.key for change in changes_between(render(old), render(new), origins=origins_of(new))}


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ("latency: low", {"latency"}),
        ("topic_prefix: other", {"topic_prefix"}),
        ("outbox: {table: events}", {"outbox.table"}),
        ("outbox: {schema: sales}", {"outbox.table, outbox.schema"}),
        ("outbox: {headers: {tenant: tenant-id}}", {"outbox.headers"}),
        ("outbox: {format: cloudevents-binary}", {"outbox.headers, outbox.format"}),
        ("outbox: {columns: {id: i}}", {"outbox.columns.id", "outbox.headers", ""}),  # without what is ours alone
        ("outbox: {payload_type: expanded}", {"outbox.payload_type", "outbox.payload_type, outbox.format"}),
        ("outbox: {payload_type: bytes}", {"outbox.payload_type, outbox.format"}),
        ("topics: {partitions: 6}", {"topics.partitions"}),
        ("topics: {replication_factor: 3}", {"topics.replication_factor"}),
        ("topics: {retention: 7d}", {"topics.retention"}),
        ("topics: {name: 'x.{aggregate_type}'}", {"topics.name"}),
        ("overrides: {max.batch.size: '1'}", {""}),
        ("overrides: {poll.interval.ms: '1'}", {""}),
    ],
)
def test_a_change_names_the_key_that_was_changed(changes: str, found: set[str]) -> None:
    assert keys_of(f"\n{changes}\n") == found


@pytest.mark.parametrize("changed", ["latency: low", "topics: {retention: 7d}", "outbox: {payload_type: expanded}"])
def test_an_option_that_a_spec_no_longer_sets_is_told_by_its_key(changed: str) -> None:
    old, new = parse_spec(f"{MINIMAL}{changed}\n"), parse_spec(MINIMAL)
    gone = [each for each in changes_between(render(old), render(new), origins=origins_of(new)) if each.after is None]
    assert gone
    assert {each.key.partition(".")[0] for each in gone} == {changed.partition(":")[0]}


OUTBOXES = (
    "mode: keep",
    "mode: message",
    "schema: sales, table: events",
    "payload_type: expanded",
    "payload_type: bytes, format: cloudevents-structured",
    "format: envelope",
    "columns: {payload: body}",
    "headers: {tenant: tenant-id}",
)


def rendered_specs() -> Iterator[Spec]:
    """Yield specs of every database and outbox that together render every option that there is."""
    for kind in set(DatabaseKind) - {DatabaseKind.SQLITE}:
        base = MONGODB if kind is DatabaseKind.MONGODB else MINIMAL.replace("postgresql", kind)
        for outbox in OUTBOXES:
            owner = "schema: APP, " if kind is DatabaseKind.ORACLE and "schema" not in outbox else ""
            more = "latency: low\ntopics: {retention: 7d}\noverrides: {max.batch.size: 7}\n"
            with suppress(ConfigError):  # what this database does not have
                yield parse_spec(f"{base}outbox: {{{owner}{outbox}}}\n{more}")


def test_every_option_is_decided_by_keys_of_the_specs_schema_or_is_a_constant() -> None:
    known = {".".join(map(str, key.path)) for key in keys()}
    constants: dict[tuple[str, str], set[str]] = {}
    for spec in rendered_specs():
        for each in rendered_options(spec):
            assert set(each.origins) <= known, each.name
            if not each.origins:
                constants.setdefault((spec.database.kind, each.name), set()).add(each.value)
        assert set(chain.from_iterable(origins_of(spec).values())) <= known
    assert {database for database, _ in constants} == set(DatabaseKind) - {DatabaseKind.SQLITE}
    assert {name: values for name, values in constants.items() if len(values) > 1} == {}


def test_a_key_that_adopt_reads_from_an_option_is_one_that_decides_it() -> None:
    decided = {
        (key, name) for spec in rendered_specs() for name, origins in origins_of(spec).items() for key in origins
    }
    assert {(".".join(map(str, path)), option) for path, option in WORDS} <= decided


def test_of_a_list_the_entries_are_shown_that_differ() -> None:
    old, new = (
        parse_spec(f"{MINIMAL}outbox: {{headers: {{{header}}}}}\n") for header in ("old: old", "tenant: tenant-id")
    )
    [change] = changes_between(render(old), render(new), origins=origins_of(new))
    assert change.line == f"~ outbox.headers: {PLACEMENT}: - old:header:old, + tenant:header:tenant-id"
    assert (change.before or "").endswith(",old:header:old")


def test_of_a_new_connector_no_key_is_named() -> None:
    spec = parse_spec(MINIMAL)
    assert {change.key for change in changes_between(None, render(spec), origins=origins_of(spec))} == {""}
