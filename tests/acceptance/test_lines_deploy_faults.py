"""What a deployment may meet, fault by fault: what the command ends with, its sentence and hint, and what ran before.

A connector runs, the fault is made on the real stack or by a proxy before it, and a change is deployed. Afterwards
Connect is asked for the connector, and an event has to arrive; none may be missing of those that were written before.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import chain, repeat
from pathlib import Path
from threading import Event as Signal

import psycopg2
import pytest
from psycopg2.extras import LogicalReplicationConnection

from tests.faults.config_topic import delete_topic
from tests.support.connect_server import BROKEN, REBALANCING, RESET, STARTING, Answer, Asked, forward
from tests.support.pipeline import Pipeline
from tests.support.release import NO_CHANGE, Fault, Release, worker_of_its_own
from tests.support.rig import eventually, one
from tests.support.threads import Threads

NOWHERE = "http://127.0.0.1:1"
RUNS = "wait       connector RUNNING, 1 task RUNNING"
LOST_CONFIG_TOPIC: Answer = (500, {"error_code": 500, "message": "Error writing connector configuration to Kafka"})
"""What a worker answered to a change after its config topic had been deleted."""


@pytest.fixture
def release(pipeline: Pipeline, tmp_path: Path) -> Release:
    return Release.begin(pipeline, tmp_path)


def changes(asked: Asked) -> bool:
    return asked.method == "PUT" and asked.path.endswith("/config") and asked.path.startswith("/connectors/")


def always(answer: Answer | object) -> Fault:
    return lambda _asked: answer


def to_changes(answer: Answer | object) -> Fault:
    return lambda asked: answer if changes(asked) else None


# --- Connect and the way to it


def test_connect_is_down(release: Release) -> None:
    done = release.deploy("--connect-patience=0.5s", url=NOWHERE)
    done.failed(75, f"error: no Kafka Connect worker answers at {NOWHERE}", "hint: Check that the Connect worker runs")
    release.runs_as_before()


@pytest.mark.parametrize(
    ("fault", "sentence", "hint"),
    [
        pytest.param(always(STARTING), "is still starting", "Check that the Connect worker runs", id="starting"),
        pytest.param(to_changes(REBALANCING), "stale configuration", "Wait for the rebalance to end", id="409"),
        pytest.param(to_changes(BROKEN), "cannot reach the leader", "wait until another worker leads", id="500"),
        pytest.param(to_changes(RESET), "broke before it answered", "in front of it", id="reset"),
        pytest.param(
            to_changes(LOST_CONFIG_TOPIC),
            "Connect cannot write or read its own topics in Kafka",
            "that Connect's config topic (config.storage.topic) exists",
            id="config-topic",
        ),
    ],
)
def test_connect_does_not_recover(release: Release, fault: Fault, sentence: str, hint: str) -> None:
    release.deploy_through(fault, "--connect-patience=0.5s").failed(75, sentence, hint)
    release.runs_as_before()


def test_connect_recovers_from_a_slow_start_a_storm_of_409s_500s_and_resets(release: Release) -> None:
    met: dict[str, list[Answer | object]] = {}

    def fault(asked: Asked) -> Answer | object | None:
        """Let the change meet everything in turn, and each other kind of request one of it."""
        kind = f"{asked.method} {asked.path.partition('?')[0]}"
        left = met.setdefault(kind, passing[:] if changes(asked) else [passing[len(met) % 4]])
        return left.pop(0) if left else None

    passing = [STARTING, REBALANCING, BROKEN, RESET]
    done = release.deploy_through(fault)
    assert (done.code, len(met) >= 5) == (0, True), (done.told, met)
    assert "is still starting" in done.told
    release.runs_as_changed()


def test_the_connection_is_reset_after_the_worker_took_the_change(release: Release) -> None:
    """Once, and the change is made; for ever, and what ran before is put back all the same."""
    url = release.pipeline.stack.connect_url

    def losing(answers: int) -> Fault:
        left = [object()] * answers

        def fault(asked: Asked) -> object | None:
            if not changes(asked) or not left:
                return None
            left.pop()
            forward(url, asked)
            return RESET

        return fault

    done = release.deploy_through(losing(1000), "--connect-patience=0.5s")
    done.failed(75, "broke before it answered", "check any")
    assert "undo       the previous configuration was restored" in done.told
    release.runs_as_before()

    done = release.deploy_through(losing(1))
    assert done.code == 0, done.told
    release.runs_as_changed()


# --- the worker


def test_the_config_topic_is_lost_and_the_worker_begins_anew(pipeline: Pipeline, tmp_path: Path) -> None:
    """It makes the topic anew, and knows of no connector; offsets and slot still tell how far it was."""
    with worker_of_its_own(pipeline.stack) as (worker, topic):
        release = Release(pipeline, tmp_path, worker.url)
        assert release.deploy("--stable-for=0s", change=NO_CHANGE).code == 0
        release.arrives()
        worker.kill()
        delete_topic(pipeline.stack, topic)
        release.write()
        worker.start()
        assert release.client.find_config(pipeline.name) is None
        done = release.deploy(change=NO_CHANGE)
        assert (done.code, "plan       create the connector" in done.told) == (0, True), done.told
        release.arrives()


# --- database and slot


def test_the_password_is_wrong(release: Release) -> None:
    done = release.deploy(change=("CONNECTOR_PASSWORD", "POSTGRES_PORT"))
    done.failed(
        1, "password authentication failed", "Set the role's password to the one that database.password refers to"
    )
    release.runs_as_before()


@pytest.mark.parametrize(
    ("lose", "find", "sentence", "hint"),
    [
        (
            "alter table outbox rename to elsewhere",
            "alter table elsewhere rename to outbox",
            "DB301: the outbox table does not exist.",
            "cdc-outbox init",
        ),
        (
            "alter publication {publication} rename to elsewhere",
            "alter publication elsewhere rename to {publication}",
            "DB401: the publication does not exist, although the slot exists: events that are written now are never",
            "cdc-outbox init",
        ),
    ],
    ids=["table", "publication"],
)
def test_the_table_or_the_publication_is_missing(
    release: Release, lose: str, find: str, sentence: str, hint: str
) -> None:
    publication = release.pipeline.spec.database.publication
    release.execute(lose.format(publication=publication))
    try:
        done = release.deploy()
    finally:
        release.execute(find.format(publication=publication))
    done.failed(1, sentence, hint)
    release.runs_as_before()


def test_the_task_fails_five_seconds_after_it_ran(release: Release) -> None:
    """The change lets only small events through, and a large one comes. Connect notices at one of the next."""
    over = Signal()

    def write() -> None:
        for text in chain(["x" * 2000], repeat("")):
            if over.wait(5 if text else 0.5):
                return
            release.write(text)

    with Threads() as threads:
        try:
            done = release.deploy(
                "--stable-for=5m",
                change=("overrides: {", "overrides: {producer.override.max.request.size: '1500', "),
                when={RUNS: lambda: threads.submit(write)},
            )
        finally:
            over.set()
    done.failed(1, "1 task FAILED. An event is larger than Kafka's limit.", "hint: Raise max.message.bytes")
    assert "undo       the previous configuration was restored" in done.told
    assert "runs again as before" in done.told
    release.runs_as_before()


@contextmanager
def stolen(release: Release) -> Iterator[None]:
    """Read the slot in the connector's place, and confirm nothing."""
    dsn, database = release.pipeline.dsn, release.pipeline.spec.database
    end = "select count(pg_terminate_backend(active_pid)) from pg_replication_slots where slot_name = %s"
    over = Signal()

    def steal() -> bool:
        with release.pipeline.connect() as connection:
            one(connection, end, database.slot)
        try:
            reading.start_replication(slot_name=database.slot, decode=False, options=options)
        except psycopg2.Error:
            return False
        return True

    def hold() -> None:
        while not over.wait(1):
            reading.send_feedback(force=True)  # type: ignore[no-untyped-call]

    with closing(psycopg2.connect(dsn, connection_factory=LogicalReplicationConnection)) as thief:
        reading, options = thief.cursor(), {"proto_version": "1", "publication_names": database.publication}
        eventually(steal, "the slot to be stolen")
        with Threads() as threads:
            threads.submit(hold)
            try:
                yield
            finally:
                over.set()


def test_the_slot_is_in_use(release: Release) -> None:
    """Somebody took it from the connector: Debezium tries again and again, and Connect says RUNNING."""
    with stolen(release):
        done = release.deploy("--timeout=3s")
    done.failed(1, "another connector or tool reads the slot", "hint: Choose another slot name")
    assert "undo       the previous configuration was restored" in done.told
    assert "undo       the previous configuration does not run either" in done.told
    release.runs_as_before()
