"""Handlers that change the role of their session, which then may not use the inbox."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from cdc_outbox.consumer.handlers import BeforeCommit, entered
from cdc_outbox.databases.drivers import AnyConnection, AsyncTransactionDriver
from cdc_outbox.databases.sql import load
from cdc_outbox.errors import HandlerError


class RoleWatch:
    """Compares the role before and after the handlers, while it is on; and writes what an inner one writes.

    It is on for one attempt, after the database refused a statement of the consumer's: to look in every transaction
    would cost two round trips.
    """

    def __init__(self, driver: AsyncTransactionDriver, inner: BeforeCommit | None) -> None:
        self._driver, self._inner = driver, inner
        self.is_on = False

    @asynccontextmanager
    async def gathering(self, connection: AnyConnection) -> AsyncIterator[Any]:
        """Gather what the inner one gathers; it writes nothing if the role has changed.

        Raises:
            HandlerError: It has.
        """
        async with AsyncExitStack() as stack:
            gathered = await entered(stack, self._inner.gathering(connection)) if self._inner else None
            before = await self._role(connection)
            yield gathered
            if (after := await self._role(connection)) != before:
                raise HandlerError(
                    f"a handler changed the role from {before} to {after}, which lacks privileges of the consumer",
                    hint="Reset the role at the end of the handler, or grant the other role the same privileges.",
                )

    async def _role(self, connection: AnyConnection) -> str:
        sql = load(self._driver.dialect, "session").get("role") if self.is_on else None
        if sql is None:  # SQLite has none
            return ""
        [(role,)] = await self._driver.fetch(connection, sql.render({}, self._driver.style))
        return str(role)
