"""What writers committed to a database, and what restores took out of it."""

from dataclasses import dataclass, field
from datetime import datetime

from cdc_outbox import RecordedEvent


@dataclass(frozen=True)
class Restore:
    """That the producer's database went back.

    Args:
        since: When the last heartbeat was written that the topic and the older database have in common.
    """

    at: datetime
    since: datetime


@dataclass
class Ledger:
    """What writers committed, kept outside the databases.

    Args:
        present: Ids of the events that the producer's database has.
        taken: Ids of those that a restore took out of it.
        shown: Ids of those of them that have to be named: the topic had a heartbeat from after the snapshot.
        at: When each was committed.
        restores: Each time that the producer's database went back.
        broken_at: When the connector may have begun to pass something over otherwise.
        is_shown: Whether a restore since the last recovery has to be found.
    """

    committed: dict[str, RecordedEvent] = field(default_factory=dict)
    present: set[str] = field(default_factory=set)
    taken: set[str] = field(default_factory=set)
    shown: set[str] = field(default_factory=set)
    at: dict[str, datetime] = field(default_factory=dict)
    restores: list[Restore] = field(default_factory=list)
    broken_at: list[datetime] = field(default_factory=list)
    is_shown: bool = False
