"""What names an event's attributes follows from one table."""

from dataclasses import fields
from typing import Any

from cdc_outbox import HeaderNames, OutboxColumns
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.event import Event, RecordedEvent
from cdc_outbox.formats.attributes import ATTRIBUTES, GIVEN, AttributeKind
from cdc_outbox.spec import spec_schema


def names_of(kind: type) -> set[str]:
    return {field.name for field in fields(kind)}


def test_every_attribute_is_a_field_of_an_event() -> None:
    assert names_of(RecordedEvent) >= ATTRIBUTES.keys()
    assert names_of(Event) >= set(GIVEN)


def test_every_attribute_has_a_column() -> None:
    assert {name: attribute.column for name, attribute in ATTRIBUTES.items()} == OutboxColumns().names()
    without: dict[str, Any] = {name: None for name, attribute in ATTRIBUTES.items() if attribute.is_optional}
    assert OutboxColumns(**without).names().keys() == ATTRIBUTES.keys() - without.keys()


def test_headers_are_those_of_the_table_in_the_order_of_the_wire() -> None:
    headers = {name: attribute.header for name, attribute in ATTRIBUTES.items() if attribute.header}
    assert [*HeaderNames().placed().items()] == [*headers.items()]


def test_every_dialect_has_a_type_for_every_kind() -> None:
    for dialect in Dialect:
        assert dialect.features.shape.types.keys() | {AttributeKind.PAYLOAD} == set(AttributeKind)


def test_a_spec_can_name_every_column() -> None:
    columns = spec_schema()["properties"]["outbox"]["properties"]["columns"]["properties"]
    assert {name: key["default"] for name, key in columns.items()} == OutboxColumns().names()
    nullable = {name for name, key in columns.items() if "null" in key["type"]}
    assert nullable == {name for name, attribute in ATTRIBUTES.items() if attribute.is_optional}
