"""A Kafka broker that can be cut from its own controller, which then takes it for dead; clients still reach it."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from cdc_outbox.debezium.event_router.jvm import Jvm
from cdc_outbox.testing.broker import Broker, broker_environment, make_broker
from cdc_outbox.testing.folder import HOST
from tests.support.rig import eventually
from tests.support.silent_line import SilentLine


@dataclass(frozen=True, slots=True)
class CutBroker:
    """The broker, and its way to its controller."""

    broker: Broker
    line: SilentLine


@contextmanager
def running_broker(folder: Path, jvm: Jvm, ports: tuple[int, int]) -> Iterator[CutBroker]:
    """Start a broker, and stop it at the end."""
    port, controller = ports
    with ExitStack() as stack:
        line = stack.enter_context(SilentLine(controller))
        environment = broker_environment(folder, port, controller)
        broker = make_broker(folder, port, {**environment, "BROKER_CONTROLLER": f"{HOST}:{line.port}"}, jvm)
        stack.callback(broker.kill)
        broker.start()
        eventually(broker.answers, "the broker")
        yield CutBroker(broker, line)
