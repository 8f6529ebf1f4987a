"""A Kafka broker that can be cut from its own controller, which then takes it for dead; clients still reach it."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from cdc_outbox.debezium.event_router.jvm import Jvm
from cdc_outbox.testing.broker import Broker, broker_environment, make_broker
from cdc_outbox.testing.folder import HOST
from tests.support.rig import eventually
from tests.support.threads import Threads


class Line:
    """Passes connections on to a port until it is cut, and again when it is mended."""

    def __init__(self, port: int) -> None:
        self._to, self._is_cut, self._ends = port, False, list[socket.socket]()
        self._server = socket.create_server((HOST, 0))
        self.port: int = self._server.getsockname()[1]
        self._threads = Threads()
        self._threads.submit(self._run)

    def cut(self) -> None:
        """End all connections, and refuse others."""
        self._is_cut = True
        for end in self._ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        """Pass on connections again."""
        self._is_cut = False

    def close(self) -> None:
        """End it."""
        self.cut()
        self._server.shutdown(socket.SHUT_RDWR)  # which ends the thread's wait
        self._server.close()
        self._threads.shutdown()

    def _run(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._server.accept()
                if self._is_cut:
                    near.close()
                    continue
                far = socket.create_connection((HOST, self._to))
                self._ends += near, far
                for ends in ((near, far), (far, near)):
                    self._threads.submit(_pass_on, *ends)


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError), closing(source), closing(target):
        while sent := source.recv(65_536):
            target.sendall(sent)


@dataclass(frozen=True, slots=True)
class CutBroker:
    """The broker, and its way to its controller."""

    broker: Broker
    line: Line


@contextmanager
def running_broker(folder: Path, jvm: Jvm, ports: tuple[int, int]) -> Iterator[CutBroker]:
    """Start a broker, and stop it at the end."""
    port, controller = ports
    with ExitStack() as stack:
        line = stack.enter_context(closing(Line(controller)))
        environment = broker_environment(folder, port, controller)
        broker = make_broker(folder, port, {**environment, "BROKER_CONTROLLER": f"{HOST}:{line.port}"}, jvm)
        stack.callback(broker.kill)
        broker.start()
        eventually(broker.answers, "the broker")
        yield CutBroker(broker, line)
