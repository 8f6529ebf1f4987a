"""Run a module as a program that SIGTERM ends as Ctrl-C does, so that it stops the servers that it started.

python -m tests.support.program fuzz.records --records 1000
"""

import runpy
import signal
import sys

if __name__ == "__main__":
    # A process that a shell starts in the background ignores Ctrl-C, too.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
