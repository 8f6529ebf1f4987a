"""The group: joining it, what a rebalance changes, partitions that wait, and which errors stop a consumer."""

import logging
from collections.abc import Collection

from cdc_outbox import kafka_client
from cdc_outbox.consumer.epochs import Place
from cdc_outbox.consumer.item import Item
from cdc_outbox.consumer.keeper import Keeper
from cdc_outbox.consumer.limits import Limits
from cdc_outbox.consumer.offsets import Offsets, rewind
from cdc_outbox.consumer.ownership import Ownership
from cdc_outbox.consumer.watch import Watch
from cdc_outbox.errors import ParkFullError
from cdc_outbox.kafka_errors import raise_stopping

_log = logging.getLogger(__name__)


def subscribe(  # noqa: PLR0917 - all that a rebalance concerns
    client: "kafka_client.Consumer",
    topics: Collection[str],
    keeper: Keeper,
    offsets: Offsets,
    ownership: Ownership,
    limits: Limits,
    watch: Watch,
) -> None:
    """Join the group; the callbacks come while somebody polls."""

    def assign(_client: "kafka_client.Consumer", partitions: "list[kafka_client.TopicPartition]") -> None:
        watch.rebalanced("assigned")
        places = [Place(partition.topic, partition.partition) for partition in partitions]
        for place in places:
            keeper.drop(place)  # it comes again: a partition is read anew from what was committed
        ownership.assign(places)

    def revoke(client: "kafka_client.Consumer", partitions: "list[kafka_client.TopicPartition]") -> None:
        watch.rebalanced("revoked")
        # The transaction at hand may still end, and its offsets be committed; who comes next waits for us that long.
        keeper.wait_until_idle(limits.handler_seconds)
        offsets.revoke(client, partitions)
        forget(client, partitions)

    def lose(client: "kafka_client.Consumer", partitions: "list[kafka_client.TopicPartition]") -> None:
        watch.rebalanced("lost")
        forget(client, partitions)

    def forget(client: "kafka_client.Consumer", partitions: "list[kafka_client.TopicPartition]") -> None:
        offsets.lose(client, partitions)
        ownership.lose(Place(partition.topic, partition.partition) for partition in partitions)

    client.subscribe(list(topics), on_assign=assign, on_revoke=revoke, on_lost=lose)


def pass_over(record: "kafka_client.Message", watch: Watch) -> None:
    """Log an error that is waited out; what waits for it is librdkafka.

    Raises:
        BrokerError: Waiting does not help.
    """
    error = record.error()
    assert error is not None  # noqa: S101 - the caller looked
    raise_stopping(error, has_joined=watch.has_joined)
    topic = {"topic": record.topic()} if record.topic() else {}
    if topic and error.code() == kafka_client.KafkaError.UNKNOWN_TOPIC_OR_PART:
        _log.warning("topic does not exist: is the aggregate type spelt as in the outbox?", extra=topic)
        return
    _log.warning("kafka reports a passing error", extra={**topic, "reason": error.str()})


def pause(client: "kafka_client.Consumer", keeper: Keeper, watch: Watch, item: Item, error: ParkFullError) -> None:
    """Let a partition wait whose next event would park more than may be.

    Raises:
        BrokerError: It was not rewound to that event.
    """
    where = {"topic": item.place.topic, "partition": item.place.partition}
    _log.error("partition is paused", extra={**where, "reason": str(error)})
    keeper.drop(item.place)
    keeper.pause(item.place)
    rewind(client, item.message)
    watch.paused(set(map(Place._make, keeper.paused_places)))


def resume(keeper: Keeper, watch: Watch) -> None:
    """Let all partitions go on that wait for room."""
    for topic, partition in keeper.resume_all():
        _log.warning("partition goes on", extra={"topic": topic, "partition": partition})
    watch.paused(set())
