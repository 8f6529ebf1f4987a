"""The ``cloudevents`` package as the judge of our messages."""

from typing import Any

from cloudevents.core.bindings.kafka import KafkaMessage, from_kafka
from cloudevents.core.formats.json import JSONFormat

from cdc_outbox.message import Message


def judged(message: Message) -> tuple[dict[str, Any], Any]:
    """Return attributes and data as the package reads them; it fails on an attribute without a value."""
    headers = {name: value for name, value in message.headers if value is not None or name.startswith("ce_")}
    assert None not in headers.values()
    event = from_kafka(KafkaMessage(headers, message.key, message.value or b""), JSONFormat())  # type: ignore[arg-type]
    return event.get_attributes(), event.get_data()
