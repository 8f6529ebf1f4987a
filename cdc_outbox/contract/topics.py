"""A topic's partitions and settings, wanted and found; ``wire`` names the topics of events."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

HEARTBEATS = "__debezium-heartbeat"
"""What the names of topics begin with that hold no events."""

_LONGEST_NAME = 249
_REFUSED = re.compile(r"([\U00010000-\U0010ffff])|[^A-Za-z0-9._-]")


def raw_topic_name(*parts: str, delimiter: str = ".") -> str:
    """Return the topic that Debezium gives a table's changes before anything routes them.

    An underscore replaces each character that Kafka refuses; beyond the BMP, two of them: Java counts UTF-16 units.

    Args:
        parts: ``topic.prefix``, what stands before the table's name, and that name.
        delimiter: ``topic.delimiter``.
    """
    return _REFUSED.sub(lambda found: "__" if found[1] else "_", delimiter.join(parts))[:_LONGEST_NAME]


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic, as it is wanted or as it is.

    Args:
        replication_factor: -1 for the broker's default.
        config: Of its settings those that are asked for, or all that it has.
    """

    name: str
    partitions: int
    replication_factor: int = -1
    config: Mapping[str, str] = field(default_factory=dict)


_MORE_PARTITIONS = (
    "More partitions move keys, so an aggregate's events would be in two partitions and lose their order: "
    "drain the pipeline first, as described in docs/deploying.md."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDifference:
    """What of a topic is not as its spec says.

    Args:
        is_refused: To make it so breaks the order of the events that are in it.
    """

    topic: str
    text: str
    remedy: str
    is_refused: bool = False

    def __str__(self) -> str:
        return f"{self.topic}: {self.text} {self.remedy}"


def differences(wanted: Topic, found: Topic) -> Iterator[TopicDifference]:
    """Yield what of a topic is not as it is wanted. Pure."""
    name = wanted.name
    if found.partitions < wanted.partitions:
        text = f"has {_count(found.partitions)}, and the spec sets {wanted.partitions}."
        yield TopicDifference(topic=name, text=text, remedy=_MORE_PARTITIONS, is_refused=True)
    # Of heartbeats no order can be lost: Connect gives their topic as many partitions as the events'.
    if found.partitions > wanted.partitions and not name.startswith(HEARTBEATS):
        text = f"has {_count(found.partitions)}, and the spec sets {wanted.partitions}."
        yield TopicDifference(
            topic=name, text=text, remedy="Kafka cannot remove partitions: correct topics.partitions."
        )
    if wanted.replication_factor not in {-1, found.replication_factor}:
        text = f"has {found.replication_factor} replicas, and the spec sets {wanted.replication_factor}."
        yield TopicDifference(
            topic=name, text=text, remedy="Change the number of replicas with kafka-reassign-partitions."
        )
    yield from _settings(name, wanted.config, found.config)


def find_loss(topic: Topic, *, brokers: int) -> TopicDifference | None:
    """Return how messages that were acknowledged can be lost with one broker, ``None`` if they cannot. Pure.

    Args:
        topic: As it is, with all its settings.
        brokers: How many the cluster has; of one, nothing is asked.
    """
    name, replicas = topic.name, topic.replication_factor
    needed = f"Run kafka-configs --alter --topic {name} --add-config min.insync.replicas=2"
    if brokers < 2:
        return None
    if replicas == 1:
        text = "has 1 replica: its messages are lost with that broker's disk."
        remedy = f"Change the number of replicas with kafka-reassign-partitions, to 3 if possible. {needed}"
    elif int(topic.config.get("min.insync.replicas", "1")) < 2:
        text = (
            f"has {replicas} replicas and min.insync.replicas=1: while the others lag or are down, a message that only "
            "the leader has is acknowledged, and lost with the leader."
        )
        remedy = needed
    elif topic.config.get("unclean.leader.election.enable") == "true":
        text = (
            "has unclean.leader.election.enable=true: a replica without the last acknowledged messages may become the "
            "leader, and they are lost."
        )
        remedy = f"Run kafka-configs --alter --topic {name} --add-config unclean.leader.election.enable=false"
    else:
        return None
    return TopicDifference(topic=name, text=text, remedy=remedy)


def _settings(name: str, wanted: Mapping[str, str], found: Mapping[str, str]) -> Iterator[TopicDifference]:
    for key, value in wanted.items():
        # Debezium writes out the longest time that there is, where we say for ever.
        is_forever = key == "retention.ms" and value == "-1" and found.get(key) == str(2**63 - 1)
        if found.get(key) != value and not is_forever:
            text = f"has {key}={found.get(key, '')}, and the spec sets {value}."
            remedy = f"Run kafka-configs --alter --topic {name} --add-config {key}={value}"
            yield TopicDifference(topic=name, text=text, remedy=remedy)


def _count(partitions: int) -> str:
    return "1 partition" if partitions == 1 else f"{partitions} partitions"
