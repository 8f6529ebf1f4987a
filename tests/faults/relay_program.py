"""A relay as a process, to which something happens at a point: ``python -m tests.faults.relay_program JSON``.

It is what ``cdc-outbox relay`` runs, from the slot to Kafka. Each message has a header more, by which is known which
producer sent it: a relay makes one each time that it starts to read.
"""

import json
import logging
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import confluent_kafka
from psycopg.conninfo import make_conninfo

from cdc_outbox.kafka import confluent
from cdc_outbox.relay import NotThePublisherError, make_relay
from cdc_outbox.spec import parse_spec
from tests.faults.commander import AT, READY, Commander
from tests.faults.relay_points import RelayPoint, notice_relay_at

PRODUCER_HEADER = "producer"
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayOrders:
    """What a process is to be.

    Args:
        member: Its name.
        spec: The text of a spec.
        port: Where the database is reached, past what may cut the line.
        point: Where something happens to it, the ``occurrence``-th time that it comes there.
        signal: What it sends to itself there, before another thread of it does anything; without one it waits there.
    """

    program: ClassVar = "tests.faults.relay_program"

    member: str
    spec: str
    brokers: str
    dsn: str
    port: int | None = None
    point: RelayPoint | None = None
    occurrence: int = 1
    signal: int | None = None

    def text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, text: str) -> "RelayOrders":
        fields = json.loads(text)
        return cls(**{**fields, "point": fields["point"] and RelayPoint(fields["point"])})


class RelayProcess:
    """The relay, and what is done with it."""

    def __init__(self, orders: RelayOrders) -> None:
        self._orders, self._left = orders, orders.occurrence
        dsn = make_conninfo(orders.dsn, port=orders.port)
        self._relay = make_relay(parse_spec(orders.spec, name="relay.yaml"), dsn=dsn, kafka=orders.brokers)
        self._commander = Commander(self._relay.stop, orders.brokers)
        if orders.point is not None:
            notice_relay_at(orders.point, self._reach)

    def run(self) -> None:
        """Relay as soon as that is ordered."""
        self._commander.say(READY)
        self._commander.wait()
        try:
            self._relay.run()
        except NotThePublisherError:
            # So ends a relay that another one relieved while it was paused.
            if self._orders.signal != signal.SIGSTOP:
                raise
            _LOG.info("relieved", exc_info=True)

    def _reach(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._commander.say(AT)
            if self._orders.signal is None:
                self._commander.wait()
            else:
                os.kill(os.getpid(), self._orders.signal)


def name_producers(member: str) -> None:
    """Add a header to each message of this process: the member, and the number of its producer."""
    count = 0

    class Producer(confluent_kafka.Producer):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            nonlocal count
            super().__init__(*arguments, **options)
            count += 1
            self._name = f"{member} {count}".encode()

        def produce(self, *arguments: Any) -> None:
            produce: Callable[..., None] = super().produce
            *others, headers = arguments
            produce(*others, [*headers, (PRODUCER_HEADER, self._name)])

    vars(confluent)["Producer"] = Producer


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s", stream=sys.stderr)
    given = RelayOrders.of(sys.argv[1])
    name_producers(given.member)
    RelayProcess(given).run()
