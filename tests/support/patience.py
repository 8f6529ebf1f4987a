"""How long a test waits before it fails: the one bound of everything that takes as long as the machine needs."""

import os
from contextlib import suppress
from pathlib import Path

SECONDS = 60.0
"""What anything takes at most on a machine that has nothing else to do."""


def patience(seconds: float = SECONDS) -> float:
    """Return how many seconds to wait now for what takes at most ``seconds`` on an idle machine; never less.

    Pass more than the default only where a configuration says that something lasts: what it says, plus ``SECONDS``.
    """
    # A process among n others on one CPU takes n + 1 times as long. /proc/pressure/cpu cannot tell 2 others from 20:
    # it counts how often anything waited, not how much.
    return seconds * (1 + _load() / (os.cpu_count() or 1))


def _load() -> float:
    """Return how many processes want a CPU or a disk: the mean of a minute, or those of this moment if more."""
    mean, now = os.getloadavg()[0], 0
    with suppress(OSError):  # other systems than Linux
        now = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0]) - 1  # without this process
    return max(mean, now)
