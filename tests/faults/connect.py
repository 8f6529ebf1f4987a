"""Two Connect workers under load, and the one that runs the task is killed; what arrives is counted.

`infra/faults connect` prints how long it took until the other had taken over, and exits 1 if an event was lost or came
out of order. At its end it deletes Connect's config topic under a deployment.
"""

import argparse
import os
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
from confluent_kafka import Consumer, TopicPartition

from cdc_outbox import Event, Outbox, RecordedEvent
from cdc_outbox.cli.output import ExitCode
from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.wait import PASSING, Condition, condition_of
from cdc_outbox.kafka.reading import message_of
from cdc_outbox.testing import Stack, StackConfig
from cdc_outbox.testing.worker import Worker
from tests.faults.config_topic import lose_config_topic
from tests.support.pipeline import Pipeline
from tests.support.rig import CONNECTOR_PASSWORD, eventually

_AGGREGATES, _AT_ONCE = 50, 10
_TAKEOVER_SECONDS = 60.0
"""That of the promise: a pipeline moves again by itself."""


class Writer(threading.Thread):
    """Adds events at a steady rate, ten a transaction, until it is told to stop."""

    def __init__(self, pipeline: Pipeline, events_per_second: float) -> None:
        super().__init__(name="writer", daemon=True)
        self.written: Counter[str] = Counter()
        self._pipeline = pipeline
        self._pause_seconds = _AT_ONCE / events_per_second
        self._over = threading.Event()

    def run(self) -> None:
        outbox = Outbox(spec=self._pipeline.spec)
        names = [f"a{number}" for number in range(_AGGREGATES)]
        due, at = time.monotonic(), 0
        with psycopg.connect(self._pipeline.dsn) as connection:
            while not self._over.wait(max(0.0, due - time.monotonic())):
                chosen = [names[(at + each) % _AGGREGATES] for each in range(_AT_ONCE)]
                outbox.add_all(connection, [_event(name) for name in chosen])
                connection.commit()
                self.written.update(chosen)
                due, at = due + self._pause_seconds, at + _AT_ONCE

    def finish(self) -> None:
        self._over.set()
        self.join()


def _event(aggregate_id: str) -> Event:
    return Event(aggregate_type="order", aggregate_id=aggregate_id, type="OrderPlaced", payload={})


class Reader(threading.Thread):
    """Reads the topic as it grows."""

    def __init__(self, pipeline: Pipeline) -> None:
        super().__init__(name="reader", daemon=True)
        self.last: dict[str, int] = {}
        self.repeated = 0
        self.violations: list[str] = []
        self._pipeline = pipeline
        self._over = threading.Event()

    def run(self) -> None:
        brokers = self._pipeline.stack.broker
        reader = Consumer(
            {"bootstrap.servers": brokers.bootstrap_servers, "group.id": "takeover", "enable.auto.commit": False}
        )
        places = brokers.ends(self._pipeline.topic)
        reader.assign([TopicPartition(self._pipeline.topic, partition, 0) for partition in places])
        try:
            while not self._over.is_set():
                record = reader.poll(0.1)
                if record is not None and not record.error():
                    self._note(self._pipeline.spec.contract.event_of(message_of(record)))
        finally:
            reader.close()

    def _note(self, event: RecordedEvent) -> None:
        last, sequence = self.last.get(event.aggregate_id, 0), event.sequence or 0
        if sequence <= last:
            self.repeated += 1
            return
        if sequence != last + 1:
            self.violations.append(f"{event.aggregate_id}: {sequence} came after {last}")
        self.last[event.aggregate_id] = sequence

    def finish(self) -> None:
        self._over.set()
        self.join()


@dataclass(frozen=True, slots=True, kw_only=True)
class Takeover:
    """What one kill did."""

    events: int
    repeated: int
    seconds: float
    violations: list[str] = field(default_factory=list)


def take_over(pipeline: Pipeline, *, events_per_second: float = 500.0, seconds: float = 4.0) -> Takeover:
    """Kill the worker that runs a deployed pipeline's task under load, and count; the worker is started again.

    Args:
        seconds: For how long it is written before the kill, and after the takeover.
    """
    workers = pipeline.stack.workers
    client = ConnectClient(pipeline.stack.connect_cluster)
    if not pipeline.stack.broker.ends(pipeline.topic):
        pipeline.stack.broker.create_topic(pipeline.topic, partitions=3)
    writer, reader = Writer(pipeline, events_per_second), Reader(pipeline)
    writer.start()
    reader.start()
    lasting = threading.Event()
    try:
        lasting.wait(seconds)
        eventually(lambda: reader.last, "events to arrive")
        victim = _worker_of(pipeline.name, client, workers)
        began = time.monotonic()
        victim.kill()
        before = Counter(writer.written)
        # One more than was noted of an aggregate may have been committed before, and not be noted yet.
        eventually(
            lambda: any(last > before[name] + 1 for name, last in list(reader.last.items())),
            "the other worker to take over",
            seconds=_TAKEOVER_SECONDS,
        )
        lasted = time.monotonic() - began
        lasting.wait(seconds)
        writer.finish()
        eventually(lambda: reader.last == dict(writer.written), "every event to arrive", seconds=60)
        victim.start()
    finally:
        writer.finish()
        reader.finish()
        client.close()
    total = writer.written.total()
    return Takeover(events=total, repeated=reader.repeated, seconds=lasted, violations=reader.violations)


def _worker_of(name: str, client: ConnectClient, workers: list[Worker]) -> Worker:
    found: list[Worker] = []

    def is_known() -> bool:
        try:
            status = client.find_status(name)
        except PASSING:
            return False
        if condition_of(status) is Condition.UP:
            found.extend(worker for worker in workers if status.tasks[0].worker.endswith(f":{worker.port}"))
        return bool(found)

    eventually(is_known, "a worker to run the task")
    return found[0]


def main() -> int:
    """Kill workers and tell how it went."""
    parser = argparse.ArgumentParser(prog="infra/faults connect", description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3, help="how often the worker that runs the task is killed")
    parser.add_argument("--rate", type=float, default=500.0, help="events a second")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long it is written before and after each kill")
    options = parser.parse_args()
    config = StackConfig(
        name=f"takeover-{os.getpid()}", workers=2, environment={"CONNECTOR_PASSWORD": CONNECTOR_PASSWORD}
    )
    good = True
    with Stack(config) as stack:
        _tell(f"{'round':<8}{'events':>8}{'repeated':>10}{'takeover':>10}  verdict")
        for number in range(1, options.rounds + 1):
            pipeline = Pipeline.make(stack)
            pipeline.deploy()
            result = take_over(pipeline, events_per_second=options.rate, seconds=options.seconds)
            verdict = "VIOLATED" if result.violations else "good"
            _tell(f"{number:<8}{result.events:>8}{result.repeated:>10}{result.seconds:>8.1f} s  {verdict}")
            for violation in result.violations:
                _tell(f"    {violation}")
            good = good and not result.violations
        return 0 if _survives_loss(stack) and good else 1


def _survives_loss(stack: Stack) -> bool:
    with TemporaryDirectory() as folder:
        loss = lose_config_topic(stack, Path(folder))
    good = loss.code == ExitCode.RETRY and "config.storage.topic" in loss.told
    verdict = "good" if good else f"VIOLATED\n{loss.told}"
    _tell(f"config topic lost: the change ended with {loss.code}, {loss.events} events, none lost  {verdict}")
    return good


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
