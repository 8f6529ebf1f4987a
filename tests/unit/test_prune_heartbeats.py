"""Prune looks at the heartbeats wherever the brokers are known."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from cdc_outbox.cli import cli
from cdc_outbox.cli import prune as command
from cdc_outbox.cli.probe import ProbeResult
from cdc_outbox.finding import Finding, Location, Severity
from tests.support.pipeline import Pipeline

MESSAGE = "the database went back to heartbeat 3."
BROKERS = "--bootstrap-servers=127.0.0.1:1"


def prune(folder: Path, *arguments: str) -> Result:
    """Prune an outbox on a server that does not answer."""
    spec = folder / "orders.yaml"
    spec.write_text(Pipeline.text("orders"))
    places = ["--dsn=postgresql://127.0.0.1:1/orders", "--keep=7d"]
    return CliRunner().invoke(cli, ["prune", str(spec), *places, *arguments])


@pytest.mark.parametrize("arguments", [(), ("--without-topics",)])
def test_a_database_that_went_back_is_not_pruned(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(*_: Any, **_options: Any) -> list[Finding]:
        place = Location(document="heartbeats", path="orders.heartbeat")
        return [Finding(code="OP401", severity=Severity.ERROR, location=place, message=MESSAGE, remedy="")]

    monkeypatch.setattr(command, "probe", lambda **_: ProbeResult(cluster=None, silent={}))
    monkeypatch.setattr(command, "heartbeat_findings", find)
    done = prune(tmp_path, BROKERS, *arguments)
    assert "the database went back to heartbeat 3; nothing was deleted" in str(done.exception)


def test_heartbeats_that_nobody_can_read_are_mentioned(tmp_path: Path) -> None:
    done = prune(tmp_path, "--without-topics")
    assert "heartbeats not read: give --bootstrap-servers" in " ".join(done.stderr.split())
