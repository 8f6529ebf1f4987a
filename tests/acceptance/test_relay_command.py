"""``cdc-outbox relay`` as a process: what it publishes, how it ends, and what takes over."""

import json
import re
import signal
import socket
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
import requests

from cdc_outbox import Event, Outbox
from cdc_outbox.databases.publishers import PublisherKind
from cdc_outbox.testing import Stack
from tests.support.commands import run_command
from tests.support.patience import patience
from tests.support.pipeline import Pipeline
from tests.support.publishers import publishers_of
from tests.support.relay_command import relay, wait_until_read
from tests.support.rig import eventually, one
from tests.support.timings import SILENT_TIMINGS


@pytest.fixture
def spec(pipeline: Pipeline, tmp_path: Path) -> Path:
    path = tmp_path / f"{pipeline.name}.yaml"
    path.write_text(Pipeline.text(pipeline.name))
    return path


@pytest.fixture
def free_port() -> int:
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def delivered(pipeline: Pipeline) -> int:
    """Return how many events the topic holds, each once."""
    return len({pipeline.spec.contract.event_of(message).id for message in pipeline.messages()})


def test_it_creates_slot_and_topics_publishes_and_drains_at_sigterm(pipeline: Pipeline, spec: Path) -> None:
    with relay(pipeline, spec) as process:
        wait_until_read(pipeline)
        pipeline.write(50)
        eventually(lambda: delivered(pipeline) == 50, "the events")
        process.terminate()
        assert process.wait(patience()) == 0
    log = spec.with_suffix(".log").read_text()
    assert log.endswith(f"{pipeline.name}: 50 events delivered\n")
    assert f"created the slot {pipeline.spec.database.slot} at " in log
    assert f"created the topic {pipeline.topic}" in log
    assert "rdkafka" not in log
    pipeline.write(10)
    with relay(pipeline, spec):
        eventually(lambda: delivered(pipeline) == 60, "the events of a second start")
    assert len(pipeline.messages()) == 60
    created = pipeline.stack.broker.ends(pipeline.topic)
    assert len(created) == pipeline.spec.topics.partitions


def test_kill_9_and_a_second_instance_takes_over_and_nothing_is_lost(pipeline: Pipeline, spec: Path) -> None:
    standby_log = spec.with_suffix(".standby")
    with relay(pipeline, spec) as first:
        wait_until_read(pipeline)
        with relay(pipeline, spec, log=standby_log):
            eventually(lambda: "standing by" in standby_log.read_text(), "the standby", seconds=60)
            outbox, written = Outbox(spec=pipeline.spec), 0
            with psycopg.connect(pipeline.dsn) as connection:
                for number in range(2_000):
                    event = Event(aggregate_type="order", aggregate_id=str(number % 7), type="Placed", payload={})
                    outbox.add(connection, event)
                    written += 1
                    if number % 10 == 9:
                        connection.commit()
                    if number == 1_000:
                        eventually(pipeline.messages, "the first events")
                        first.kill()
                connection.commit()
            wait_until_read(pipeline)
            eventually(lambda: delivered(pipeline) == written, "every event")
    assert standby_log.read_text().count("standing by") == 1
    first_seen: dict[str, list[int | None]] = {}
    seen = set()
    for message in pipeline.messages():
        received = pipeline.spec.contract.event_of(message)
        if received.id not in seen:
            seen.add(received.id)
            first_seen.setdefault(received.aggregate_id, []).append(received.sequence)
    assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in first_seen.values())


@pytest.mark.parametrize(("options", "code"), [((), 0), (("--create-slot",), 130)], ids=["relay", "--create-slot"])
@pytest.mark.parametrize("numbers", [(signal.SIGTERM,), (signal.SIGTERM, signal.SIGINT)], ids=["SIGTERM", "both"])
def test_a_signal_while_the_slot_is_created_takes_back_what_was_begun(
    pipeline: Pipeline, spec: Path, options: tuple[str, ...], code: int, numbers: tuple[signal.Signals, ...]
) -> None:
    log = spec.with_suffix(".log")
    with pipeline.connect() as connection, psycopg.connect(pipeline.dsn) as writer:
        writer.execute("select pg_current_xact_id()")
        with relay(pipeline, spec, *options) as process:
            waiting = (
                "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
            )
            eventually(lambda: one(connection, waiting) == 1, "the slot's creation to wait for the transaction")
            for number in numbers:
                process.send_signal(number)
            assert process.wait(patience()) == code, log.read_text()
        assert "Traceback" not in log.read_text()
        assert publishers_of(connection, pipeline.spec.outbox).find() is None
        writer.rollback()
        slots = "select count(*) from pg_replication_slots where database = current_database()"
        eventually(lambda: one(connection, waiting) == 0 == one(connection, slots), "no slot")


def test_health_and_metrics_follow_the_relay(pipeline: Pipeline, spec: Path, free_port: int) -> None:
    def ask(path: str) -> requests.Response | None:
        try:
            return requests.get(f"http://127.0.0.1:{free_port}{path}", timeout=patience())
        except requests.ConnectionError:
            return None

    def metric(name: str) -> float:
        answer = ask("/metrics")
        assert answer is not None
        [value] = re.findall(rf'^{name}{{relay="{pipeline.name}"}} (\S+)$', answer.text, re.MULTILINE)
        return float(value)

    with relay(pipeline, spec, "--listen", str(free_port), "--log-format", "json"):
        wait_until_read(pipeline)
        pipeline.write(5)
        eventually(lambda: metric("cdc_outbox_relay_events_total") == 5, "the count")
        health = ask("/health")
        assert health is not None
        told = health.json()
        assert (health.status_code, told["status"], told["state"], told["events"]) == (200, "ok", "reading", 5)
        eventually(lambda: metric("cdc_outbox_relay_reading") == 1, "the gauge")
    lines = spec.with_suffix(".log").read_text().splitlines()[:-1]
    assert {json.loads(line)["logger"].partition(".")[0] for line in lines} == {"cdc_outbox"}


def test_jsonl_prints_each_message_on_a_line(pipeline: Pipeline, spec: Path) -> None:
    with relay(pipeline, spec, "--sink", "jsonl") as process:
        wait_until_read(pipeline)
        pipeline.write(3)
        assert process.stdout is not None
        lines = [json.loads(process.stdout.readline()) for _ in range(3)]
        process.send_signal(signal.SIGINT)
        assert process.wait(patience()) == 0
    assert [line["topic"] for line in lines] == [pipeline.topic] * 3
    assert [dict(line["headers"])["sequence"] for line in lines] == ["1", "2", "3"]
    assert pipeline.stack.broker.ends(pipeline.topic) == {}


def test_events_from_before_the_slot_are_left_out_only_on_request(pipeline: Pipeline, spec: Path) -> None:
    pipeline.write(3)
    env = {"CDC_OUTBOX_DSN": pipeline.dsn}
    refused = run_command("relay", spec, "--create-slot", env=env)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "the table already contains 3 events, which would not be published" in refused.stderr
    assert "hint: `cdc-outbox relay SPEC --earlier-events skip`" in refused.stderr
    skipped = run_command("relay", spec, "--create-slot", "--earlier-events", "skip", env=env)
    assert skipped.returncode == 0, skipped.stderr
    assert run_command("relay", spec, "--create-slot", env=env).returncode == 0


def test_other_commands_recognise_the_slot_of_a_relay(pipeline: Pipeline, spec: Path) -> None:
    env = {**pipeline.stack.environment(), "CDC_OUTBOX_DSN": pipeline.dsn}
    with relay(pipeline, spec):
        wait_until_read(pipeline)
        pipeline.write(5)
        eventually(lambda: delivered(pipeline) == 5, "the events")
        diagnosed = run_command("doctor", spec, env=env)
        assert "a relay publishes the events" in diagnosed.stdout
        assert diagnosed.returncode == 0, diagnosed.stdout
        refused = run_command("deploy-connector", spec, env=env)
        assert refused.returncode == 1
        assert f"a relay publishes the outbox of {pipeline.name}" in refused.stderr
        verified = run_command("verify", spec, env=env)
        assert verified.returncode == 0, verified.stdout
    stopped = run_command("doctor", spec, env=env)
    assert stopped.returncode == 1
    assert "OP211" in stopped.stdout
    assert "OP201" not in stopped.stdout


@pytest.mark.parametrize(
    ("servers", "settings", "code", "text"),
    [("127.0.0.1:1", "", 75, "the brokers 127.0.0.1:1"), (None, "acks=1\n", 2, "acks cannot be set")],
)
def test_brokers_and_settings_are_looked_at_before_a_slot_is_created(
    pipeline: Pipeline, spec: Path, tmp_path: Path, servers: str | None, settings: str, code: int, text: str
) -> None:
    file = tmp_path / "kafka.properties"
    file.write_text(settings)
    env = {"CDC_OUTBOX_DSN": pipeline.dsn}
    servers = servers or pipeline.stack.broker.bootstrap_servers
    options = ("--bootstrap-servers", servers, "--kafka-settings", file)
    refused = run_command("relay", spec, *options, env=env, timings=SILENT_TIMINGS)
    assert (refused.returncode, text in refused.stderr) == (code, True), refused.stderr
    with pipeline.connect() as connection:
        query = "select count(*) from pg_replication_slots where database = %s"
        assert one(connection, query, pipeline.name) == 0
        assert publishers_of(connection, pipeline.spec.outbox).find() is None


def test_status_tells_which_relay_publishes_how_far_it_is_and_whether_it_runs(pipeline: Pipeline, spec: Path) -> None:
    env, slot = {"CDC_OUTBOX_DSN": pipeline.dsn}, pipeline.spec.database.slot
    unpublished = run_command("status", spec, env=env)
    assert unpublished.returncode == 2
    assert "status needs --connect-url (or CDC_OUTBOX_CONNECT_URL)" in unpublished.stderr

    def status() -> tuple[int, dict[str, Any]]:
        done = run_command("status", spec, "--output=json", env=env)
        [row] = json.loads(done.stdout)["relays"]
        return done.returncode, row

    with relay(pipeline, spec) as process:
        wait_until_read(pipeline)
        pipeline.write(5)
        eventually(lambda: delivered(pipeline) == 5, "the events")
        for given in (env, {**pipeline.stack.environment(), **env}):  # with Connect, which has no connector of the name
            shown = run_command("status", spec, env=given)
            assert shown.returncode == 0, shown.stderr
            head, line = shown.stdout.splitlines()
            assert head.startswith("RELAY")
            assert line.split()[:2] == [pipeline.name, "READING"]
        code, row = status()
        assert (code, row["up"], row["publisher"], row["slotActive"]) == (0, True, "wal-relay", True)
        assert (row["name"], row["slot"]) == (pipeline.name, slot)
        assert row["instance"].endswith(f"/{process.pid}")
        assert row["epoch"] >= 2
    pipeline.write(5)
    code, row = status()
    assert (code, row["up"], row["state"], row["slotActive"]) == (1, False, "NOT RUNNING", False)
    assert row["unconfirmedBytes"] > 0
    shown = run_command("status", spec, env=env)
    assert "    No relay reads the slot, and the server keeps WAL for it. Start `cdc-outbox relay SPEC`" in shown.stdout
    with pipeline.connect() as connection:
        connection.execute("select pg_drop_replication_slot(%s)", (slot,))
    code, row = status()
    assert (code, row["state"], row["slot"], row["keptBytes"]) == (1, "NO SLOT", slot, None)


@pytest.mark.parametrize(
    ("extra", "option", "remedy"),
    [
        ("outbox: {mode: message}\n", "transforms.decode.type", "Choose the mode keep or delete"),
        ("outbox: {payload_type: expanded}\n", "table.expand.json.payload", "Set outbox.payload_type: json"),
    ],
)
def test_check_says_without_a_server_what_the_relay_refuses(
    extra: str, option: str, remedy: str, tmp_path: Path
) -> None:
    path = tmp_path / "refused.yaml"
    path.write_text(Pipeline.text("refused", extra))
    done = run_command("relay", path, "--check")
    assert (done.returncode, done.stdout) == (1, "")
    first, error, hint = done.stderr.splitlines()
    assert first.startswith(f"{option}: ")
    assert remedy in first
    assert error == "error: the relay cannot publish refused"
    assert hint.startswith("hint: ")


def test_check_of_a_spec_that_it_publishes_is_0(spec: Path) -> None:
    done = run_command("relay", spec, "--check")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "relay needs --dsn (or CDC_OUTBOX_DSN)"),
        (("--dsn", "host=x"), "--sink kafka needs --bootstrap-servers (or CDC_OUTBOX_BOOTSTRAP_SERVERS)"),
    ],
)
def test_a_missing_address_is_a_wrong_use(spec: Path, options: tuple[str, ...], message: str) -> None:
    done = run_command("relay", spec, *options)
    assert done.returncode == 2
    assert message in done.stderr


def test_a_database_without_an_outbox_is_refused_with_its_findings(outbox_stack: Stack, tmp_path: Path) -> None:
    path = tmp_path / "empty.yaml"
    path.write_text(Pipeline.text("empty_relay"))
    env = {"CDC_OUTBOX_DSN": outbox_stack.postgres.create_database("empty_relay")}
    done = run_command("relay", path, "--create-slot", env=env)
    assert done.returncode == 1
    assert "DB301" in done.stderr
    assert "error: empty_relay: the database is not ready" in done.stderr


def test_it_takes_over_from_a_connector_only_on_request(deployed: Pipeline, tmp_path: Path) -> None:
    spec = tmp_path / f"{deployed.name}.yaml"
    spec.write_text(Pipeline.text(deployed.name))
    env = {"CDC_OUTBOX_DSN": deployed.dsn}
    take_over = ("relay", spec, "--create-slot", "--take-over")
    for command, reason in (
        (("relay", spec, "--create-slot"), "the outbox is published by debezium"),
        (take_over, "reads the slot"),
    ):
        done = run_command(*command, env=env)
        assert done.returncode == 1
        assert reason in done.stderr
    deployed.client.delete(deployed.name)

    def takes_over() -> bool:
        return run_command(*take_over, env=env).returncode == 0

    eventually(takes_over, "the slot to be free")
    with deployed.connect() as connection:
        found = publishers_of(connection, deployed.spec.outbox).find()
    assert found is not None
    assert (found.kind, found.slot) == (PublisherKind.WAL_RELAY, deployed.spec.database.slot)
    assert run_command("relay", spec, "--create-slot", env=env).returncode == 0
    assert run_command("relay", spec, "--take-over", env=env).returncode == 2


def test_a_relay_of_another_slot_is_replaced_only_on_request(pipeline: Pipeline, spec: Path) -> None:
    env, create = {"CDC_OUTBOX_DSN": pipeline.dsn}, ("relay", spec, "--create-slot")
    assert run_command(*create, env=env).returncode == 0
    with pipeline.connect() as connection:
        connection.execute("select pg_drop_replication_slot(%s)", (pipeline.spec.database.slot,))
        connection.execute("update outbox_publishers set slot = 'another', confirmed = '0/1'")
    for options, reason in (
        ((), "published through the slot another, not through"),
        (("--take-over",), f"the slot {pipeline.spec.database.slot} does not exist"),
    ):
        done = run_command(*create, *options, env=env)
        assert (done.returncode, reason in done.stderr) == (1, True)
    assert run_command(*create, "--take-over", "--earlier-events=skip", env=env).returncode == 0
    with pipeline.connect() as connection:
        found = publishers_of(connection, pipeline.spec.outbox).find()
        slots = one(
            connection, "select count(*) from pg_replication_slots where slot_name = %s", pipeline.spec.database.slot
        )
    assert found is not None
    assert (found.slot, slots) == (pipeline.spec.database.slot, 1)


def test_an_instance_that_was_killed_while_it_created_the_slot_hides_no_earlier_event(
    pipeline: Pipeline, spec: Path
) -> None:
    waiting = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    second_log = spec.with_suffix(".second")
    with pipeline.connect() as connection, psycopg.connect(pipeline.dsn) as writer:
        event = Event(aggregate_type="order", aggregate_id="1", type="Placed", payload={})
        Outbox(spec=pipeline.spec).add(writer, event)
        # As by default: the server finishes what a client asked for that is gone.
        connection.execute(f"alter database {pipeline.name} set client_connection_check_interval = 0".encode())
        with relay(pipeline, spec) as first:
            eventually(lambda: one(connection, waiting) == 1, "the first one to wait for the transaction")
            with relay(pipeline, spec, "--create-slot", log=second_log) as second:
                eventually(lambda: one(connection, waiting) == 2 or second.poll() is not None, "the second one to wait")
                first.kill()
                writer.commit()
                assert second.wait(patience()) == 1, second_log.read_text()
        assert "a row was written in the meantime" in second_log.read_text()
        assert publishers_of(connection, pipeline.spec.outbox).find() is None
        slots = "select count(*) from pg_replication_slots where slot_name = %s"
        assert one(connection, slots, pipeline.spec.database.slot) == 0


@pytest.mark.parametrize(("options", "code"), [((), 1), (("--earlier-events", "skip"), 0)], ids=["", "skip"])
def test_a_slot_of_which_no_relay_confirmed_the_start_is_checked_for_earlier_events(
    pipeline: Pipeline, spec: Path, options: tuple[str, ...], code: int
) -> None:
    pipeline.write(1)
    slot, relayed = pipeline.spec.database.slot, PublisherKind.WAL_RELAY
    with pipeline.connect() as connection:
        connection.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", (slot,))
        publishers = publishers_of(connection, pipeline.spec.outbox)
        publishers.declare(relayed, slot=slot, confirmed=None, instance="a process that was killed", after=None)
        done = run_command("relay", spec, "--create-slot", *options, env={"CDC_OUTBOX_DSN": pipeline.dsn})
        assert done.returncode == code, done.stderr
        found = publishers.find()
        kept = one(connection, "select count(*) from pg_replication_slots where slot_name = %s", slot)
        assert (found is not None and found.confirmed is not None, bool(kept)) == (not code, not code)


def test_a_position_that_is_ahead_of_the_log_is_refused_until_the_slots_is_taken(
    pipeline: Pipeline, spec: Path
) -> None:
    env = {"CDC_OUTBOX_DSN": pipeline.dsn, "CDC_OUTBOX_BOOTSTRAP_SERVERS": pipeline.stack.broker.bootstrap_servers}
    create = ("relay", spec, "--create-slot", "--slot-timeout", "300s")
    assert run_command(*create, env=env).returncode == 0
    pipeline.write(2)
    with pipeline.connect() as connection:
        connection.execute("update outbox_publishers set confirmed = pg_current_wal_flush_lsn() + 1073741824")
    done = run_command("relay", spec, env=env)
    assert (done.returncode, "the server's log ends at" in done.stderr) == (1, True), done.stderr
    assert "`cdc-outbox relay SPEC --create-slot --take-over`" in done.stderr
    assert run_command(*create, "--take-over", env=env).returncode == 0
    with relay(pipeline, spec):
        eventually(lambda: delivered(pipeline) == 2, "the events")


def test_a_slot_that_was_dropped_is_not_created_again_unasked(pipeline: Pipeline, spec: Path) -> None:
    with relay(pipeline, spec):
        wait_until_read(pipeline)
    with pipeline.connect() as connection:
        connection.execute("select pg_drop_replication_slot(%s)", (pipeline.spec.database.slot,))
    env = {"CDC_OUTBOX_DSN": pipeline.dsn}
    done = run_command("relay", spec, "--create-slot", env=env)
    assert done.returncode == 1
    assert f"the slot {pipeline.spec.database.slot} does not exist" in done.stderr
    assert run_command("relay", spec, "--create-slot", "--earlier-events", "skip", env=env).returncode == 0
    with relay(pipeline, spec):
        wait_until_read(pipeline)


def test_a_slot_that_was_created_again_before_the_first_start_is_not_read(pipeline: Pipeline, spec: Path) -> None:
    env = {
        "CDC_OUTBOX_DSN": pipeline.dsn,
        "CDC_OUTBOX_BOOTSTRAP_SERVERS": pipeline.stack.broker.bootstrap_servers,
        "CDC_OUTBOX_SLOT_TIMEOUT": "300s",
    }
    assert run_command("relay", spec, "--create-slot", env=env).returncode == 0
    pipeline.write(1)
    slot = pipeline.spec.database.slot
    with pipeline.connect() as connection:
        connection.execute("select pg_drop_replication_slot(%s)", (slot,))
        connection.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", (slot,))
    done = run_command("relay", spec, env=env)
    assert done.returncode == 1
    assert f"the slot {slot} is at" in done.stderr
