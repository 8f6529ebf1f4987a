"""Deploying while Connect or the way to it fails: through a proxy that fails before the real one, or by killing it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.deploy import Deployment
from cdc_outbox.connect.plan import Plan
from cdc_outbox.connect.postgresql_database import PostgresqlDatabase
from cdc_outbox.connect.wait import Condition, condition_of
from cdc_outbox.databases.drivers.psycopg import Psycopg
from cdc_outbox.errors import ConnectError, ConnectorFailedError, ConnectUnavailableError
from tests.support.connect_server import RESET, Answer, Asked, forward, passing_on
from tests.support.deployments import slot_exists, spec_with
from tests.support.pipeline import SELDOM, Pipeline
from tests.support.timings import QUICK_OPTIONS, QUICK_TIMINGS

Fault = Callable[[Asked], Answer | object | None]


class Deploying:
    """Deploy a pipeline past a proxy, and do something when a step is told."""

    def __init__(self, pipeline: Pipeline, fault: Fault = lambda _asked: None, *, seconds: float = 20) -> None:
        self.pipeline = pipeline
        self.steps: list[str] = []
        self._fault = fault
        self._seconds = seconds
        self._when: dict[str, Callable[[], object]] = {}

    def when(self, step: str, then: Callable[[], object]) -> "Deploying":
        """Do something when a step that begins so is told for the first time."""
        self._when[step] = then
        return self

    def run(self, changes: tuple[str, str] | None = None, **options: Any) -> Plan:
        """Deploy."""
        pipeline = self.pipeline
        spec = pipeline.spec if changes is None else spec_with(pipeline, *changes)
        wanted = replace(QUICK_OPTIONS, **options)
        with passing_on(pipeline.stack.connect_url, self._fault) as (url, _), pipeline.connect() as connection:
            client = ConnectClient(
                replace(
                    pipeline.stack.connect_cluster, urls=(url,), patience_seconds=self._seconds, timings=QUICK_TIMINGS
                )
            )
            database = PostgresqlDatabase(connection, Psycopg(), spec)
            return Deployment(spec, client, database, wanted, self._report).run()

    def _report(self, step: str, text: str) -> None:
        told = f"{step}: {text}"
        self.steps.append(told)
        for start in [start for start in self._when if told.startswith(start)]:
            self._when.pop(start)()


def times(count: int, answer: Answer | object, *methods: str) -> Fault:
    """Answer so the first times that something is asked in one of these ways."""
    left = [count]

    def fault(asked: Asked) -> Answer | object | None:
        if methods and asked.method not in methods:
            return None
        left[0] -= 1
        return answer if left[0] >= 0 else None

    return fault


def losing_answer(url: str, method: str, end: str) -> Fault:
    """Let the first such request through, and lose its answer."""
    lost: list[Asked] = []

    def fault(asked: Asked) -> Answer | object | None:
        if asked.method != method or not asked.path.endswith(end) or lost:
            return None
        lost.append(asked)
        forward(url, asked)
        return RESET

    return fault


def is_up(pipeline: Pipeline) -> bool:
    return condition_of(pipeline.client.find_status(pipeline.name)) is Condition.UP


def test_a_connector_whose_making_got_no_answer_is_ours_and_runs(pipeline: Pipeline) -> None:
    assert Deploying(pipeline, losing_answer(pipeline.stack.connect_url, "POST", "/connectors")).run().creates
    assert is_up(pipeline)


@pytest.mark.parametrize(
    ("lasting", "said"),
    [
        ((302, ""), "answered 302"),
        ((401, ""), "answered 401"),
    ],
    ids=["redirect", "login"],
)
def test_what_is_refused_leaves_the_running_connector_as_it_was(deployed: Pipeline, lasting: Answer, said: str) -> None:
    before, tasks = deployed.client.find_config(deployed.name), deployed.client.find_status(deployed.name)

    def fault(asked: Asked) -> Answer | None:
        return lasting if asked.path.endswith(f"{deployed.name}/config") and asked.method == "PUT" else None

    deploying = Deploying(deployed, fault, seconds=0.5)
    with pytest.raises(ConnectError) as caught:
        deploying.run((SELDOM, "latency: economy\n"))
    assert said in str(caught.value)
    assert not caught.value.retryable
    assert deployed.client.find_config(deployed.name) == before
    assert deployed.client.find_status(deployed.name) == tasks


def test_a_worker_without_its_brokers_is_not_blamed_itself(pipeline: Pipeline) -> None:
    """What it answers was taken down while the broker was paused."""
    ill = "Worker was unable to handle this request and may be unable to handle other requests."
    fault = times(10_000, (500, {"status": "unhealthy", "message": ill}), "GET")
    with pytest.raises(ConnectUnavailableError, match="cannot write or read its own topics in Kafka") as caught:
        Deploying(pipeline, fault, seconds=0.5).run()
    assert "Check that the brokers run" in caught.value.hint
    assert pipeline.client.find_config(pipeline.name) is None


def test_connect_that_is_down_changes_nothing(pipeline: Pipeline) -> None:
    with pytest.raises(ConnectUnavailableError):
        Deploying(pipeline, times(10_000, RESET), seconds=0.5).run()
    assert pipeline.client.find_config(pipeline.name) is None
    assert not slot_exists(pipeline)


def test_an_interrupt_between_the_making_and_its_answer_leaves_no_connector(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_stopped = ConnectClient.create_stopped

    def interrupted(client: ConnectClient, config: dict[str, str]) -> None:
        create_stopped(client, config)
        raise KeyboardInterrupt

    monkeypatch.setattr(ConnectClient, "create_stopped", interrupted)
    deploying = Deploying(pipeline)
    with pytest.raises(KeyboardInterrupt):
        deploying.run()
    assert pipeline.client.find_config(pipeline.name) is None
    assert f"undo: connector {pipeline.name}, created by this deployment, was deleted" in deploying.steps


def test_a_role_that_may_no_longer_replicate_is_said_so_though_connect_says_running(deployed: Pipeline) -> None:
    """Debezium tries again and again, and Connect shows nothing of it."""
    with deployed.role_of_its_own() as other:

        def refuse() -> None:
            with deployed.connect() as connection:
                connection.execute(f"alter role {other} noreplication".encode())
                # Not its other sessions: a task that loses one of those while it starts fails at once.
                walsender = "select pg_terminate_backend(pid) from pg_stat_replication where usename = %s"
                connection.execute(walsender, (other,))

        deploying = Deploying(deployed).when("wait: connector RUNNING, 1 task RUNNING", refuse)
        with pytest.raises(ConnectorFailedError) as caught:
            deploying.run(("user: connector", f"user: {other}"), timings=replace(QUICK_TIMINGS, timeout_seconds=30))
        assert f"to read its slot, although it runs: the role {other!r} lacks REPLICATION" in str(caught.value)
        assert "alter role" in caught.value.hint
        assert f"undo: connector {deployed.name} runs again as before" in deploying.steps
        assert is_up(deployed)
