"""How long commands wait is a value that is passed to them."""

import threading
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

import pytest

from cdc_outbox.connect.timings import Timings
from cdc_outbox.errors import ConfigError
from tests.support.commands import run_command
from tests.support.connect_server import NOBODY, Answer, Asked, answering
from tests.support.patience import patience
from tests.support.specs import MINIMAL
from tests.support.timings import QUICK_TIMINGS


@pytest.fixture
def silent_worker() -> Iterator[str]:
    """The URL of a worker that takes requests and answers none."""
    over = threading.Event()
    with answering(lambda _asked: over.wait(patience()) and (200, [])) as (url, _):
        yield url
        over.set()


@pytest.mark.parametrize("name", [field.name for field in fields(Timings)])
def test_every_time_is_greater_than_zero(name: str) -> None:
    for seconds in (0.0, -1.0, float("nan")):
        with pytest.raises(ConfigError, match=f"{name} must be greater than 0") as caught:
            replace(QUICK_TIMINGS, **{name: seconds})
        assert caught.value.field == f"Timings.{name}"


@pytest.mark.parametrize("is_context", [False, True])
def test_a_command_waits_for_connect_as_long_as_its_caller_says(
    silent_worker: str, tmp_path: Path, *, is_context: bool
) -> None:
    contexts = tmp_path / "cdc-outbox.yaml"
    contexts.write_text(f"version: 1\ncontexts:\n  staging: {{connect: {{url: '{silent_worker}'}}}}\n")
    timings = replace(QUICK_TIMINGS, answer_seconds=0.2)
    where = ["--context=staging"] if is_context else [f"--connect-url={silent_worker}"]
    done = run_command(
        "status",
        *where,
        "--connect-patience=0s",
        env={"CDC_OUTBOX_CONTEXTS": str(contexts)},
        timings=timings,
    )
    assert (done.returncode, f"within {timings.answer_seconds:g} s" in done.stderr) == (75, True), done.stderr


@pytest.mark.parametrize("command", ["doctor", "plan"])
def test_a_command_waits_for_a_new_connectors_status_as_long_as_its_caller_says(tmp_path: Path, command: str) -> None:
    (tmp_path / "spec.yaml").write_text(MINIMAL)

    def answer(asked: Asked) -> Answer:
        if asked.path.endswith("/status"):
            return NOBODY
        return 200, {"configs": []} if asked.path.endswith("/validate") else {"connector.class": "some.Connector"}

    with answering(answer) as (url, _):
        where = (tmp_path / "spec.yaml", f"--connect-url={url}", "--connect-patience=0s")
        done = run_command(command, *where, timings=replace(QUICK_TIMINGS, known_seconds=0.2))
    assert "timed out after 0.2 s waiting for Connect to know" in done.stdout + done.stderr, done
