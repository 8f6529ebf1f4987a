"""`cdc-outbox init --new-incarnation`: after a restore sequences start again, and nobody takes them for old ones."""

import threading
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cdc_outbox import Event, Outbox, OutboxTable, SequenceMode, WireContract
from cdc_outbox.debezium.slot_plan import EarlierEvents
from cdc_outbox.testing import Stack
from tests.support.commands import connect_of, run_command
from tests.support.pipeline import Pipeline
from tests.support.rig import eventually, one
from tests.support.service import Service, effects_of
from tests.support.specs import for_any_database
from tests.support.threads import Threads


@pytest.fixture
def spec(pipeline: Pipeline, tmp_path: Path) -> Path:
    path = tmp_path / "spec.yaml"
    path.write_text(Pipeline.text(pipeline.name))
    return path


def begin(pipeline: Pipeline, spec: Path, before: str, *more: str, compares: bool = False) -> Any:
    command = ("init", str(spec), "--new-incarnation", "--from-source", before, *more, "--dsn", pipeline.dsn)
    return run_command(*command, env=connect_of(pipeline.stack) if compares else {})


def lose(pipeline: Pipeline, count: int) -> None:
    """Forget the last events, as a restore or a failover does."""
    with pipeline.connect() as connection:
        connection.execute("delete from outbox where sequence > (select max(sequence) from outbox) - %s", (count,))
        connection.execute("update outbox_heads set last = last - %s", (count,))


def test_that_no_offset_is_compared_is_shown(pipeline: Pipeline, spec: Path) -> None:
    pipeline.write(1)
    begun = begin(pipeline, spec, f"{pipeline.name}.1")
    assert "Connect's offset is not compared with the slot: --connect-url is missing" in begun.stderr


def test_after_a_restore_a_new_incarnation_starts_at_1_and_consumers_take_it(service: Service, spec: Path) -> None:
    pipeline, name = service.pipeline, service.pipeline.name
    pipeline.write(4)
    service.consume(4)
    lose(pipeline, 2)

    pipeline.stop()
    done = begin(pipeline, spec, f"{name}.1", compares=True)
    assert (done.returncode, done.stdout) == (0, f"public.outbox: {name}.1 -> {name}.2\n"), done.stderr
    pipeline.client.resume(name)
    assert [(event.source, event.sequence) for event in pipeline.write(3)] == [(f"{name}.2", n) for n in (1, 2, 3)]
    service.consume(7)
    assert service.effects() == [("1", n) for n in (1, 2, 3, 4, 1, 2, 3)]
    check = run_command("init", str(spec), "--check", "--dsn", pipeline.dsn)
    assert (check.returncode, check.stdout) == (0, "")


STEPS = ["stop", "deploy-connector", "stop", "init", "resume", "recover", "start the writers"]


def test_while_the_connector_reads_or_stands_elsewhere_it_is_refused_with_the_order_of_steps(
    deployed: Pipeline, spec: Path
) -> None:
    name = deployed.name
    deployed.write(2)
    eventually(lambda: len(deployed.messages()) == 2, "both events")
    refused = begin(deployed, spec, f"{name}.1")
    assert (refused.returncode, f"the slot {deployed.spec.database.slot} is being read" in refused.stderr) == (1, True)
    steps = [line for line in refused.stderr.splitlines() if line[:4].strip(" .").isdigit()]
    assert [word in step for word, step in zip(STEPS, steps, strict=True)] == [True] * len(STEPS), steps

    # As after a restore: the server's log ends before Connect's offset.
    deployed.stop()
    [stored] = deployed.client.find_offsets(name)
    ahead = {key: 2**60 if key.startswith("lsn") else value for key, value in stored["offset"].items()}
    deployed.client.alter_offsets(name, [{**stored, "offset": ahead}])
    refused = begin(deployed, spec, f"{name}.1", compares=True)
    assert (refused.returncode, "before Connect's offset" in refused.stderr) == (1, True), refused.stderr
    assert deployed.write()[0].source == f"{name}.1"

    deployed.deploy(earlier=EarlierEvents.REPUBLISH, stable_seconds=0)
    deployed.stop()
    assert begin(deployed, spec, f"{name}.1", compares=True).returncode == 0
    deployed.client.resume(name)
    assert deployed.write()[0].source == f"{name}.2"
    eventually(lambda: f"{name}.2" in sources(deployed), "an event of the new incarnation")


def sources(pipeline: Pipeline) -> set[str | None]:
    return {pipeline.spec.contract.event_of(message).source for message in pipeline.messages()}


def test_without_one_the_consumer_parks_the_number_that_was_given_out_twice(service: Service) -> None:
    service.pipeline.write(4)
    service.consume(4)
    lose(service.pipeline, 2)
    service.pipeline.write(1)
    query = "select count(*) from inbox_parked where consumer = %s and state = 'dead' and reason = 'conflict'"
    with service.running():
        eventually(lambda: service.one(query, service.name) == 1, "the conflict in the park")
    assert service.effects() == effects_of(4)


def test_a_script_that_runs_twice_makes_one_incarnation(pipeline: Pipeline, spec: Path) -> None:
    name = pipeline.name
    assert begin(pipeline, spec, f"{name}.1").returncode == 0
    again = begin(pipeline, spec, f"{name}.1")
    assert (again.returncode, again.stdout) == (0, f"public.outbox: {name}.2 already\n")
    assert pipeline.write()[0].source == f"{name}.2"
    # A mistaken or outdated belief changes nothing.
    wrong = begin(pipeline, spec, f"{name}.7")
    assert wrong.returncode == 1
    assert f"error: the source is {name}.2, not {name}.7; nothing was changed" in wrong.stderr
    assert "in this order:" not in wrong.stderr


def test_a_later_incarnation_can_be_named_for_a_second_restore_of_the_same_backup(
    pipeline: Pipeline, spec: Path
) -> None:
    name = pipeline.name
    refused = begin(pipeline, spec, f"{name}.1", "--to-source", f"{name}.1")
    assert refused.returncode == 2
    assert f"{name}.1 cannot follow {name}.1: it must be {name}.2 or later" in refused.stderr
    assert begin(pipeline, spec, f"{name}.1", "--to-source", f"{name}.3").returncode == 0
    assert pipeline.write()[0].source == f"{name}.3"


def test_a_renamed_source_begins_at_its_first_incarnation(pipeline: Pipeline, spec: Path) -> None:
    spec.write_text(spec.read_text().replace(f"name: {pipeline.name}\n", f"name: {pipeline.name}\nsource: shop\n", 1))
    done = begin(pipeline, spec, f"{pipeline.name}.1")
    assert done.stdout == f"public.outbox: {pipeline.name}.1 -> shop.1\n"
    assert run_command("init", str(spec), "--check", "--dsn", pipeline.dsn).returncode == 0


def test_it_happens_between_transactions_of_live_writers(pipeline: Pipeline, spec: Path) -> None:
    over = threading.Event()

    def write(number: int) -> None:
        # New connections beside pooled ones: statements that are prepared lock tables in another order.
        with psycopg.connect(pipeline.dsn, prepare_threshold=5 if number % 2 else None) as connection:
            while not over.is_set():
                events = [
                    Event(aggregate_type="order", aggregate_id=aggregate_id, type="OrderPlaced", payload={})
                    for aggregate_id in ("shared", f"own {number}")
                ]
                Outbox().add_all(connection, events)
                connection.commit()

    with Threads(6) as pool:
        writers = [pool.submit(write, number) for number in range(6)]
        with pipeline.connect() as connection:
            eventually(lambda: one(connection, "select count(*) > 50 from outbox"), "events")
            try:
                done = begin(pipeline, spec, f"{pipeline.name}.1")
                eventually(lambda: one(connection, "select count(distinct source) = 2 from outbox"), "both sources")
            finally:
                over.set()
        for writer in writers:
            writer.result()
    assert done.returncode == 0, done.stderr
    with pipeline.connect() as connection:
        gaps = """
            select count(*) from (
                select source, aggregateid from outbox group by source, aggregateid
                having min(sequence) <> 1 or max(sequence) <> count(*)
            ) as broken
        """
        assert one(connection, gaps) == 0
        # No transaction numbered events under both: the heads are locked to the commit.
        mixed = "select from outbox group by xmin::text having count(distinct source) > 1"
        assert connection.execute(mixed).rowcount == 0


def test_an_outbox_that_comes_after_its_heads_has_their_incarnation(outbox_stack: Stack, tmp_path: Path) -> None:
    dsn = outbox_stack.postgres.create_database("from_messages_to_rows")
    spec, rows = tmp_path / "spec.yaml", for_any_database(Pipeline.text("orders"))

    def init(*options: str) -> None:
        done = run_command("init", str(spec), *options, "--dsn", dsn)
        assert (done.returncode, done.stdout if "--check" in options else "") == (0, ""), done

    spec.write_text(for_any_database(Pipeline.text("orders", "outbox: {mode: message}\n")))
    init()
    init("--new-incarnation", "--from-source", "orders.1")
    spec.write_text(rows)
    init()
    init("--check")
    contract = WireContract(aggregates={"customer": SequenceMode.NONE})
    with psycopg.connect(dsn) as connection:
        event = Event(aggregate_type="customer", aggregate_id="1", type="X", payload={})
        assert Outbox(table=OutboxTable(), contract=contract).add(connection, event).source == "orders.2"
