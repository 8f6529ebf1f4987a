"""The inbox where a transaction has no number that it could be known by: MariaDB, MySQL and SQLite.

There each transaction is given a name, which stands in the claims' rows, so that what it claimed is found again. That
it is still the same one is proved by a savepoint: made with the claims, it is gone with their transaction, also where
another one was begun at once.
"""

from collections.abc import Sequence

from cdc_outbox.consumer.inbox import ANOTHER_TRANSACTION, Claims, SqlInbox, columns_of_moves, new_name
from cdc_outbox.consumer.ordering import Aggregate, Move
from cdc_outbox.consumer.table import KEY_BYTES
from cdc_outbox.drivers import AnyConnection, translate
from cdc_outbox.errors import CdcOutboxError, MessageError, TransactionEndedError


class SavepointInbox(SqlInbox):
    """The inbox in SQLite."""

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


class MySqlInbox(SavepointInbox):
    """The inbox in MariaDB or MySQL."""

    def _refuse(self, what: str, keys: Sequence[Sequence[str]]) -> None:
        """Refuse also what does not fit into its own column: `insert ignore` would cut it off."""
        super()._refuse(what, keys)
        for columns in keys:
            for column, limit in zip(columns, _LIMITS[what], strict=True):
                if len(column) * 4 > limit and len(column.encode()) > limit:
                    raise MessageError(
                        f"the {what} {'/'.join(columns)[:80]!r} cannot be a key of the inbox: "
                        f"{column[:80]!r} has {len(column.encode()):,} bytes, and may have {limit:,} here"
                    )


_LIMITS = {
    "id": (KEY_BYTES["event_id"] - 1,),  # some get a character in front
    "aggregate": (KEY_BYTES["source"], KEY_BYTES["aggregate_type"], KEY_BYTES["aggregate_id"]),
}
"""How many bytes each column may have, by what is asked for."""
