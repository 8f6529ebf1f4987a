"""Who may publish an outbox: the one row of its ``outbox_publishers``, on PostgreSQL.

A replication slot is free whenever its reader restarts, and then belongs to the first process that asks. The row says
which process may ask. It proves nothing about what was published: a restored or copied server has the row as it was.
"""

from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from cdc_outbox.databases.drivers import AnyConnection, Row, TransactionDriver, translated_for_operator
from cdc_outbox.databases.introspection import Catalog
from cdc_outbox.databases.lsn import Lsn
from cdc_outbox.databases.sql import load
from cdc_outbox.databases.table import TableName
from cdc_outbox.errors import DatabaseAccessError


class PublisherKind(StrEnum):
    """What publishes an outbox."""

    DEBEZIUM = "debezium"
    WAL_RELAY = "wal-relay"
    TABLE_RELAY = "table-relay"

    @property
    def is_relay(self) -> bool:
        """Whether it publishes without Kafka Connect."""
        return self is not PublisherKind.DEBEZIUM


class LogIdentity(NamedTuple):
    """Which log a server writes.

    Args:
        system: Its cluster's identifier, which a copy of its files has too.
        timeline: One more after each promotion; ``None`` on a standby, which writes none.
    """

    system: str
    timeline: int | None


class ServerIdentity(NamedTuple):
    """Which server answers, and how much of its log a crash would leave.

    Args:
        flushed: Up to where the log is on the disk; ``None`` on a standby.
        started: When it was started, in seconds since 1970 as the server spells them: two servers of one log differ.
    """

    log: LogIdentity
    flushed: Lsn | None
    started: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Publisher:
    """The publisher of an outbox.

    Args:
        slot: Which slot it reads, ``None`` for a table relay.
        epoch: One more with each change of hands, and whenever a relay takes over; from 1.
        confirmed: No relay has confirmed anything behind it; ``None`` before the first did.
        log: Where it read last.
        instance: The relay's process, for people.
    """

    kind: PublisherKind
    slot: str | None
    epoch: int
    confirmed: Lsn | None
    log: LogIdentity
    instance: str | None


class Publishers:
    """The row of one outbox. Each change is one statement, and lasts once the method returns.

    Args:
        connection: In autocommit mode.
        table: ``OutboxTable.publishers``.

    Errors: ``TableNotFoundError`` of a change where ``init`` did not create the table; ``DatabaseError`` of the server.
    """

    def __init__(self, connection: AnyConnection, driver: TransactionDriver, table: TableName) -> None:
        self._connection, self._driver, self.table = connection, driver, table
        self._statements = load(driver.dialect, "publishers")

    def exists(self) -> bool:
        """Return whether the table exists; without it no relay can publish."""
        with translated_for_operator():
            return Catalog(self._connection, self._driver).exists(self.table)

    def identify(self) -> ServerIdentity:
        """Return which server this is now."""
        [(system, timeline, flushed, started)] = self._ask("server")
        log = LogIdentity(system, None if timeline is None else int(timeline, 16))
        return ServerIdentity(log, Lsn.parse(flushed) if flushed else None, started)

    def find(self) -> Publisher | None:
        """Return the publisher, ``None`` before the first, and where there is no table."""
        rows = self._ask("find") if self.exists() else []
        return next(map(_publisher, rows), None)

    def find_relayed(self, slot: str) -> Lsn | None:
        """Return up to where relays published what a slot held; ``None`` if none did, or the role may not read that."""
        found = None
        with suppress(DatabaseAccessError):
            found = self.find()
        return found.confirmed if found is not None and found.slot == slot else None

    def declare(
        self,
        kind: PublisherKind,
        *,
        slot: str | None,
        confirmed: Lsn | None,
        instance: str,
        after: Publisher | None,
        reader: int | None = None,
    ) -> int | None:
        """Write who publishes from now on, with the next epoch.

        Args:
            after: The publisher that the decision was made from.
            reader: The process of the server that must read the slot; ``None`` for any.

        Returns:
            The epoch; ``None`` if another publisher was written meanwhile, or another process reads the slot, and
            nothing was changed.
        """
        log = self.identify().log
        rows = self._ask(
            "declare",
            publisher=kind.value,
            slot=slot,
            epoch=after.epoch if after else 0,
            confirmed=_text(confirmed),
            system=log.system,
            timeline=log.timeline,
            instance=instance,
            reader=reader,
        )
        return int(rows[0][0]) if rows else None

    def confirm(self, epoch: int, position: Lsn) -> bool:
        """Write that everything before a position is about to be confirmed.

        Returns:
            Whether the epoch is still the publisher's; if not, nothing was changed.
        """
        return bool(self._ask("confirm", epoch=epoch, confirmed=str(position)))

    def forget(self, epoch: int | None) -> None:
        """Delete the row if it is of this epoch."""
        if epoch is not None:
            self._ask("forget", epoch=epoch)

    def _ask(self, statement: str, **parameters: object) -> list[Row]:
        sql = self._statements[statement].render({"publishers": self.table.quoted}, self._driver.style)
        with translated_for_operator():
            return self._driver.fetch(self._connection, sql, parameters)


def _text(position: Lsn | None) -> str | None:
    return None if position is None else str(position)


def _publisher(row: Row) -> Publisher:
    kind, slot, epoch, confirmed, system, timeline, instance = row
    return Publisher(
        kind=PublisherKind(kind),
        slot=slot,
        epoch=int(epoch),
        confirmed=Lsn.parse(confirmed) if confirmed else None,
        log=LogIdentity(system, timeline),
        instance=instance,
    )
