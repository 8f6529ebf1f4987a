"""A DSN in a file, where no list of processes shows its password."""

from pathlib import Path

import pytest

from tests.support.commands import run_command
from tests.support.specs import ORDERS

OTHER_KIND = "the DSN leads to SQLite"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "dsn"
    found.write_text("sqlite:///orders.db\n")
    return found


def test_a_file_holds_the_dsn(file: Path) -> None:
    done = run_command("preflight", ORDERS, "--dsn-file", file)
    assert OTHER_KIND in done.stderr


def test_a_file_counts_before_variables_and_contexts(file: Path, tmp_path: Path) -> None:
    contexts = tmp_path / "contexts.yaml"
    contexts.write_text("contexts: {dev: {dsn: postgresql://127.0.0.1:1/orders}}")
    given = ("--contexts", contexts, "--context", "dev")
    done = run_command("preflight", ORDERS, "--dsn-file", file, *given, env={"CDC_OUTBOX_DSN": "host=127.0.0.1 port=1"})
    assert OTHER_KIND in done.stderr


@pytest.mark.parametrize("name", ["--dsn", "--inbox-dsn"])
def test_each_option_of_a_dsn_has_one_of_a_file(name: str, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    done = run_command("parked", "list", "--consumer=shipping", f"{name}-file", missing)
    assert (done.returncode, f"{missing} cannot be read" in done.stderr) == (2, True)


def test_a_dsn_is_given_once(file: Path) -> None:
    done = run_command("preflight", ORDERS, "--dsn", "host=127.0.0.1", "--dsn-file", file)
    assert (done.returncode, "either --dsn or --dsn-file" in done.stderr) == (2, True)
    # A variable is general, the command line is about this one command.
    variable = {"CDC_OUTBOX_DSN_FILE": str(file.with_name("missing"))}
    done = run_command("preflight", ORDERS, "--dsn", "sqlite:///orders.db", env=variable)
    assert OTHER_KIND in done.stderr


def test_an_empty_file_leads_to_no_database_of_this_machine(file: Path) -> None:
    file.write_text("\n")
    done = run_command("preflight", ORDERS, "--dsn-file", file)
    assert (done.returncode, f"{file} is empty" in done.stderr) == (2, True)
