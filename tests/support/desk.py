"""A consuming service without a pipeline: a database, and topics that a test writes events to by itself."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from cdc_outbox import Event
from cdc_outbox.consumer import Retry
from cdc_outbox.event import new_event_id
from cdc_outbox.message import Message
from cdc_outbox.spec import parse_spec
from cdc_outbox.testing import Stack
from tests.support.rig import Pipeline, Shop, eventually

AGGREGATES = ("order", "invoice", "metric")
"""Numbered without gaps, increasingly, and not at all."""


PATIENT = Retry(inline_retry_seconds=0, parked_pause_seconds=3600)
"""What fails is parked at once, and stays there as long as a test takes."""
HASTY = Retry(inline_retry_seconds=0, parked_pause_seconds=0.05, longest_pause_seconds=0.05, max_attempts=3)
"""What fails is parked at once, tried again soon, and given up soon."""


class Feed(Pipeline):
    """Topics without an outbox and a connector."""

    @classmethod
    def open(cls, stack: Stack, partitions: int = 1) -> "Feed":
        """Create the database and the topics."""
        name = f"f{uuid4().hex[:10]}"
        feed = cls(stack, parse_spec(cls.text(name), name=f"{name}.yaml"), stack.postgres.create_database(name))
        for aggregate_type in AGGREGATES:
            stack.broker.create_topic(feed.spec.contract.topic_of(aggregate_type), partitions=partitions)
        return feed

    @staticmethod
    def text(name: str, extra: str = "") -> str:
        """Return the spec's YAML."""
        aggregates = "order: {}\n  invoice: {sequence: increasing}"
        return Pipeline.text(name, extra).replace("order: {}", aggregates)


class Desk(Shop):
    """The service; what it does with the events of a feed is rows of ``effects``."""

    def send(self, *events: Event, partition: int | None = None) -> list[Message]:
        """Put events into their topics, and return the messages."""
        messages = [replace(self.pipeline.spec.contract.message_of(event), partition=partition) for event in events]
        self.pipeline.produce(*messages)
        return messages

    def parked(self) -> list[tuple[int | None, str, str]]:
        """Return sequence, state and reason of each parked event, in the order in which they were parked."""
        query = "select sequence, state, reason from inbox_parked where consumer = %s order by place"
        return self.rows(query, self.name)

    def rows(self, query: str, *parameters: Any) -> list[Any]:
        """Return what a query returns."""
        with self.pipeline.connect() as connection:
            return connection.execute(query.encode(), parameters).fetchall()

    def wait_for_effects(self, *effects: tuple[str, int]) -> None:
        """Wait for exactly these effects, and in this order within each aggregate."""
        eventually(lambda: len(self.effects()) >= len(effects), f"{len(effects)} effects")
        assert in_order(self.effects()) == in_order(effects)

    def wait_for_parked(self, *parked: tuple[int | None, str, str]) -> None:
        """Wait until exactly these events are parked."""
        eventually(lambda: sorted(self.parked(), key=str) == sorted(parked, key=str), f"{parked} in the park")


def in_order(effects: Any) -> dict[str, list[int]]:
    """Return the numbers of each aggregate, in the order in which their effects were committed."""
    found: dict[str, list[int]] = {}
    for aggregate, sequence in effects:
        found.setdefault(aggregate, []).append(sequence)
    return found


def placed(
    sequence: int | None, aggregate_id: str = "1", event_type: str = "OrderPlaced", aggregate_type: str = "order"
) -> Event:
    """Return an event as an outbox writes it."""
    return Event(
        aggregate_type=aggregate_type,
        aggregate_id=aggregate_id,
        type=event_type,
        payload={},
        id=new_event_id(),
        sequence=sequence,
        source="orders.1",
        created_at=datetime.now(UTC),
    )


def numbered(count: int, aggregate_id: str = "1", start: int = 1) -> list[tuple[str, int]]:
    """Return the effects of an aggregate's first events."""
    return [(aggregate_id, number) for number in range(start, start + count)]
