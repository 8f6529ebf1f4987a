"""A line to the database that can be held and cut."""

import asyncio
import socket
import struct
import threading
from collections.abc import Coroutine
from typing import Any, Self

from tests.support.patience import patience
from tests.support.threads import Threads


class Line:
    """A port that leads to another one.

    Nothing that goes over it is looked at: what goes next is what somebody who waits for orders sends next.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self._loop = asyncio.new_event_loop()
        self._threads = Threads()
        self._writers: set[asyncio.StreamWriter] = set()
        self._pumps: set[asyncio.Task[None]] = set()
        self._wanted: str | None = None
        self._released = asyncio.Event()
        self._silences = 0
        self.is_held = threading.Event()
        """Set while something is on the line that goes no further."""

    def __enter__(self) -> Self:
        self._threads.submit(self._loop.run_forever)
        self._server = self._call(asyncio.start_server(self._serve, "127.0.0.1", 0))
        return self

    def __exit__(self, *_: object) -> None:
        self._call(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._threads.shutdown()
        self._loop.close()

    @property
    def port(self) -> int:
        return int(self._server.sockets[0].getsockname()[1])

    def hold(self, way: str) -> None:
        """Hold what goes ``up`` to the server next, or ``down`` from it."""
        self._wanted = way

    def release(self) -> None:
        """Let go what is held."""
        self._loop.call_soon_threadsafe(self._released.set)

    def silence(self) -> None:
        """Pass nothing on any more in the connections that there are, nor their ends; new ones are as before."""
        self._silences += 1

    def cut(self) -> None:
        """Reset every connection; what is held is lost."""
        self._call(self._cut())

    def _call(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(patience())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        above_reader, above = await asyncio.open_connection("127.0.0.1", self._target)
        ends = {writer, above}
        self._writers |= ends
        pumps = {
            asyncio.create_task(self._pump("up", reader, above)),
            asyncio.create_task(self._pump("down", above_reader, writer)),
        }
        self._pumps |= pumps
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for pump in pumps:
            pump.cancel()
        for end in ends:
            end.transport.abort()
        self._pumps -= pumps
        self._writers -= ends

    async def _pump(self, way: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        silences = self._silences
        try:
            while True:
                sent = await reader.read(65536)
                if self._silences > silences:
                    await asyncio.Event().wait()
                if not sent:
                    return
                if self._wanted == way:
                    self._wanted = None
                    self.is_held.set()
                    await self._released.wait()
                writer.write(sent)
                await writer.drain()
        except ConnectionError:
            return

    async def _cut(self) -> None:
        for writer in self._writers:
            # With nothing to linger for, the other side gets a reset.
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        for pump in self._pumps:
            pump.cancel()

    async def _end(self) -> None:
        self._server.close()
        await self._cut()
        await asyncio.sleep(0)
