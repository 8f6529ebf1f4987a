"""The README's pipeline on the stack of docker-compose.yml: the blocks of the README and of docs/compose.md."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from cdc_outbox import Event, Outbox, load_spec
from tests.compose.stack import ROOT, ComposeStack, step
from tests.faults.report import tell
from tests.support.pages import Page, run_script
from tests.support.patience import patience
from tests.support.rig import eventually, one, postgres_program

_README, _PAGE = Page("README.md"), Page("docs/compose.md")
_OUTBOX = Outbox(spec=load_spec(ROOT / "connectors" / "orders.yaml"))
_VERIFIED = re.compile(r"^customer +\d+ +(\d+) +(\d+) +(\d+)\nno differences\n$", re.MULTILINE)


class ReadmePipeline:
    """The services of the README, in the folder of a checkout."""

    def __init__(self, stack: ComposeStack) -> None:
        self._stack, self._folder = stack, stack.checkout
        exported = _PAGE.block("export CDC_OUTBOX_DSN=")
        self._environment = {
            **{name: os.environ[name] for name in ("HOME", "DOCKER_HOST", "DOCKER_CONFIG")},
            "LANG": "C.UTF-8",
            **dict(line.split("=", 1) for line in run_script(f"{exported}env", ROOT, {}).splitlines() if "=" in line),
            "POSTGRES_BIN": str(Path(postgres_program("psql")).parent),
        }
        for name in ("orders", "shipping"):
            (self._folder / f"{name}.py").write_text(_README.block(f"# {name}.py"))
            (self._folder / f"{name}.py").chmod(0o644)

    @contextmanager
    def on_this_machine(self) -> Iterator[None]:
        """Run the README's commands as they are printed; the consumer runs until the end of the block."""
        with step("the README's commands on this machine"):
            *_, path, orders, shipping = _README.block("export ORDERS_CONNECTOR_PASSWORD").splitlines()
            publish = _README.block("cdc-outbox init connectors/orders.yaml ")
            deployed = self._run(f"{path}\n{orders}\n{shipping}\n{publish}")
            assert deployed.endswith("orders: deployed\norders: nothing to change\n")
            export, init, consume = _README.block("cdc-outbox contract export").splitlines()
            self._run(f"{export}\n{init}")
        with self._consuming(consume):
            yield

    @contextmanager
    def in_containers(self) -> Iterator[None]:
        """The same with the commands of docs/compose.md, without a program of this machine."""
        *commands, consume, verify = _PAGE.block("docker compose exec -T postgres psql").splitlines()
        with step("the README's commands in containers"):
            deployed = self._run("\n".join(commands))
            assert "orders: deployed\norders: nothing to change\n" in deployed
        with self._consuming(consume):
            yield
            with step("verify in a container"):
                assert self._run(verify).endswith("no differences\n")

    @contextmanager
    def _consuming(self, command: str) -> Iterator[None]:
        log = self._folder / "consumer.log"
        env = {**self._environment, "PATH": f"{sys.prefix}/bin:/usr/bin:/bin"}
        with log.open("w") as stderr:
            script = ["bash", "-euc", f"exec {command}"]
            consumer = subprocess.Popen(
                script, cwd=self._folder, env=env, stdin=subprocess.DEVNULL, stderr=stderr, start_new_session=True
            )
        try:
            yield
            assert consumer.poll() is None, log.read_text()
        finally:
            os.killpg(consumer.pid, signal.SIGINT)  # as Ctrl-C in a terminal
            consumer.wait(patience())
        assert re.search(r"shipping: [1-9]\d* applied\n$", log.read_text()), log.read_text()

    def place(self, orders: int) -> None:
        """Place orders as orders.py does."""
        with psycopg.connect(self._stack.dsn("orders")) as connection:
            for number in range(orders):
                customer = 1000 + number % 20
                connection.execute("insert into orders (customer, total_cents) values (%s, 1999)", [customer])
                event = Event(
                    aggregate_type="customer",
                    aggregate_id=str(customer),
                    type="OrderPlaced",
                    payload={"total_cents": 1999},
                )
                _OUTBOX.add(connection, event)
                connection.commit()

    def count(self) -> None:
        """Wait until each order is shipped, and count with `verify`, which also compares the numbers' order."""
        with psycopg.connect(self._stack.dsn("orders"), autocommit=True) as connection:
            orders = one(connection, "select count(*) from orders")
        with psycopg.connect(self._stack.dsn("shipping"), autocommit=True) as connection:
            eventually(lambda: one(connection, "select count(*) from shipments") >= orders, f"{orders} shipments")
            shipped = one(connection, "select count(*) from shipments")
        verified = self._run(_README.block("cdc-outbox verify"))
        found = _VERIFIED.search(verified)
        assert found, verified
        assert {int(count) for count in found.groups()} == {orders, shipped}, (
            f"{orders} orders, {shipped} shipped\n{verified}"
        )
        tell(f"          given out {found[1]}, in topic {found[2]}, applied {found[3]}, shipments {shipped}")

    def _run(self, script: str) -> str:
        return run_script(script, self._folder, self._environment)
