"""A relay beside an event loop, and the function that makes one from a spec."""

import asyncio
from dataclasses import replace
from unittest.mock import Mock

import pytest

from cdc_outbox.contract.outbox_options import OutboxMode
from cdc_outbox.relay import AsyncRelay, CallableSink, ConfigError, MessageRefusedError, RelayError, RelayRefusedError
from cdc_outbox.relay import make_relay as make_public_relay
from cdc_outbox.relay.relay import Relay
from cdc_outbox.relay.wal_source import WalSource
from cdc_outbox.spec import Spec, load_spec
from tests.support.patience import patience
from tests.support.relay_parts import MemoryServer, MemoryTopic, NamedRoutes
from tests.support.specs import ORDERS


def relay_of(server: MemoryServer, topic: MemoryTopic) -> AsyncRelay:
    return AsyncRelay(Relay(WalSource(server, NamedRoutes(), slot="slot", publication="pub"), topic.open))


@pytest.fixture
def server() -> MemoryServer:
    made = MemoryServer()
    made.write(b"1", b"2", b"3")
    return made


async def confirmed(server: MemoryServer) -> None:
    async with asyncio.timeout(patience()):
        while server.confirmed < 100:
            await asyncio.sleep(0.01)


def test_the_loop_goes_on_beside_the_relay_which_delivers_before_the_block_ends(server: MemoryServer) -> None:
    topic = MemoryTopic()

    async def run() -> None:
        async with relay_of(server, topic) as relay:
            await confirmed(server)
            assert relay.progress().events == 3

    asyncio.run(run())
    assert topic.values == [b"1", b"2", b"3"]
    assert not server.is_read


def test_a_cancelled_run_stops_the_relay_and_stays_cancelled(server: MemoryServer) -> None:
    async def run() -> None:
        running = asyncio.create_task(relay_of(server, MemoryTopic()).run())
        await confirmed(server)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(run())
    assert not server.is_read


def test_a_relay_that_fails_ends_the_block_with_its_error(server: MemoryServer) -> None:
    topic = MemoryTopic()
    topic.refused = b"2"

    async def run() -> None:
        async with relay_of(server, topic):
            await asyncio.sleep(patience())

    with pytest.raises(MessageRefusedError):
        asyncio.run(run())


def test_an_error_of_the_block_is_raised_as_it_is(server: MemoryServer) -> None:
    async def run() -> None:
        async with relay_of(server, MemoryTopic()):
            raise LookupError

    with pytest.raises(LookupError):
        asyncio.run(run())
    assert not server.is_read


@pytest.fixture
def spec() -> Spec:
    return load_spec(ORDERS)


def test_a_spec_that_the_relay_refuses_makes_none(spec: Spec) -> None:
    message = replace(spec, outbox=replace(spec.outbox, mode=OutboxMode.MESSAGE))
    with pytest.raises(RelayRefusedError, match="the relay cannot publish orders") as refused:
        make_public_relay(message, dsn="", kafka="localhost:9092")
    assert [finding.option for finding in refused.value.findings] == ["transforms.decode.type"]


@pytest.mark.parametrize("kafka", [None, "localhost:9092"])
def test_a_relay_has_one_sink(spec: Spec, kafka: str | None) -> None:
    open_sink = None if kafka is None else lambda: CallableSink(print)
    with pytest.raises(ConfigError, match="give either kafka or open_sink"):
        make_public_relay(spec, dsn="", kafka=kafka, open_sink=open_sink)


@pytest.mark.parametrize("seconds", [0.9, 300.1])
def test_a_bound_of_silence_that_a_client_cannot_keep_is_refused(spec: Spec, seconds: float) -> None:
    with pytest.raises(ConfigError, match="silence_seconds must be from 1 to 300"):
        make_public_relay(spec, dsn="", kafka="localhost:9092", silence_seconds=seconds)


@pytest.mark.parametrize(("given", "milliseconds"), [({}, 12_500), ({"socket.timeout.ms": 5_000}, 5_000)])
def test_the_bound_of_silence_is_that_of_the_brokers_too(
    spec: Spec, monkeypatch: pytest.MonkeyPatch, given: dict[str, int], milliseconds: int
) -> None:
    made = Mock()
    monkeypatch.setattr("cdc_outbox.relay.kafka_sink.KafkaSink", made)
    kafka = {"bootstrap.servers": "localhost:9092", **given}
    relay = make_public_relay(spec, dsn="", kafka=kafka, silence_seconds=12.5)
    relay._open_sink()
    [settings], _ = made.call_args
    assert settings["socket.timeout.ms"] == milliseconds


def test_psycopg_without_its_c_library_is_refused(spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("psycopg.pq.__impl__", "python")
    with pytest.raises(RelayError, match="without its C library") as refused:
        make_public_relay(spec, dsn="", kafka="localhost:9092")
    assert "psycopg[binary]" in (refused.value.hint or "")
