"""Events as an outbox writes them."""

from cdc_outbox.event import Event


def event(sequence: int | None, *, event_id: str = "new", aggregate_id: str = "1", source: str = "orders.1") -> Event:
    return Event(
        aggregate_type="order",
        aggregate_id=aggregate_id,
        type="OrderPlaced",
        payload={},
        id=event_id,
        sequence=sequence,
        source=source,
    )
