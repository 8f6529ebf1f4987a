"""What an asynchronous consumer does with the threads that wait for it, and with cancellations."""

import asyncio
import threading

import pytest

from cdc_outbox.consumer.handlers import HandlerRunner, Handlers
from cdc_outbox.consumer.waits import Yielding
from cdc_outbox.errors import HandlerError
from tests.support.delivery_rig import SpyDatabase, item
from tests.support.events import make_event
from tests.support.patience import patience


async def cancelled(*, cancels: int) -> list[str]:
    """Cancel a task that calls what blocks, so many times, and return what came after what."""
    said: list[str] = []
    begun, may_end = threading.Event(), threading.Event()

    def block() -> None:
        begun.set()
        may_end.wait(patience())
        said.append("the call ended")

    async def call() -> None:
        try:
            await Yielding(asyncio.Event()).call(block)
        finally:
            said.append("the task ended")

    task = asyncio.create_task(call())
    await asyncio.to_thread(begun.wait, 10)
    for _ in range(cancels):
        task.cancel()
        await asyncio.sleep(0)
    said.append("it was cancelled")
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    return said


@pytest.mark.parametrize("cancels", [1, 2])
def test_a_cancelled_task_waits_for_the_thread_that_uses_its_client(cancels: int) -> None:
    said = asyncio.run(cancelled(cancels=cancels))
    assert said == ["it was cancelled", "the call ended", "the task ended"]


def test_what_a_call_raises_and_returns_is_the_callers() -> None:
    waits = Yielding(asyncio.Event())

    async def call() -> int:
        with pytest.raises(ValueError, match="invalid literal"):
            await waits.call(int, "x")
        return int(await waits.call(int, "7"))

    assert asyncio.run(call()) == 7


async def handle(begun: asyncio.Event, inner: "asyncio.Future[None]", *, limit: float | None = None) -> None:
    """Run a handler that tells that it began, and awaits a future of its own."""

    async def handler(_event: object, _connection: object) -> None:
        begun.set()
        await inner

    handlers = Handlers(asynchronous=True)
    handlers.add(["OrderPlaced"], handler, takes_batch=False)
    database = SpyDatabase()
    await database.begin(None)
    runner = HandlerRunner(driver=database, handlers=handlers, deadline_seconds=limit)
    await runner.run([item(make_event(1), 0)], None)


@pytest.mark.parametrize("limit", [None, 60.0])
def test_a_cancellation_of_what_a_handler_awaits_is_the_handlers_failure(limit: float | None) -> None:
    async def run() -> None:
        inner: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        inner.cancel()
        with pytest.raises(HandlerError, match=r"the handler of OrderPlaced order/1 #1 .* raised CancelledError"):
            await handle(asyncio.Event(), inner, limit=limit)

    asyncio.run(run())


@pytest.mark.parametrize("limit", [None, 60.0])
def test_a_cancellation_of_the_consumer_while_a_handler_awaits_something_is_the_consumers(limit: float | None) -> None:
    async def run() -> None:
        begun = asyncio.Event()
        consumer = asyncio.create_task(handle(begun, asyncio.get_running_loop().create_future(), limit=limit))
        await begun.wait()
        consumer.cancel()
        with pytest.raises(asyncio.CancelledError):
            await consumer

    asyncio.run(run())
