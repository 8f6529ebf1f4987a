"""Handlers that take long, in a group of two: what a batch did is not thrown away."""

import threading
import time
from collections import Counter
from dataclasses import replace

from cdc_outbox.consumer import Consumer, RecordedEvent
from tests.support.events import make_event
from tests.support.rig import Connection, eventually
from tests.support.service import QUICKLY_MISSED, Service, apply_effect, effects_of
from tests.support.timings import QUICK_LIMITS

HANDLER_SECONDS = 0.04
EVENTS = {0: 300, 1: 100}
"""By partition. As many as would be in one batch take longer than the group waits for a member that does not poll."""


def slow_consumer(service: Service, calls: Counter[str], lock: threading.Lock) -> Consumer:
    """Return a consumer whose group soon takes a member for dead that does not poll."""
    consumer = service.consumer(
        limits=replace(QUICK_LIMITS, handler_seconds=0.5),
        kafka_settings=QUICKLY_MISSED | {"max.poll.interval.ms": 2000},
    )

    @consumer.on("Reported")
    def report(event: RecordedEvent, connection: Connection) -> None:
        with lock:
            calls[event.id] += 1
        time.sleep(HANDLER_SECONDS)  # the work itself
        apply_effect(event, connection)

    return consumer


def test_two_instances_with_slow_handlers_do_their_work_once(two_partition_service: Service) -> None:
    service, calls, lock = two_partition_service, Counter[str](), threading.Lock()
    for partition, events in EVENTS.items():
        sent = (make_event(number, f"p{partition}", event_type="Reported") for number in range(1, events + 1))
        service.send(*sent, partition=partition)
    with (
        service.running(slow_consumer(service, calls, lock)),
        service.running(slow_consumer(service, calls, lock)),
    ):
        wanted = [*effects_of(300, "p0"), *effects_of(100, "p1")]
        eventually(lambda: len(service.effects()) >= len(wanted), "all effects", seconds=120)
        service.wait_for_effects(*wanted)
    repeated = calls.total() - sum(EVENTS.values())
    assert repeated < 40, f"{repeated} handler calls were thrown away"
