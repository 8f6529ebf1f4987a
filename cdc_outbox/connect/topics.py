"""Which topics a pipeline has. Whoever creates them, renders them or looks at them asks here. Pure."""

from cdc_outbox.connect.render import FOREVER, render, topic_settings
from cdc_outbox.spec import Spec
from cdc_outbox.topic import HEARTBEATS, Topic


def topics_of(spec: Spec) -> list[Topic]:
    """Return every topic that a pipeline writes to: its events', its heartbeats', and its history's where it has one.

    Those of the events are as Connect would make them, overrides included. Pure.

    Raises:
        ConfigError: The spec cannot be rendered.
    """
    replicas, settings = spec.topics.replication_factor, topic_settings(render(spec))
    found = [
        Topic(name=name, partitions=spec.topics.partitions, replication_factor=replicas, config=settings)
        for name in spec.contract.topics
    ]
    heartbeats = f"{HEARTBEATS}.{spec.topic_prefix}"
    found.append(Topic(name=heartbeats, partitions=1, replication_factor=replicas, config={"cleanup.policy": "delete"}))
    # What is gone of the one keeps the connector from starting, and of the other nobody knows any more.
    kept = filter(None, (spec.heartbeat_topic, spec.history.topic))
    return [*found, *(Topic(name=name, partitions=1, replication_factor=replicas, config=FOREVER) for name in kept)]
