"""Orders to a process under test, on its standard input, and what it says of itself on its standard output."""

import os
import queue
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

import psutil

READY, AT = "ready", "at the point"
RUN, GO, CUT, STOP = "run", "go", "cut", "stop"


class Commander:
    """Whoever gives the orders.

    Args:
        stop: What an order to stop calls, in a thread of its own.
        brokers: To which an order to cut ends the connections.
    """

    def __init__(self, stop: Callable[[], object], brokers: str) -> None:
        self._stop = stop
        self._port = int(brokers.rpartition(":")[2])
        self._orders: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()

    def say(self, word: str) -> None:
        sys.stdout.write(f"{word}\n")
        sys.stdout.flush()

    def wait(self) -> None:
        self._orders.get()

    def _listen(self) -> None:
        for line in sys.stdin:
            order = line.strip()
            if order == STOP:
                self._stop()
            elif order == CUT:
                self._cut()
            else:
                self._orders.put(order)
        os._exit(3)  # nobody is there any more

    def _cut(self) -> None:
        """Cut the connections to the broker."""
        for connection in psutil.Process().net_connections("tcp"):
            if getattr(connection.raddr, "port", None) == self._port:
                # The client may close it by itself at the same moment.
                with suppress(OSError), socket.socket(fileno=os.dup(connection.fd)) as found:
                    found.shutdown(socket.SHUT_RDWR)
