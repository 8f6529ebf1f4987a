"""Parts of the real stack die, and afterwards the database and the topic are counted."""

import psycopg
import pytest

from cdc_outbox.connect.wait import Condition, condition_of
from cdc_outbox.errors import StackError
from cdc_outbox.testing import Stack
from tests.faults.connect import take_over
from tests.support.pipeline import Pipeline
from tests.support.rig import eventually
from tests.support.service import Service
from tests.support.threads import Threads


def committed(service: Service) -> list[tuple[str, int]]:
    with service.connect() as connection:
        return connection.execute("select aggregateid, sequence from outbox order by 1, 2").fetchall()


def assert_effects_once_and_in_order(service: Service) -> None:
    effects = service.effects()
    assert sorted(effects) == committed(service)
    for aggregate_id in {found for found, _ in effects}:
        numbers = [number for found, number in effects if found == aggregate_id]
        assert numbers == list(range(1, len(numbers) + 1))


def write_from_four_threads(service: Service, each: int) -> None:
    with Threads(4) as pool:
        list(pool.map(lambda aggregate_id: service.pipeline.write(each, aggregate_id), "abcd"))


def test_a_killed_connect_worker_loses_nothing_and_repeats_have_no_effect(service: Service) -> None:
    worker = service.pipeline.stack.workers[0]
    with service.running(), Threads(1) as pool:
        writing = pool.submit(write_from_four_threads, service, 150)
        eventually(lambda: len(service.effects()) > 50, "the stream to run")
        worker.pause()  # or a fast worker on a quiet machine may have nothing before it when it dies
        service.pipeline.write(5, "e")
        assert len(committed(service)) > len(service.pipeline.messages())
        worker.kill()
        worker.start()
        writing.result()
        eventually(lambda: len(service.effects()) == 605, "605 effects", seconds=60)
    assert_effects_once_and_in_order(service)
    client = service.pipeline.client
    eventually(lambda: condition_of(client.find_status(service.pipeline.name)) is Condition.UP, "the connector to run")


def test_a_database_server_that_crashes_is_waited_for(outbox_stack: Stack) -> None:
    # Debezium waits ten seconds before it tries again, unless it is told otherwise.
    pipeline = Pipeline.make(
        outbox_stack, extra="overrides: {retriable.restart.connector.wait.ms: 1000, poll.interval.ms: 100}\n"
    )
    pipeline.deploy(stable_seconds=0)
    service, server = Service(pipeline), outbox_stack.postgres
    pipeline.write(20)
    with service.running():
        eventually(lambda: len(service.effects()) > 5, "the consumer to run")
        server.kill()
        server.start()
        pipeline.write(20)
        eventually(lambda: len(service.effects()) == 40, "40 effects", seconds=60)
    assert_effects_once_and_in_order(service)
    pipeline.close()


def test_a_broker_that_is_killed_is_waited_for(service: Service) -> None:
    server = service.pipeline.stack.broker
    service.pipeline.write(10)
    with service.running():
        eventually(lambda: len(service.effects()) == 10, "the consumer to run")
        server.kill()
        service.pipeline.write(10)
        server.start()
        eventually(lambda: len(service.effects()) == 20, "20 effects", seconds=60)
    assert_effects_once_and_in_order(service)


def test_a_second_worker_takes_over_from_one_that_is_killed_under_load(deployed: Pipeline) -> None:
    stack = deployed.stack
    first, second = stack.workers[0], stack.add_worker()
    try:
        found = take_over(deployed, events_per_second=500, seconds=2)
    finally:
        if not first.is_running:
            first.start()
        second.stop()
        stack.workers.remove(second)
    # Nothing lost is what take_over waits for.
    assert found.violations == []
    assert found.events > 1000


def test_a_part_can_be_paused_resumed_and_restarted(outbox_stack: Stack) -> None:
    server = outbox_stack.postgres
    server.pause()
    try:
        assert server.state() == "paused"
        assert server.is_running
        with pytest.raises(psycopg.OperationalError, match="timeout"):
            psycopg.connect(server.dsn(), connect_timeout=2)
    finally:
        server.resume()
    assert server.state() == "running"
    before = server.pid
    server.restart()
    assert server.pid != before
    assert server.answers()
    with pytest.raises(StackError, match="postgres already runs"):
        server.start()
