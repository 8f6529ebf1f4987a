"""A Connect worker that is killed in the middle of a deployment."""

from pathlib import Path

import pytest

from tests.support.pipeline import Pipeline
from tests.support.release import Release

RUNS = "wait       connector RUNNING, 1 task RUNNING"


@pytest.fixture
def release(pipeline: Pipeline, tmp_path: Path) -> Release:
    return Release.begin(pipeline, tmp_path)


def test_the_worker_is_killed_in_mid_deploy_and_comes_back(release: Release) -> None:
    [worker, *_] = release.pipeline.stack.workers

    def restart() -> None:
        worker.kill()
        worker.start()

    done = release.deploy("--stable-for=2s", when={RUNS: restart})
    assert (done.code, "wait       not known to Connect yet" in done.told) == (0, True), done.told
    release.runs_as_changed()


def test_the_worker_is_killed_in_mid_deploy_and_comes_back_too_late(release: Release) -> None:
    [worker, *_] = release.pipeline.stack.workers
    coming = {RUNS: worker.kill, "connect    waiting: no Kafka Connect worker answers": worker.start}
    done = release.deploy("--stable-for=2s", "--timeout=2s", "--connect-patience=5m", when=coming)
    done.failed(75, f"error: no Kafka Connect worker answers at {worker.url}", "hint: Check that the Connect worker")
    assert "undo       the previous configuration was restored" in done.told
    release.runs_as_before()
