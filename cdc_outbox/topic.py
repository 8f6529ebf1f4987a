"""A topic, as it shall be or as it is."""

from collections.abc import Mapping
from dataclasses import dataclass, field

HEARTBEATS = "__debezium-heartbeat"
"""What the names of topics begin with that hold no events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic, as it shall be or as it is.

    Args:
        replication_factor: -1 for the broker's default.
        config: Of its settings those that are asked for, or all that it has.
    """

    name: str
    partitions: int
    replication_factor: int = -1
    config: Mapping[str, str] = field(default_factory=dict)
