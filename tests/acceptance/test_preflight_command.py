"""`cdc-outbox preflight` from the shell: what it prints, and what it exits with."""

import json
from pathlib import Path

import psycopg
import pytest

from cdc_outbox.testing import Stack
from tests.support.commands import run_command
from tests.support.pipeline import Pipeline

NAME = "looked_at"


@pytest.fixture(scope="module")
def dsn(outbox_stack: Stack) -> str:
    return outbox_stack.postgres.create_database(NAME)


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    return write_spec(tmp_path, NAME)


def write_spec(folder: Path, name: str) -> Path:
    path = folder / f"{name}.yaml"
    text = Pipeline.text(name).replace(f"  name: {name}\n  user", f"  name: {NAME}\n  user")
    path.write_text(text.replace("user: connector", "user: ${env:CONNECTOR}"))
    return path


def test_several_specs_are_told_apart_and_stdout_is_for_findings(dsn: str, spec: Path, tmp_path: Path) -> None:
    other = write_spec(tmp_path, "other")
    other.write_text(f"{other.read_text()}source: {NAME}\n")
    assert run_command("init", str(spec), "--dsn", dsn).returncode == 0
    done = run_command("preflight", str(spec), str(other), env={"CDC_OUTBOX_DSN": dsn})
    assert (done.returncode, done.stderr) == (1, "1 error, 2 notes\n")
    first, second, third = done.stdout.splitlines()
    assert first.startswith(f"{spec} {NAME}: note DB601: Connect was not queried")
    assert second.startswith(f"{other} other_outbox: error DB401: the publication does not exist.")
    assert third.startswith(f"{other} other: note DB601")


def test_warnings_exit_3_only_where_they_are_asked_for(dsn: str, spec: Path) -> None:
    assert run_command("init", str(spec), "--dsn", dsn).returncode == 0
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("alter publication looked_at_outbox set (publish = 'insert, delete')")
    assert run_command("preflight", str(spec), "--dsn", dsn).returncode == 0
    strict = run_command("preflight", str(spec), "--dsn", dsn, "--strict", "--report", "ci")
    assert strict.returncode == 3
    assert strict.stdout.splitlines()[0].startswith(f"::warning file={spec},line=1,title=DB406::looked_at_outbox: ")
    sarif = json.loads(run_command("preflight", str(spec), "--dsn", dsn, "--report", "sarif").stdout)
    [run] = sarif["runs"]
    assert [result["ruleId"] for result in run["results"]] == ["DB406", "DB601"]


def test_what_cannot_be_looked_at_is_refused(dsn: str, spec: Path, tmp_path: Path) -> None:
    here = {"CDC_OUTBOX_DSN": dsn}
    wrong = run_command("preflight", str(tmp_path / "nowhere.yaml"), env=here)
    assert (wrong.returncode, "cannot be read" in wrong.stderr) == (2, True)
    assert run_command("preflight", str(spec)).returncode == 2
    other = run_command("preflight", str(spec), "--dsn", "mysql://root@localhost/orders")
    told = f"{spec}: the DSN leads to MariaDB or MySQL, but PostgreSQL is required"
    assert (other.returncode, told in other.stderr) == (2, True)
    (tmp_path / "file.yaml").write_text("version: 1\nname: orders\ndatabase: {kind: sqlite}\naggregates: {order: {}}\n")
    file = run_command("preflight", str(tmp_path / "file.yaml"), "--dsn", "sqlite:///x.db")
    assert (file.returncode, "not sqlite" in file.stderr) == (2, True)
    gone = run_command("preflight", str(spec), "--dsn", "postgresql://localhost:1/orders")
    assert gone.returncode == 75
    for done in (wrong, other, file, gone):
        assert "Traceback" not in done.stderr
        assert done.stdout == ""
