"""What ``docs/`` shows of tests is executed, as it stands there."""

import re
from pathlib import Path
from typing import Any

from cdc_outbox import Event, Outbox

WRITING = (Path(__file__).parents[2] / "docs" / "writing.md").read_text()


class OrderRefusedError(Exception):
    """A service's own error."""


def place_order(connection: Any, outbox: Outbox, *, customer: int) -> None:
    """Write the event first, so that the refusal has something to take back."""
    outbox.add(connection, Event(aggregate_type="customer", aggregate_id=str(customer), type="OrderPlaced", payload={}))
    if customer == 13:
        raise OrderRefusedError


def test_the_unit_tests_that_are_shown_pass() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", WRITING, re.MULTILINE | re.DOTALL)
    [block] = [block for block in blocks if "MemoryOutbox" in block]
    names: dict[str, Any] = {
        "OrderRefusedError": OrderRefusedError,
        "place_order": place_order,
    }
    exec(block, names)  # noqa: S102 - the documentation's own
    tests = [value for name, value in names.items() if name.startswith("test_")]
    assert len(tests) == 2
    for test in tests:
        test()
