"""The command line as tests call it: in this process, or as the installed program."""

import io
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any
from unittest.mock import patch

import pytest

from cdc_outbox.cli import main
from cdc_outbox.connect.timings import Timings
from cdc_outbox.testing import Stack
from tests.support.patience import patience
from tests.support.timings import QUICK_TIMINGS

PROGRAM = f"{sys.prefix}/bin/cdc-outbox"
"""The installed command."""

_PATIENT = {"CDC_OUTBOX_TIMEOUT": "300s"}
"""A deployment's new slot waits for every transaction of the server, also those of tests that run beside it."""
_EMPTY = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "TMPDIR": tempfile.gettempdir()} | _PATIENT
"""An environment that says nothing about a pipeline."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_command(
    *arguments: str | Path,
    env: Mapping[str, str] | None = None,
    text: str | bytes = "",
    timings: Timings = QUICK_TIMINGS,
) -> CompletedProcess[str]:
    """Run a command in this process, with nothing in its environment but what is given.

    A process of its own costs half a second of CPU. What is interrupted, killed, or runs beside the test needs one:
    see :func:`run_program`.

    Args:
        text: What the command reads from its standard input.
        timings: How long the command waits for Connect.
    """
    given = text if isinstance(text, bytes) else text.encode()
    return _run(arguments, {**_EMPTY, **(env or {})}, given, timings)


def run_here(*arguments: str | Path, env: Mapping[str, str] | None = None) -> CompletedProcess[str]:
    """Run a command in this process and in the test's own environment, with what is given besides."""
    return _run(arguments, {**_PATIENT, **os.environ, **(env or {})}, b"", QUICK_TIMINGS)


def connect_of(stack: Stack) -> dict[str, str]:
    """Return the variables by which a command finds a stack's Connect, and no other part of it."""
    return {name: value for name, value in stack.environment().items() if name.startswith("CDC_OUTBOX_CONNECT_")}


def run_program(
    *arguments: str | Path, env: Mapping[str, str] | None = None, seconds: float = 120, text: str | None = None
) -> CompletedProcess[str]:
    """Run the installed command as a process, with nothing in its environment but what is given."""
    command = [PROGRAM, *map(str, arguments)]
    whole = {**_EMPTY, **(env or {})}
    return subprocess.run(
        command, env=whole, input=text, capture_output=True, text=True, timeout=patience(seconds), check=False
    )


def findings(spec: Path, dsn: str, *options: str, env: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """Return what ``preflight`` finds, and hold that the exit code says the same."""
    done = run_here("preflight", spec, "--dsn", dsn, "--output", "json", *options, env=env)
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)["findings"]
    assert done.returncode == any(finding["severity"] == "error" for finding in found), done.stderr
    assert all(finding["remedy"] and finding["document"] == str(spec) for finding in found)
    return list(found)


def _run(
    arguments: tuple[str | Path, ...], env: Mapping[str, str], text: bytes, timings: Timings
) -> CompletedProcess[str]:
    given = [*map(str, arguments)]
    out, err, standard_input = (io.TextIOWrapper(io.BytesIO(content), "utf-8") for content in (b"", b"", text))
    with (
        patch.dict(os.environ, env, clear=True),
        patch("sys.argv", ["cdc-outbox", *given]),
        patch("sys.stdin", standard_input),
        redirect_stdout(out),
        redirect_stderr(err),
        _process_state_kept(),
        pytest.raises(SystemExit) as end,
    ):
        main(timings=timings)
    assert isinstance(end.value.code, int)
    return CompletedProcess(given, int(end.value.code), _content(out), _content(err))


@contextmanager
def _process_state_kept() -> Iterator[None]:
    """Take back what a command may set for its whole process: signal handlers, the root logger's, a folder's name."""
    folder, tempfile.tempdir = tempfile.tempdir, None
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    root = logging.getLogger()
    level, loggers = root.level, list(root.handlers)
    try:
        yield
    finally:
        tempfile.tempdir = folder
        for number, handler in handlers.items():
            signal.signal(number, handler)
        root.setLevel(level)
        root.handlers[:] = loggers


def _content(stream: io.TextIOWrapper) -> str:
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode()
