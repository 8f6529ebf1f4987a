"""What may be deleted from an outbox, decided from values. Pure.

No age proves that an event was delivered. A *mark* does, later: it is a look at the database that says what was
committed, and where its log ended then. So once the delivery has passed that position, all of it was delivered. What
a mark saw, PostgreSQL tells by the oldest transaction that still ran: everything that older ones wrote was committed.
MariaDB keeps no transaction beside a row, and the look is a snapshot that is held until its rows are gone.

That needs the delivery at the mark and the one that passed it to be the same. A slot that was dropped and made again
starts ahead of every earlier mark, and has delivered nothing; what PostgreSQL shows of it tells it from the old one by
nothing but the connection that reads it, for a slot that is read cannot be dropped. Connect's offsets can be changed
by hand, but only while nobody reads. So a mark counts only while the reader of its time still reads. When a connector
was started anew, the next mark takes over.

A position that was moved without sending proves nothing, and looks the same. So what a mark saw is compared with the
topics too; see :mod:`cdc_outbox.operate.comparison`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar


class Position(Protocol):
    """A place in a database's log, in log order: an LSN, or what else a log counts by."""

    def __le__(self, other: Any, /) -> bool: ...  # noqa: ANN401 - one of its own kind


PositionT = TypeVar("PositionT", bound=Position)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark(Generic[PositionT]):
    """One look at the database.

    Args:
        position: Where its log ended after the look: whatever the look saw lies before.
        reader: Who delivered then.
        taken_at: By the database's clock.
        oldest: On PostgreSQL the oldest transaction that ran; every older one had ended, savepoints and all.
        ends: Where the topics ended before the look, as the comparison names them; ``None`` if it was not asked for.
    """

    position: PositionT
    reader: str
    taken_at: datetime
    oldest: int = 0
    ends: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery(Generic[PositionT]):
    """How far delivery has come: what a slot says on PostgreSQL, elsewhere a connector's stored position.

    Args:
        kind: ``slot`` or ``connector``.
        name: Which one.
        confirmed: Everything before was delivered, and is never sent again.
        reader: Who delivers, another one after every start; empty for nobody.
        read_by: What an operator calls that reader.
        idle_because: Why there is none, where more can be said than that.
    """

    kind: str
    name: str
    confirmed: PositionT
    reader: str
    read_by: str = ""
    idle_because: str = ""

    def __str__(self) -> str:
        return f"the {self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class Verdict(Generic[PositionT]):
    """What may go.

    Args:
        mark: What it saw was delivered; ``None`` if nothing is proven.
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
        return Verdict(None, delivery.idle_because or f"no process reads {delivery}: does the connector run?")
    same = [mark for mark in marks if mark.reader == delivery.reader]
    if not same:
        return Verdict(None, f"{delivery} got another reader since the mark: was the connector started anew?")
    newest = same[-1]
    passed = [mark for mark in same if mark.position <= delivery.confirmed]
    if passed and passed[-1] is newest:
        return Verdict(newest)
    return Verdict(
        passed[-1] if passed else None,
        f"{delivery} is at {delivery.confirmed}, behind the mark {newest.position} "
        f"of {newest.taken_at:%Y-%m-%d %H:%M:%S%z}",
    )
