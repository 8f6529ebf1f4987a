"""What an asynchronous consumer does with the threads that wait for it."""

import asyncio
import threading

import pytest

from cdc_outbox.consumer.waits import Yielding
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
