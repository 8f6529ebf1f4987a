"""A relay whose database server or broker is paused: what its health says, and how it ends meanwhile."""

import time
from contextlib import ExitStack

import pytest

from cdc_outbox.monitoring.health import HealthStatus, health_of
from cdc_outbox.testing import Stack
from tests.support.pipeline import Pipeline
from tests.support.relay_process import PREFIX, let_relay_publish, make_relay, prepare_relay
from tests.support.relay_thread import RelayThread
from tests.support.rig import eventually


@pytest.mark.parametrize(("part", "silent"), [("postgres", {"stream", "database"}), ("broker", {"sink"})])
def test_a_relay_says_what_is_silent_and_ends_while_it_is(outbox_stack: Stack, part: str, silent: set[str]) -> None:
    broker, server = outbox_stack.broker, getattr(outbox_stack, part)
    with ExitStack() as made:
        pipeline = Pipeline.make(outbox_stack)
        made.callback(pipeline.close)
        prepare_relay(pipeline, {})
        let_relay_publish(pipeline)

        def published() -> int:
            return len({message.headers for message in broker.messages(PREFIX + pipeline.topic)})

        with RelayThread(make_relay(pipeline.spec, pipeline.dsn, broker.bootstrap_servers)) as running:
            pipeline.write(1)
            eventually(lambda: published() == 1, "the first event")
            server.pause()
            try:
                if part == "broker":
                    pipeline.write(1)
                eventually(lambda: running.relay.progress().silent in silent, "the silence to be told")
                progress, now = running.relay.progress(), time.monotonic()
                assert progress.silent_since is not None
                assert progress.silent_since < now
                assert health_of(progress, now=now).status is HealthStatus.DEGRADED
                running.relay.stop()
                running.ended.result()
            finally:
                server.resume()
            assert running.error is None
        with RelayThread(make_relay(pipeline.spec, pipeline.dsn, broker.bootstrap_servers)):
            pipeline.write(1)
            eventually(lambda: published() == 2 + (part == "broker"), "the last event")
