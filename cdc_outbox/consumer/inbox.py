"""The seam to the inbox: claims and watermarks, in the handler's transaction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from cdc_outbox.consumer.ordering import Aggregate, Move
from cdc_outbox.consumer.table import InboxTable
from cdc_outbox.drivers import Driver, Row
from cdc_outbox.errors import MessageError, TransactionEndedError, WatermarkMovedError
from cdc_outbox.sql import load

_MAX_KEY_BYTES = 2600
"""What the columns of a key may have together: an entry of PostgreSQL's index has 2,704 bytes with its own headers."""


@dataclass(frozen=True, slots=True)
class Claims:
    """What one transaction claimed.

    Args:
        new: The ids that nobody had before.
        transaction: The database's own name for the transaction, empty where nothing was new.
    """

    new: frozenset[str] = frozenset()
    transaction: str = ""


class Inbox(Protocol):
    """What a consumer remembers.

    Every method works inside the transaction that is open on the connection; nothing lasts before its commit, and
    a rollback undoes all of it. Lists may be of any length; an empty one does nothing.
    """

    def claim(self, connection: Any, event_ids: Sequence[str]) -> Claims:  # noqa: ANN401 - any driver's
        """Claim ids and return those that were new.

        An id that another open transaction has claimed makes this one wait until that one ends.
        """

    def find_watermarks(
        self,
        connection: Any,  # noqa: ANN401
        aggregates: Sequence[Aggregate],
    ) -> Mapping[Aggregate, int]:
        """Return the last sequence applied of each aggregate, without those that have none."""

    def advance(self, connection: Any, claims: Claims, moves: Sequence[Move]) -> None:  # noqa: ANN401
        """Move the watermarks, and prove that the transaction is the one of the claims.

        Raises:
            TransactionEndedError: It is another one.
            WatermarkMovedError: One of them was not where the move starts.

        The transaction must be rolled back when it raises.
        """

    def take_back(self, connection: Any, claims: Claims) -> bool:  # noqa: ANN401
        """Undo claims whose transaction somebody committed before its time; tell whether there were any."""


class SqlInbox:
    """The inbox in the consumer's own database.

    Args:
        consumer: The name under which it remembers; part of every key.
        driver: How to talk to the connection.
    """

    def __init__(self, *, table: InboxTable, consumer: str, driver: Driver) -> None:
        self._consumer = consumer
        self._driver = driver
        self._statements = {
            name: statement.render(table.names(), driver.style)
            for name, statement in load(driver.dialect, "inbox").items()
        }

    def claim(self, connection: Any, event_ids: Sequence[str]) -> Claims:  # noqa: ANN401
        """Claim ids by inserting them first; who comes second waits and is told.

        Raises:
            MessageError: An id does not fit into the index.
        """
        if not event_ids:
            return Claims()
        for event_id in event_ids:
            self._refuse("id", event_id)
        rows = self._fetch(connection, "claim", event_ids=list(event_ids))
        return Claims(frozenset(event_id for event_id, _ in rows), rows[0][1] if rows else "")

    def find_watermarks(
        self,
        connection: Any,  # noqa: ANN401
        aggregates: Sequence[Aggregate],
    ) -> Mapping[Aggregate, int]:
        """Read the watermarks without a lock; :meth:`advance` notices whoever came between.

        Raises:
            MessageError: Source, aggregate type and aggregate id together do not fit into the index.
        """
        if not aggregates:
            return {}
        for aggregate in aggregates:
            self._refuse("aggregate", *aggregate)
        rows = self._fetch(connection, "find_watermarks", **_columns(sorted(set(aggregates))))
        return {Aggregate(*key): last for *key, last in rows}

    def advance(self, connection: Any, claims: Claims, moves: Sequence[Move]) -> None:  # noqa: ANN401
        """Move the watermarks in one conditional statement, count the rows and compare the transaction's number."""
        if not moves and not claims.new:
            return
        columns = _columns([move.aggregate for move in moves])
        befores, afters = [move.before for move in moves], [move.after for move in moves]
        [(moved, transaction)] = self._fetch(
            connection, "advance_watermarks", **columns, befores=befores, afters=afters
        )
        # A handler may have ended its transaction and begun another, which looks the same from here.
        if transaction != claims.transaction:
            raise TransactionEndedError("the transaction that claimed the events was ended, and another one begun")
        if moved != len(moves):
            raise WatermarkMovedError(
                f"{len(moves) - moved} of {len(moves)} watermarks were moved by another consumer meanwhile"
            )

    def take_back(self, connection: Any, claims: Claims) -> bool:  # noqa: ANN401
        """Delete the rows that this very transaction wrote: by now another consumer may have claimed the same ids."""
        if not claims.new:
            return False
        parameters = {"event_ids": sorted(claims.new), "transaction": claims.transaction}
        return bool(self._fetch(connection, "take_back", **parameters))

    def _refuse(self, what: str, *columns: str) -> None:
        """Refuse here what the database would refuse with less to say about it."""
        size = sum(len(column.encode()) for column in (self._consumer, *columns))
        if size > _MAX_KEY_BYTES or any("\0" in column for column in columns):
            raise MessageError(
                f"the {what} {'/'.join(columns)[:80]!r} cannot be a key of the inbox: with the consumer's name it has "
                f"{size:,} bytes, and may have {_MAX_KEY_BYTES:,}, none of them NUL"
            )

    def _fetch(self, connection: Any, name: str, **parameters: Any) -> list[Row]:  # noqa: ANN401
        return self._driver.fetch(connection, self._statements[name], {"consumer": self._consumer, **parameters})


def _columns(aggregates: Sequence[Aggregate]) -> dict[str, list[str]]:
    """Turn rows into the arrays that ``unnest`` takes."""
    return {
        "sources": [aggregate.source for aggregate in aggregates],
        "aggregate_types": [aggregate.aggregate_type for aggregate in aggregates],
        "aggregate_ids": [aggregate.aggregate_id for aggregate in aggregates],
    }
