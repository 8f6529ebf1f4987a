"""Where messages go: a function, or lines of JSON; Kafka: :mod:`cdc_outbox.relay.kafka_sink`."""

import base64
import json
from collections.abc import Callable
from io import TextIOBase
from typing import IO, Any, Protocol

from cdc_outbox.debezium.event_router.produce import message_of_event
from cdc_outbox.message import Message
from cdc_outbox.relay.relay_errors import DeliveryError
from cdc_outbox.relay.units import Unit


class Sink(Protocol):
    """Takes as many messages of a unit as it has room for, in their order.

    Order: a key's messages become visible in the order in which they were taken. Durability: a message is reported as
    delivered only when the next system has it durably. Repetition: none of its own. Errors: every message that was
    taken is reported exactly once, by ``unit.delivered`` from within ``send``, ``poll`` or ``close``; after a failure
    nothing that was taken later becomes visible while the failed one is not.
    """

    def send(self, unit: Unit[Any], start: int) -> int:
        """Take messages of a unit, and return how many.

        Args:
            start: The first message to take; those before it were taken.
        """

    def poll(self, seconds: float) -> None:
        """Report what happened to messages, and wait for it at most so long.

        Raises:
            DeliveryError: The sink delivers nothing more, and takes nothing more; close it.
        """

    def close(self, seconds: float) -> None:
        """Deliver what was taken, for so long at most; after a failure, or with 0, give it up and report that.

        A second call does nothing.
        """


class CallableSink:
    """Calls a function with each message, one after the other.

    Args:
        deliver: Returns when the next system has the message durably. If it raises, the message was not delivered: the
            relay reads it, and those after it, again.
    """

    def __init__(self, deliver: Callable[[Message], None]) -> None:
        self._deliver = deliver
        self._has_failed = False

    def send(self, unit: Unit[Any], start: int) -> int:
        """Take one message, so that the relay stays responsive between two calls."""
        if self._has_failed or start >= len(unit.events):
            return 0
        try:
            self._deliver(message_of_event(unit.events[start]))
        except Exception as error:  # noqa: BLE001 - whatever the function raises, the message is not delivered
            self._has_failed = True
            failure = DeliveryError(f"the function raised {type(error).__name__}")
            failure.__cause__ = error
            unit.delivered(failure)
        else:
            unit.delivered()
        return 1

    def poll(self, seconds: float) -> None:
        """Do nothing: every message is reported when it is sent."""

    def close(self, seconds: float) -> None:
        """Do nothing: nothing is under way between two calls."""


class JsonLinesSink(CallableSink):
    """Writes a JSON object a line, flushed: topic, key, value, headers, partition and timestamp_ms.

    Bytes are texts, or objects such as ``{"base64": "AP8="}`` where they are not UTF-8.
    """

    def __init__(self, stream: IO[str] | TextIOBase) -> None:
        super().__init__(self._write)
        self._stream = stream

    def _write(self, message: Message) -> None:
        line = {
            "topic": message.topic,
            "key": _text(message.key),
            "value": _text(message.value),
            "headers": [[name, _text(value)] for name, value in message.headers],
            "partition": message.partition,
            "timestamp_ms": message.timestamp_ms,
        }
        # Escaped: a terminal obeys control characters.
        self._stream.write(json.dumps(line) + "\n")
        self._stream.flush()


def _text(value: bytes | None) -> Any:  # noqa: ANN401 - JSON
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}
