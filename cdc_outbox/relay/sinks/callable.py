"""A sink that calls a function with each message."""

from collections.abc import Callable
from typing import Any

from cdc_outbox.message import Message
from cdc_outbox.relay.relay_errors import DeliveryError
from cdc_outbox.relay.unit import RoutedEvent, Unit


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


def message_of_event(event: RoutedEvent) -> Message:
    """Return a routed event as a value."""
    topic, value, key, partition, timestamp_ms, headers = event
    return Message(
        topic=topic,
        value=value,
        key=key,
        partition=None if partition < 0 else partition,
        timestamp_ms=timestamp_ms,
        headers=tuple(headers),
    )
