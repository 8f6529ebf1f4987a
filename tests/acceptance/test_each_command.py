"""Each command once as the installed program; the other tests of commands call them in their own process."""

from pathlib import Path

import click
import pytest

from cdc_outbox.cli import cli
from tests.support.commands import run_program

SPEC = str(Path(__file__).parents[2] / "connectors" / "orders.yaml")
DATABASE = "--dsn=host=127.0.0.1 port=1"
CONNECT = ("--connect-url=http://127.0.0.1:1", "--connect-patience=0")
NO_DATABASE = (75, "error: connection failed")
NO_CONNECT = (75, "error: no Kafka Connect worker answers at http://127.0.0.1:1")

COMMANDS: dict[str, tuple[tuple[str, ...], int, str]] = {
    "adopt": (("nothing.json",), 2, "nothing.json"),
    "baseline": (("--consumer=shipping", DATABASE), *NO_DATABASE),
    "completion": (("bash",), 0, "_cdc_outbox_completion"),
    "consume": (("nothing:here",), 2, "error: there is no module 'nothing' here"),
    "contexts": ((), 0, "there is no file of contexts"),
    "dead-letters": (("list", "--consumer=shipping", DATABASE), *NO_DATABASE),
    "delete": (("orders", *CONNECT), *NO_CONNECT),
    "deploy-connector": ((SPEC, *CONNECT, DATABASE), *NO_DATABASE),
    "doctor": ((SPEC, *CONNECT, DATABASE), 75, "error     OP101"),
    "explain": (("CC101",), 0, "CC101 (warning)"),
    "init": ((SPEC, DATABASE), *NO_DATABASE),
    "lint": ((SPEC,), 0, "nothing found"),
    "new": (("orders", "--database=sqlite"), 0, "version: 1"),
    "offsets": (("show", "orders", *CONNECT), *NO_CONNECT),
    "partitions": ((SPEC, DATABASE), 2, "error: the spec has no outbox.partitions"),
    "pause": (("orders", *CONNECT), *NO_CONNECT),
    "plan": ((SPEC, *CONNECT, DATABASE), *NO_DATABASE),
    "preflight": ((SPEC, DATABASE), *NO_DATABASE),
    "prune": ((SPEC, DATABASE), *NO_DATABASE),
    "purge-inbox": ((DATABASE, "--horizon-days=30", "--accept-shorter-horizon"), *NO_DATABASE),
    "render": ((SPEC,), 0, '"connector.class"'),
    "replay": (("nothing:here",), 2, "error: there is no module 'nothing' here"),
    "reset": ((SPEC, "--consumer=shipping", DATABASE), 2, "Error: "),
    "restart": (("orders", *CONNECT), *NO_CONNECT),
    "resume": (("orders", *CONNECT), *NO_CONNECT),
    "simulate": ((SPEC, "--row={}"), 1, "NullPointerException in transform"),
    "spec-schema": ((), 0, '"$schema"'),
    "stack": (("status", "--name=none"), 1, "error: no stack named 'none' is running"),
    "status": (CONNECT, *NO_CONNECT),
    "stop": (("orders", *CONNECT), *NO_CONNECT),
    "topics": (("create",), 2, "Missing argument"),
    "verify": ((SPEC, DATABASE), 2, "Missing option '--bootstrap-servers'"),
    "watch": (("orders", *CONNECT), *NO_CONNECT),
}
"""Arguments, exit code, and what is said to standard output or standard error."""


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_runs_and_ends_with_its_exit_code(command: str) -> None:
    arguments, code, says = COMMANDS[command]
    done = run_program(command, *arguments)
    assert (done.returncode, says in done.stdout + done.stderr) == (code, True), done
    assert "Traceback" not in done.stderr


def test_every_command_is_tried() -> None:
    assert sorted(COMMANDS) == cli.list_commands(click.Context(cli))
