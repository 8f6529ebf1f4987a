"""What a clean environment's Python runs: many invocations of the command in one process, for an import takes seconds.

It reads a JSON list of argument lists from stdin and writes a JSON list of exit codes and of what was printed. It
imports the package alone, so that it finds what the package finds. What goes to stdout is in it too: `doctor` prints
what it cannot ask as a finding.
"""

import contextlib
import io
import json
import os
import sys

from cdc_outbox.cli import main


def run(arguments: list[str]) -> tuple[int, str]:
    """Run the command; return its exit code and what it printed."""
    said = io.StringIO()
    sys.argv = ["cdc-outbox", *arguments]
    before = dict(os.environ)
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            main()
    except SystemExit as end:
        return int(end.code or 0), said.getvalue()
    finally:
        os.environ.clear()
        os.environ.update(before)
    raise AssertionError("the command ends with an exit code")


if __name__ == "__main__":
    answers = [run(arguments) for arguments in json.load(sys.stdin)]
    json.dump(answers, sys.stdout)
