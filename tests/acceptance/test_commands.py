"""What the command says without a database, a broker or a worker."""

from pathlib import Path

import pytest

from tests.support.commands import run_command, run_program

SPEC = str(Path(__file__).parents[2] / "connectors" / "orders.yaml")


@pytest.fixture
def without_driver(tmp_path: Path) -> dict[str, str]:
    """An environment in which psycopg is not to be had."""
    (tmp_path / "psycopg.py").write_text("raise ModuleNotFoundError('no psycopg', name='psycopg')")
    return {"PYTHONPATH": str(tmp_path)}


@pytest.mark.parametrize("arguments", [["render", SPEC], ["init", SPEC, "--sql"], ["deploy-connector", "--help"]])
def test_what_asks_no_database_needs_no_driver(arguments: list[str], without_driver: dict[str, str]) -> None:
    done = run_program(*arguments, env=without_driver)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["init", SPEC, "--dsn", "host=127.0.0.1"],
        ["deploy-connector", SPEC, "--dsn", "host=127.0.0.1", "--connect-url", "http://127.0.0.1:1"],
    ],
)
def test_a_driver_that_is_missing_is_named_with_what_to_install(
    arguments: list[str], without_driver: dict[str, str]
) -> None:
    done = run_program(*arguments, env=without_driver)
    assert done.returncode == 1
    assert "error: this command needs the package psycopg" in done.stderr
    assert "pip install 'cdc-outbox[postgres]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_schema_for_an_inbox_that_was_not_asked_for_is_refused() -> None:
    done = run_command("init", SPEC, "--sql", "--inbox-schema", "inboxes")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--inbox" in done.stderr
    assert '"inboxes"' in run_command("init", "--inbox", "--sql", "--inbox-schema", "inboxes").stdout
    assert '"public"."inbox"' in run_command("init", "--inbox", "--sql").stdout
    assert "public" in run_command("init", "--help").stdout
