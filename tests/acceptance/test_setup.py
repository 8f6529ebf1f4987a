"""infra/setup on a machine where something is missing: it says what, or installs it; and the demo asks for less."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.patience import patience
from tests.support.rig import eventually

ROOT = Path(__file__).parents[2]

FOR_ALL = "openjdk-17-jre-headless maven"
FOR_TESTS = f"{FOR_ALL} openjdk-17-jdk-headless zsh fish gcc pkg-config libmariadb-dev"


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """The PATH of a machine with a Python and little else."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("bash", "dirname"):
        (programs / name).symlink_to(shutil.which(name) or "")
    # It is new enough, and its header files are there.
    stub(programs, "python3", "exit 0")
    return programs


def stub(programs: Path, name: str, does: str) -> None:
    (programs / name).write_text(f"#!/bin/sh\n{does}\n")
    (programs / name).chmod(0o755)


def setup(machine: Path, *purpose: str, **streams: Any) -> "subprocess.CompletedProcess[str]":
    copy = machine.parent / "infra" / "setup"
    copy.parent.mkdir(exist_ok=True)
    # A copy, so that whatever it does is done to another .venv.
    shutil.copy(ROOT / "infra" / "setup", copy)
    piped = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.run(
        [copy, *purpose], env={"PATH": str(machine)}, text=True, timeout=patience(), check=False, **(piped | streams)
    )


@pytest.mark.parametrize(
    ("purpose", "packages", "reason"),
    [((), FOR_ALL, "Python 3.11, Java 17 and Maven are required"), (("tests",), FOR_TESTS, "MariaDB")],
)
def test_who_is_not_root_is_told_in_one_sentence(
    purpose: tuple[str, ...], packages: str, reason: str, machine: Path
) -> None:
    stub(machine, "id", "echo 1000")
    stub(machine, "mariadbd", "")
    stub(machine, "postgres", 'echo "postgres (PostgreSQL) 15.1"')
    done = setup(machine, *purpose)
    assert done.returncode == 1
    [sentence] = done.stderr.splitlines()
    assert sentence.startswith(f"setup: install {packages} (")
    assert reason in sentence
    assert sentence.endswith("or run this as root")


@pytest.mark.parametrize(("purpose", "packages"), [((), FOR_ALL), (("tests",), FOR_TESTS)])
def test_for_root_it_is_installed(purpose: tuple[str, ...], packages: str, machine: Path) -> None:
    stub(machine, "id", "echo 0")
    stub(machine, "mariadbd", "")
    stub(machine, "postgres", 'echo "postgres (PostgreSQL) 15.1"')
    # Nothing after it is wanted here.
    stub(machine, "apt-get", 'echo "apt-get $*" >&2; [ "$2" != install ]')
    done = setup(machine, *purpose)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"setup: installing {packages}",
        "apt-get -q update",
        f"apt-get -q install -y --no-install-recommends {packages}",
    ]


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 10_000)
    except BlockingIOError:
        return b""


@pytest.mark.parametrize(("answer", "installs"), [("y", True), ("", False), ("no", False)])
def test_root_is_asked_on_a_terminal(answer: str, machine: Path, *, installs: bool) -> None:
    stub(machine, "id", "echo 0")
    stub(machine, "apt-get", 'echo "apt-get $*" >>calls; [ "$2" != install ]')
    ours, terminal = os.openpty()
    os.write(ours, f"{answer}\n".encode())
    try:
        done = setup(machine, stdin=terminal, stderr=terminal)
        os.set_blocking(ours, False)
        said, question = [b""], f"setup: install {FOR_ALL} with apt-get? [y/N] ".encode()

        def asks() -> bool:
            said[0] += _read(ours)  # what was written comes out of a terminal in pieces
            return question in said[0]

        eventually(asks, "the question")
    finally:
        os.close(ours)
        os.close(terminal)
    assert done.returncode == 1
    assert (machine.parent / "calls").exists() is installs


def test_the_header_files_of_the_very_python_are_asked_for(machine: Path) -> None:
    stub(machine, "id", "echo 1000")
    stub(machine, "python3", 'case "$2" in *Python.h*) echo python3.42-dev ;; esac')
    assert " python3.42-dev (" in setup(machine, "tests").stderr
    assert "python3.42-dev" not in setup(machine).stderr


def test_another_postgresql_than_the_one_that_is_tested_is_not_enough(machine: Path) -> None:
    stub(machine, "id", "echo 1000")
    stub(machine, "postgres", 'echo "postgres (PostgreSQL) 17.15"')
    # One that is installed where Debian's package puts it comes first.
    installed = Path("/usr/lib/postgresql/15/bin/postgres").exists()
    assert (" postgresql-15 " in setup(machine, "tests").stderr) is not installed


def test_another_purpose_is_refused(machine: Path) -> None:
    done = setup(machine, "demo")
    assert (done.returncode, done.stderr) == (2, "usage: infra/setup [tests]\n")


@pytest.mark.parametrize(("purpose", "locks"), [((), ["build", "run"]), (("tests",), ["build", "tests"])])
def test_nothing_is_downloaded_without_a_digest(purpose: tuple[str, ...], locks: list[str], machine: Path) -> None:
    for name in ("cat", "chmod", "cksum", "mkdir", "rm"):
        (machine / name).symlink_to(shutil.which(name) or "")
    for name in ("java", "javac", "mvn", "mariadbd", "zsh", "fish", "gcc", "pkg-config"):
        stub(machine, name, "")
    stub(machine, "postgres", 'echo "postgres (PostgreSQL) 15.1"')
    makes = "mkdir -p .venv/bin; echo 'echo \"$*\" >>calls' >.venv/bin/python; chmod +x .venv/bin/python"
    stub(machine, "python3", f'case "$*" in *"-m venv"*) {makes} ;; esac')
    shutil.copy(ROOT / "pyproject.toml", machine.parent)
    shutil.copytree(ROOT / "infra" / "locks", machine.parent / "infra" / "locks")
    assert setup(machine, *purpose).returncode == 0
    *downloads, own = (machine.parent / "calls").read_text().splitlines()
    assert [call.rpartition(" ")[2] for call in downloads] == [f"infra/locks/{name}.txt" for name in locks]
    assert all({"--require-hashes", "--no-deps", "--no-build-isolation"} <= set(call.split()) for call in downloads)
    assert {"--no-index", "--no-deps", "--no-build-isolation"} <= set(own.split())
    assert own.endswith("--editable .")
