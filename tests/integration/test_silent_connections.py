"""A relay whose connections fall silent: each alone, all at once, and by packets that are dropped."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from psycopg.conninfo import make_conninfo

from cdc_outbox.relay import wal_source
from cdc_outbox.testing import Stack
from cdc_outbox.testing.folder import HOST
from tests.support.pages import ROOT
from tests.support.patience import patience
from tests.support.pipeline import Pipeline
from tests.support.relay_process import PREFIX, let_relay_publish, make_relay, prepare_relay, relay_arguments
from tests.support.relay_thread import RelayThread
from tests.support.rig import eventually
from tests.support.silent_line import SilentLine, black_hole

LOOK, STREAM = b"(look)", b"replication\0database"
"""What the first message of a connection says."""


@pytest.fixture
def pipeline(outbox_stack: Stack) -> Iterator[Pipeline]:
    with ExitStack() as made:
        pipeline = Pipeline.make(outbox_stack)
        made.callback(pipeline.close)
        prepare_relay(pipeline, {})
        let_relay_publish(pipeline)
        yield pipeline


@pytest.fixture
def line(outbox_stack: Stack) -> Iterator[SilentLine]:
    with SilentLine(outbox_stack.postgres.port) as line:
        yield line


def through(pipeline: Pipeline, line: SilentLine) -> str:
    """Return the DSN that leads through the line, whose name of the host stands in no certificate."""
    host, port = line.address
    return make_conninfo(pipeline.dsn, host=host, port=port)


def published(pipeline: Pipeline) -> int:
    return len({message.headers for message in pipeline.stack.broker.messages(PREFIX + pipeline.topic)})


@pytest.mark.parametrize("silent", [LOOK, STREAM], ids=["look", "stream"])
def test_a_connection_that_falls_silent_is_replaced(
    pipeline: Pipeline, line: SilentLine, silent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wal_source, "ANSWER_SECONDS", 2.0)
    relay = make_relay(
        pipeline.spec, through(pipeline, line), pipeline.stack.broker.bootstrap_servers, silence_seconds=2
    )
    with RelayThread(relay) as running:
        pipeline.write(1)
        eventually(lambda: published(pipeline) == 1, "the first event")
        before = line.opened(silent)
        line.silence(silent)
        pipeline.write(1)
        # The server keeps the slot until it has missed the relay for as long as its session says.
        eventually(lambda: line.opened(silent) > before and published(pipeline) == 2, "the second event")
        assert running.error is None


@contextmanager
def relaying(pipeline: Pipeline, line: SilentLine) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a relay in a process, whose first event has arrived."""
    command = [sys.executable, "-m", "tests.support.relay_process", relay_arguments(pipeline, through(pipeline, line))]
    with subprocess.Popen(command, cwd=ROOT) as process:
        try:
            pipeline.write(1)
            eventually(lambda: published(pipeline) == 1, "the first event")
            yield process
        finally:
            process.kill()


def test_sigterm_ends_a_relay_when_nothing_answers(pipeline: Pipeline, line: SilentLine) -> None:
    with relaying(pipeline, line) as process:
        line.silence()
        pipeline.write(1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(patience()) == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make a network")
def test_a_relay_whose_packets_are_dropped_ends_at_sigterm_and_another_one_goes_on(pipeline: Pipeline) -> None:
    with black_hole() as network, SilentLine(pipeline.stack.postgres.port, network.listen()) as line:
        assert line.address[0] != HOST
        with relaying(pipeline, line) as process:
            network.drop()
            pipeline.write(1)
            process.send_signal(signal.SIGTERM)
            assert process.wait(patience()) == 0
        relay = make_relay(pipeline.spec, pipeline.dsn, pipeline.stack.broker.bootstrap_servers)
        with RelayThread(relay):
            eventually(lambda: published(pipeline) == 2, "the second event")
