"""A stack's life, with parts that only sleep."""

import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from cdc_outbox.errors import ConfigError, StackError
from cdc_outbox.jvm import SHORT_LIVED, Jvm
from cdc_outbox.testing import Broker, Postgres, Stack, StackConfig, Worker
from cdc_outbox.testing.process import ServerCommand
from cdc_outbox.testing.settings import settings_file
from cdc_outbox.testing.worker import make_worker


class Parts:
    """Makes parts that sleep, or a worker that ends at its start."""

    fails = False

    def command(self, folder: Path, *, fails: bool = False) -> ServerCommand:
        folder.mkdir()
        arguments = [shutil.which("false")] if fails else [shutil.which("sleep"), "60"]
        return ServerCommand(arguments=[str(argument) for argument in arguments], environment={})

    def postgres(self, folder: Path, port: int, **options: Any) -> Postgres:
        return Postgres(folder, self.command(folder), port=port, password="secret")

    def broker(self, folder: Path, port: int, *arguments: Any) -> Broker:
        return Broker(folder, self.command(folder), port=port)

    def worker(self, folder: Path, port: int, *arguments: Any, **options: Any) -> Worker:
        return Worker(folder, self.command(folder, fails=self.fails), port=port)


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> Parts:
    parts = Parts()
    for kind in ("postgres", "broker", "worker"):
        monkeypatch.setattr(f"cdc_outbox.testing.stack.make_{kind}", getattr(parts, kind))
    for part in (Postgres, Broker, Worker):
        monkeypatch.setattr(part, "answers", Mock(return_value=True))
    monkeypatch.setattr(Stack, "jvm", None)
    return parts


@pytest.fixture
def stack(parts: Parts, tmp_path: Path) -> Iterator[Stack]:
    del parts
    with Stack(StackConfig(name="sleeping", root=tmp_path)) as stack:
        yield stack


def states(stack: Stack) -> dict[str, str]:
    return {part.name: part.state() for part in stack.parts}


def test_a_connector_that_there_is_none_of_is_refused() -> None:
    with pytest.raises(ConfigError, match="no connector 'postgresql' to add") as caught:
        StackConfig(connectors=["mariadb", "postgresql"])
    assert (caught.value.field, "mongodb" in caught.value.hint) == ("connectors", True)


def test_a_stack_that_comes_up_again_has_new_parts_and_no_others(stack: Stack) -> None:
    first = stack.workers[0]
    stack.down()
    assert stack.parts == []
    with pytest.raises(StackError, match="the stack is not up"):
        _ = stack.connect_url
    stack.up()
    assert states(stack) == {"postgres": "running", "kafka": "running", "connect-1": "running"}
    assert stack.workers[0] is not first
    assert stack.connect_url == stack.workers[0].url


def test_a_worker_that_does_not_start_is_shown_and_does_not_stand_in_the_way(stack: Stack, parts: Parts) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "fails", True)
        patch.setattr(Worker, "answers", Mock(return_value=False))
        with pytest.raises(StackError, match="connect-2 ended with 1 at its start"):
            stack.add_worker()
    assert states(stack)["connect-2"] == "not running"
    assert stack.add_worker().name == "connect-3"
    assert states(stack)["connect-3"] == "running"


def test_a_workers_settings_are_the_local_stacks_and_those_that_differ(tmp_path: Path) -> None:
    (tmp_path / "home" / "plugins").mkdir(parents=True)
    jvm = Jvm("java", tmp_path / "home", options=SHORT_LIVED)
    make_worker(tmp_path / "worker", 1, {}, jvm, settings={"offset.flush.interval.ms": "500"})
    own = settings_file("connect.properties").read_text()
    assert (tmp_path / "worker" / "connect.properties").read_text() == f"{own}offset.flush.interval.ms=500\n"
    assert set(SHORT_LIVED) < set(jvm.command("Main", heap="1m"))


@pytest.mark.usefixtures("parts")
def test_who_leaves_a_copy_stops_what_was_added_to_it_and_nothing_else(tmp_path: Path) -> None:
    with Stack(StackConfig(name="copied", root=tmp_path)) as stack:
        copy = pickle.loads(pickle.dumps(stack))  # noqa: S301 - our own
        added = copy.add_worker()
        stack.leave()
        copy.leave()
        assert [part.is_running for part in (*stack.parts, added)] == [True] * len(stack.parts) + [False]
