"""Random histories, each followed by the documented recovery: a committed event has its effect once, or is named."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cdc_outbox.testing import Postgres, Stack
from tests.faults.recovery import open_server, run_history
from tests.support.rig import open_folder


@pytest.fixture(scope="module")
def ground(outbox_stack: Stack) -> Iterator[tuple[Postgres, Path]]:
    with open_folder() as folder, open_server(outbox_stack, folder) as server:
        yield server, folder


@pytest.mark.parametrize("seed", [0, 3, 11])  # short ones; 3 loses events
def test_each_event_has_its_effect_once_or_is_named(
    outbox_stack: Stack, ground: tuple[Postgres, Path], seed: int
) -> None:
    told = run_history(outbox_stack, *ground, seed)
    assert told.violations == [], "\n".join(told.log)
