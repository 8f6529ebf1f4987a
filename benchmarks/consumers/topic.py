"""A topic full of events, as a connector would have filled it."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from benchmarks.consumers.work import AGGREGATE_TYPE, EVENT_TYPE, contract_of
from cdc_outbox.event import RecordedEvent, new_event_id
from cdc_outbox.testing import Stack

PARTITIONS = 4
VALUE_BYTES = 200
_PAYLOAD = {"customer": 42, "items": [{"sku": f"sku-{n}", "quantity": n} for n in range(4)], "note": ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic and what is in it.

    Args:
        last_ids: The last event of each partition: once these have effects, the others have had their turn.
    """

    name: str
    events: int
    last_ids: list[str]


def fill(stack: Stack, name: str, *, events: int, per_aggregate: int, open_at_once: int) -> Topic:
    """Make a topic of so many events, of aggregates that live one generation after the other and take turns in it."""
    stack.broker.create_topic(name, partitions=PARTITIONS)
    settings = {"bootstrap.servers": stack.broker.bootstrap_servers, "linger.ms": 20, "acks": "all"}
    producer = Producer({**settings, "partitioner": "murmur2", "max.in.flight": 1})
    contract, payload, last_ids = contract_of(name), _payload(), dict[int, str]()
    for aggregate_id, sequence in _numbers(events, per_aggregate, open_at_once):
        event = RecordedEvent(
            id=new_event_id(),
            aggregate_type=AGGREGATE_TYPE,
            aggregate_id=str(aggregate_id),
            type=EVENT_TYPE,
            payload=payload,
            sequence=sequence,
            source="bench.1",
            created_at=datetime.now(UTC),
        )
        message = contract.message_of(event)

        def note(error: KafkaError | None, record: "Message[bytes, bytes]", event: RecordedEvent = event) -> None:
            if error is not None:
                raise KafkaException(error)
            last_ids[record.partition() or 0] = event.id

        while producer.poll(0) or len(producer) > 50_000:
            producer.poll(0.01)
        producer.produce(
            name,
            key=message.key,
            value=message.value,
            headers=list(message.headers),
            timestamp=message.timestamp_ms or 0,
            on_delivery=note,
        )
    producer.flush()
    return Topic(name=name, events=events, last_ids=sorted(last_ids.values()))


def _numbers(events: int, per_aggregate: int, open_at_once: int) -> Iterator[tuple[int, int]]:
    """Return which aggregate each event is about, and its sequence."""
    generation = open_at_once * per_aggregate
    for number in range(events):
        older, age = divmod(number, generation)
        yield older * open_at_once + age % open_at_once, age // open_at_once + 1


def _payload() -> str:
    short = json.dumps(_PAYLOAD)
    return json.dumps({**_PAYLOAD, "note": "x" * (VALUE_BYTES - len(short))})
