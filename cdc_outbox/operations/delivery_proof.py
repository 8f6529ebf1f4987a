"""What may be deleted from an outbox, and what a stored offset proves, decided from values. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

from cdc_outbox.databases.binlog import BinlogPosition, Log
from cdc_outbox.debezium.config import listed
from cdc_outbox.debezium.connector_offsets import own_offset
from cdc_outbox.debezium.java_regex import matches
from cdc_outbox.errors import UnprovenDeliveryError


class Position(Protocol):
    """A place in a database's log, in log order: an LSN, or what else a log counts by."""

    def __le__(self, other: Any, /) -> bool: ...  # noqa: ANN401 - one of its own kind


PositionT = TypeVar("PositionT", bound=Position)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint(Generic[PositionT]):
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
class DeliveryProof(Generic[PositionT]):
    """How far delivery has come: what a slot says on PostgreSQL, elsewhere a connector's stored position.

    Args:
        kind: ``slot`` or ``connector``.
        name: Which one.
        confirmed: Everything before was delivered, and is never sent again.
        reader: Identifies the reader that delivers, and changes at every start; empty if there is none.
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
class PruneVerdict(Generic[PositionT]):
    """What may go.

    Args:
        checkpoint: What it saw was delivered; ``None`` if nothing is proven.
        held_back: Why it is not more, empty if the newest checkpoint was passed.
    """

    checkpoint: Checkpoint[PositionT] | None
    held_back: str = ""


def decide(checkpoints: Sequence[Checkpoint[PositionT]], delivery: DeliveryProof[PositionT]) -> PruneVerdict[PositionT]:
    """Return the newest checkpoint that the delivery has passed.

    Args:
        checkpoints: In the order in which they were taken, this run's last.
        delivery: Read after all of them were taken.
    """
    if not delivery.reader:
        return PruneVerdict(
            None, delivery.idle_because or f"no process reads {delivery}; check that the connector runs"
        )
    same = [checkpoint for checkpoint in checkpoints if checkpoint.reader == delivery.reader]
    if not same:
        return PruneVerdict(
            None, f"the reader of {delivery} has changed since the checkpoint; the connector may have been restarted"
        )
    newest = same[-1]
    passed = [checkpoint for checkpoint in same if checkpoint.position <= delivery.confirmed]
    if passed and passed[-1] is newest:
        return PruneVerdict(newest)
    return PruneVerdict(
        passed[-1] if passed else None,
        f"{delivery} is at {delivery.confirmed}, before the checkpoint {newest.position} of "
        f"{newest.taken_at:%Y-%m-%d %H:%M:%S%z}",
    )


_NO_OFFSET_HINT = (
    "Check that the connector of the spec's name runs and reads this outbox. It stores an offset about once a "
    "minute; for an idle outbox, only if heartbeat.interval.ms is set."
)
_ANOTHER_LOG_HINT = (
    "Check that the DSN leads to the server that the connector reads. If its binlog was reset or purged, deploy the "
    "connector as a new one and publish the table's rows again."
)


def log_end(log: Log, *, database: str) -> BinlogPosition:
    """Return where a log ends in which every event of a database is.

    Raises:
        UnprovenDeliveryError: Events may be missing in it.
    """
    defect = ""
    if not log.on or log.end is None:
        defect = "is off"
    elif log.format != "ROW":
        defect = f"has the format {log.format}, in which a connector finds no rows"
    elif log.leaves_out(database):
        defect = f"leaves out the database {database!r}"
    if defect or log.end is None:
        raise UnprovenDeliveryError(
            f"the server's binlog {defect}; nothing was deleted",
            hint="A connector reads only the binlog: it needs log_bin, binlog_format=ROW and no filter.",
        )
    return log.end


def stored_position(name: str, offsets: Sequence[Mapping[str, Any]], *, topic_prefix: str, log: Log) -> BinlogPosition:
    """Return up to where a connector has delivered a server's binlog.

    Args:
        name: The connector's.
        offsets: As Connect shows them, read before ``log`` was.

    Raises:
        UnprovenDeliveryError: It stored nothing, is in a snapshot, or speaks of another binlog.
    """
    offset = own_offset(offsets, topic_prefix=topic_prefix)
    if offset is None:
        raise _unproven(f"the connector {name} has stored no offset", _NO_OFFSET_HINT)
    if "snapshot" in offset:
        raise _unproven(
            f"the connector {name} is publishing the rows of the table", "Run the command again when it has finished."
        )
    position = BinlogPosition.of(str(offset.get("file", "")), int(offset.get("pos") or 0))
    if position is None:
        raise _unproven(f"the connector {name} has stored no binlog position", _ANOTHER_LOG_HINT)
    size = log.sizes.get(position.file)
    if size is None:
        raise _unproven(f"the connector {name} is at {position}, but the server has no such file", _ANOTHER_LOG_HINT)
    if position.offset > size:
        raise _unproven(f"the connector {name} is at {position}, but that file ends at {size}", _ANOTHER_LOG_HINT)
    return position


def captures(table: str, config: Mapping[str, str]) -> bool:
    """Return whether a connector may read a table, called ``database.table``, by its list of tables."""
    patterns = listed(config.get("table.include.list", ""))
    return not patterns or any(matches(pattern, table, ignores_case=True) is not False for pattern in patterns)


def _unproven(message: str, hint: str) -> UnprovenDeliveryError:
    return UnprovenDeliveryError(f"{message}; nothing was deleted", hint=hint)
