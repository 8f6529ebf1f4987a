"""While events are handled, the garbage collector runs seldom in the process, and as before afterwards."""

import subprocess
import sys

import pytest

LOOK = """
import gc
from cdc_outbox.kafka.garbage import collecting_seldom

def look():
    print(gc.get_threshold()[0], gc.get_freeze_count() > 0)

{before}
with collecting_seldom():
    with collecting_seldom():
        look()
    look()
look()
"""
SELDOM = "100000 True"


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("gc.set_threshold(700)", [SELDOM, SELDOM, "700 False"]),
        ("gc.freeze()\ngc.set_threshold(200_000)", ["200000 True"] * 3),
    ],
    ids=["by default", "set by the service"],
)
def test_the_garbage_collector_runs_seldom_until_the_last_consumer_ends(before: str, expected: list[str]) -> None:
    # In a process of its own, which nothing else has frozen.
    seen = subprocess.check_output([sys.executable, "-c", LOOK.format(before=before)], text=True)
    assert seen.splitlines() == expected
