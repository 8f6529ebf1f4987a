"""Class data archives of broker and worker, with which both start in a good half of the time.

``python -m cdc_outbox.testing.class_data`` makes them, once per user, version of Java and version of the jars; every
stack that is started afterwards starts from them. It takes half a minute, for it starts a broker and a worker.
"""

import os
import tempfile
from dataclasses import replace
from pathlib import Path

from cdc_outbox.testing.stack import Stack, StackConfig

_WRITE_SECONDS = 120.0


def make_archives(*, cache: Path | None = None) -> bool:
    """Make the archives unless they exist, and return whether they were made.

    Args:
        cache: As :class:`~cdc_outbox.testing.StackConfig` takes it.

    Raises:
        StackError: Broker or worker did not start.
    """
    stack = Stack(StackConfig(name=f"class-data-{os.getpid()}", short_lived=True, cache=cache))
    jvm = stack.jvm
    if jvm.archives is None or jvm.archives.exists():
        return False
    jvm.archives.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=jvm.archives.parent, prefix="making-") as folder:
        made = Path(folder) / "made"
        made.mkdir()
        stack.jvm = replace(jvm, archives=made, is_recording=True)
        with stack:
            for part in (*stack.workers, stack.broker):
                part.stop(seconds=_WRITE_SECONDS)
        # All or nothing: a folder with the final name is complete. Another process may have been faster.
        if not jvm.archives.exists():
            made.rename(jvm.archives)
    return True


if __name__ == "__main__":
    make_archives()
