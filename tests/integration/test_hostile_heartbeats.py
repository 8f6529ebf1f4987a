"""Records that other clients wrote into the topic of heartbeats, before a relay and the commands that read it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdc_outbox.relay import make_relay
from cdc_outbox.testing import Stack
from tests.support.commands import run_command
from tests.support.pipeline import Pipeline
from tests.support.raw_producer import RawProducer
from tests.support.relay_thread import RelayThread
from tests.support.rig import eventually

ID = b"00000000-0000-4000-8000-000000000001"
RECORD: dict[str, object] = {"number": 10**9, "previous": None, "at": "2026-11-28T07:00:00+00:00", "system": "7"}
HOSTILE: list[tuple[bytes, dict[str, object]]] = [
    (ID, {"accepted": [], "at": "2026-11-28T07:00:00"}),
    (ID, RECORD | {"at": "2026-11-28T07:00:00"}),
    (ID, RECORD | {"number": 10**30}),
    (b"a\0b", RECORD),
]


@pytest.fixture
def relayed(outbox_stack: Stack) -> Iterator[Pipeline]:
    """A pipeline that a relay publishes from now on."""
    pipeline = Pipeline.make(outbox_stack)
    yield pipeline
    pipeline.close()


def test_no_record_in_the_topic_of_heartbeats_ends_a_relay_or_a_command(relayed: Pipeline, tmp_path: Path) -> None:
    spec = tmp_path / f"{relayed.name}.yaml"
    spec.write_text(Pipeline.text(relayed.name))
    servers, topic = relayed.stack.broker.bootstrap_servers, relayed.spec.heartbeat_topic or ""
    environment = relayed.stack.environment() | {"CDC_OUTBOX_DSN": relayed.dsn}
    assert run_command("relay", spec, "--create-slot", env=environment).returncode == 0

    def publish(count: int) -> None:
        with RelayThread(make_relay(relayed.spec, dsn=relayed.dsn, kafka=servers)) as running:
            eventually(
                lambda: running.error or len(relayed.stack.broker.messages(topic)) == count, "the relay's heartbeat"
            )
            assert running.error is None

    publish(1)
    with RawProducer(servers) as producer:
        for event_id, content in HOSTILE:
            value = json.dumps(content).encode()
            producer.produce(topic, 0, key=relayed.name.encode(), value=value, headers=[(b"id", event_id)])
        producer.flush()
    publish(2 + len(HOSTILE))
    found = run_command("recover", spec, env=environment)
    assert found.returncode == 0, found.stderr
    assert "nothing found: the heartbeats have no gap" in found.stderr
