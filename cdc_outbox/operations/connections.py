"""A database and an inbox as operators reach them: in transactions of their own."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

from cdc_outbox.consumer.claims import Claims, columns_of
from cdc_outbox.consumer.inbox_tables import InboxTable
from cdc_outbox.consumer.ordering import Aggregate, Move
from cdc_outbox.consumer.session import sql_stores
from cdc_outbox.databases.drivers import AnyConnection, Row, TransactionDriver, translated_for_operator
from cdc_outbox.databases.drivers.immediate import ImmediateTransactions, finish
from cdc_outbox.databases.drivers.statements import NamedStatements
from cdc_outbox.databases.drivers.transactions import transaction
from cdc_outbox.databases.introspection import Catalog
from cdc_outbox.errors import InboxError, TransactionConflictError
from cdc_outbox.text_files.document import suggestion


class OpenDatabase:
    """A connection in autocommit mode, and the statements of one file in its dialect.

    Args:
        names: What the statements call tables and columns, quoted.
    """

    def __init__(
        self,
        connection: AnyConnection,
        driver: TransactionDriver,
        names: Mapping[str, str],
        file: str = "prune",
    ) -> None:
        self.dialect, self.catalog = driver.dialect, Catalog(connection, driver)
        self._connection = connection
        self._driver = driver
        self._statements = NamedStatements(driver, file, names)
        self.names = self._statements.names

    def ask(self, statement: str, names: Mapping[str, str] | None = None, /, **parameters: object) -> list[Row]:
        """Execute a statement by its name, step by step, and return the rows of all its steps.

        Args:
            names: Beside the database's own, or in their place.
        """
        values, rows = self._statements.values(parameters), []
        with translated_for_operator():
            for step in self._statements.steps(statement, names, parameters):
                rows += self._driver.fetch(self._connection, step, values)
        return rows

    def of(self, file: str) -> "OpenDatabase":
        """Return the same connection for the statements of another file."""
        return OpenDatabase(self._connection, self._driver, self.names, file)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Open a transaction, and commit it at the end unless an exception leaves it."""
        with translated_for_operator(), transaction(self._connection, self._driver):
            yield


ResultT = TypeVar("ResultT")

_ATTEMPTS = 5
"""A consumer that claims while its aggregate is decided about may be in a deadlock with it; once is rare already."""
_LOCK_TIMEOUT = "55P03"


class SequenceHole(NamedTuple):
    """Sequences of an aggregate that an operator accepts as missing, from the first to the last.

    Args:
        event_id: That of the one event, where it is known.
    """

    aggregate: Aggregate
    first: int
    last: int
    event_id: str | None = None


class OpenInbox:
    """What one consumer remembers.

    Args:
        connection: In autocommit mode.
    """

    def __init__(
        self,
        connection: AnyConnection,
        driver: TransactionDriver,
        *,
        table: InboxTable,
        consumer: str,
    ) -> None:
        self.table, self.consumer = table, consumer
        self.connection, self.driver = connection, driver
        self.stores = sql_stores(table=table, consumer=consumer, driver=ImmediateTransactions(driver))
        self._database = self.database("decisions")

    def ask(self, statement: str, **parameters: object) -> list[Row]:
        """Execute a statement of ``decisions.sql`` by its name, and return its rows."""
        return self._database.ask(statement, consumer=self.consumer, **parameters)

    def database(self, file: str) -> OpenDatabase:
        """Return the same database for the statements of another file."""
        return OpenDatabase(self.connection, self.driver, self.table.names(), file)

    def transact(self, work: Callable[[], ResultT]) -> ResultT:
        """Return what ``work`` returns, once the transaction that it ran in is committed.

        It may be called several times: where another transaction was in the way, what it did is undone, and it is
        called again.

        Raises:
            TransactionConflictError: One is in the way for long.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return self._once(work)
            except TransactionConflictError as error:
                if error.sqlstate == _LOCK_TIMEOUT or attempt == _ATTEMPTS:
                    error.hint = "A consumer is processing the same aggregate; run the command again in a moment."
                    raise
        raise AssertionError

    def find_consumers(self) -> list[str]:
        """Return the names of all consumers that have used the inbox."""
        return [consumer for (consumer,) in self.ask("consumers")]

    def refuse_unknown(self) -> None:
        """Refuse the name of a consumer that has not used the inbox.

        Raises:
            InboxError: The inbox does not know the consumer; the hint lists those that it knows.
        """
        [(is_known,)] = self.ask("is_known")
        if not is_known:
            raise InboxError(
                f"no consumer {self.consumer!r} has used the inbox {self.table.table}",
                hint=suggestion(self.consumer, self.find_consumers(), "Consumers that have used it"),
            )

    def move(self, moves: Sequence[Move], holes: Sequence[SequenceHole], *, reason: str, note: str | None) -> None:
        """Move watermarks over holes, note these, and wake what follows; the locks on the watermarks are held."""
        if holes:
            self.ask(
                "note_holes",
                **columns_of([hole.aggregate for hole in holes]),
                firsts=[hole.first for hole in holes],
                lasts=[hole.last for hole in holes],
                event_ids=[hole.event_id for hole in holes],
                reason=reason,
                note=note,
            )
        after = {move.aggregate: move.after for move in moves}
        park = self.stores.park
        for aggregate in finish(self.stores.inbox.advance(self.connection, Claims(), moves)):
            # The next number; where numbers have gaps or there are none, whatever was parked first.
            if not finish(park.wake(self.connection, {aggregate: after[aggregate] + 1})):
                finish(park.wake(self.connection, {aggregate: None}))

    def _once(self, work: Callable[[], ResultT]) -> ResultT:
        with self._database.transaction():
            self.ask("limit_locks")
            return work()
