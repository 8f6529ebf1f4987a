"""Which topics a pipeline has. Whoever creates them, renders them or looks at them asks here. Pure."""

from cdc_outbox.connect.render import render, topic_settings
from cdc_outbox.spec import Spec
from cdc_outbox.topic import HEARTBEATS, Topic

_FOREVER = "-1"


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
    if spec.history.topic:
        # What is gone of it keeps the connector from starting.
        whole = {"cleanup.policy": "delete", "retention.ms": _FOREVER, "retention.bytes": _FOREVER}
        found.append(Topic(name=spec.history.topic, partitions=1, replication_factor=replicas, config=whole))
    return found
