"""A relay is killed, paused, cut off or without its servers at each point: nothing is lost, invented or swapped."""

from collections.abc import Mapping
from typing import TypeGuard

import pytest

from cdc_outbox.testing import Stack
from tests.faults.relay import run_cells
from tests.faults.relay_cell import RelayCell, RelayFault
from tests.faults.relay_points import RelayPoint
from tests.faults.report import Result

CELLS = [
    RelayCell(point=RelayPoint.RECEIVED, fault=RelayFault.KILL),
    RelayCell(point=RelayPoint.IN_TRANSACTION, fault=RelayFault.KILL),
    RelayCell(point=RelayPoint.PRODUCED, fault=RelayFault.KILL),
    RelayCell(point=RelayPoint.WRITTEN_DOWN, fault=RelayFault.KILL),
    RelayCell(point=RelayPoint.CONFIRMED, fault=RelayFault.KILL),
    # With odd seeds the connections of the paused process are gone, and its successor need not wait 15 s.
    RelayCell(point=RelayPoint.AFTER_CLAIM, fault=RelayFault.PAUSE, seed=1),
    RelayCell(point=RelayPoint.PRODUCED, fault=RelayFault.PAUSE, seed=1),
    RelayCell(point=RelayPoint.WRITTEN_DOWN, fault=RelayFault.PAUSE),
    RelayCell(point=RelayPoint.DRAINING, fault=RelayFault.PAUSE, seed=1),
    RelayCell(point=RelayPoint.BEFORE_SLOT, fault=RelayFault.CUT, seed=2),
    RelayCell(point=RelayPoint.IN_TRANSACTION, fault=RelayFault.CUT),
    RelayCell(point=RelayPoint.REPORTED, fault=RelayFault.CUT, seed=2),
    RelayCell(point=RelayPoint.AFTER_CLAIM, fault=RelayFault.REFUSED),
    RelayCell(point=RelayPoint.REPORTED, fault=RelayFault.SERVER_KILLED),
    # This relay is killed while the broker is down; the next one lives.
    RelayCell(point=RelayPoint.REPORTED, fault=RelayFault.BROKER_DOWN),
    RelayCell(point=RelayPoint.IDLE, fault=RelayFault.BROKER_DOWN),
]
"""`infra/faults relay` has all of them."""


@pytest.fixture(scope="module")
def results(outbox_stack: Stack, request: pytest.FixtureRequest) -> Mapping[RelayCell, Result]:
    """Whatever was asked for, several at once."""
    asked = {item.callspec.params["cell"] for item in request.session.items if is_cell(item)}
    return dict(run_cells(outbox_stack, [cell for cell in CELLS if cell in asked]))


def is_cell(item: pytest.Item) -> TypeGuard[pytest.Function]:
    return isinstance(item, pytest.Function) and item.function is test_each_event_arrives_in_order_after_a_fault


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: f"{cell.point}-{cell.fault}")
def test_each_event_arrives_in_order_after_a_fault(results: Mapping[RelayCell, Result], cell: RelayCell) -> None:
    violations = results[cell].violations
    assert not violations, "\n".join(violations)
