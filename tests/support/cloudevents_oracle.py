"""The ``cloudevents`` package as the judge of our messages."""

from typing import Any

from cloudevents.core.bindings.kafka import KafkaMessage, from_kafka
from cloudevents.core.formats.json import JSONFormat

from cdc_outbox.message import Message


def judged(message: Message) -> tuple[dict[str, Any], Any]:
    """Return attributes and data as the package reads the message as it is sent."""
    sent = KafkaMessage(dict(message.headers), message.key, message.value or b"")  # type: ignore[arg-type]
    event = from_kafka(sent, JSONFormat())
    return event.get_attributes(), event.get_data()
