"""An event's headers and the columns that hold them."""

import pytest

from cdc_outbox import Event, EventError, OutboxTable
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.writer.draft import draft


@pytest.mark.parametrize(
    ("headers", "header", "message"),
    [
        (
            {"tenant": "tenant-id", "kind": "kind"},
            "tenant",
            "for the header 'tenant'; there are kind, tenant-id; the column tenant is the header tenant-id",
        ),
        ({"tenant": "tenant-id"}, "other", "for the header 'other'; there are tenant-id"),
        ({}, "other", "for the header 'other'; there are none"),
    ],
)
def test_a_header_without_a_column_is_refused_with_those_that_have_one(
    headers: dict[str, str], header: str, message: str
) -> None:
    event = Event(aggregate_type="order", aggregate_id="1", type="Placed", payload={}, headers={header: "x"})
    with pytest.raises(EventError) as refused:
        draft(event, OutboxTable(headers=headers), Dialect.POSTGRESQL, max_message_bytes=None)
    assert str(refused.value) == f"the table has no column {message}"
