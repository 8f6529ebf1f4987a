"""Run both services on a real stack, kill a consumer and the publisher meanwhile, and count the results.

`./infra/demo` creates the environment and calls this. Debezium on Kafka Connect publishes, or with `--relay` the relay.
It exits with 1 if an effect happened twice, was lost, was out of
order or had no committed order, or if there were no events in flight at a kill. On a slow machine the writers continue
until there were at both kills.
"""

import argparse
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import LiteralString

import psycopg
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient
from psycopg.sql import Literal

from cdc_outbox import CdcOutboxError
from cdc_outbox.consumer import RecordedEvent, load_contract
from cdc_outbox.testing import Stack, StackConfig
from examples.orders.evidence import Evidence, gather
from examples.orders.orders import place_order

HERE = Path(__file__).parent
SPEC = "connectors/orders.yaml"
CONTRACT = load_contract(HERE / "orders.contract.json")
[TOPIC] = CONTRACT.topics

ORDERS, CUSTOMERS, WRITERS = 2_000, 200, 4
WAVES, WAVE_SECONDS = 12, 1.5
"""Orders come in waves: each at full speed, then a pause."""
MOST = 10
"""The writers may place so many times ORDERS until both kills have hit."""
CONSUMER_DIES_AFTER, PUBLISHER_DIES_AFTER = 0.2, 0.5
"""Shares of ORDERS that are committed before each kill."""
IN_FLIGHT = 30
"""Events. A process is paused until so many wait for it, and then killed, so that a kill hits events in flight."""
SHIPPED_SECONDS = 120
"""How long the last orders may take."""
JOINED = (" reads consumer=", " reading slot ", " standing by: ")
"""What a service logs once it is a member of its group, reads the slot, or waits for the one that does."""


class Service(subprocess.Popen[str]):
    """A service in a process of its own, whose log is copied to the demo's."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        super().__init__(arguments, env=environment, stderr=subprocess.PIPE, text=True)
        self.joined = threading.Event()
        self.copying = threading.Thread(target=self._copy_log)
        self.copying.start()

    def wait_until_joined(self) -> None:
        """Wait as long as the machine needs; return at once if the service has ended."""
        while not self.joined.wait(0.1) and self.poll() is None:
            pass

    def _copy_log(self) -> None:
        if self.stderr is None:
            return
        with self.stderr as lines:
            for line in lines:
                print(line, end="", file=sys.stderr, flush=True)
                if any(text in line for text in JOINED):
                    self.joined.set()


class Demo:
    """The two services and their stack, with queries about their state."""

    def __init__(self, stack: Stack, passwords: dict[str, str]) -> None:
        self.stack = stack
        self.orders_admin = stack.postgres.create_database("orders")
        self.shipping_admin = stack.postgres.create_database("shipping")
        self.writer_dsn = stack.postgres.dsn("orders", user="orders_writer", password=passwords["writer"])
        self.consumer_dsn = stack.postgres.dsn("shipping", user="shipping_consumer", password=passwords["consumer"])
        self.relay_dsn = stack.postgres.dsn("orders", user="orders_relay", password=passwords["relay"])
        self.passwords = passwords
        self.relays: list[Service] = []
        self.consumers: list[Service] = []
        self._orders = psycopg.connect(self.orders_admin, autocommit=True)
        self._shipping = psycopg.connect(self.shipping_admin, autocommit=True)
        self._admin = AdminClient({"bootstrap.servers": stack.broker.bootstrap_servers, "log_level": 0})

    def set_up(self) -> None:
        """Create tables and roles, and deploy the connector or start two relays, with the ``cdc-outbox`` command."""
        self.make("schema.sql", SPEC, dsn=self.orders_admin)
        self.make("shipping.sql", "--inbox", "--consumer-role=shipping_consumer", dsn=self.shipping_admin)
        if self.stack.workers:
            self.command("deploy-connector", SPEC, "--stable-for=3s", dsn=self.orders_admin)
            return
        self.command("relay", SPEC, "--create-slot", dsn=self.orders_admin)
        self.start_relay()
        self.start_relay()

    def make(self, file: str, *what: str, dsn: str) -> None:
        """Create the package's tables in a database, then its roles, then the service's own tables."""
        self.command("init", *what, dsn=dsn)
        grants = self.command("init", *what, "--grants", dsn=dsn, output=subprocess.PIPE)
        self.run_sql(grants + (HERE / file).read_text(), dsn)

    def command(self, *arguments: str, dsn: str, output: int | None = None) -> str:
        """Run ``cdc-outbox``; its output is the demo's, or is returned."""
        say(f"$ cdc-outbox {' '.join(arguments)}")
        done = subprocess.run(
            [sys.executable, "-m", "cdc_outbox", *arguments],
            env={**os.environ, **self.stack.environment(), "CDC_OUTBOX_DSN": dsn},
            stdout=output,
            text=True,
            check=True,
        )
        return done.stdout or ""

    def run_sql(self, text: str, dsn: str) -> None:
        """Run a script for psql, with its variables."""
        with psycopg.connect(dsn, autocommit=True) as connection:
            for name, password in self.passwords.items():
                text = text.replace(f":'{name}_password'", Literal(password).as_string(connection))
            connection.execute(text.encode())

    def start_consumer(self) -> None:
        """Start one more member of the consumer group, in a process of its own."""
        dsn = {"SHIPPING_DSN": self.consumer_dsn}
        self.consumers.append(self._start("consume", "examples.orders.shipping:consumer", variables=dsn))

    def start_relay(self) -> None:
        """Start one more relay; the first one publishes, and the others stand by."""
        self.relays.append(self._start("relay", SPEC, variables={"CDC_OUTBOX_DSN": self.relay_dsn}))

    def _start(self, *arguments: str, variables: dict[str, str]) -> Service:
        say(f"$ cdc-outbox {' '.join(arguments)} &")
        environment = {**os.environ, **self.stack.environment(), **variables}
        return Service([sys.executable, "-m", "cdc_outbox", *arguments], environment)

    def publishing_relay(self) -> Service:
        """Return the relay that publishes; which of them was first is a matter of milliseconds."""
        [(instance,)] = self._orders.execute("select instance from outbox_publishers").fetchall()
        return next(relay for relay in self.relays if str(instance).endswith(f"/{relay.pid}"))

    def committed(self) -> int:
        """Return how many orders are committed."""
        return count(self._orders, "select count(*) from orders")

    def shipped(self) -> int:
        """Return how many effects are committed."""
        return count(self._shipping, "select count(*) from shipments")

    def unpublished(self) -> int:
        """Return how many committed events are not in the topic yet."""
        committed = self.committed()
        return committed - len({event.id for event in self.events()})

    def unshipped(self) -> int:
        """Return how many orders were in the topic a second ago and are still not shipped."""
        delivered = {event.payload["order"] for event in self.events()}
        time.sleep(1)
        return len(delivered - {order for (order,) in self._shipping.execute("select order_id from shipments")})

    def events(self) -> list[RecordedEvent]:
        """Return the events that the topic holds, repeated ones too."""
        return [CONTRACT.event_of(message) for message in self.stack.broker.messages(TOPIC)]

    def group_lag(self) -> int:
        """Return the lag of the group's committed offsets, in messages."""
        ends = self.stack.broker.ends(TOPIC)
        wanted = ConsumerGroupTopicPartitions("shipping", [TopicPartition(TOPIC, partition) for partition in ends])
        [future] = self._admin.list_consumer_group_offsets([wanted]).values()
        done = {place.partition: max(place.offset, 0) for place in future.result().topic_partitions}
        return sum(end - done.get(partition, 0) for partition, end in ends.items())

    def close(self) -> None:
        """Stop the consumers and the relays."""
        for process in (*self.consumers, *self.relays):
            if process.poll() is None:
                process.kill()
                process.wait()
        self._orders.close()
        self._shipping.close()


def main() -> int:
    """Run the demo and return its exit code."""
    parser = argparse.ArgumentParser(prog="infra/demo", description="Run a pipeline, kill parts of it, and count.")
    parser.add_argument("--relay", action="store_true", help="publish with the relay, without Kafka Connect")
    uses_relay = parser.parse_args().relay
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit("interrupted"))  # so that the stack is taken down
    started = time.monotonic()
    try:
        failures, evidence = show(uses_relay=uses_relay)
    except (CdcOutboxError, subprocess.CalledProcessError) as error:
        say(f"FAILED: {error}")
        return 1
    print(f"\n{evidence.table()}\n")
    if not evidence.holds:
        failures = [*failures, "a promise was broken"]
    for failure in failures:
        say(f"FAILED: {failure}")
    say(f"done in {time.monotonic() - started:.0f} s; nothing is left running")
    return 1 if failures else 0


def show(*, uses_relay: bool) -> tuple[list[str], Evidence]:
    """Run the two services on a new stack; return failures and counts."""
    passwords = {name: secrets.token_urlsafe(12) for name in ("writer", "connector", "relay", "consumer")}
    environment = {"ORDERS_CONNECTOR_PASSWORD": passwords["connector"]}
    workers = 0 if uses_relay else 1
    config = StackConfig(name=f"demo-{os.getpid()}", short_lived=True, workers=workers, environment=environment)
    parts = "PostgreSQL and Kafka" if uses_relay else "PostgreSQL, Kafka and Connect"
    say(f"starting {parts} (the first start downloads jars)")
    with Stack(config) as stack:
        demo = Demo(stack, passwords)
        try:
            demo.set_up()
            return run(demo), gather(
                orders_dsn=demo.orders_admin, shipping_dsn=demo.shipping_admin, broker=stack.broker, contract=CONTRACT
            )
        finally:
            demo.close()


def run(demo: Demo) -> list[str]:
    """Write, consume and kill until every committed order is shipped; return failures."""
    say(f"{WRITERS} writers place {ORDERS:,} orders of {CUSTOMERS} customers, one in ten is rolled back; 2 consumers")
    demo.start_consumer()
    demo.start_consumer()
    killed = threading.Event()
    with ThreadPoolExecutor(WRITERS) as pool, progress(demo):
        writers = [pool.submit(write, demo.writer_dsn, number, killed) for number in range(WRITERS)]
        try:
            hits = {"a consumer": kill_consumer(demo)}
            if demo.relays:
                hits["the relay"] = kill_relay(demo)
            else:
                hits["the Connect worker"] = kill_worker(demo)
        finally:
            killed.set()
        for writer in writers:
            writer.result()
        late = wait_for(lambda: demo.shipped() - demo.committed(), at_least=0, seconds=SHIPPED_SECONDS) < 0
    codes = end([*demo.consumers, *demo.relays])
    missed = [victim for victim, hit in hits.items() if not hit]
    return [
        *(f"no events were in flight when {victim} was killed, so the kill proves nothing" for victim in missed),
        *([f"not every order was shipped within {SHIPPED_SECONDS} s"] if late else []),
        *([f"the services exited with {codes} instead of 0"] if any(codes) else []),
    ]


def end(services: Sequence[Service]) -> list[int]:
    """Stop the services that the demo did not kill, once each has joined, and return their exit codes."""
    left = [service for service in services if service.poll() != -signal.SIGKILL]
    for service in left:
        service.wait_until_joined()
    for service in left:
        service.terminate()
    codes = [service.wait(timeout=60) for service in left]
    for service in left:
        service.copying.join()
    return codes


def write(dsn: str, writer: int, killed: threading.Event) -> None:
    """Place this writer's orders, each in a transaction of its own."""
    with psycopg.connect(dsn) as connection:
        for number in numbers(killed):
            order = number * WRITERS + writer
            with connection.transaction() as transaction:
                place_order(connection, customer=order * 7919 % CUSTOMERS, total_cents=order)
                if number % 10 == 9:
                    raise psycopg.Rollback(transaction)


def numbers(killed: threading.Event) -> Iterator[int]:
    """Yield a writer's orders, in waves, and more at the same pace until both kills have hit."""
    share, start = ORDERS // WRITERS, time.monotonic()
    for number in range(MOST * share):
        if number >= share and killed.is_set():
            return
        wave = number * WAVES // share
        time.sleep(max(0.0, start + wave * WAVE_SECONDS - time.monotonic()))
        yield number


def kill_consumer(demo: Demo) -> bool:
    """Kill a consumer while messages wait for it, and start another."""
    wait_for(demo.committed, at_least=int(ORDERS * CONSUMER_DIES_AFTER), seconds=60)
    # On a slow machine they may still be starting.
    for consumer in demo.consumers:
        consumer.wait_until_joined()
    victim = demo.consumers[0]
    victim.send_signal(signal.SIGSTOP)
    # The other consumer continues with its partitions: the rest waits for the paused one.
    wait_for(demo.unshipped, at_least=IN_FLIGHT, seconds=20)
    victim.kill()
    victim.wait()
    lag = min(demo.unshipped(), demo.group_lag())
    say(f"kill -9 of a consumer, with {lag} messages in the topic that it had not shipped; starting another one")
    demo.start_consumer()
    return lag > 0


def kill_worker(demo: Demo) -> bool:
    """Kill the Connect worker while committed events wait for it, and start it again."""
    worker = demo.stack.workers[0]
    wait_for(demo.committed, at_least=int(ORDERS * PUBLISHER_DIES_AFTER), seconds=60)
    worker.pause()
    wait_for(demo.unpublished, at_least=IN_FLIGHT, seconds=20)
    worker.kill()
    lag = demo.unpublished()
    say(f"kill -9 of the Connect worker, with {lag} committed events not yet in the topic; starting it again")
    worker.start()
    return lag > 0


def kill_relay(demo: Demo) -> bool:
    """Kill the relay that publishes while committed events wait for it; another one takes over."""
    wait_for(demo.committed, at_least=int(ORDERS * PUBLISHER_DIES_AFTER), seconds=60)
    victim = demo.publishing_relay()
    victim.send_signal(signal.SIGSTOP)
    wait_for(demo.unpublished, at_least=IN_FLIGHT, seconds=10)
    victim.kill()
    victim.wait()
    lag = demo.unpublished()
    say(f"kill -9 of the relay, with {lag} committed events not yet in the topic; the other one takes over")
    return lag > 0


def wait_for(look: Callable[[], int], *, seconds: float, at_least: int = 1) -> int:
    """Repeat a query until it returns enough, or the time is over; return its last result."""
    deadline = time.monotonic() + seconds
    while True:
        seen = int(look())
        if seen >= at_least or time.monotonic() > deadline:
            return seen
        time.sleep(0.01)


@contextmanager
def progress(demo: Demo) -> Iterator[None]:
    """Print the progress every two seconds."""
    over = threading.Event()

    def watch() -> None:
        started = time.monotonic()
        while not over.wait(2):
            placed, shipped = demo.committed(), demo.shipped()
            say(f"  {time.monotonic() - started:3.0f} s   {placed:,} committed, {shipped:,} shipped")

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def count(connection: psycopg.Connection, query: LiteralString) -> int:
    """Return the number that a query returns."""
    [(number,)] = connection.execute(query).fetchall()
    return int(number)


def say(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
