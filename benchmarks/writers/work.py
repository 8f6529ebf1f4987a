"""What every side of the benchmark writes."""

import json
import uuid
from typing import ClassVar, Protocol, runtime_checkable

from benchmarks.writers.database import WriterDatabase
from cdc_outbox import AsyncOutbox, Event, Outbox
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.sql import ParameterStyle

PAYLOAD = {"customer": 42, "items": [{"sku": f"sku-{n}", "quantity": n} for n in range(5)], "note": "as usual"}
"""About 200 bytes, as events are."""

ORDER = "insert into orders (customer, total_cents) values (%s, %s)"
BY_HAND = "insert into outbox (id, aggregatetype, aggregateid, type, payload) values (%s, %s, %s, %s, %s)"
LIST = 100
"""Events of one call of ``add_all``."""
AGGREGATES = 1_000
_PARAMETERS = ("id", "aggregate_type", "aggregate_id", "type", "payload")


def event(number: int) -> Event:
    """Return an event of one of a thousand aggregates."""
    aggregate_id = str(number % AGGREGATES)
    return Event(aggregate_type="order", aggregate_id=aggregate_id, type="OrderPlaced", payload=PAYLOAD)


def row(number: int) -> tuple[str, str, str, str, str]:
    """Return what hand-written code inserts, made as it would make it."""
    return str(uuid.uuid4()), "order", str(number % AGGREGATES), "OrderPlaced", json.dumps(PAYLOAD)


def parameters(number: int) -> dict[str, str]:
    """Return the same under the names that the outbox's statements have for it."""
    return dict(zip(_PARAMETERS, row(number), strict=True))


class Writer(Protocol):
    """One driver's connection. Each number is one whole transaction.

    Attributes:
        bounds: How many times as long as the hand-written side an unsequenced and a sequenced event may take.
    """

    dialect: ClassVar[Dialect]
    bounds: ClassVar[tuple[float, float]]

    def __init__(self, database: WriterDatabase) -> None: ...

    def by_hand(self, numbers: range) -> None:
        """Write a business row and an unsequenced event with the driver's own means."""

    def by_outbox(self, outbox: Outbox, twin: AsyncOutbox, numbers: range) -> None:
        """Write a business row, and the event through that outbox of the two that suits the driver."""

    def close(self) -> None:
        """Close the connection."""


@runtime_checkable
class StatementWriter(Protocol):
    """A driver whose outbox writes an event by one statement that takes ``%(name)s``.

    Attributes:
        style: How the outbox writes that statement for it.
    """

    style: ClassVar[ParameterStyle]

    def by_statement(self, sql: str, numbers: range) -> None:
        """Write a business row, and the event by the outbox's own statement with the driver's own means."""


@runtime_checkable
class ListWriter(Protocol):
    """A driver by which many events are written at once, too."""

    def list_by_hand(self, numbers: range) -> None:
        """Write a hundred unsequenced events in one statement."""

    def list_by_outbox(self, outbox: Outbox, numbers: range) -> None:
        """Write a hundred events by one call."""
