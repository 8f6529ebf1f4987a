"""A relay beside an event loop."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import Self

from cdc_outbox.relay.relay import Relay
from cdc_outbox.telemetry import RelayProgress


class AsyncRelay:
    """Runs a relay's loop in a thread, so that it shares a process with a consumer or a web service.

    ::

        async with AsyncRelay(make_relay(spec, dsn=DSN, kafka="localhost:9092")):
            await consumer.run()

    The block ends with the relay's error if the relay fails first. At its end the relay delivers what it has read.
    One relay runs once.
    """

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._tasks = asyncio.TaskGroup()

    def stop(self) -> None:
        """Have :meth:`run` deliver what was read, confirm it, and return."""
        self._relay.stop()

    def progress(self) -> RelayProgress:
        """Return the progress, without waiting."""
        return self._relay.progress()

    async def run(self) -> None:
        """Relay until :meth:`stop` is called, or until the task is cancelled, after what was read is delivered.

        Raises:
            CdcOutboxError: An error that no retry cures.
        """
        with ThreadPoolExecutor(1, thread_name_prefix="cdc-outbox relay") as executor:
            running = asyncio.get_running_loop().run_in_executor(executor, self._relay.run)
            try:
                await asyncio.shield(running)
            except asyncio.CancelledError:
                self.stop()
                while not running.done():
                    with suppress(asyncio.CancelledError):
                        await asyncio.wait({running})
                running.exception()
                raise

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        self._tasks.create_task(self.run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        try:
            await self._tasks.__aexit__(kind, error, trace)
        except BaseExceptionGroup as group:
            if len(group.exceptions) > 1:
                raise
            raise group.exceptions[0] from None
