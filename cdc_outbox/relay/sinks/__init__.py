"""Where messages go: Kafka, a function, or lines of JSON."""

from typing import Any, Protocol

from cdc_outbox.relay.unit import Unit


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
