"""What may be deleted from an outbox, decided from values. Pure.

No age proves that an event was delivered. A *mark* does, later: it is a look at the database that says where its log
ended, and which was the oldest transaction that still ran. Everything that older transactions wrote was committed
before the log came there. So once the delivery has passed that position, all of it was delivered.

That needs the delivery at the mark and the one that passed it to be the same. A slot that was dropped and made again
starts ahead of every earlier mark, and has delivered nothing; what PostgreSQL shows of it tells it from the old one by
nothing but the connection that reads it, for a slot that is read cannot be dropped. So a mark counts only while the
reader of its time still reads. When a connector was started anew, the next mark takes over.

What a slot does not hold because it is younger than the rows is decided before anybody reads it: ``deploy-connector``
refuses, publishes the rows again, or leaves them out because it was told to.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, Protocol, TypeVar

from cdc_outbox.errors import UnprovenDeliveryError
from cdc_outbox.lsn import Lsn


class Position(Protocol):
    """A place in a database's log, in log order: an LSN, or what else a log counts by."""

    def __le__(self, other: Any, /) -> bool: ...  # noqa: ANN401 - one of its own kind


PositionT = TypeVar("PositionT", bound=Position)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark(Generic[PositionT]):
    """One look at the database.

    Args:
        position: Where its log ended after the look: whatever the look saw lies before.
        oldest: The oldest transaction that ran; every older one had ended, savepoints and all.
        reader: Who delivered then.
        taken_at: By the database's clock.
    """

    position: PositionT
    oldest: int
    reader: str
    taken_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery(Generic[PositionT]):
    """How far delivery has come: what a slot says on PostgreSQL, elsewhere a connector's stored position.

    Args:
        name: What an operator calls it, for example ``the slot orders_outbox``.
        confirmed: Everything before was delivered, and is never sent again.
        reader: Who delivers, another one after every start; empty for nobody.
    """

    name: str
    confirmed: PositionT
    reader: str


@dataclass(frozen=True, slots=True)
class Verdict(Generic[PositionT]):
    """What may go.

    Args:
        mark: What older transactions than its ``oldest`` wrote was delivered; ``None`` if nothing is proven.
        held_back: Why it is not more, empty if the newest mark was passed.
    """

    mark: Mark[PositionT] | None
    held_back: str = ""


def decide(marks: Sequence[Mark[PositionT]], delivery: Delivery[PositionT]) -> Verdict[PositionT]:
    """Return the newest mark that the delivery has passed.

    Args:
        marks: In the order in which they were taken, this run's last.
        delivery: Read after all of them were taken.
    """
    if not delivery.reader:
        return Verdict(None, f"nobody reads {delivery.name}: does the connector run?")
    same = [mark for mark in marks if mark.reader == delivery.reader]
    if not same:
        return Verdict(None, f"{delivery.name} got another reader since the mark: was the connector started anew?")
    newest = same[-1]
    passed = [mark for mark in same if mark.position <= delivery.confirmed]
    if passed and passed[-1] is newest:
        return Verdict(newest)
    return Verdict(
        passed[-1] if passed else None,
        f"{delivery.name} is at {delivery.confirmed}, behind the mark {newest.position} "
        f"of {newest.taken_at:%Y-%m-%d %H:%M:%S%z}",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A replication slot, as far as it can prove anything.

    Args:
        plugin: Empty for a physical slot.
        database: Empty for a physical slot.
        wal_status: ``lost`` when it was invalidated, most often because the WAL that it needs is gone.
        reason: Why it was invalidated, where the server says so.
        confirmed: ``None`` where it confirms nothing.
        reader: The connection that reads it, empty for none.
    """

    plugin: str
    database: str
    wal_status: str
    reason: str
    confirmed: Lsn | None
    reader: str


def delivery_of(name: str, slot: Slot | None, *, database: str) -> Delivery[Lsn]:
    """Return how far a slot has come.

    Args:
        database: The one that the outbox is in.

    Raises:
        UnprovenDeliveryError: It can prove nothing.
    """
    defect = _defect(slot, database)
    if slot is None or slot.confirmed is None or defect:
        raise UnprovenDeliveryError(f"the slot {name} {defect or 'confirms nothing'}; nothing was deleted")
    return Delivery(name=f"the slot {name}", confirmed=slot.confirmed, reader=slot.reader)


def _defect(slot: Slot | None, database: str) -> str:
    if slot is None:
        return "does not exist"
    if slot.plugin != "pgoutput":
        return f"is one of the plugin {slot.plugin}, not of pgoutput" if slot.plugin else "is a physical one"
    if slot.database != database:
        return f"belongs to the database {slot.database!r}, not to {database!r}"
    if slot.wal_status == "lost" or slot.reason:
        return f"is lost ({slot.reason})" if slot.reason else "is lost: WAL that it needs is gone"
    return ""


_UPPER_BOUND = re.compile(r"TO \('([0-9a-f]{8})-([0-9a-f]{4})-[07][0-9a-f-]{21}'\)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def ends_at(bound: str) -> datetime | None:
    """Return when a partition ends that is a range of UUIDv7 ids, ``None`` where it has no such end.

    Args:
        bound: As ``pg_get_expr`` shows it: ``FOR VALUES FROM ('…') TO ('…')``, with the version's digit or without.
    """
    upper = _UPPER_BOUND.search(bound)
    return _EPOCH + timedelta(milliseconds=int(upper[1] + upper[2], 16)) if upper else None
