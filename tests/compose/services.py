"""The two services of examples/orders in containers, under load, while their servers are harmed."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg

from cdc_outbox.consumer import load_contract
from cdc_outbox.testing.broker import Broker
from cdc_outbox.testing.process import ServerCommand
from examples.orders.evidence import gather
from tests.compose.stack import ROOT, ComposeStack, run, step
from tests.faults.report import tell
from tests.support.patience import patience
from tests.support.rig import eventually, one

_CONTRACT = load_contract(ROOT / "examples" / "orders" / "orders.contract.json")
_PARTITION_SECONDS = 45
_RECOVERY_SECONDS = 30


class Services:
    """`orders` places 20 orders a second, `shipping` ships them."""

    def __init__(self, stack: ComposeStack) -> None:
        self._stack = stack
        self._orders, self._shipping = stack.dsn("orders"), stack.dsn("shipping")

    def harm(self, *services: str, pairs: tuple[tuple[str, str], ...]) -> None:
        """Cut each pair and the broker, kill each service in two ways, give it another address; count after each."""
        for pair in pairs:
            what = f"{' and '.join(pair)} are cut off from each other for {_PARTITION_SECONDS} s"
            with self._counted(what), self._stack.cut(*pair):
                time.sleep(_PARTITION_SECONDS)
        what = f"kafka is off the network for {_PARTITION_SECONDS} s"
        with self._counted(what, within_seconds=_RECOVERY_SECONDS), self._stack.isolated("kafka"):
            time.sleep(_PARTITION_SECONDS)
        for service in services:
            with self._counted(f"{service} dies, its restart policy starts it"):
                self._stack.crash(service)
            with self._counted(f"{service} is killed, `up` starts it"):
                self._stack.kill(service)
                self._stack.start(service)
            with self._counted(f"{service} gets another address"), self._stack.isolated(service, moves=True):
                pass

    def restart(self) -> None:
        """Take the stack down, and up again."""
        with self._counted("down, and up"):
            self._stack.down()
            self._stack.up()

    def lose(self, service: str) -> None:
        """Kill a service that the others do without, count, and start it again."""
        with self._counted(f"{service} is killed, and stays dead"):
            self._stack.kill(service)
        with step(f"{service} is back"):
            self._stack.start(service)

    @contextmanager
    def _counted(self, what: str, *, within_seconds: float | None = None) -> Iterator[None]:
        """Print when an order of after the block is shipped, and what was counted then."""
        with step(what):
            yield
        began_at = time.monotonic()
        self._wait_for_a_shipment()
        seconds = time.monotonic() - began_at
        assert within_seconds is None or seconds <= patience(within_seconds), f"{seconds:.1f} s until a shipment"
        tell(f"          the next order is shipped after {seconds:.1f} s")
        self.count()

    def _wait_for_a_shipment(self) -> None:
        last: list[int] = []

        def is_shipped() -> bool:
            with suppress(psycopg.OperationalError):
                if not last:
                    last.append(self._ask(self._orders, "select max(id) from orders"))
                return bool(self._ask(self._shipping, "select count(*) from shipments where order_id > %s", last[0]))
            return False

        eventually(is_shipped, "the shipment of an order", seconds=240)

    def count(self) -> None:
        """Halt the orders until all are shipped, and count in both databases and in the topic."""
        orders = self._stack.state("orders")["Id"]
        run("docker", "pause", orders)
        try:
            eventually(self._is_all_shipped, "as many shipments as orders", seconds=240)
            broker = Broker(Path(), ServerCommand(arguments=(), environment={}), port=self._stack.port("kafka"))
            found = gather(orders_dsn=self._orders, shipping_dsn=self._shipping, broker=broker, contract=_CONTRACT)
        finally:
            run("docker", "unpause", orders)
        in_topic = found.messages - found.duplicates
        assert found.holds, f"\n{found.table()}"
        assert found.committed == in_topic == found.effects, f"\n{found.table()}"
        tell(
            f"          given out {found.committed}, in topic {in_topic}, applied once {found.effects}; "
            f"delivered again {found.duplicates}, out of order 0"
        )

    def _is_all_shipped(self) -> bool:
        placed = self._ask(self._orders, "select count(*) from orders")
        return bool(placed == self._ask(self._shipping, "select count(*) from shipments"))

    @staticmethod
    def _ask(dsn: str, query: str, *parameters: object) -> int:
        with psycopg.connect(dsn, autocommit=True, connect_timeout=5) as connection:
            return int(one(connection, query, *parameters))
