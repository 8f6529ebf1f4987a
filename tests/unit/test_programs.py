"""Programs that start servers stop them, however they are ended."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import patience

ROOT = Path(__file__).parents[2]
PROGRAM = """
import contextlib, sys, time
with contextlib.ExitStack() as servers:
    servers.callback(print, "stopped", flush=True)
    print("started", __name__, sys.argv[1:], flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_program_that_is_ended_stops_what_it_started(number: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "with_servers.py").write_text(PROGRAM)
    ignored = "trap '' INT; exec \"$@\""  # as it is in the background of a shell
    with subprocess.Popen(
        ["sh", "-c", ignored, "sh", sys.executable, "-m", "tests.support.program", "with_servers", "--records", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "started __main__ ['--records', '1']\n"
        program.send_signal(number)
        assert program.stdout.read() == "stopped\n"
        assert program.wait(patience()) == -signal.SIGINT


@pytest.mark.parametrize("script", ["bench", "faults", "fuzz"])
def test_scripts_that_start_servers_run_programs_in_this_way(script: str) -> None:
    [last] = (ROOT / "infra" / script).read_text().splitlines()[-1:]
    assert last.startswith("exec .venv/bin/python -m tests.support.program ")
