"""What is looked at before a statement is made of an event."""

import pytest

from cdc_outbox import TOMBSTONE, Event, EventError, EventSchemas, OutboxTable, PayloadType
from cdc_outbox.table import Dialect
from cdc_outbox.writer.draft import Draft, draft


def drafted(payload: object, *, limit: int | None = None, schemas: EventSchemas | None = None) -> Draft:
    table = OutboxTable(payload_type=PayloadType.BYTES if isinstance(payload, bytes) else PayloadType.JSON)
    event = Event(aggregate_type="order", aggregate_id="42", type="Placed", payload=payload)
    return draft(event, table, Dialect.POSTGRESQL, max_message_bytes=limit, schemas=schemas)


@pytest.mark.parametrize(
    ("payload", "encoded", "size"),
    [({"a": "ü"}, '{"a":"ü"}', 10), (' "ü"', ' "ü"', 5), (b"\0\xff", b"\0\xff", 2), (TOMBSTONE, None, 0)],
)
def test_the_limit_counts_the_bytes_of_what_is_stored(payload: object, encoded: object, size: int) -> None:
    key = len("42")
    assert drafted(payload, limit=size + key).payload == encoded
    with pytest.raises(EventError, match=f"{size + key} bytes, the limit is {size + key - 1}"):
        drafted(payload, limit=size + key - 1)


def test_a_payload_is_held_to_the_schema_of_its_type() -> None:
    schemas = EventSchemas({("Placed", None): {"required": ["total"]}})
    assert drafted({"total": 1}, schemas=schemas).payload == '{"total":1}'
    with pytest.raises(EventError, match="breaks its schema"):
        drafted({}, schemas=schemas)
