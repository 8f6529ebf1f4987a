"""The command as a process that waits no longer than tests do: ``python -m tests.support.quick_program``."""

from cdc_outbox.cli import main
from tests.support.timings import QUICK_TIMINGS

if __name__ == "__main__":
    main(timings=QUICK_TIMINGS)
