"""One backlog of the outbox, published by the relay, by Debezium and read by pg_recvlogical, on one stack.

Every side of every round reads the same log through a slot of its own, and publishes to a topic of its own; rates and
CPU count until the last message is in the topic. The topic is read afterwards: each event must be there once,
in the order of its aggregate. Then events are written at a steady rate for the relay, with the same settings, and
for Debezium with the latency `low`, which take turns too, and with a producer that writes to Kafka and nothing else: no
publisher can be quicker. `infra/bench relay` runs it; it exits 1 if a bound is missed, and 75 if the machine was too
busy to tell.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field
from pathlib import Path

import psutil
import psycopg
from confluent_kafka import Consumer, TopicPartition
from psycopg.conninfo import conninfo_to_dict

from benchmarks.consumers.side import Finding
from benchmarks.durable import demand_durable
from benchmarks.latency import PASSWORD, WARM_UP_SECONDS, Load, deploy, latencies, prepare, received
from benchmarks.machine import IdleTime
from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.debezium.render import render
from cdc_outbox.spec import Spec, parse_spec
from cdc_outbox.testing import Stack, StackConfig

CHECKOUT = Path(__file__).parents[1]
RELAY, DEBEZIUM, READER = "relay", "Debezium, as rendered", "pg_recvlogical"
PRODUCER = "a producer alone"
AGGREGATES = 1_000
MIN_RATE, MAX_CPU, MIN_OF_READER, MAX_MEGABYTES, MAX_P99 = 2, 0.5, 0.35, 100, 0.5
"""The relay's bounds: its rate and CPU in times of Debezium's, its rate in times of the reader's, and so on."""
LOOK_SECONDS = 0.02
STUCK_SECONDS = 120

SPEC = """\
version: 1
name: {name}
source: bench
database:
  kind: postgresql
  host: ${{env:POSTGRES_HOST}}
  port: ${{env:POSTGRES_PORT}}
  name: bench_relay
  user: bench
  password: ${{env:BENCH_PASSWORD}}
  publication: bench_outbox
aggregates:
  order: {{}}
topics:
  name: {name}.{{aggregate_type}}
latency: {latency}
"""
BACKLOG = """\
insert into outbox (id, aggregatetype, aggregateid, type, payload, sequence, traceparent, tracestate)
select gen_random_uuid(), 'order', n %% %(aggregates)s, 'OrderPlaced',
    json_build_object('order', n, 'customer', 'customer-' || n %% 97, 'total', 12.5,
        'lines', json_build_array(1, 2, 3)),
    n / %(aggregates)s + 1, '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01', 'vendor=1'
from generate_series(%(first)s::bigint, %(last)s::bigint) as n
"""
"""A transaction of the backlog: small events with all the headers that the table has."""
TRANSACTION = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a side took in a round.

    Args:
        rate: Events a second.
        cpu: Microseconds of the publishing process for each event.
        peak_megabytes: The most memory that the process had.
    """

    rate: float
    cpu: float = 0
    peak_megabytes: float = 0


@dataclass
class Side:
    """A publisher, or the program that only reads, with its rounds."""

    name: str
    runs: list[Run] = field(default_factory=list)

    def median(self, figure: Callable[[Run], float]) -> float:
        """Return the median of one figure over the rounds."""
        return statistics.median(map(figure, self.runs))

    def ratio(self, base: "Side", figure: Callable[[Run], float]) -> float:
        """Return the median over the rounds of a figure in times of the other side's in the same round."""
        return statistics.median(figure(our) / figure(their) for our, their in zip(self.runs, base.runs, strict=True))

    def row(self) -> str:
        """Return a line of the table; a program that publishes nothing has a rate only."""
        rate, cpu, peak = (self.median(figure) for figure in (_rate, _cpu, lambda run: run.peak_megabytes))
        return f"  {self.name:<28}{rate:>12,.0f}" + (f"{cpu:>12.1f}{peak:>10.0f}" if cpu else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is measured; the defaults take about ten minutes."""

    events: int = 1_000_000
    rounds: int = 5
    rate: int = 1_000
    seconds: float = 10


def main() -> int:
    """Measure all sides and print their figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--events", type=int, default=Plan().events, help="of the backlog")
    parser.add_argument("--rounds", type=int, default=Plan().rounds, help="5 at most")
    parser.add_argument("--rate", type=int, default=Plan().rate, help="events a second while latency is measured")
    parser.add_argument("--seconds", type=float, default=Plan().seconds, help="of each round of latency")
    options, idle = parser.parse_args(), IdleTime()
    with Stack(StackConfig(name="bench", environment={"BENCH_PASSWORD": PASSWORD})) as stack:
        demand_durable(stack)
        sides, loads = measure(stack, Plan(**vars(options)), idle)
    found = findings(sides, loads)
    print(report(sides, loads, found))
    print(idle)
    return idle.exit_code(met=all(finding.met for finding in found))


def measure(stack: Stack, plan: Plan, idle: IdleTime) -> tuple[list[Side], dict[str, list[Load]]]:
    """Let the sides take turns at the backlog, then both publishers at a steady rate."""
    dsn = stack.postgres.create_database("bench_relay")
    prepare(dsn, spec_of("bench"))
    sides = [Side(RELAY), Side(DEBEZIUM), Side(READER)]
    slots = {
        (side.name, number): f"bench_{index}_{number}"
        for index, side in enumerate(sides)
        for number in range(plan.rounds)
    }
    with psycopg.connect(dsn, autocommit=True) as connection:
        for slot in slots.values():
            create_slot(connection, slot)
        write_backlog(connection, plan.events)
    publish = {RELAY: publish_by_relay, DEBEZIUM: publish_by_debezium}
    for number in range(plan.rounds):
        for index in range(len(sides)):
            side = sides[(number + index) % len(sides)]
            slot = slots[side.name, number]
            idle.pause()
            if side.name == READER:
                side.runs.append(Run(rate=plan.events / seconds_to_read(stack, dsn, slot)))
            else:
                side.runs.append(publish[side.name](stack, dsn, slot, plan.events))
            drop_slot(dsn, slot)
    loads: dict[str, list[Load]] = {RELAY: [], DEBEZIUM: [], PRODUCER: []}
    for number in range(plan.rounds):
        for name in loads if number % 2 else reversed(loads):
            idle.pause()
            loads[name].append(measure_latency(stack, dsn, name, number, plan))
    return sides, loads


def spec_of(name: str, latency: str = "balanced") -> Spec:
    """Return the spec of one side in one round; its slot has its name."""
    return parse_spec(text_of(name, latency))


def text_of(name: str, latency: str = "balanced") -> str:
    """Return a spec whose slot is called like it."""
    return SPEC.format(name=name, latency=latency).replace("  publication:", f"  slot: {name}\n  publication:")


def create_slot(connection: psycopg.Connection, slot: str) -> None:
    """Create a slot from which a side reads what is written from now on."""
    connection.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", (slot,))


def write_backlog(connection: psycopg.Connection, events: int) -> None:
    """Write the events, so many in a transaction."""
    for first in range(0, events, TRANSACTION):
        last = min(first + TRANSACTION, events) - 1
        connection.execute(BACKLOG, {"aggregates": AGGREGATES, "first": first, "last": last})


@contextmanager
def relay(stack: Stack, dsn: str, name: str, checkout: Path = CHECKOUT) -> Iterator[psutil.Process]:
    """Run the command of a checkout, which publishes from the slot of this name, until the block ends."""
    servers = {"CDC_OUTBOX_DSN": dsn, "CDC_OUTBOX_BOOTSTRAP_SERVERS": stack.broker.bootstrap_servers}
    servers["PYTHONPATH"] = str(checkout)
    with tempfile.TemporaryDirectory() as folder:
        spec = Path(folder, "bench.yaml")
        database = str(conninfo_to_dict(dsn)["dbname"])
        spec.write_text(text_of(name).replace("name: bench_relay", f"name: {database}"), encoding="utf-8")
        command = [sys.executable, "-m", "cdc_outbox", "relay", str(spec)]
        take_over = ["--create-slot", "--take-over", "--earlier-events", "skip"]
        subprocess.run([*command, *take_over], check=True, cwd=checkout, env=os.environ | servers)  # noqa: S603
        with subprocess.Popen(command, cwd=checkout, env=os.environ | servers) as process:  # noqa: S603
            try:
                yield psutil.Process(process.pid)
            finally:
                process.terminate()


def publish_by_relay(stack: Stack, dsn: str, name: str, events: int, checkout: Path = CHECKOUT) -> Run:
    """Let the relay of a checkout publish the backlog."""
    topic = create_topic(stack, spec_of(name))
    with relay(stack, dsn, name, checkout) as process:
        return timed(stack, process, topic, events)


def publish_by_debezium(stack: Stack, dsn: str, name: str, events: int) -> Run:
    """Let the rendered connector publish the backlog."""
    spec = spec_of(name)
    topic, client = create_topic(stack, spec), ConnectClient(stack.connect_cluster)
    client.put_config(render(spec))
    run = timed(stack, psutil.Process(stack.workers[0].pid), topic, events)
    client.delete(name)
    wait_until_free(dsn, name)
    return run


def create_topic(stack: Stack, spec: Spec) -> str:
    """Create the topic of a spec's events, and return its name."""
    topic = spec.contract.topic_of("order")
    stack.broker.create_topic(topic, partitions=spec.topics.partitions)
    return topic


def timed(stack: Stack, process: psutil.Process, topic: str, events: int) -> Run:
    """Time a publisher from the last moment without a message in the topic; check and delete the topic.

    Raises:
        RuntimeError: It came to no end, or an event is missing, repeated or out of its order.
    """
    started, cpu = time.monotonic(), _cpu_seconds(process)
    while not sum(stack.broker.ends(topic).values()):
        started, cpu = time.monotonic(), _cpu_seconds(process)
        time.sleep(LOOK_SECONDS)
    wait_for(stack, topic, events)
    seconds, cpu = time.monotonic() - started, _cpu_seconds(process) - cpu
    peak = peak_megabytes(process)
    check_order(stack, topic, events)
    stack.broker.delete_topics(topic)
    return Run(rate=events / seconds, cpu=cpu / events * 1e6, peak_megabytes=peak)


def wait_for(stack: Stack, topic: str, count: int) -> None:
    """Wait until the topic has so many messages, as long as there are more and more."""
    deadline, last = time.monotonic() + STUCK_SECONDS, 0
    while (found := sum(stack.broker.ends(topic).values())) < count:
        if found > last:
            deadline, last = time.monotonic() + STUCK_SECONDS, found
        if time.monotonic() > deadline:
            raise RuntimeError(f"{topic} has {found} of {count} messages")
        time.sleep(LOOK_SECONDS)


def peak_megabytes(process: psutil.Process) -> float:
    """Return the most memory that a process had; on systems that do not tell, what it has now."""
    status = Path(f"/proc/{process.pid}/status")
    if not status.is_file():
        return float(process.memory_info().rss / 1e6)
    [line] = [line for line in status.read_text(encoding="ascii").splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024 / 1e6


def check_order(stack: Stack, topic: str, events: int) -> None:
    """Read the topic, and refuse one in which an event is missing, repeated or out of its order."""
    settings = {"bootstrap.servers": stack.broker.bootstrap_servers, "group.id": topic, "enable.auto.commit": False}
    reader, last, left = Consumer(settings), dict[bytes, int](), events
    reader.assign([TopicPartition(topic, partition, 0) for partition in stack.broker.ends(topic)])
    try:
        while left:
            records = reader.consume(min(left, 10_000), timeout=STUCK_SECONDS)
            for record in records:
                sequence, key = int(dict(record.headers() or [])["sequence"] or 0), record.key() or b""
                if sequence != last.get(key, 0) + 1:
                    raise RuntimeError(f"{topic}: {sequence} of {key!r} comes after {last.get(key, 0)}")
                last[key] = sequence
            left -= len(records)
            if not records or left < 0:
                raise RuntimeError(f"{topic}: {events - left} of {events} messages")
    finally:
        reader.close()


def seconds_to_read(stack: Stack, dsn: str, slot: str) -> float:
    """Let PostgreSQL's own program read the backlog and throw it away."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        [(end,)] = connection.execute("select cast(pg_current_wal_lsn() as text)").fetchall()
        connection.execute("select pg_logical_emit_message(true, 'bench', '')")  # a commit at which the reader ends
    options = ["-o", "proto_version=1", "-o", "publication_names=bench_outbox", "--no-loop", "--file", "/dev/null"]
    command = [
        stack.postgres.programs / "pg_recvlogical",
        "--start",
        "-d",
        dsn,
        "--slot",
        slot,
        "--endpos",
        end,
        *options,
    ]
    started = time.monotonic()
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603
    return time.monotonic() - started


def measure_latency(stack: Stack, dsn: str, side: str, number: int, plan: Plan) -> Load:
    """Measure INSERT to consumer at a steady rate, in one round."""
    name = f"bench_latency_{side.partition(',')[0].replace(' ', '_').lower()}_{number}"
    spec = spec_of(name, "balanced" if side == RELAY else "low")
    if side == PRODUCER:
        return produce_alone(stack, create_topic(stack, spec), spec, plan)
    if side == DEBEZIUM:
        deploy(stack, dsn, spec, render(spec), stable_seconds=1)
        load = Load.of(latencies(stack, dsn, spec, plan.rate, plan.seconds))
        ConnectClient(stack.connect_cluster).delete(name)
    else:
        load = latency_of_relay(stack, dsn, name, plan)
    drop_slot(dsn, name)
    return load


def latency_of_relay(stack: Stack, dsn: str, name: str, plan: Plan, checkout: Path = CHECKOUT) -> Load:
    """Measure INSERT to consumer at a steady rate with the relay of a checkout; its slot remains."""
    spec = spec_of(name)
    topic = create_topic(stack, spec)
    with relay(stack, dsn, name, checkout):
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(BACKLOG, {"aggregates": AGGREGATES, "first": 0, "last": 0})
        wait_for(stack, topic, 1)
        return Load.of(latencies(stack, dsn, spec, plan.rate, plan.seconds))


def produce_alone(stack: Stack, topic: str, spec: Spec, plan: Plan) -> Load:
    """Measure producer to consumer at the same rate."""
    command = [sys.executable, "-m", "benchmarks.steady_producer", stack.broker.bootstrap_servers, topic]

    def write(count: int) -> None:
        subprocess.run([*command, str(plan.rate), str(count)], check=True)  # noqa: S603

    times = received(stack, spec, int(plan.rate * plan.seconds), write)
    return Load.of(times[plan.rate if plan.seconds > WARM_UP_SECONDS else 0 :])


def wait_until_free(dsn: str, slot: str) -> None:
    """Wait until nobody reads the slot."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        while connection.execute(
            "select from pg_replication_slots where slot_name = %s and active", (slot,)
        ).fetchall():
            time.sleep(LOOK_SECONDS)


def drop_slot(dsn: str, slot: str) -> None:
    """Drop a slot that has been read."""
    wait_until_free(dsn, slot)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("select pg_drop_replication_slot(%s)", (slot,))


def findings(sides: list[Side], loads: dict[str, list[Load]]) -> list[Finding]:
    """Return whether the relay is within its bounds."""
    ours, theirs, reader = sides
    rate, cpu, of_reader = ours.ratio(theirs, _rate), ours.ratio(theirs, _cpu), ours.ratio(reader, _rate)
    peak = max(run.peak_megabytes for run in ours.runs)
    pairs = zip(loads[RELAY], loads[DEBEZIUM], strict=True)
    p99 = statistics.median(our.p99 / their.p99 for our, their in pairs)
    return [
        Finding(f"rate: {rate:.2f} of Debezium's, at least {MIN_RATE}", rate >= MIN_RATE),
        Finding(f"CPU: {cpu:.2f} of Debezium's, at most {MAX_CPU}", cpu <= MAX_CPU),
        Finding(f"rate: {of_reader:.2f} of the reader's, at least {MIN_OF_READER}", of_reader >= MIN_OF_READER),
        Finding(f"memory: {peak:.0f} MB, at most {MAX_MEGABYTES}", peak <= MAX_MEGABYTES),
        Finding(f"p99: {p99:.2f} of Debezium's with `low`, at most {MAX_P99}", p99 <= MAX_P99),
    ]


def report(sides: list[Side], loads: dict[str, list[Load]], found: list[Finding]) -> str:
    """Return the tables and the bounds."""
    heading = f"  {f'median of {len(sides[0].runs)} rounds':<28}{'events/s':>12}{'CPU us':>12}{'peak MB':>10}"
    latency = f"  {'INSERT -> consumer, ms':<28}{'mean':>9}{'p50':>9}{'p99':>9}"
    rows = [f"  {name:<28}{_median_load(rounds)}" for name, rounds in loads.items()]
    return "\n".join([heading, *(side.row() for side in sides), "", latency, *rows, "", *map(str, found), ""])


def _median_load(rounds: list[Load]) -> Load:
    return Load(*(statistics.median(figures) for figures in zip(*map(astuple, rounds), strict=True)))


def _cpu_seconds(process: psutil.Process) -> float:
    return float(sum(process.cpu_times()[:2]))


def _rate(run: Run) -> float:
    return run.rate


def _cpu(run: Run) -> float:
    return run.cpu


if __name__ == "__main__":
    sys.exit(main())
