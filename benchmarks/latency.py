"""INSERT → consumer at a steady rate: Debezium's defaults against each latency profile, in one run on one stack.

Each side also says what its connector costs while nothing happens: the worker's processor time over a while, less what
the same worker takes without a connector. `infra/bench latency` runs it; it exits 1 if mean or p99 of `balanced` is
more than a fifteenth of the defaults' at the highest rate.
"""

import argparse
import statistics
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import psutil
import psycopg
from confluent_kafka import Consumer, TopicPartition

from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.timings import Timings
from cdc_outbox.connect.wait import wait_until_up
from cdc_outbox.databases.migrations import upgrade
from cdc_outbox.debezium.render import LATENCIES, render
from cdc_outbox.event import new_event_id
from cdc_outbox.spec import Latency, Spec, parse_spec
from cdc_outbox.testing import Stack, StackConfig
from cdc_outbox.writer.outbox_schema import connector_role, outbox_components, outbox_statements

TARGET = 1 / 15
DEFAULTS = "defaults"
"""The side that has none of the options by which profiles differ."""
AGGREGATES = 100
PROFILE_OPTIONS = {option for options in LATENCIES.values() for option in options}
FETCH_WAIT_MS = 5
WARM_UP_SECONDS = 2
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
latency: {latency}
"""


@dataclass(frozen=True, slots=True)
class Load:
    """Milliseconds from before the INSERT to after the poll, at one rate."""

    mean: float
    p50: float
    p99: float

    @classmethod
    def of(cls, times: Sequence[float]) -> "Load":
        """Return what some times amount to."""
        ordered = sorted(times)
        return cls(statistics.mean(ordered), share(ordered, 0.5), share(ordered, 0.99))

    def __str__(self) -> str:
        return "".join(f"{figure:>9.1f}" for figure in (self.mean, self.p50, self.p99))


@dataclass(frozen=True, slots=True)
class Side:
    """One side's figures.

    Args:
        loads: By events a second.
        idle_cpu: Percent of a core.
    """

    name: str
    loads: Mapping[int, Load]
    idle_cpu: float

    def row(self) -> str:
        """Return a line of the table."""
        return f"{self.name:<12}" + "".join(map(str, self.loads.values())) + f"{self.idle_cpu:>10.1f} %"

    def ratio(self, defaults: "Side") -> str:
        """Return a line that says how many times less this side is."""
        texts = [
            f"{f'1/{theirs / ours:.0f}':>9}"
            for rate, load in self.loads.items()
            for ours, theirs in zip(_figures(load), _figures(defaults.loads[rate]), strict=True)
        ]
        return f"{self.name:<12}" + "".join(texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is measured, and for how long; the defaults take five minutes.

    Args:
        warm_up_seconds: Of load before anything is measured, so that the first side has no colder JVM than the last.
        stable_seconds: How long a connector has to run before it counts as up.
    """

    sides: Sequence[str] = (DEFAULTS, *reversed(Latency))
    rates: Sequence[int] = (100, 1_000)
    seconds: float = 15
    idle_seconds: float = 15
    warm_up_seconds: float = 10
    stable_seconds: float = 2


def main() -> int:
    """Run every side and print them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rates", type=int, nargs="+", default=Plan().rates, help="events a second")
    parser.add_argument("--seconds", type=float, default=Plan().seconds, help="of each rate")
    parser.add_argument("--idle-seconds", type=float, default=Plan().idle_seconds)
    options = parser.parse_args()
    plan = Plan(rates=options.rates, seconds=options.seconds, idle_seconds=options.idle_seconds)
    with Stack(StackConfig(name="bench", environment={"BENCH_PASSWORD": PASSWORD})) as stack:
        sides = measure(stack, plan)
    print(report(sides))
    load, defaults = (next(side for side in sides if side.name == name) for name in (Latency.BALANCED, DEFAULTS))
    highest = max(plan.rates)
    ratios = [
        ours / theirs
        for ours, theirs in zip(_figures(load.loads[highest]), _figures(defaults.loads[highest]), strict=True)
    ]
    return 0 if max(ratios[0], ratios[2]) <= TARGET else 1


def report(sides: Sequence[Side]) -> str:
    """Return the table: every side, and how many times less than the first it is."""
    rates = sides[0].loads
    columns = "".join(f"{name:>9}" for _ in rates for name in ("mean", "p50", "p99"))
    return "\n".join(
        [
            "INSERT -> consumer, milliseconds; a connector's CPU while idle, percent of a core",
            f"{'':<12}" + "".join(f"{f'at {rate:,}/s':>27}" for rate in rates),
            f"{'':<12}{columns}{'idle':>12}",
            *(side.row() for side in sides),
            f"of {sides[0].name}",
            *(side.ratio(sides[0]) for side in sides[1:]),
        ]
    )


def measure(stack: Stack, plan: Plan) -> list[Side]:
    """Measure every side, one after the other."""
    dsn = stack.postgres.create_database("bench")
    specs = {name: spec_of(name) for name in plan.sides}
    prepare(dsn, next(iter(specs.values())))
    if plan.warm_up_seconds:
        measure_side(stack, dsn, "warm-up", Plan(seconds=plan.warm_up_seconds, rates=[max(plan.rates)], idle_seconds=0))
    return [measure_side(stack, dsn, name, plan) for name in plan.sides]


def measure_side(stack: Stack, dsn: str, name: str, plan: Plan) -> Side:
    """Measure one side: its loads, then its connector at rest, then the worker without it."""
    spec = spec_of(name)
    deploy(stack, dsn, spec, config_of(name, spec), plan.stable_seconds)
    loads = {rate: Load.of(latencies(stack, dsn, spec, rate, plan.seconds)) for rate in plan.rates}
    with_connector = cpu_share(stack, plan.idle_seconds)
    ConnectClient(stack.connect_cluster).delete(spec.name)
    return Side(name, loads, max(0.0, with_connector - cpu_share(stack, plan.idle_seconds)))


def spec_of(name: str) -> Spec:
    """Return the spec of a side; one that is no profile has the default's."""
    latency = name if name in list(Latency) else Latency.BALANCED
    return parse_spec(SPEC.format(name=name, latency=latency))


def config_of(name: str, spec: Spec) -> dict[str, str]:
    """Return what a side's connector gets: all that is rendered, or all but what makes a profile."""
    config = render(spec)
    if name != DEFAULTS:
        return config
    return {option: value for option, value in config.items() if option not in PROFILE_OPTIONS}


def prepare(dsn: str, spec: Spec) -> None:
    """Make what ``init`` makes, and the connector's role."""
    source = spec.first_source
    with psycopg.connect(dsn) as connection:
        for component in outbox_components(spec.outbox, first_source=source):
            upgrade(partial(_run, connection), component)
        for statement in outbox_statements(spec.outbox, spec.database.publication, first_source=source):
            _run(connection, statement)
        for statement in connector_role("bench", spec.outbox).statements():
            _run(connection, statement)
        _run(connection, f"alter role bench password '{PASSWORD}'")


def deploy(stack: Stack, dsn: str, spec: Spec, config: dict[str, str], stable_seconds: float) -> None:
    """Make slot, topic and connector, and wait until it runs."""
    stack.broker.create_topic(spec.contract.topic_of("order"), partitions=spec.topics.partitions)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", (spec.database.slot,))
    client = ConnectClient(stack.connect_cluster)
    client.put_config(config)
    wait_until_up(client, spec.name, stable_seconds=stable_seconds, timings=Timings(), report=lambda _text: None)


def latencies(stack: Stack, dsn: str, spec: Spec, rate: int, seconds: float) -> list[float]:
    """Insert at a steady rate on this thread, receive on another; return milliseconds by one clock."""
    insert = "insert into outbox (id, aggregatetype, aggregateid, type, payload) values (%s, 'order', %s, 'Placed', %s)"

    def write(expected: int) -> None:
        with psycopg.connect(dsn, autocommit=True, prepare_threshold=1) as connection:
            start = time.time()
            for number in range(expected):
                time.sleep(max(0.0, start + number / rate - time.time()))
                connection.execute(insert, (new_event_id(), str(number % AGGREGATES), repr(time.time())))

    # The first second belongs to the JVM's compiler and to the consumer's first fetches.
    return received(stack, spec, int(rate * seconds), write)[rate if seconds > WARM_UP_SECONDS else 0 :]


def received(stack: Stack, spec: Spec, expected: int, write: Callable[[int], None]) -> list[float]:
    """Return the milliseconds from the times that so many messages hold to their arrival."""
    topic, broker = spec.contract.topic_of("order"), stack.broker
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": spec.name, "fetch.wait.max.ms": FETCH_WAIT_MS}
    )
    consumer.assign([TopicPartition(topic, partition, end) for partition, end in broker.ends(topic).items()])
    times, over = list[float](), threading.Event()

    def receive() -> None:
        while len(times) < expected and not over.is_set():
            # One by one: consume() would wait for its whole batch.
            record = consumer.poll(0.2)
            if record is not None and not record.error():
                times.append((time.time() - float(record.value() or b"")) * 1000)

    receiver = threading.Thread(target=receive, daemon=True)  # which no interruption has to wait for
    receiver.start()
    write(expected)
    receiver.join(30)
    over.set()
    receiver.join()
    consumer.close()
    if len(times) != expected:
        raise RuntimeError(f"{len(times)} of {expected} events arrived")
    return times


def cpu_share(stack: Stack, seconds: float) -> float:
    """Return what the Connect worker uses of one core over some seconds, in percent."""
    if not seconds:
        return 0.0
    process = psutil.Process(stack.workers[0].pid)
    before = sum(process.cpu_times()[:2])
    time.sleep(seconds)
    return float((sum(process.cpu_times()[:2]) - before) / seconds * 100)


def _figures(load: Load) -> tuple[float, float, float]:
    return load.mean, load.p50, load.p99


def share(times: Sequence[float], part: float) -> float:
    """Return the value that this part of the sorted times lies below."""
    return times[min(len(times) - 1, int(len(times) * part))]


def _run(connection: psycopg.Connection, sql: str) -> list[tuple[object, ...]]:
    cursor = connection.execute(sql.encode())
    return cursor.fetchall() if cursor.description else []


if __name__ == "__main__":
    sys.exit(main())
