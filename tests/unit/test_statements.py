from typing import Any

import pytest

from cdc_outbox import TOMBSTONE, Event, EventError, OutboxTable
from cdc_outbox.writer.statements import OutboxStatements


def stored(payload: Any, *, max_payload_bytes: int | None) -> Any:
    statements = OutboxStatements(
        table=OutboxTable(),
        contract=None,
        max_payload_bytes=max_payload_bytes,
        dialect="postgresql",
        parameter=lambda name: f"%({name})s",
    )
    event = Event(aggregate_type="order", aggregate_id="1", type="OrderPlaced", payload=payload)
    return statements.add(event)[1]["payload"]


@pytest.mark.parametrize(
    ("payload", "encoded", "size"),
    [({"a": "ü"}, '{"a":"ü"}', 10), (' "ü"', ' "ü"', 5), (b"\0\xff", b"\0\xff", 2), (TOMBSTONE, None, 0)],
)
def test_the_limit_counts_the_bytes_of_what_is_stored(payload: object, encoded: object, size: int) -> None:
    assert stored(payload, max_payload_bytes=size) == encoded
    assert stored(payload, max_payload_bytes=None) == encoded
    if size:
        with pytest.raises(EventError, match=f"has {size} bytes, the limit is {size - 1}"):
            stored(payload, max_payload_bytes=size - 1)
