"""Commands that handle events until a signal let the garbage collector run seldom."""

import subprocess
import sys

LOOK = """
import gc
from cdc_outbox.cli.running import collect_seldom
collect_seldom()
print(gc.get_threshold()[0], gc.get_freeze_count() > 0)
"""


def test_the_garbage_collector_runs_seldom_and_passes_over_what_was_imported() -> None:
    # In a process of its own: nothing undoes it.
    assert subprocess.check_output([sys.executable, "-c", LOOK], text=True).split() == ["100000", "True"]
