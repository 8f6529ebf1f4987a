"""A change of a connector's option is told by the spec's key that it comes from."""

import pytest

from cdc_outbox.debezium.diff import changes_between, spec_key_of
from cdc_outbox.debezium.render import render
from cdc_outbox.spec import parse_spec
from cdc_outbox.spec.reference import keys
from tests.support.specs import MINIMAL

PLACEMENT = "transforms.outbox.table.fields.additional.placement"


def keys_of(changes: str, before: str = MINIMAL) -> set[str]:
    return {change.key for change in changes_between(render(parse_spec(before)), render(parse_spec(before + changes)))}


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ("latency: low", {"latency"}),
        ("topic_prefix: other", {"topic_prefix"}),
        ("outbox: {table: events}", {"outbox.table", ""}),
        ("outbox: {headers: {tenant: tenant-id}}", {"outbox.headers"}),
        ("outbox: {payload_type: expanded}", {"outbox.payload_type", "outbox.payload_type, outbox.format"}),
        ("outbox: {payload_type: bytes}", {"outbox.payload_type, outbox.format"}),
        ("topics: {partitions: 6}", {"topics.partitions"}),
        ("topics: {replication_factor: 3}", {"topics.replication_factor"}),
        ("topics: {retention: 7d}", {"topics.retention"}),
        ("topics: {name: 'x.{aggregate_type}'}", {"topics.name"}),
        ("overrides: {max.batch.size: '1'}", {""}),
    ],
)
def test_a_change_names_the_key_that_was_changed(changes: str, found: set[str]) -> None:
    assert keys_of(f"\n{changes}\n") == found


def test_every_key_is_one_of_a_spec() -> None:
    known = {".".join(map(str, key.path)) for key in keys()}
    options = {
        *render(parse_spec(MINIMAL)),
        *(
            f"transforms.{router}.{part}.field.event.{column}"
            for router, part in (("EventRouter", "table"), ("MongoEventRouter", "collection"))
            for column in ("id", "key", "payload", "timestamp")
        ),
    }
    named = {key for option in options for key in spec_key_of(option).split(", ") if key}
    assert {"database.host", "latency", "outbox.columns.id"} <= named <= known


def test_of_a_list_the_entries_are_shown_that_differ() -> None:
    [change] = changes_between(
        render(parse_spec(MINIMAL + "\noutbox: {headers: {old: old}}\n")),
        render(parse_spec(MINIMAL + "\noutbox: {headers: {tenant: tenant-id}}\n")),
    )
    assert change.line == f"~ outbox.headers: {PLACEMENT}: - old:header:old, + tenant:header:tenant-id"
    assert (change.before or "").endswith(",old:header:old")


def test_of_a_new_connector_no_key_is_named() -> None:
    assert {change.key for change in changes_between(None, render(parse_spec(MINIMAL)))} == {""}
