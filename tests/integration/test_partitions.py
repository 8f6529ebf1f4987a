"""A partitioned outbox, from the writer to the topic, and `cdc-outbox partitions` beside live writers."""

import json
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cdc_outbox import Event, Outbox, RecordedEvent
from cdc_outbox.debezium.slot_plan import EarlierEvents
from cdc_outbox.testing import Stack
from cdc_outbox.writer.partitions import first_id
from tests.support.commands import run_command
from tests.support.pipeline import Pipeline
from tests.support.rig import eventually, one
from tests.support.threads import Threads

DAILY = "outbox: {partitions: day}\n"
PARTITIONS = """
select child.relname
from pg_inherits
join pg_class as child on child.oid = inhrelid
where inhparent = 'outbox'::regclass
order by 1
"""


@pytest.fixture
def daily(outbox_stack: Stack) -> Any:
    made = Pipeline.make(outbox_stack, DAILY)
    yield made
    made.close()


@pytest.fixture
def spec(daily: Pipeline, tmp_path: Path) -> Path:
    path = tmp_path / "spec.yaml"
    path.write_text(Pipeline.text(daily.name, DAILY))
    return path


def partitions(pipeline: Pipeline) -> list[str]:
    with pipeline.connect() as connection:
        return [name for (name,) in connection.execute(PARTITIONS.encode())]


def names(start: datetime, days: int) -> list[str]:
    return [f"outbox_{start + timedelta(days=day):%Y_%m_%d}" for day in range(days)]


def where(pipeline: Pipeline) -> dict[str, int]:
    """Return how many events lie in which partition."""
    with pipeline.connect() as connection:
        return dict(connection.execute("select tableoid::regclass::text, count(*) from outbox group by 1").fetchall())


def sequences(pipeline: Pipeline) -> list[int]:
    events = [pipeline.spec.contract.event_of(message) for message in pipeline.messages()]
    return list(dict.fromkeys(event.sequence or 0 for event in events))


def test_events_of_partitions_and_of_the_default_one_are_published_alike(daily: Pipeline, spec: Path) -> None:
    daily.write(2)
    assert where(daily) == {"outbox_rest": 2}
    tomorrow = first_id(datetime.now(UTC) + timedelta(days=1))
    assert run_command("partitions", str(spec), "--dsn", daily.dsn).returncode == 1
    with psycopg.connect(daily.dsn) as connection:
        event = Event(aggregate_type="order", aggregate_id="1", type="OrderPlaced", payload={}, id=str(tomorrow))
        assert Outbox().add(connection, event).sequence == 3
    assert len(where(daily)) == 2
    # The snapshot reads them all through the root, and so does the stream.
    daily.deploy(earlier=EarlierEvents.REPUBLISH)
    eventually(lambda: sequences(daily) == [1, 2, 3], "the events that were there before the slot")
    with psycopg.connect(daily.dsn) as connection:
        later = Event(aggregate_type="order", aggregate_id="1", type="OrderPlaced", payload={"to": "a partition"})
        Outbox().add(
            connection, Event(**{**_fields(later), "id": str(first_id(datetime.now(UTC) + timedelta(days=2)))})
        )
        Outbox().add(connection, later)
    eventually(lambda: sequences(daily) == [1, 2, 3, 4, 5], "the events behind the snapshot")
    assert daily.deploy().is_empty


def _fields(event: Event | RecordedEvent) -> dict[str, Any]:
    return {name: getattr(event, name) for name in ("aggregate_type", "aggregate_id", "type", "payload")}


def test_rows_that_an_unread_slot_does_not_hold_are_counted_through_the_root(daily: Pipeline) -> None:
    daily.write(2)
    with daily.connect() as connection:
        connection.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", (daily.spec.database.slot,))
    daily.write(3)
    with pytest.raises(Exception, match="does not hold 2 events in the table"):
        daily.deploy()


def test_init_makes_the_next_partitions_and_the_command_more_of_them(daily: Pipeline, spec: Path) -> None:
    today = datetime.now(UTC)
    done = run_command("init", str(spec), "--dsn", daily.dsn)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"public.{name}" for name in names(today, 8)]
    assert partitions(daily) == [*names(today, 8), "outbox_rest"]
    more = run_command("partitions", str(spec), "--ahead", "9", "--dsn", daily.dsn)
    assert (more.returncode, more.stdout.splitlines()) == (0, [f"public.{name}" for name in names(today, 10)[8:]])
    again = run_command("partitions", str(spec), "--ahead", "9", "--dsn", daily.dsn, "--output=json")
    document = json.loads(again.stdout)
    assert (again.returncode, document["kind"], document["created"], document["missed"]) == (0, "Partitions", [], [])
    assert "every partition is there" in again.stderr
    daily.write(1)
    assert where(daily) == {names(today, 1)[0]: 1}
    check = run_command("init", str(spec), "--check", "--dsn", daily.dsn)
    assert (check.returncode, check.stdout) == (0, ""), check.stdout


def test_a_time_whose_events_came_before_its_partition_is_named_and_nothing_is_moved(
    daily: Pipeline, spec: Path
) -> None:
    daily.write(2)
    today = datetime.now(UTC)
    done = run_command("partitions", str(spec), "--ahead", "2", "--dsn", daily.dsn)
    assert done.returncode == 1
    name = names(today, 1)[0]
    assert f"public.{name}: not created: public.outbox_rest already holds 2 events of its time" in done.stderr
    assert done.stdout.splitlines() == [f"public.{name}" for name in names(today, 3)[1:]]
    again = run_command("partitions", str(spec), "--ahead", "3", "--dsn", daily.dsn, "--output=json")
    document = json.loads(again.stdout)
    assert (again.returncode, document["created"]) == (1, [f"public.{names(today, 4)[3]}"])
    assert [missed["partition"] for missed in document["missed"]] == [f"public.{name}"]
    assert where(daily) == {"outbox_rest": 2}
    with daily.connect() as connection:
        connection.execute("delete from outbox")
    assert run_command("partitions", str(spec), "--ahead", "2", "--dsn", daily.dsn).returncode == 0
    assert name in partitions(daily)


def test_a_table_of_a_partitions_name_is_not_taken_for_it(daily: Pipeline, spec: Path) -> None:
    name = names(datetime.now(UTC), 1)[0]
    with daily.connect() as connection:
        connection.execute(f"create table {name} (a int)".encode())
    done = run_command("partitions", str(spec), "--ahead", "0", "--dsn", daily.dsn)
    assert done.returncode == 1
    assert "a table with its name exists, but is not a partition" in done.stderr


def test_partitions_are_made_beside_live_writers(daily: Pipeline, spec: Path) -> None:
    run_command("partitions", str(spec), "--ahead", "0", "--dsn", daily.dsn)
    over, slowest = threading.Event(), [0.0]

    def write() -> None:
        with psycopg.connect(daily.dsn) as connection:
            connection.execute("set lock_timeout = '1s'")
            connection.commit()
            while not over.is_set():
                Outbox().add(connection, Event(aggregate_type="order", aggregate_id="1", type="x", payload={}))
                connection.commit()
                slowest[0] += 1

    with Threads(2) as pool, psycopg.connect(daily.dsn) as holder:
        # It has written and does not end: to wait for it would make every writer behind it wait.
        Outbox().add(holder, Event(aggregate_type="order", aggregate_id="held", type="x", payload={}))
        writers = [pool.submit(write) for _ in range(2)]
        try:
            done = run_command("partitions", str(spec), "--ahead", "20", "--dsn", daily.dsn)
        finally:
            over.set()
        for writer in writers:
            writer.result()
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 20


def test_a_table_that_is_not_partitioned_is_not_taken_for_one_that_is(pipeline: Pipeline, tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(Pipeline.text(pipeline.name, DAILY))
    done = run_command("init", str(path), "--dsn", pipeline.dsn)
    assert done.returncode == 1
    assert "public.outbox is not partitioned; the spec says otherwise" in done.stderr
    check = run_command("init", str(path), "--check", "--dsn", pipeline.dsn)
    assert "DB351: the table is not partitioned; according to the spec it must be partitioned by day." in check.stdout
    path.write_text(Pipeline.text(pipeline.name))
    assert "has no outbox.partitions" in run_command("partitions", str(path), "--dsn", pipeline.dsn).stderr


def test_drift_of_a_partitioned_table_is_found(daily: Pipeline, spec: Path) -> None:
    with daily.connect() as connection:
        connection.execute("drop table outbox_rest")
        connection.execute(
            f"alter publication {daily.spec.database.publication} set (publish_via_partition_root = false)".encode()
        )
    done = run_command("init", str(spec), "--check", "--dsn", daily.dsn)
    assert done.returncode == 3
    assert "DB352: the default partition is missing" in done.stdout
    assert f"DB353: the partition {names(datetime.now(UTC), 2)[1]} does not exist: events of that time" in done.stdout
    assert "DB402: the publication does not contain public.outbox, which is partitioned." in done.stdout
    assert "publish_via_partition_root = true" in done.stdout


def test_init_turns_the_publication_to_the_root(daily: Pipeline, spec: Path) -> None:
    name = daily.spec.database.publication
    with daily.connect() as connection:
        connection.execute(f"alter publication {name} set (publish_via_partition_root = false)".encode())
        assert run_command("init", str(spec), "--dsn", daily.dsn).returncode == 0
        assert one(connection, "select pubviaroot from pg_publication where pubname = %s", name)


def test_a_new_incarnation_is_that_of_every_partition(daily: Pipeline, spec: Path) -> None:
    run_command("init", str(spec), "--dsn", daily.dsn)
    done = run_command("init", str(spec), "--new-incarnation", "--from-source", f"{daily.name}.1", "--dsn", daily.dsn)
    assert done.returncode == 0, done.stderr
    with psycopg.connect(daily.dsn) as connection:
        outbox = Outbox(spec=daily.spec)
        unnumbered = Event(aggregate_type="metric", aggregate_id="cpu", type="x", payload={})
        assert outbox.add(connection, unnumbered).source == f"{daily.name}.2"
    assert daily.write()[0].source == f"{daily.name}.2"
