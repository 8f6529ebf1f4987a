"""The inbox in MariaDB, MySQL and SQLite.

They have no number that a transaction could be known by: there a savepoint stands for it.
"""

from collections.abc import Mapping, Sequence

from cdc_outbox.consumer.claims import ANOTHER_TRANSACTION, Claims, SqlInbox, columns_of_moves, new_name
from cdc_outbox.consumer.inbox_tables import Statements
from cdc_outbox.consumer.ordering import Aggregate, Move
from cdc_outbox.databases.drivers import AnyConnection, translate
from cdc_outbox.errors import CdcOutboxError, MessageError, TransactionEndedError


class SavepointInbox(SqlInbox):
    """The inbox in MariaDB, MySQL or SQLite.

    Args:
        key_bytes: The size of each key column, where each has one of its own: `insert ignore` would cut off the rest.
    """

    def __init__(self, statements: Statements, key_bytes: Mapping[str, int]) -> None:
        super().__init__(statements)
        self._limits = (
            {
                "id": (key_bytes["event_id"] - 1,),  # some get a character in front
                "aggregate": (key_bytes["source"], key_bytes["aggregate_type"], key_bytes["aggregate_id"]),
            }
            if key_bytes
            else {}
        )

    async def claim_next(self, *_: object) -> None:
        """Claim nothing: no statement does all of it here."""

    async def _claim(self, connection: AnyConnection, keys: Sequence[str]) -> tuple[Sequence[str], str]:
        transaction = new_name()
        rows = await self._sql.fetch(connection, "claim", event_ids=keys, transaction=transaction)
        return [key for (key,) in rows], transaction if rows else ""

    async def _move(
        self, connection: AnyConnection, claims: Claims, moves: Sequence[Move]
    ) -> tuple[int, list[Aggregate]]:
        """Prove that the transaction is the same one, and move what is where its move starts."""
        if claims.transaction:
            await self._prove(connection)
        rows = await self._sql.fetch(connection, "advance", **columns_of_moves(moves)) if moves else []
        return len(rows), [Aggregate(*names) for *names, parked in rows if parked > 0]

    async def _prove(self, connection: AnyConnection) -> None:
        """Release the savepoint, which fails for nothing else than that it is gone, or the connection is."""
        try:
            await self._sql.fetch(connection, "prove")
        except CdcOutboxError:
            raise
        except Exception as error:
            if translate(error) is not None:
                raise
            raise TransactionEndedError(ANOTHER_TRANSACTION) from error

    def _refuse(self, what: str, keys: Sequence[Sequence[str]]) -> None:
        """Refuse also what does not fit into its own column."""
        super()._refuse(what, keys)
        for columns in keys if self._limits else ():
            for column, limit in zip(columns, self._limits[what], strict=True):
                if len(column) * 4 > limit and len(column.encode()) > limit:
                    raise MessageError(
                        f"the {what} {'/'.join(columns)[:80]!r} cannot be a key of the inbox: {column[:80]!r} has "
                        f"{len(column.encode()):,} bytes; the limit is {limit:,}"
                    )
