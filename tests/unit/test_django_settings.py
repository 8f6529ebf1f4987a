"""The setting CDC_OUTBOX as values, and what holds the app's migrations and our tables together."""

import ast
from pathlib import Path
from typing import Any

import pytest

from cdc_outbox import ConfigError, EventFormat, OutboxMode, OutboxTable, PayloadType, SequenceMode
from cdc_outbox.contract.outbox_options import Partitions
from cdc_outbox.contrib.django.settings import OutboxSettings, parse_settings
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.formats.attributes import BUILT_IN_HEADERS
from cdc_outbox.writer.outbox_schema import outbox_component

MIGRATIONS = Path(__file__).parents[2] / "cdc_outbox" / "contrib" / "django" / "migrations"


def test_a_source_is_enough() -> None:
    found = parse_settings({"source": "orders"})
    assert found == OutboxSettings(source="orders", database="default", table=OutboxTable())
    assert found.first_source == "orders.1"


def test_every_key_says_what_it_says_in_a_spec() -> None:
    found = parse_settings(
        {
            "source": "orders",
            "database": "shop",
            "schema": "Shop",
            "table": "events",
            "publication": "orders outbox",
            "aggregates": {"customer": "gapless", "visit": "none"},
            "headers": {"tenant": "x-tenant"},
            "mode": "delete",
            "format": "cloudevents-structured",
            "payload_type": "json",
            "partitions": "month",
        }
    )
    assert (found.database, found.publication) == ("shop", "orders outbox")
    assert found.table == OutboxTable(
        schema="Shop",
        name="events",
        headers={**BUILT_IN_HEADERS, "tenant": "x-tenant"},
        mode=OutboxMode.DELETE,
        format=EventFormat.CLOUDEVENTS_STRUCTURED,
        payload_type=PayloadType.JSON,
        partitions=Partitions.MONTH,
    )
    assert found.contract is not None
    assert found.contract.aggregates == {"customer": SequenceMode.GAPLESS, "visit": SequenceMode.NONE}
    assert found.contract.extra_headers == (*BUILT_IN_HEADERS.values(), "x-tenant")


@pytest.mark.parametrize(
    ("setting", "field"),
    [
        (None, "CDC_OUTBOX"),
        (["orders"], "CDC_OUTBOX"),
        ({}, "CDC_OUTBOX.source"),
        ({"source": "orders.1"}, "CDC_OUTBOX.source"),
        ({"database": ""}, "CDC_OUTBOX.database"),
        ({"databse": "x"}, "CDC_OUTBOX.databse"),
        ({1: "x"}, "CDC_OUTBOX.1"),
        ({"schema": 1}, "CDC_OUTBOX.schema"),
        ({"table": "x" * 64}, "CDC_OUTBOX"),
        ({"publication": ""}, "CDC_OUTBOX.publication"),
        ({"headers": ["tenant"]}, "CDC_OUTBOX.headers"),
        ({"headers": {"tenant": 1}}, "CDC_OUTBOX.headers"),
        ({"headers": {"payload": "x"}}, "CDC_OUTBOX.headers"),
        ({"aggregates": {}}, "CDC_OUTBOX.aggregates"),
        ({"aggregates": {"order": "gap"}}, "CDC_OUTBOX.aggregates"),
        ({"mode": "lose"}, "CDC_OUTBOX.mode"),
        ({"format": []}, "CDC_OUTBOX.format"),
        ({"payload_type": "xml"}, "CDC_OUTBOX.payload_type"),
        ({"partitions": "year"}, "CDC_OUTBOX.partitions"),
        ({"mode": "message", "partitions": "day"}, "CDC_OUTBOX.partitions"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(setting: Any, field: str) -> None:
    complete = {"source": "orders"} | setting if isinstance(setting, dict) and setting else setting
    with pytest.raises(ConfigError) as caught:
        parse_settings(complete)
    assert caught.value.field == field
    assert "CDC_OUTBOX" in str(caught.value)


def test_a_key_that_is_nearly_right_is_offered() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_settings({"source": "orders", "databse": "x"})
    assert caught.value.hint == "Did you mean 'database'?"


def test_the_last_migration_knows_the_newest_tables() -> None:
    """Where this fails, the app needs another migration: `operations = (UpgradeOutbox(),)`, and its VERSIONS."""
    last = ast.parse(max(MIGRATIONS.glob("0*.py")).read_text())
    [versions] = [
        ast.literal_eval(node.value)
        for node in last.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "VERSIONS"
    ]
    components = (outbox_component(OutboxTable(), first_source="orders.1", dialect=dialect) for dialect in Dialect)
    assert versions == {component.dialect: component.migrations[-1].version for component in components}
