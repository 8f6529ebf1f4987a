"""Exit codes of commands whose brokers do not answer. No server, but each command waits for some seconds."""

from pathlib import Path

import pytest

from tests.support.commands import run_command
from tests.support.golden import golden, neutral
from tests.support.specs import MINIMAL

COMMANDS = ("topics create x.yaml", "doctor x.yaml", "status --rates 1s")
SILENT = {
    "CDC_OUTBOX_DSN": "postgresql://me@127.0.0.1:1/orders?connect_timeout=1",
    "CDC_OUTBOX_CONNECT_URL": "http://127.0.0.1:1",
    "CDC_OUTBOX_CONNECT_PATIENCE": "0s",
    "CDC_OUTBOX_BOOTSTRAP_SERVERS": "127.0.0.1:1",
}


def test_silent_brokers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.yaml").write_text(MINIMAL)
    parts = []
    for command in COMMANDS:
        done = run_command(*command.split(), env=SILENT)
        parts.append(neutral(f"$ {command}\n{done.stdout}{done.stderr}exit {done.returncode}\n"))
    golden("exit-codes/silent-brokers.txt").check("\n".join(parts))
