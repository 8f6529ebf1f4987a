"""A pipeline without a connector: what is written is carried by hand, so that it can be lost, changed and held back."""

from confluent_kafka import Consumer as Reader
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from cdc_outbox import Event
from tests.support.rig import Pipeline, Shop, eventually


def make_shop(pipeline: Pipeline) -> Shop:
    """Create the topics, and a consuming service behind them."""
    for topic in pipeline.spec.contract.topics:
        pipeline.stack.broker.create_topic(topic, partitions=3)
    return Shop(pipeline)


def carry(pipeline: Pipeline, events: list[Event]) -> None:
    """Do what a connector does."""
    pipeline.produce(*(pipeline.spec.contract.message_of(event) for event in events))


def write(pipeline: Pipeline, count: int = 1, aggregate_id: str = "1", event_type: str = "OrderPlaced") -> list[Event]:
    """Write events of one aggregate, and carry them."""
    events = pipeline.write(count, aggregate_id, event_type)
    carry(pipeline, events)
    return events


def offset_of(shop: Shop) -> int:
    """Return the sum of the group's offsets."""
    settings = {"bootstrap.servers": shop.pipeline.stack.broker.bootstrap_servers, "group.id": shop.name}
    reader = Reader(settings)
    try:
        places = [TopicPartition(shop.pipeline.topic, number) for number in range(3)]
        return sum(max(0, place.offset) for place in reader.committed(places, timeout=10))
    finally:
        reader.close()


def consume_and_leave(shop: Shop, count: int) -> None:
    """Run the consumer until there are so many effects and their offset is committed."""
    shop.consume(count)
    eventually(lambda: offset_of(shop) == len(shop.pipeline.messages()), "the offset to follow")


def skip_to_the_end(shop: Shop) -> None:
    """Move the group's offset past everything, as an accident does."""
    settings = {"bootstrap.servers": shop.pipeline.stack.broker.bootstrap_servers, "group.id": shop.name}
    ends = shop.pipeline.stack.broker.ends(shop.pipeline.topic)
    reader = Reader(settings)
    try:
        places = [TopicPartition(shop.pipeline.topic, partition, end) for partition, end in ends.items()]
        reader.commit(offsets=places, asynchronous=False)
    finally:
        reader.close()


def forget_first(pipeline: Pipeline, count: int) -> None:
    """Delete the first messages of the topic's first partition that holds any, as retention does."""
    place = pipeline.messages()[0].partition or 0
    admin = AdminClient({"bootstrap.servers": pipeline.stack.broker.bootstrap_servers})
    [answer] = admin.delete_records([TopicPartition(pipeline.topic, place, count)]).values()
    answer.result()
