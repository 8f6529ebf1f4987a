"""A Connect worker that is killed under load, in every mode."""

from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest

from cdc_outbox import Event, Outbox, OutboxMode
from cdc_outbox.testing import Stack
from tests.support.pipeline import Pipeline
from tests.support.rig import eventually
from tests.support.service import Service
from tests.support.threads import Threads

ORDER = Event(aggregate_type="order", aggregate_id="1", type="OrderPlaced", payload={"total": 10})


@pytest.fixture(params=OutboxMode)
def pipeline(outbox_stack: Stack, request: pytest.FixtureRequest) -> Iterator[Pipeline]:
    yield from made(outbox_stack, request.param)


def made(stack: Stack, mode: OutboxMode) -> Iterator[Pipeline]:
    pipeline = Pipeline.make(stack, f"outbox: {{mode: {mode}}}\n")
    yield pipeline
    pipeline.close()


def test_many_writers_and_a_killed_worker_leave_effects_once_and_in_order(pipeline: Pipeline) -> None:
    pipeline.deploy(stable_seconds=0)
    outbox, service, [worker] = Outbox(table=pipeline.spec.outbox), Service(pipeline), pipeline.stack.workers

    def write(_writer: int) -> None:
        with psycopg.connect(pipeline.dsn) as connection:
            for number in range(20):
                outbox.add_all(connection, [ORDER, replace(ORDER, aggregate_id="2")])
                connection.rollback() if number % 5 == 4 else connection.commit()

    with service.running(), Threads(4) as pool:
        writing = [pool.submit(write, writer) for writer in range(4)]
        eventually(lambda: len(service.effects()) >= 10, "the first effects")
        worker.kill()
        for written in writing:
            written.result()
        worker.start()
        eventually(lambda: len(service.effects()) >= 128, "every effect", seconds=90)
    for aggregate_id in "12":
        assert [number for name, number in service.effects() if name == aggregate_id] == list(range(1, 65))
