"""The pytest plugin: ``outbox_stack`` is a real PostgreSQL, Kafka and Connect for your tests.

It is loaded wherever this package is installed, so it imports no driver, no Kafka and no stack before a test asks for
one.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cdc_outbox.testing import Stack, StackConfig


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
