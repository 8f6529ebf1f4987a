"""`cdc-outbox watch` from the shell, beside a connector that fails."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from cdc_outbox.connect.wait import Condition, condition_of
from cdc_outbox.debezium.render import render
from tests.support.commands import run_command
from tests.support.connect_server import BROKEN, Answer, answering
from tests.support.deployments import broken
from tests.support.patience import patience
from tests.support.pipeline import Pipeline
from tests.support.rig import eventually


@pytest.fixture
def env(pipeline: Pipeline) -> dict[str, str]:
    return pipeline.stack.environment()


@contextmanager
def watching(*arguments: str, env: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "cdc_outbox", "watch", *arguments, "--interval=0.1s"]
    with subprocess.Popen(
        command, env={**os.environ, **env}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as watch:
        try:
            yield watch
        finally:
            watch.kill()


def line_with(watch: subprocess.Popen[str], text: str) -> str:
    assert watch.stdout is not None
    return next(line for line in watch.stdout if text in line)


def test_a_task_that_failed_is_restarted_until_it_runs_and_the_watch_ends_when_told(
    deployed: Pipeline, env: dict[str, str]
) -> None:
    with deployed.role_of_its_own() as role:
        deployed.client.put_config(render(deployed.spec) | {"database.user": role})
        with watching(deployed.name, "--first-pause=0.5s", env=env) as watch, deployed.connect() as connection:
            line_with(watch, "connector RUNNING, 1 task RUNNING")
            connection.execute(f"alter role {role} nologin".encode())
            deployed.client.restart(deployed.name, only_failed=False)
            line_with(watch, "1 task FAILED")
            line_with(watch, "restart 1 of 6")
            connection.execute(f"alter role {role} login".encode())
            line_with(watch, "connector RUNNING, 1 task RUNNING")
            watch.send_signal(signal.SIGTERM)
            assert watch.wait(patience()) == 0
            assert "stopped" in (watch.stdout.read() if watch.stdout else "")
        deployed.client.delete(deployed.name)


def is_failed(pipeline: Pipeline) -> bool:
    return condition_of(pipeline.client.find_status(pipeline.name)) is Condition.FAILED


def test_what_does_not_come_up_is_given_up_loudly(pipeline: Pipeline, env: dict[str, str]) -> None:
    pipeline.deploy(stable_seconds=0)
    pipeline.client.put_config(broken(render(pipeline.spec)))
    eventually(lambda: is_failed(pipeline), "the task to fail")
    done = run_command("watch", pipeline.name, "--give-up-after=2", "--first-pause=0.1s", "--interval=0.1s", env=env)
    assert done.returncode == 1
    assert "restart 2 of 2" in done.stdout
    assert f"error: gave up on {pipeline.name} after 2 restarts" in done.stderr
    assert "ConfigException" in done.stderr


def test_a_connect_that_is_gone_is_waited_for_and_who_is_told_to_stop_does_not_wait() -> None:
    answers: Iterator[Answer] = iter([(200, [])])
    with (
        answering(lambda _asked: next(answers, BROKEN)) as (url, _),
        watching(env={"CDC_OUTBOX_CONNECT_URL": url}) as watch,
    ):
        line_with(watch, "watching nothing yet")
        line_with(watch, "Connect: Connect answered 500")
        watch.send_signal(signal.SIGINT)
        assert watch.wait(patience()) == 0


def test_nothing_is_watched_that_does_not_exist(pipeline: Pipeline, env: dict[str, str]) -> None:
    assert run_command("watch", f"{pipeline.name}x", env=env).returncode == 1
