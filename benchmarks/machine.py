"""How idle the machine is while a benchmark does nothing: on a busy one, ratios say little."""

import time
from pathlib import Path

MIN_IDLE = 0.9
"""Below this share of idle time a result is not judged. A benchmark's own servers take some percent in a pause."""
TOO_BUSY = 75
"""The exit code then: EX_TEMPFAIL, try again later."""
PAUSE_SECONDS = 0.05

_STAT = Path("/proc/stat")
_IDLE = slice(3, 5)
"""The columns of idle time, and of idle time that waits for a disk."""


class IdleTime:
    """Pauses of a benchmark, and how much of them the processors were idle."""

    def __init__(self) -> None:
        self._idle = self._total = 0

    def pause(self) -> None:
        """Do nothing for a moment, and look what the processors do."""
        before = _read()
        time.sleep(PAUSE_SECONDS)
        after = _read()
        spent = [late - early for late, early in zip(after, before, strict=True)]
        self._idle += sum(spent[_IDLE])
        self._total += sum(spent)

    @property
    def share(self) -> float | None:
        """From 0 to 1; ``None`` where the system does not tell, or without a pause."""
        return self._idle / self._total if self._total else None

    @property
    def is_enough(self) -> bool:
        """Whether results can be judged; where the system does not tell, they are."""
        return self.share is None or self.share >= MIN_IDLE

    def exit_code(self, *, met: bool) -> int:
        """Return the exit code of a benchmark, by whether its bounds are met."""
        if not self.is_enough:
            return TOO_BUSY
        return 0 if met else 1

    def __str__(self) -> str:
        if self.share is None:
            return "idle share of the machine: unknown"
        verdict = "" if self.is_enough else f"; below {MIN_IDLE:.0%} ratios are not judged (exit code {TOO_BUSY})"
        return f"idle share of the machine: {self.share:.0%}{verdict}"


def _read() -> list[int]:
    """Return the ticks that all processors have spent, by kind of work; none where the system does not tell."""
    if not _STAT.is_file():
        return []
    # The last two columns, time of guests, are in the first two as well.
    return [int(ticks) for ticks in _STAT.read_text(encoding="ascii").splitlines()[0].split()[1:9]]
