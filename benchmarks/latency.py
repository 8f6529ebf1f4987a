"""INSERT → consumer at a steady rate: Debezium's defaults against the `balanced` profile, in one run on one stack.

Each side also says what its connector costs while nothing happens. `infra/bench latency` runs it; it exits 1 if mean
or p99 of `balanced` is more than a fifteenth of the defaults'.
"""

import argparse
import statistics
import sys
import threading
import time
from dataclasses import dataclass

import psutil
import psycopg
from confluent_kafka import Consumer

from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.render import render
from cdc_outbox.connect.wait import wait_until_up
from cdc_outbox.event import new_event_id
from cdc_outbox.migrations import upgrade
from cdc_outbox.spec import Spec, parse_spec
from cdc_outbox.testing import Stack, StackConfig
from cdc_outbox.writer.schema import outbox_component, publication_statement

TARGET = 1 / 15
AGGREGATES = 100
PASSWORD = "bench"  # noqa: S105 - of a database that lives for a minute

SPEC = """\
version: 1
name: bench-{name}
database:
  kind: postgresql
  host: ${{env:POSTGRES_HOST}}
  port: ${{env:POSTGRES_PORT}}
  name: bench
  user: bench
  password: ${{env:BENCH_PASSWORD}}
  publication: bench_outbox
aggregates:
  order: {{sequence: none}}
topics:
  name: bench-{name}.{{aggregate_type}}
"""


@dataclass(frozen=True)
class Side:
    """One side's figures: milliseconds from before the INSERT to after the poll, and percent of a core."""

    name: str
    mean: float
    p50: float
    p99: float
    longest: float
    idle_cpu: float

    def row(self) -> str:
        """Return a line of the table."""
        figures = (self.mean, self.p50, self.p99, self.longest)
        return f"{self.name:<24}" + "".join(f"{figure:>10.1f}" for figure in figures) + f"{self.idle_cpu:>11.1f} %"


def main() -> int:
    """Run both sides and print them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--events-per-second", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--idle-seconds", type=float, default=10)
    options = parser.parse_args()
    with Stack(StackConfig(name="bench", environment={"BENCH_PASSWORD": PASSWORD})) as stack:
        defaults, balanced = measure(stack, options.events_per_second, options.seconds, options.idle_seconds)
    print(report(defaults, balanced, options.events_per_second))
    return 0 if max(balanced.mean / defaults.mean, balanced.p99 / defaults.p99) <= TARGET else 1


def report(defaults: Side, balanced: Side, rate: int) -> str:
    """Return the table: both sides, and how many times less the second is."""
    mean, p99 = defaults.mean / balanced.mean, defaults.p99 / balanced.p99
    return "\n".join(
        [
            f"INSERT -> consumer at {rate:,} events/s, milliseconds",
            f"{'':<24}{'mean':>10}{'p50':>10}{'p99':>10}{'max':>10}{'idle CPU':>13}",
            defaults.row(),
            balanced.row(),
            f"{'ratio':<24}{f'1/{mean:.0f}':>10}{'':>10}{f'1/{p99:.0f}':>10}",
        ]
    )


def measure(stack: Stack, rate: int, seconds: float, idle_seconds: float) -> tuple[Side, Side]:
    """Measure both sides, one after the other."""
    dsn = stack.postgres.create_database("bench")
    default_spec, balanced_spec = (parse_spec(SPEC.format(name=name)) for name in ("defaults", "balanced"))
    with psycopg.connect(dsn) as connection:
        component = outbox_component(balanced_spec.outbox, first_source="bench.1")
        upgrade(lambda sql: _run(connection, sql), component)
        connection.execute(publication_statement(balanced_spec.outbox, "bench_outbox").encode())
        connection.execute("create role bench login replication password 'bench'")
        connection.execute("grant select on outbox to bench")
    base = cpu_share(stack, idle_seconds)
    without_ours = {option: value for option, value in render(default_spec).items() if option != "poll.interval.ms"}
    sides = []
    for name, spec, config in (
        ("Debezium's defaults", default_spec, without_ours),
        ("balanced", balanced_spec, render(balanced_spec)),
    ):
        deploy(stack, dsn, spec, config)
        idle_cpu = max(0.0, cpu_share(stack, idle_seconds) - base)
        times = sorted(latencies(stack, dsn, spec, rate, seconds))
        ConnectClient(stack.connect_url).delete(spec.name)
        sides.append(Side(name, statistics.mean(times), share(times, 0.5), share(times, 0.99), times[-1], idle_cpu))
    return sides[0], sides[1]


def deploy(stack: Stack, dsn: str, spec: Spec, config: dict[str, str]) -> None:
    """Make slot, topic and connector, and wait until it runs."""
    stack.broker.create_topic(spec.contract.topic_of("order"), partitions=spec.topics.partitions)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", (spec.database.slot,))
    client = ConnectClient(stack.connect_url)
    client.put_config(config)
    wait_until_up(client, spec.name, stable_seconds=2, timeout_seconds=60, report=lambda _text: None)


def latencies(stack: Stack, dsn: str, spec: Spec, rate: int, seconds: float) -> list[float]:
    """Insert at a steady rate on this thread, receive on another; return milliseconds by one clock."""
    settings = {"bootstrap.servers": stack.broker.bootstrap_servers, "group.id": spec.name, "fetch.wait.max.ms": 5}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
    consumer.subscribe([spec.contract.topic_of("order")])
    while not consumer.assignment():
        consumer.poll(0.1)
    expected, times, over = int(rate * seconds), list[float](), threading.Event()

    def receive() -> None:
        while len(times) < expected and not over.is_set():
            # One by one: consume() would wait for its whole batch.
            record = consumer.poll(0.2)
            if record is not None and not record.error():
                times.append((time.time() - float(record.value() or b"")) * 1000)

    receiver = threading.Thread(target=receive)
    receiver.start()
    insert = "insert into outbox (id, aggregatetype, aggregateid, type, payload) values (%s, 'order', %s, 'Placed', %s)"
    with psycopg.connect(dsn, autocommit=True, prepare_threshold=1) as connection:
        start = time.time()
        for number in range(expected):
            time.sleep(max(0.0, start + number / rate - time.time()))
            connection.execute(insert, (new_event_id(), str(number % AGGREGATES), repr(time.time())))
    receiver.join(30)
    over.set()
    receiver.join()
    consumer.close()
    if len(times) != expected:
        raise RuntimeError(f"{len(times)} of {expected} events arrived")
    # The first second belongs to the JVM's compiler and to the consumer's first fetches.
    return times[rate if expected > 2 * rate else 0 :]


def cpu_share(stack: Stack, seconds: float) -> float:
    """Return what the Connect worker uses of one core over some seconds, in percent."""
    process = psutil.Process(stack.workers[0].pid)
    before = sum(process.cpu_times()[:2])
    time.sleep(seconds)
    return float((sum(process.cpu_times()[:2]) - before) / seconds * 100)


def share(times: list[float], part: float) -> float:
    """Return the value that this part of the sorted times lies below."""
    return times[min(len(times) - 1, int(len(times) * part))]


def _run(connection: psycopg.Connection, sql: str) -> list[tuple[object, ...]]:
    cursor = connection.execute(sql.encode())
    return cursor.fetchall() if cursor.description else []


if __name__ == "__main__":
    sys.exit(main())
