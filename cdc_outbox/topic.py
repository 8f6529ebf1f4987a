"""A topic, as it is wanted or as it is."""

import re
from collections.abc import Mapping
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
