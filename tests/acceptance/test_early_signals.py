"""`consume` and `relay` end with 0 at a signal, at any moment since their program began."""

import select
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from tests.support.commands import PROGRAM
from tests.support.patience import patience
from tests.support.rig import eventually
from tests.support.specs import MINIMAL

SERVICE = """
import os, psycopg
from cdc_outbox.consumer import AsyncConsumer, Consumer, SequenceMode, WireContract

settings = {
    "name": "shipping",
    "contract": WireContract(aggregates={"order": SequenceMode.GAPLESS}, topic="orders"),
    "kafka": "127.0.0.1:1",
}
consumer = Consumer(**settings, database=lambda: psycopg.connect(os.environ["CDC_OUTBOX_DSN"]))
consumer.on("OrderPlaced")(print)


async def connect():
    return await psycopg.AsyncConnection.connect(os.environ["CDC_OUTBOX_DSN"])


asynchronous = AsyncConsumer(**settings, database=connect)


@asynchronous.on("OrderPlaced")
async def ship(event, connection):
    print(event)
"""
DEAF = """
import pathlib, signal
pathlib.Path("importing").touch()
while True:
    try:
        signal.pause()
    except BaseException:
        pass
"""
MOMENTS = 6
"""How many starts are ended before the program has imported everything, for each command."""

RELAY = ("relay", "orders.yaml", "--sink=jsonl")
CONSUME = ("consume", "service:consumer")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "service.py").write_text(SERVICE)
    (tmp_path / "deaf.py").write_text(DEAF)
    (tmp_path / "orders.yaml").write_text(MINIMAL)
    return tmp_path


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A server to which connections can be opened, and which says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@contextmanager
def started(
    folder: Path, silent: socket.socket, *arguments: str, stderr: IO[str] | int, **env: str
) -> "Iterator[subprocess.Popen[str]]":
    """Run the installed program; it writes a line to its stderr for each module that it has imported."""
    whole = {
        "PATH": "/usr/bin:/bin",
        "PYTHONPROFILEIMPORTTIME": "1",
        "CDC_OUTBOX_DSN": f"host=127.0.0.1 port={silent.getsockname()[1]}",
        **env,
    }
    process = subprocess.Popen([PROGRAM, *arguments], cwd=folder, env=whole, stderr=stderr, text=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def is_own(line: str) -> bool:
    """Return whether a module has been imported by the command, and not by Python for itself."""
    return "| " in line and "click" in line


def end_while_it_connects(process: "subprocess.Popen[str]", silent: socket.socket) -> int:
    """Send SIGTERM once the program waits for the server's answer, and return its exit code."""

    def has_connected() -> bool:
        return bool(select.select([silent], [], [], 0)[0])

    eventually(lambda: has_connected() or process.poll() is not None, "the program to connect")
    process.terminate()
    code = process.wait(patience())
    while has_connected():
        silent.accept()[0].close()  # the next program's connection counts for the next one
    return code


@pytest.mark.parametrize("arguments", [CONSUME, ("consume", "service:asynchronous"), RELAY], ids=" ".join)
def test_while_it_imports_its_modules_and_connects(
    folder: Path, silent: socket.socket, arguments: tuple[str, ...]
) -> None:
    log = folder / "log"
    with log.open("w") as stderr, started(folder, silent, *arguments, stderr=stderr) as process:
        assert end_while_it_connects(process, silent) == 0
    lines = log.read_text().splitlines()
    first = next(number for number, line in enumerate(lines, 1) if is_own(line))
    codes = []
    for moment in range(MOMENTS):
        with started(folder, silent, *arguments, stderr=subprocess.PIPE) as process:
            assert process.stderr is not None
            for _ in range(first + (len(lines) - first) * moment // MOMENTS):
                process.stderr.readline()
            process.send_signal([signal.SIGTERM, signal.SIGINT][moment % 2])
            process.communicate(timeout=patience())
            codes.append(process.returncode)
    assert codes == [0] * MOMENTS


def test_while_it_imports_a_module_that_swallows_every_exception(folder: Path, silent: socket.socket) -> None:
    with started(folder, silent, "consume", "deaf:consumer", stderr=subprocess.DEVNULL) as process:
        eventually((folder / "importing").exists, "the module's import")
        process.terminate()
        assert process.wait(patience()) == 0


def test_a_relay_that_was_to_create_a_slot_and_did_not_has_not_done_it(folder: Path, silent: socket.socket) -> None:
    codes = []
    for option, variables in (("--create-slot", {}), ("--verbose", {"CDC_OUTBOX_CREATE_SLOT": "true"})):
        command = ("relay", "orders.yaml", option)
        with started(folder, silent, *command, stderr=subprocess.DEVNULL, **variables) as process:
            codes.append(end_while_it_connects(process, silent))
    with started(folder, silent, "relay", "orders.yaml", "--create-slot", stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        while not is_own(process.stderr.readline()):
            assert process.poll() is None
        process.terminate()
        process.communicate(timeout=patience())
        codes.append(process.returncode)
    assert codes == [130, 130, -signal.SIGTERM]
