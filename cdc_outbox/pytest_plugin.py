"""The pytest plugin: a real stack for your tests, what your code writes, and whether your handlers are safe.

It is loaded wherever this package is installed, so it imports no driver, no Kafka and no stack before a test asks for
one.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cdc_outbox.testing import HandlerFaults, OutboxEvents, Stack, StackConfig


@pytest.fixture(scope="session")
def outbox_stack_config() -> "StackConfig":
    """What the stack is made of; override it in your ``conftest.py`` for another size or environment."""
    import os  # noqa: PLC0415

    from cdc_outbox.testing import StackConfig  # noqa: PLC0415

    return StackConfig(name=f"pytest-{os.getpid()}")


@pytest.fixture(scope="session")
def outbox_stack(outbox_stack_config: "StackConfig") -> "Iterator[Stack]":
    """A running stack, one for the whole test session."""
    from cdc_outbox.testing import Stack  # noqa: PLC0415

    with Stack(outbox_stack_config) as stack:
        yield stack


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
