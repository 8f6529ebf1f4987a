"""One contestant, in a process of its own: until standard input ends; then it prints what it took."""

import json
import re
import sys
import threading
import time
from pathlib import Path

from benchmarks.consumers import CONTESTANTS
from benchmarks.consumers.work import Work


def main(name: str, work: str) -> None:
    """Run a contestant."""
    contestant = CONTESTANTS[name](Work(**json.loads(work)))
    cpu_seconds: list[float] = [time.process_time()]

    def wait() -> None:
        sys.stdin.read()
        cpu_seconds.append(time.process_time())
        contestant.stop()

    threading.Thread(target=wait, daemon=True).start()
    contestant.run()
    begun, ended = cpu_seconds
    print(json.dumps({"cpu_seconds": ended - begun, "peak_bytes": _peak_bytes()}))


def _peak_bytes() -> int:
    """Return the most memory that the process had resident; what `getrusage` says is the parent's, if that is more."""
    found = re.search(r"^VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


if __name__ == "__main__":
    main(*sys.argv[1:])
