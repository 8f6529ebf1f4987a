"""How a consumer talks to its database, found out from a connection of it."""

import math
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from cdc_outbox.consumer.calls import BeforeCommit, Calls
from cdc_outbox.consumer.delivery import Delivery, Stores
from cdc_outbox.consumer.epochs import SqlEpochs
from cdc_outbox.consumer.handlers import Handlers
from cdc_outbox.consumer.inbox import SqlInbox
from cdc_outbox.consumer.limits import Limits
from cdc_outbox.consumer.ordering import Order
from cdc_outbox.consumer.savepoint_inbox import MySqlInbox, SavepointInbox
from cdc_outbox.consumer.sql_park import SqlPark
from cdc_outbox.consumer.statements import Statements
from cdc_outbox.consumer.table import InboxTable
from cdc_outbox.drivers import (
    AnyConnection,
    AsyncDriver,
    AsyncTransactionDriver,
    find_async_transaction_driver,
    find_transaction_driver,
)
from cdc_outbox.drivers.immediate import ImmediateTransactions
from cdc_outbox.drivers.transactions import async_transaction
from cdc_outbox.errors import ConfigError
from cdc_outbox.metrics import Metrics
from cdc_outbox.sql import load
from cdc_outbox.table import Dialect
from cdc_outbox.tracing import Spans


def sql_stores(*, table: InboxTable, consumer: str, driver: AsyncDriver) -> Stores:
    """Return what a consumer remembers, in the tables of its inbox."""
    inbox, park, epochs = (
        Statements(file, table=table, consumer=consumer, driver=driver) for file in ("inbox", "park", "epochs")
    )
    return Stores(inbox=_INBOXES[driver.dialect](inbox), park=SqlPark(park), epochs=SqlEpochs(epochs))


_INBOXES: Mapping[Dialect, type[SqlInbox]] = {
    Dialect.POSTGRESQL: SqlInbox,
    Dialect.MYSQL: MySqlInbox,
    Dialect.SQLITE: SavepointInbox,
}


class ConsumerDatabase:
    """A driver, the inbox in its dialect, and the delivery over both."""

    def __init__(
        self,
        connection: AnyConnection,
        *,
        table: InboxTable | None,
        consumer: str,
        handlers: Handlers,
        order_of: Callable[[str], Order],
        limits: Limits,
        before_commit: BeforeCommit | None,
        pipeline: bool,
        asynchronous: bool,
        metrics: Metrics,
        spans: Spans,
        handler_begins: Callable[[], None] = lambda: None,
        error_texts: bool = True,
    ) -> None:
        # One object from here to the last commit: it remembers what it began.
        self.driver: AsyncTransactionDriver = (
            find_async_transaction_driver(connection)
            if asynchronous
            else ImmediateTransactions(find_transaction_driver(connection))
        )
        self._limits, self._has_pipeline = limits, pipeline
        table = table or InboxTable.on(self.driver.dialect)
        if table.dialect is not self.driver.dialect:
            raise ConfigError(
                f"the inbox is on {table.dialect}, and the consumer's connection leads to {self.driver.dialect}",
                field="Consumer.inbox",
            )
        self.stores = sql_stores(table=table, consumer=consumer, driver=self.driver)
        calls = Calls(
            consumer=consumer,
            driver=self.driver,
            handlers=handlers,
            metrics=metrics,
            spans=spans,
            before_commit=before_commit,
            deadline_seconds=limits.handler_seconds if asynchronous else None,
            pipeline=_pipeline_of(connection) if pipeline else None,
            begins=handler_begins,
            error_texts=error_texts,
        )
        self.delivery = Delivery(stores=self.stores, driver=self.driver, calls=calls, order_of=order_of)

    async def prepare(self, connection: AnyConnection) -> None:
        """Make its transactions READ COMMITTED, and bound how long they may be idle."""
        await self.driver.prepare(connection, idle_seconds=self._limits.handler_seconds)
        if self._has_pipeline:
            # In a pipeline PostgreSQL bounds no idling. Twice as long, for a claim may wait for a bound itself.
            milliseconds = str(math.ceil(2 * self._limits.handler_seconds * 1000))
            sql = load(self.driver.dialect, "session")["bound_transactions"].render({}, self.driver.style)
            async with async_transaction(connection, self.driver):
                await self.driver.fetch(connection, sql, {"milliseconds": milliseconds})


def _pipeline_of(connection: AnyConnection) -> Callable[[Any], AbstractAsyncContextManager[object]]:
    if not hasattr(connection, "pipeline"):
        raise ConfigError(
            f"a {type(connection).__module__}.{type(connection).__qualname__} has no pipeline mode",
            field="Consumer.pipeline",
            hint="psycopg's connections have one; elsewhere take batches with on_batch.",
        )

    @asynccontextmanager
    async def pipeline(connection: AnyConnection) -> AsyncIterator[None]:
        opened = connection.pipeline()
        if hasattr(opened, "__aenter__"):
            async with opened:
                yield
        else:
            with opened:
                yield

    return pipeline
