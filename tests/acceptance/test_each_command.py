"""Each command once as the installed program; the other tests of commands call them in their own process."""

from pathlib import Path

import click
import pytest

from cdc_outbox.cli import cli
from tests.support.commands import run_program

SPEC = str(Path(__file__).parents[2] / "connectors" / "orders.yaml")
DATABASE = "--dsn=host=127.0.0.1 port=1"
CONNECT = ("--connect-url=http://127.0.0.1:1", "--connect-patience=0s")
BROKERS = "--bootstrap-servers=127.0.0.1:1"
PARTITIONED = "spec with partitions"
"""Stands for the path of one, which a fixture writes."""
NO_DATABASE = (75, "error: connection failed")
NO_BROKERS = (75, "error: the brokers 127.0.0.1:1 do not answer (_TRANSPORT)")
NO_CONNECT = (75, "error: no Kafka Connect worker answers at http://127.0.0.1:1")

COMMANDS: dict[str, tuple[tuple[str, ...], int, str]] = {
    "adopt": (("nothing.json",), 2, "nothing.json"),
    "baseline": (("--consumer=shipping", DATABASE), *NO_DATABASE),
    "completion": (("bash",), 0, "_cdc_outbox_completion"),
    "consume": (("nothing:here",), 2, "error: there is no module 'nothing' in the current folder or on Python's path"),
    "contexts": ((), 0, "there is no file of contexts"),
    "parked": (("list", "--consumer=shipping", DATABASE), *NO_DATABASE),
    "contract": (("export", SPEC), 0, '"aggregates"'),
    "delete": (("orders", *CONNECT), *NO_CONNECT),
    "deploy-connector": ((SPEC, *CONNECT, DATABASE), *NO_DATABASE),
    "doctor": ((SPEC, *CONNECT, DATABASE), 75, "error     OP101"),
    "explain": (("CC101",), 0, "CC101 (warning)"),
    "init": ((SPEC, DATABASE), *NO_DATABASE),
    "lint": ((SPEC,), 0, "nothing found"),
    "monitor": (("health", "http://127.0.0.1:1/health"), 75, "error: no answer: "),
    "new": (("orders", "--database=sqlite"), 0, "version: 1"),
    "offsets": (("show", "orders", *CONNECT), *NO_CONNECT),
    "partitions": ((PARTITIONED, DATABASE), *NO_DATABASE),
    "pause": (("orders", *CONNECT), *NO_CONNECT),
    "plan": ((SPEC, *CONNECT, DATABASE), *NO_DATABASE),
    "preflight": ((SPEC, DATABASE), *NO_DATABASE),
    "prune": ((SPEC, DATABASE, "--keep=7d", "--without-topics"), *NO_DATABASE),
    "purge-inbox": ((DATABASE, "--horizon=30d", "--accept-shorter-horizon"), *NO_DATABASE),
    "recover": ((SPEC, *CONNECT, BROKERS, DATABASE), *NO_CONNECT),
    "relay": ((SPEC, "--check"), 0, "orders: the relay can publish it"),
    "render": ((SPEC,), 0, '"connector.class"'),
    "replay": (("nothing:here",), 2, "error: there is no module 'nothing' in the current folder or on Python's path"),
    "reset": ((SPEC, "--consumer=shipping", "--aggregate=order/42", BROKERS, DATABASE), *NO_DATABASE),
    "restart": (("orders", *CONNECT), *NO_CONNECT),
    "resume": (("orders", *CONNECT), *NO_CONNECT),
    "simulate": ((SPEC, "--row={}"), 1, "NullPointerException in transform"),
    "spec-schema": ((), 0, '"$schema"'),
    "stack": (("status", "--name=none"), 1, "error: no stack named 'none' is running"),
    "status": (CONNECT, *NO_CONNECT),
    "stop": (("orders", *CONNECT), *NO_CONNECT),
    "topics": (("create", SPEC, BROKERS), *NO_BROKERS),
    "verify": ((SPEC, BROKERS, DATABASE), *NO_DATABASE),
    "watch": (("orders", *CONNECT), *NO_CONNECT),
}
"""Arguments, exit code, and what is said to standard output or standard error."""


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_runs_and_ends_with_its_exit_code(command: str, tmp_path: Path) -> None:
    arguments, code, says = COMMANDS[command]
    partitioned = tmp_path / "partitioned.yaml"
    partitioned.write_text(Path(SPEC).read_text().replace("  table: outbox\n", "  table: outbox\n  partitions: day\n"))
    done = run_program(command, *(str(partitioned) if each is PARTITIONED else each for each in arguments))
    assert (done.returncode, says in done.stdout + done.stderr) == (code, True), done
    assert "Traceback" not in done.stderr


def test_every_command_is_tried() -> None:
    assert sorted(COMMANDS) == cli.list_commands(click.Context(cli, **cli.context_settings))
