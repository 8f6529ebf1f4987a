"""The Kafka client, confluent-kafka: an extra brings it, and it is imported when one of its names is first used.

Every other module takes the client's names from here, as ``confluent.Consumer``, so that a service that only writes,
and a command that talks to no broker, work without the package. Annotations are strings for the same reason.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cdc_outbox.errors import OutboxError

if TYPE_CHECKING:
    from confluent_kafka import (
        OFFSET_END,
        TIMESTAMP_NOT_AVAILABLE,
        Consumer,
        KafkaError,
        KafkaException,
        Message,
        Producer,
        TopicCollection,
        TopicPartition,
        Uuid,
    )
    from confluent_kafka.admin import AdminClient, OffsetSpec, TopicDescription  # type: ignore[attr-defined] # not in its __all__
    from confluent_kafka.admin._config import ConfigResource
    from confluent_kafka.admin._resource import ResourceType
    from confluent_kafka.cimpl import NewTopic

__all__ = [
    "OFFSET_END",
    "TIMESTAMP_NOT_AVAILABLE",
    "AdminClient",
    "ConfigResource",
    "Consumer",
    "KafkaError",
    "KafkaException",
    "Message",
    "NewTopic",
    "OffsetSpec",
    "Producer",
    "ResourceType",
    "TopicCollection",
    "TopicDescription",
    "TopicPartition",
    "Uuid",
    "require",
]

_OF_ADMIN = frozenset({"AdminClient", "ConfigResource", "NewTopic", "OffsetSpec", "ResourceType", "TopicDescription"})


def require() -> None:
    """Import the client, so that a missing one is found before anything is changed.

    Raises:
        OutboxError: It is not installed.
    """
    _imported("confluent_kafka")


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the client has under this name
    """Return one of the client's names.

    Raises:
        OutboxError: The client is not installed.
    """
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Found here at the next use: this runs for the first use alone.
    found = globals()[name] = getattr(
        _imported("confluent_kafka.admin" if name in _OF_ADMIN else "confluent_kafka"), name
    )
    return found


def _imported(module: str) -> Any:  # noqa: ANN401 - a module of the client
    try:
        return import_module(module)
    except ImportError as error:  # of the package, or of the libraries that it needs
        raise OutboxError(
            "the connection to the brokers needs the package confluent-kafka",
            hint="Install it with `pip install 'cdc-outbox[kafka]'`.",
        ) from error
