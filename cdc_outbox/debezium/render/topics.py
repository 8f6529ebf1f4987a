"""How the topics of a pipeline are created: by Connect, as its connector is configured, or before it."""

from collections.abc import Iterator, Mapping

from cdc_outbox.contract.topics import HEARTBEATS, Topic
from cdc_outbox.debezium.render.capture import exactly, refuse_file
from cdc_outbox.debezium.render.options import RenderedOption, option, refuse_overrides
from cdc_outbox.spec import Spec

_EVENTS = "topic.creation.default."
_HEARTBEAT = "topic.creation.heartbeat."
_PARTITIONS, _REPLICAS = "partitions", "replication.factor"
_FOREVER: Mapping[str, str] = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
"""The settings of a topic from which nothing is ever taken."""


def _event_settings(spec: Spec) -> Iterator[RenderedOption]:
    """Yield the settings of the events' topics, by the names that brokers have for them."""
    # Compaction keeps one event an aggregate and drops the rest: not a thing to inherit from a broker's default.
    yield option("cleanup.policy", "delete")
    # The time that the router gives a record is that of its row, and what is published late would be deleted before
    # a consumer has read it: retention goes by the records' times. The row's own travels in a header.
    yield option("message.timestamp.type", "LogAppendTime")
    retention = spec.topics.retention_ms
    yield option("retention.ms", "" if retention is None else str(retention), "topics.retention")


def topic_creation(spec: Spec) -> Iterator[RenderedOption]:
    """Yield how Connect makes the topics that do not exist."""
    replicas = str(spec.topics.replication_factor)
    yield option(f"{_EVENTS}{_PARTITIONS}", str(spec.topics.partitions), "topics.partitions")
    yield option(f"{_EVENTS}{_REPLICAS}", replicas, "topics.replication_factor")
    yield from (option(f"{_EVENTS}{each.name}", each.value, *each.origins) for each in _event_settings(spec))
    if spec.heartbeat_topic is not None:
        # Their order is what counts, and how far back they go.
        yield option("topic.creation.groups", "heartbeat", "topics.name")
        yield option(f"{_HEARTBEAT}include", exactly(spec.heartbeat_topic), "topics.name")
        yield option(f"{_HEARTBEAT}{_PARTITIONS}", "1")
        yield option(f"{_HEARTBEAT}{_REPLICAS}", replicas, "topics.replication_factor")
        yield from (option(f"{_HEARTBEAT}{name}", value) for name, value in _FOREVER.items())


def topics_of(spec: Spec) -> list[Topic]:
    """Return every topic that a pipeline writes to: its events', its heartbeats', and its history's where it has one.

    Those of the events are as Connect would make them, overrides included. Pure.

    Raises:
        ConfigError: No connector reads the database, or an override is refused.
    """
    refuse_file(spec)
    refuse_overrides(spec, topic_creation(spec))
    replicas = spec.topics.replication_factor
    settings = {each.name: each.value for each in _event_settings(spec) if each.value}
    settings |= {
        name.removeprefix(_EVENTS): value for name, value in spec.overrides.items() if name.startswith(_EVENTS)
    }
    found = [
        Topic(name=name, partitions=spec.topics.partitions, replication_factor=replicas, config=settings)
        for name in spec.contract.topics
    ]
    heartbeats = f"{HEARTBEATS}.{spec.topic_prefix}"
    found.append(Topic(name=heartbeats, partitions=1, replication_factor=replicas, config={"cleanup.policy": "delete"}))
    # Without its history the connector does not start, and deleted heartbeats exist nowhere else.
    kept = filter(None, (spec.heartbeat_topic, spec.history.topic))
    return [*found, *(Topic(name=name, partitions=1, replication_factor=replicas, config=_FOREVER) for name in kept)]
