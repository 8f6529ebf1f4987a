"""The routes of an outbox's rows, for the columns that its relation has in the replication stream."""

from collections.abc import Callable, Sequence

from cdc_outbox.databases.pgoutput import Relation
from cdc_outbox.databases.table import TableName
from cdc_outbox.debezium.event_router.column_values import Column
from cdc_outbox.debezium.event_router.compiled import Route, RouteCompiler


class OutboxRoutes:
    """Compiles a route each time that the stream describes the outbox.

    Args:
        compiler: Of the configuration that Connect would get.
        table: The outbox; rows of other tables in its publication are not published, as Debezium's
            ``table.include.list`` leaves them out.
        read_columns: Returns the columns of a relation, as
            :meth:`~cdc_outbox.relay.postgresql_server.PostgresqlServer.read_columns` does.
    """

    def __init__(
        self, compiler: RouteCompiler, table: TableName, read_columns: Callable[[Relation], Sequence[Column]]
    ) -> None:
        self._compiler = compiler
        self._table = (table.schema, table.name)
        self._read_columns = read_columns

    def find(self, relation: Relation) -> Route | None:
        """Return the route of a table's rows, ``None`` for a table that is not published.

        Raises:
            ConfigError: A column that the EventRouter uses is of a type that is not imitated.
            RelayError: A column's type was dropped since the row was written.
            DatabaseError: The columns' types cannot be read.
        """
        if (relation.schema, relation.name) != self._table:
            return None
        return self._compiler.compile(self._read_columns(relation))

    def drop(self, operation: str) -> None:
        """Drop an updated (``u``), deleted (``d``) or truncated (``t``) row, as the EventRouter does.

        Raises:
            RoutingError: The connector's task would fail.
        """
        self._compiler.drop(operation)
