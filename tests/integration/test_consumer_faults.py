"""A consumer is killed at every point of its life, and paused until another one goes on: each effect once, in order."""

from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from typing import TypeGuard

import pytest

from cdc_outbox.testing import Stack
from tests.faults.cell import Cell, Fault
from tests.faults.consumer import AT_ONCE
from tests.faults.ledger import Ground
from tests.faults.points import Point
from tests.faults.report import Result
from tests.support.threads import Threads

CELLS = [
    *(Cell(point=point, fault=Fault.KILL) for point in Point),
    # `infra/faults consumer` has all of them.
    Cell(point=Point.AFTER_POLL, fault=Fault.NAP),
    Cell(point=Point.BEFORE_COMMIT, fault=Fault.NAP),
    Cell(point=Point.IN_HANDLER, fault=Fault.PAUSE),
    Cell(point=Point.COMMIT_DONE, fault=Fault.PAUSE, seed=1),
    Cell(point=Point.PARKING, fault=Fault.PAUSE),
    Cell(point=Point.COMMIT_NOT_DONE, fault=Fault.DATABASE_RESET),
    Cell(point=Point.COMMIT_DONE, fault=Fault.DATABASE_RESET),
]


@pytest.fixture(scope="module")
def runs(outbox_stack: Stack, request: pytest.FixtureRequest) -> Iterator[Mapping[Cell, Future[Result]]]:
    """Whatever was asked for, several at once."""
    asked = {item.callspec.params["cell"] for item in request.session.items if is_cell(item)}
    ground = Ground.make(outbox_stack, "consumer_faults")
    with Threads(AT_ONCE, seconds=1800) as pool:
        yield {cell: pool.submit(cell.run, ground) for cell in CELLS if cell in asked}


def is_cell(item: pytest.Item) -> TypeGuard[pytest.Function]:
    return isinstance(item, pytest.Function) and item.function is test_effects_come_once_and_in_order


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: f"{cell.point}-{cell.fault}")
def test_effects_come_once_and_in_order(runs: Mapping[Cell, Future[Result]], cell: Cell) -> None:
    violations = runs[cell].result().violations
    assert not violations, "\n".join(violations)
