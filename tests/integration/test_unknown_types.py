"""Aggregate types that the spec does not name: held by a constraint of the outbox, or by topics that nobody creates."""

import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pymysql
import pytest

from cdc_outbox import Event, Outbox
from cdc_outbox.relay import make_relay
from cdc_outbox.relay.relay_errors import MessageRefusedError
from cdc_outbox.testing import MariaDb, Stack
from tests.support.commands import run_command
from tests.support.pipeline import Pipeline
from tests.support.places import Place
from tests.support.relay_thread import RelayThread
from tests.support.rig import eventually

PAGE = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
[CONSTRAINT] = re.findall(r"^(alter table outbox add constraint .*);$", PAGE, re.MULTILINE)
ORDER = Event(aggregate_type="order", aggregate_id="1", type="OrderPlaced", payload={})
INSERT = "insert into outbox (id, aggregatetype, aggregateid, type) values ('{id}', '{type}', '1', 'T')"
UNKNOWN = [
    INSERT.format(id=f"00000000-0000-4000-8000-00000000000{n}", type=t) for n, t in ((1, "bad topic"), (2, "bill"))
]


@pytest.fixture
def pipeline(outbox_stack: Stack) -> Iterator[Pipeline]:
    made = Pipeline.make(outbox_stack)
    yield made
    made.close()


def test_postgresqls_outbox_takes_only_the_types_of_the_documented_constraint(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    spec = tmp_path / f"{pipeline.name}.yaml"
    spec.write_text(Pipeline.text(pipeline.name))
    with pipeline.connect() as connection:
        connection.execute(CONSTRAINT.replace("heartbeat.orders", f"heartbeat.{pipeline.name}").encode())
        for statement in UNKNOWN:
            with pytest.raises(psycopg.errors.CheckViolation):
                connection.execute(statement.encode())
        with connection.transaction():
            assert Outbox(spec=pipeline.spec).add(connection, ORDER).sequence == 1
        connection.execute("select outbox_heartbeat(%s, interval '0')", (pipeline.name,))
    checked = run_command("init", spec, "--check", env={"CDC_OUTBOX_DSN": pipeline.dsn})
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_mariadbs_outbox_takes_only_the_types_of_the_documented_constraint(mariadb: MariaDb, tmp_path: Path) -> None:
    place = Place.on_mariadb(tmp_path, mariadb)
    assert place.init().returncode == 0
    place.query(CONSTRAINT)
    for statement in UNKNOWN:
        with pytest.raises(pymysql.err.OperationalError, match="outbox_types"):
            place.query(statement)
    with place.connect() as connection:
        assert Outbox().add(connection, ORDER).sequence == 1
    assert place.found() == []


def own_topics(pipeline: Pipeline) -> set[str]:
    return {topic for topic in pipeline.stack.broker.topics() if pipeline.name in topic}


def test_a_relay_that_creates_no_topics_stops_at_an_unknown_type(pipeline: Pipeline, tmp_path: Path) -> None:
    spec, broker = tmp_path / f"{pipeline.name}.yaml", pipeline.stack.broker
    spec.write_text(Pipeline.text(pipeline.name))
    environment = pipeline.stack.environment() | {"CDC_OUTBOX_DSN": pipeline.dsn}
    assert run_command("topics", "create", spec, env=environment).returncode == 0
    assert run_command("relay", spec, "--create-slot", env=environment).returncode == 0
    before = own_topics(pipeline)
    with pipeline.connect() as connection:
        with connection.transaction():
            Outbox(spec=pipeline.spec).add(connection, ORDER)
        connection.execute(UNKNOWN[1].encode())
    kafka = {"bootstrap.servers": broker.bootstrap_servers, "topic.metadata.propagation.max.ms": 1_000}
    with RelayThread(make_relay(pipeline.spec, dsn=pipeline.dsn, kafka=kafka, creates_topics=False)) as running:
        eventually(lambda: running.error, "the relay to refuse")
    assert isinstance(running.error, MessageRefusedError)
    assert f"{pipeline.name}.bill" in str(running.error)
    assert (len(pipeline.messages()), own_topics(pipeline)) == (1, before)
