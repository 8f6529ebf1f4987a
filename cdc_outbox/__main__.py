"""The ``cdc-outbox`` command, also as ``python -m cdc_outbox``."""

import os
import signal
import sys
from importlib import import_module


def main() -> None:
    """Run the command; until `consume` and `relay` listen to signals themselves, one ends them at once, with 0."""
    if sys.argv[1:2] in (["consume"], ["relay"]) and {"--check", "--create-slot"}.isdisjoint(sys.argv):
        for number in (signal.SIGTERM, signal.SIGINT):
            # Not by an exception: destructors and a module's bare except clause swallow those.
            signal.signal(number, lambda _number, _frame: os._exit(0))
    import_module("cdc_outbox.cli").main()  # imported this late because that takes a second on a busy machine


if __name__ == "__main__":
    main()
