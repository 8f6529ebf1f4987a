"""psycopg's pipeline mode, in which handlers' statements do not wait for each other's answers."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

from cdc_outbox.consumer.handlers import entered
from cdc_outbox.databases.drivers import AnyConnection
from cdc_outbox.errors import ConfigError


def pipeline_of(connection: AnyConnection) -> Callable[[Any], AbstractAsyncContextManager[object]]:
    """Return what opens a connection's pipeline.

    Raises:
        ConfigError: It has none.
    """
    if not hasattr(connection, "pipeline"):
        raise ConfigError(
            f"{type(connection).__module__}.{type(connection).__qualname__} has no pipeline mode",
            field="EffectsDatabase.pipeline",
            hint="Pipeline mode needs psycopg; with other drivers use on_batch.",
        )

    @asynccontextmanager
    async def pipeline(connection: AnyConnection) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            await entered(stack, connection.pipeline())
            yield

    return pipeline
