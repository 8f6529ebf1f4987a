"""A consumer that writes further events, and how it is handed messages without a broker."""

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from cdc_outbox import RecordedEvent, SequenceMode, WireContract
from cdc_outbox.consumer import AsyncConsumer, Consumer, Outcome
from cdc_outbox.consumer.item import item_of
from cdc_outbox.consumer.limits import ENDLESS
from cdc_outbox.consumer.session import Session
from cdc_outbox.databases.drivers.immediate import finish

CAUSES = ("causation_id", "correlation_id")
CONTRACT = WireContract(
    aggregates={"order": SequenceMode.GAPLESS, "price": SequenceMode.INCREASING}, extra_headers=CAUSES
)


def deliver(
    consumer: Consumer | AsyncConsumer,
    *events: RecordedEvent,
    runs: Callable[[Coroutine[Any, Any, list[Outcome]]], list[Outcome]] = finish,
) -> list[Outcome]:
    """Apply events in one transaction, as the consumer's loop does, through messages."""

    async def apply() -> list[Outcome]:
        session = Session(consumer._database.connect, consumer._know)
        messages = [replace(CONTRACT.message_of(event), partition=0, offset=0) for event in events]
        try:
            return (await session.apply([item_of(message, CONTRACT) for message in messages], {}, ENDLESS)).outcomes
        finally:
            await session.close()

    return runs(apply())
