"""The ``cdc-outbox`` command, also as ``python -m cdc_outbox``."""

import os
import signal
import sys

# With these the relay does something and ends.
_ENDING = {"--check", "--create-slot", "CDC_OUTBOX_CHECK", "CDC_OUTBOX_CREATE_SLOT"}


def main() -> None:
    """Run the command; until `consume` and `relay` listen to signals themselves, one ends them at once, with 0."""
    if sys.argv[1:2] in (["consume"], ["relay"]) and _ENDING.isdisjoint([*sys.argv, *os.environ]):
        for number in (signal.SIGTERM, signal.SIGINT):
            # Not by an exception: destructors and a module's bare except clause swallow those.
            signal.signal(number, lambda _number, _frame: os._exit(0))
    from cdc_outbox.cli import main as run  # noqa: PLC0415 - these imports take a second on a busy machine

    run()


if __name__ == "__main__":
    main()
