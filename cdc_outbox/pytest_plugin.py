"""The pytest plugin: a real stack for your tests, what your code writes, and whether your handlers are safe.

It is loaded wherever this package is installed, so it imports no driver, no Kafka and no stack before a test asks for
one.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cdc_outbox.testing import HandlerFaults, OutboxEvents, Stack, StackConfig


@pytest.fixture(scope="session")
def outbox_stack_config() -> "StackConfig":
    """What the stack is made of; override it in your ``conftest.py`` for another size or environment."""
    from cdc_outbox.testing import StackConfig  # noqa: PLC0415

    return StackConfig(name=f"pytest-{os.getpid()}", short_lived=True)


@pytest.fixture(scope="session")
def outbox_run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of this test run; with pytest-xdist, the same for all its workers."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


@pytest.fixture(scope="session")
def outbox_stack(outbox_stack_config: "StackConfig", outbox_run_folder: Path) -> "Iterator[Stack]":
    """A running stack, one for the whole test run; with pytest-xdist, its workers share it.

    A test that kills or pauses a part of it disturbs the tests of the other workers: give such tests a stack of their
    own by a fixture of this name in their folder's ``conftest.py``.
    """
    from cdc_outbox.testing import Stack  # noqa: PLC0415
    from cdc_outbox.testing.sharing import shared  # noqa: PLC0415

    with shared(outbox_run_folder, "outbox-stack", lambda: Stack(outbox_stack_config), Stack.from_json) as stack:
        yield stack
        stack.leave()


@pytest.fixture
def outbox_events() -> "Iterator[OutboxEvents]":
    """The events that the code under test writes, through whichever outbox and driver; empty at the start."""
    from cdc_outbox.testing.events import recorded_events  # noqa: PLC0415

    with recorded_events() as events:
        yield events


@pytest.fixture
def handler_faults() -> "HandlerFaults":
    """Whether a consumer's handlers are safe under duplicates, reorder, crashes and rebalances."""
    from cdc_outbox.testing.faults import HandlerFaults  # noqa: PLC0415

    return HandlerFaults()
