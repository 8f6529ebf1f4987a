"""How a run is divided between its workers, the one stack that they share, and a pipeline for each test that asks."""

import gc
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from cdc_outbox.debezium.event_router.jvm import NEWEST_PLUGINS
from cdc_outbox.testing import MariaDb, Stack, StackConfig
from cdc_outbox.testing.configure import ConfigureCheck
from cdc_outbox.testing.sharing import shared
from tests.support.left_out import LeftOut
from tests.support.patience import patience
from tests.support.pipeline import FedPipeline, Pipeline
from tests.support.rig import CONNECTOR_PASSWORD, open_folder
from tests.support.scheduling import Scheduling, order
from tests.support.service import Service

# The duration of an example depends on the load of the machine, not on the code. `infra/fuzz` looks for rare examples,
# so the suite tries few of them.
settings.register_profile("all", deadline=None)
settings.register_profile("tests", deadline=None, max_examples=20)
# A process that a shell starts in the background ignores Ctrl-C, and so do the commands that it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--all",
        action="store_true",
        help="Also run the vendors' suites and slower variants of tests; record passing suites; try more examples.",
    )


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("all" if config.getoption("--all") else "tests")
    config.pluginmanager.register(LeftOut(config))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect tests without collecting garbage, which would go through ten thousand tests that stay again and again.

    Afterwards it is collected seldom: as often as by default, it would take much of the tests' time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000)
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=order)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling:
    config.option.loadscopereorder = False
    return Scheduling(config, log)


ABANDONED = {
    "ask": "a probe of a system that does not answer; its client gives up by itself",
    "leave the consumer group": "brokers that do not answer are left without a word",
}
"""Threads that the product leaves behind on purpose, and why. Those of librdkafka are not Python's."""


@pytest.fixture(autouse=True)
def no_thread_left() -> Iterator[None]:
    """Wait for the threads of a test: one that goes on fails it here, and no other test later."""
    before = set(threading.enumerate())
    yield
    started = [each for each in set(threading.enumerate()) - before if not is_abandoned(each)]
    for thread in started:
        thread.join(patience())
    assert not [thread for thread in started if thread.is_alive()], "threads that the test left behind"


def is_abandoned(thread: threading.Thread) -> bool:
    return thread.name.partition(" (")[2].rstrip(")") in ABANDONED or thread.name in ABANDONED


@pytest.fixture(scope="session")
def outbox_stack_config() -> StackConfig:
    return config_of_stack("tests", "500")


@pytest.fixture(scope="session")
def exclusive_stack(request: pytest.FixtureRequest) -> Iterator[Stack]:
    """A stack beside the shared one, for :data:`~tests.support.scheduling.EXCLUSIVE`.

    Its workers store offsets so seldom that a kill repeats events.
    """
    proves_rules = any(item.nodeid.startswith("tests/vendor/test_proofs.py") for item in request.session.items)
    connectors = tuple(NEWEST_PLUGINS) if proves_rules else ("mariadb",)
    with Stack(config_of_stack("exclusive", "1000", connectors=connectors)) as stack:
        yield stack


@pytest.fixture(scope="session")
def exclusive_mariadb(exclusive_stack: Stack) -> MariaDb:
    return exclusive_stack.add_mariadb()


def config_of_stack(name: str, flush_milliseconds: str, **options: Any) -> StackConfig:
    """Return what a stack is made of; pruning and republishing wait until Connect has stored its offsets."""
    settings: dict[str, Any] = {
        "name": f"{name}-{os.getpid()}",
        "connectors": tuple(NEWEST_PLUGINS),
        "short_lived": True,
        "worker_settings": {
            "offset.flush.interval.ms": flush_milliseconds,
            # The readers of Connect's own topics; the default asks the broker twice a second whether there is more.
            "fetch.max.wait.ms": "5000",
        },
        "environment": {
            "CONNECTOR_PASSWORD": CONNECTOR_PASSWORD,
            "ORDERS_CONNECTOR_PASSWORD": CONNECTOR_PASSWORD,
            "BENCH_PASSWORD": "bench",
        },
    }
    return StackConfig(**(settings | options))


@pytest.fixture(scope="session")
def mariadb(outbox_stack: Stack, outbox_run_folder: Path) -> Iterator[MariaDb]:
    """A MariaDB server beside the others, started when the first test asks for it; the stack's end is its end."""
    with shared(
        outbox_run_folder, "mariadb", lambda: nullcontext(outbox_stack.add_mariadb()), MariaDb.from_json
    ) as server:
        outbox_stack._mariadb = server  # a copy does not know what was added to the stack since
        yield server


@pytest.fixture
def server_folder() -> Iterator[Path]:
    """A folder for servers that run as another user."""
    with open_folder() as folder:
        yield folder


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
def service(deployed: Pipeline) -> Service:
    """A consuming service behind a connector that runs."""
    return Service(deployed)


@pytest.fixture
def fed_service(outbox_stack: Stack) -> Iterator[Service]:
    """A consuming service whose topics hold what the test sends, and nothing else."""
    with closing(FedPipeline.make(outbox_stack)) as made:
        yield Service(made)


@pytest.fixture
def two_partition_service(outbox_stack: Stack) -> Iterator[Service]:
    """The same with two partitions a topic."""
    with closing(FedPipeline.make(outbox_stack, partitions=2)) as made:
        yield Service(made)
