"""One stack for the whole run, and a pipeline of its own for each test that asks."""

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

from cdc_outbox.consumer import watch
from cdc_outbox.jvm import NEWEST_PLUGINS
from cdc_outbox.testing import MariaDb, Stack, StackConfig
from cdc_outbox.testing.configure import ConfigureCheck
from tests.support.desk import Desk, Feed
from tests.support.rig import CONNECTOR_PASSWORD, Pipeline, Shop

# How long an example takes says what else the machine does, and nothing about the code.
settings.register_profile("tests", deadline=None)
settings.load_profile("tests")
# A shell has what it runs in the background ignore Ctrl-C, and so would every command that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def outbox_stack_config() -> StackConfig:
    return StackConfig(
        name=f"tests-{os.getpid()}",
        connectors=tuple(NEWEST_PLUGINS),
        environment={
            "CONNECTOR_PASSWORD": CONNECTOR_PASSWORD,
            "ORDERS_CONNECTOR_PASSWORD": CONNECTOR_PASSWORD,
            "BENCH_PASSWORD": "bench",
        },
    )


@pytest.fixture(scope="session")
def mariadb(outbox_stack: Stack) -> MariaDb:
    """A MariaDB server beside the others, started when the first test asks for it; the stack's end is its end."""
    return outbox_stack.add_mariadb()


@pytest.fixture(scope="session")
def configure_check(outbox_stack: Stack) -> Iterator[ConfigureCheck]:
    """What configures the plugins of a configuration as the stack's worker would."""
    with ConfigureCheck(outbox_stack.jvm) as check:
        yield check


@pytest.fixture
def pipeline(outbox_stack: Stack) -> Iterator[Pipeline]:
    """Tables and publication, without a connector."""
    made = Pipeline.make(outbox_stack)
    yield made
    made.close()


@pytest.fixture
def deployed(pipeline: Pipeline) -> Pipeline:
    """A pipeline whose connector runs."""
    pipeline.deploy(stable_seconds=0)
    return pipeline


@pytest.fixture
def shop(deployed: Pipeline) -> Shop:
    """A consuming service behind a pipeline that runs."""
    return Shop(deployed)


@pytest.fixture
def desk(outbox_stack: Stack, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A consuming service with topics that nobody writes to but the test."""
    monkeypatch.setattr(watch, "_LOOK_SECONDS", 0.1)
    return Desk(Feed.open(outbox_stack))


@pytest.fixture
def two_partitions(outbox_stack: Stack, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """The same with two partitions a topic."""
    monkeypatch.setattr(watch, "_LOOK_SECONDS", 0.1)
    return Desk(Feed.open(outbox_stack, partitions=2))
