import pytest

from cdc_outbox.connect.client import ConnectorStatus, TaskStatus
from cdc_outbox.connect.wait import Condition, condition_of, describe


def status(state: str, *tasks: str) -> ConnectorStatus:
    return ConnectorStatus(state, tuple(TaskStatus(number, task) for number, task in enumerate(tasks)))


@pytest.mark.parametrize(
    ("found", "condition"),
    [
        (None, Condition.PENDING),
        (status("RUNNING"), Condition.PENDING),
        (status("RUNNING", "RUNNING"), Condition.UP),
        (status("RUNNING", "RUNNING", "UNASSIGNED"), Condition.PENDING),
        (status("RUNNING", "RESTARTING"), Condition.PENDING),
        (status("RUNNING", "RUNNING", "FAILED"), Condition.FAILED),
        (status("FAILED"), Condition.FAILED),
        (status("UNASSIGNED", "RUNNING"), Condition.PENDING),
        (status("PAUSED", "PAUSED"), Condition.PENDING),
        (status("STOPPED"), Condition.PENDING),
    ],
)
def test_a_connector_is_up_when_it_and_every_task_runs(found: ConnectorStatus | None, condition: Condition) -> None:
    assert condition_of(found) is condition


def test_a_status_is_one_line() -> None:
    assert describe(status("RUNNING", "RUNNING", "FAILED", "RUNNING")) == (
        "connector RUNNING, 1 task FAILED, 2 tasks RUNNING"
    )
    assert describe(status("STOPPED")) == "connector STOPPED, no task yet"
    assert describe(None) == "not known to Connect yet"
