"""A line to a server that can be cut, or fall silent: connections stay open, and nothing comes through any more."""

import ctypes
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cdc_outbox.testing.folder import HOST
from tests.support.rig import eventually
from tests.support.threads import Threads

_NEW_NETWORK = 0x40000000
"""``CLONE_NEWNET`` of sched.h."""


@dataclass(eq=False)
class _Connection:
    near: socket.socket
    far: socket.socket
    said: bytes = b""
    is_silent: bool = False

    def end(self) -> None:
        """Shut both sides down: to close a socket does not end another thread's wait for it."""
        for side in (self.near, self.far):
            with suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)


class SilentLine:
    """Passes connections on to a port.

    Args:
        port: Where they lead.
        server: What listens; by default on this machine.
    """

    def __init__(self, port: int, server: socket.socket | None = None) -> None:
        self._to = port
        self._server = socket.create_server((HOST, 0)) if server is None else server
        self.address: tuple[str, int] = self._server.getsockname()
        self._connections: list[_Connection] = []
        self._is_cut = self._is_silent = False
        self._threads = Threads(at_once=10_000)
        self._threads.submit(self._run)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def port(self) -> int:
        """Where it listens."""
        return self.address[1]

    def opened(self, words: bytes) -> int:
        """Return how many connections began with these words."""
        return sum(words in each.said for each in self._connections)

    def silence(self, words: bytes | None = None) -> None:
        """Pass nothing on any more in connections that began with these words; by default, in all, and in new ones."""
        self._is_silent = words is None
        for each in self._connections:
            each.is_silent = each.is_silent or words is None or words in each.said

    def cut(self) -> None:
        """End all connections, and refuse others."""
        self._is_cut = True
        for each in self._connections:
            each.end()

    def mend(self) -> None:
        """Pass on new connections again."""
        self._is_cut = self._is_silent = False

    def close(self) -> None:
        """End it."""
        self.cut()
        self._server.shutdown(socket.SHUT_RDWR)  # which ends the thread's wait
        self._threads.shutdown()
        for end in (self._server, *(end for each in self._connections for end in (each.near, each.far))):
            end.close()

    def _run(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._server.accept()
                if self._is_cut:
                    near.close()
                    continue
                made = _Connection(near, socket.create_connection((HOST, self._to)), is_silent=self._is_silent)
                self._connections.append(made)
                self._threads.submit(_pass_on, made, made.near, made.far)
                self._threads.submit(_pass_on, made, made.far, made.near)


def _pass_on(connection: _Connection, source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while (sent := source.recv(65_536)) and not connection.is_silent:
            if source is connection.near and len(connection.said) < 1_000:
                connection.said += sent
            target.sendall(sent)
    if not connection.is_silent:  # else the end of one side is not told to the other
        connection.end()


class BlackHole:
    """A network beside this machine's, from which packets come back until they are dropped."""

    def __init__(self, process: "subprocess.Popen[bytes]", subnet: str) -> None:
        self._process, self._subnet = process, subnet

    def listen(self) -> socket.socket:
        """Return a socket that listens there."""
        made: list[socket.socket] = []

        def run() -> None:
            with Path(f"/proc/{self._process.pid}/ns/net").open("rb") as network:
                if ctypes.CDLL(None, use_errno=True).setns(network.fileno(), _NEW_NETWORK):
                    raise OSError(ctypes.get_errno(), "setns")
            made.append(socket.create_server((f"{self._subnet}.2", 0)))

        with Threads(1) as threads:
            threads.submit(run).result()
        return made[0]

    def drop(self) -> None:
        """Answer no packet any more."""
        self.run("ip", "route", "add", "blackhole", f"{self._subnet}.1/32")

    def run(self, *command: str) -> None:
        """Run a command there."""
        subprocess.run(["nsenter", "-t", str(self._process.pid), "-n", *command], check=True)


@contextmanager
def black_hole() -> Iterator[BlackHole]:
    """Make a network, as root, and remove it at the end."""
    number = os.getpid() % 250
    near, far, subnet = f"cdcn{number}", f"cdcf{number}", f"10.213.{number}"

    def ip(*arguments: str) -> None:
        subprocess.run(["ip", *arguments], check=True)

    with subprocess.Popen(["unshare", "--net", "sleep", "3600"]) as process:
        try:
            own = Path("/proc/self/ns/net").readlink()
            eventually(lambda: Path(f"/proc/{process.pid}/ns/net").readlink() != own, "the network")
            made = BlackHole(process, subnet)
            ip("link", "add", near, "type", "veth", "peer", "name", far, "netns", str(process.pid))
            ip("addr", "add", f"{subnet}.1/24", "dev", near)
            ip("link", "set", near, "up")
            made.run("ip", "addr", "add", f"{subnet}.2/24", "dev", far)
            made.run("ip", "link", "set", far, "up")
            yield made
        finally:
            process.kill()  # and the network goes with it
