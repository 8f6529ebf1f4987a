"""The points of a relay's loop at which something may happen to it, and how a process notices that it is there.

The product knows nothing of them: what is named here is wrapped from outside.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

from cdc_outbox.databases.publishers import Publishers
from cdc_outbox.databases.replication import ReplicationConnection
from cdc_outbox.relay.kafka_sink import KafkaSink
from cdc_outbox.relay.relay_stats import RelayStats
from cdc_outbox.relay.units import Unit
from cdc_outbox.relay.wal_source import WalSource
from tests.faults.wrapping import call_after, call_before
from tests.support.patience import patience


class RelayPoint(StrEnum):
    BEFORE_SLOT = "before-slot"
    """Its row, slot and publication are looked at, and the slot is not read yet."""
    AFTER_CLAIM = "after-claim"
    """It has its epoch, and has read nothing."""
    RECEIVED = "received"
    """Events were read, and not one of them produced."""
    IN_TRANSACTION = "in-transaction"
    """A part of a large transaction is delivered, and its commit not read."""
    PRODUCED = "produced"
    """The client has the messages, and reported none of them."""
    REPORTED = "reported"
    """The brokers have acknowledged them, and the position is not written down."""
    WRITTEN_DOWN = "written-down"
    """The row has the position, and the slot has not."""
    CONFIRMED = "confirmed"
    IDLE = "idle"
    """A keepalive was read, and no event."""
    DRAINING = "draining"
    """It was stopped, and delivers what it has read."""


def _is_delivered_part(taken: int, sink: KafkaSink, unit: Unit[Any], *_: object) -> bool:
    """Tell whether a sink took a part of a transaction, and deliver it before something happens."""
    if not taken or unit.position is not None:
        return False
    sink._producer.flush(patience())
    return True


def _has_events(unit: Unit[Any] | None, *_: object) -> bool:
    return unit is not None and bool(unit.events)


def _is_keepalive(unit: Unit[Any] | None, *_: object) -> bool:
    return unit is not None and not unit.events


def _took_some(taken: int, *_: object) -> bool:
    return taken > 0


class _Advances:
    """Tells whether a status update confirms more than the one before."""

    def __init__(self) -> None:
        self._told: int | None = None

    def __call__(self, _: object, stream: ReplicationConnection, confirmed: int) -> bool:
        before, self._told = self._told, confirmed
        return before is not None and confirmed > before


_BEFORE: Mapping[RelayPoint, tuple[type, str]] = {
    RelayPoint.BEFORE_SLOT: (ReplicationConnection, "start"),
    RelayPoint.REPORTED: (Publishers, "confirm"),
}
_AFTER: Mapping[RelayPoint, tuple[type, str]] = {
    RelayPoint.AFTER_CLAIM: (Publishers, "declare"),
    RelayPoint.WRITTEN_DOWN: (Publishers, "confirm"),
    RelayPoint.DRAINING: (RelayStats, "stops"),
}
_AFTER_SOME: Mapping[RelayPoint, tuple[type, str, Callable[..., bool]]] = {
    RelayPoint.RECEIVED: (WalSource, "read", _has_events),
    RelayPoint.IN_TRANSACTION: (KafkaSink, "send", _is_delivered_part),
    RelayPoint.PRODUCED: (KafkaSink, "send", _took_some),
    RelayPoint.CONFIRMED: (ReplicationConnection, "tell", _Advances()),
    RelayPoint.IDLE: (WalSource, "read", _is_keepalive),
}


def notice_relay_at(point: RelayPoint, reach: Callable[[], None]) -> None:
    """Have this process call something whenever its relay is at a point."""
    if point in _BEFORE:
        call_before(*_BEFORE[point], reach)
    elif point in _AFTER:
        call_after(*_AFTER[point], reach)
    else:
        owner, name, concerns = _AFTER_SOME[point]
        call_after(owner, name, reach, concerns)
