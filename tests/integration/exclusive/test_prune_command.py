"""`cdc-outbox prune` from the shell: what it prints, and what it exits with."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from cdc_outbox import Event
from tests.support.commands import run_command
from tests.support.pipeline import Pipeline
from tests.support.pruning import WEEK, Pruner
from tests.support.relay_command import is_read, relay, wait_until_read
from tests.support.rig import eventually, one
from tests.support.threads import Threads

MARIADB = "{kind: mariadb, host: h, name: orders, user: connector, password: '${env:PASSWORD}'}"


@contextmanager
def writing(pipeline: Pipeline) -> Iterator[None]:
    """Write an event twice a second: a relay without events confirms the log of others once a minute."""
    ended = threading.Event()

    def write() -> None:
        while not ended.wait(0.5):
            pipeline.write(1)

    with Threads() as pool:
        written = pool.submit(write)
        try:
            yield
        finally:
            ended.set()
        written.result()


@pytest.fixture
def spec(pipeline: Pipeline, tmp_path: Path) -> Path:
    path = tmp_path / "spec.yaml"
    path.write_text(Pipeline.text(pipeline.name, "overrides: {heartbeat.interval.ms: 300, poll.interval.ms: 100}\n"))
    return path


@pytest.fixture
def env(pipeline: Pipeline) -> dict[str, str]:
    return pipeline.stack.environment() | {"CDC_OUTBOX_DSN": pipeline.dsn}


def test_the_count_goes_to_stdout_and_what_holds_back_to_stderr(
    pipeline: Pipeline, spec: Path, env: dict[str, str]
) -> None:
    deployed = run_command("deploy-connector", str(spec), "--stable-for=0s", env=env)
    assert deployed.returncode == 0, deployed.stderr
    pipeline.write(3)
    eventually(lambda: len(pipeline.messages()) == 3, "3 messages")
    with psycopg.connect(pipeline.dsn) as writer:
        one(writer, "select pg_current_xact_id()::text")
        pipeline.write(2)
        dry = run_command("prune", str(spec), "--dry-run", env=env)
        assert (dry.returncode, dry.stdout) == (0, "3 events would be deleted\n"), dry.stderr
        assert f"slot       {pipeline.spec.database.slot} at " in dry.stderr
        assert "kept       2 not proven delivered\n" in dry.stderr
        assert f"(process {writer.info.backend_pid}, database {pipeline.name}) has been running since" in dry.stderr
        young = run_command("prune", str(spec), "--keep=7d", "--output=json", env=env)
        assert young.returncode == 0, young.stderr
        document = json.loads(young.stdout)
        assert (document["kind"], document["isDryRun"], document["deleted"]) == ("Pruning", False, 0)
        assert (document["keptForAge"], document["keptUnproven"]) == (3, 2)
        assert "kept       3 delivered, but younger than --keep\n" in young.stderr
    done = run_command("prune", str(spec), "--keep=0s", "--archive", "public.archived", "--limit=2", env=env)
    assert (done.returncode, done.stdout) == (0, "2 events moved to public.archived\n"), done.stderr
    assert "archive    public.archived created\n" in done.stderr
    assert "stopped    limit reached" in done.stderr
    behind = run_command("prune", str(spec), "--keep=0s", "--wait=0s", env=env)
    assert behind.returncode == 0
    assert "held back  the slot " in behind.stderr
    with pipeline.connect() as connection:
        assert one(connection, "select count(*) from archived") == 2


def test_a_slot_that_is_not_there_is_a_sentence_and_exits_1(
    pipeline: Pipeline, spec: Path, env: dict[str, str]
) -> None:
    pipeline.write(3)
    for arguments in (["--keep=0s"], ["--dry-run"]):
        done = run_command("prune", str(spec), *arguments, env=env)
        assert (done.returncode, done.stdout) == (1, "")
        assert f"error: the slot {pipeline.spec.database.slot} does not exist; nothing was deleted\n" in done.stderr
        assert "hint: " in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [["--keep=7"], ["--keep=-1d"], ["--keep=week"], ["--batch=0"], ["--limit=0"], ["--stop-after=-1"], ["--archive="]],
)
def test_an_option_that_means_nothing_exits_2(arguments: list[str], tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(Pipeline.text("orders"))
    done = run_command("prune", str(path), "--dsn=host=127.0.0.1 port=1", "--without-topics", "--keep=0s", *arguments)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("database", "arguments", "words"),
    [
        (MARIADB, ["--dsn=mysql://u:p@127.0.0.1:1/orders"], "--connect-url (or CDC_OUTBOX_CONNECT_URL) is required"),
        (
            MARIADB,
            ["--dsn=postgresql://127.0.0.1:1/orders", "--connect-url=http://127.0.0.1:1"],
            "leads to PostgreSQL, but MariaDB or MySQL is required",
        ),
        ("{kind: sqlite}", ["--dsn=orders.db"], "no supported connector reads sqlite"),
    ],
)
def test_a_database_is_pruned_as_the_spec_says_or_not_at_all(
    database: str, arguments: list[str], words: str, tmp_path: Path
) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(f"version: 1\nname: orders\ndatabase: {database}\naggregates: {{order: {{}}}}\n")
    done = run_command("prune", str(path), "--without-topics", "--keep=0s", *arguments)
    assert done.returncode == 2, done.stderr
    assert words in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_a_mariadb_server_that_does_not_answer_exits_75(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(f"version: 1\nname: orders\ndatabase: {MARIADB}\naggregates: {{order: {{}}}}\n")
    places = ["--dsn=mysql://u:p@127.0.0.1:1/orders", "--connect-url=http://127.0.0.1:1"]
    done = run_command("prune", str(path), "--without-topics", "--keep=0s", *places)
    assert done.returncode == 75, done.stderr
    assert "hint: " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["--without-topics"], "give --keep, such as --keep 7d"), (["--keep=7d"], "give --bootstrap-servers")],
)
def test_what_would_delete_more_than_was_said_is_refused(arguments: list[str], words: str, tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(Pipeline.text("orders"))
    done = run_command("prune", str(path), "--dsn=host=127.0.0.1 port=1", *arguments)
    assert done.returncode == 2, done.stderr
    assert words in " ".join(done.stderr.split())


PLACED = Event(aggregate_type="order", aggregate_id="1", type="OrderPlaced", payload={})


def test_b13_cleanup_deletes_what_is_old_and_delivered_and_says_how_much(pipeline: Pipeline) -> None:
    """B13: published rows older than seven days are deleted, and counted.

    Never by age alone: a row has no "published" that could be wrong, so the connector's slot proves what was
    delivered. Rows of any age stay until it does.
    """
    pruner = Pruner(pipeline)
    pipeline.write(3)
    pruner.execute("update outbox set created_at = created_at - interval '8 days'")
    pipeline.write(2)
    pruned = pruner.run(keep_seconds=WEEK)
    assert (pruned.deleted, pruned.young, pruner.rows) == (3, 2, 2)
    pruner.halt()
    pipeline.write(1)
    pruner.execute("update outbox set created_at = created_at - interval '8 days'")
    assert (pruner.run(keep_seconds=WEEK).deleted, pruner.rows) == (0, 3)


def test_what_a_relay_published_is_deleted(pipeline: Pipeline, spec: Path, env: dict[str, str]) -> None:
    with relay(pipeline, spec):
        wait_until_read(pipeline)
        pipeline.write(5)
        eventually(lambda: len(pipeline.messages()) == 5, "the events")
        with writing(pipeline):
            done = run_command("prune", str(spec), "--keep=0s", "--limit=5", env=env)
        assert (done.returncode, done.stdout) == (0, "5 events deleted\n"), done.stderr
        assert is_read(pipeline)
