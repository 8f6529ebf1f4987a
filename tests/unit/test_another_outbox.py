"""A spec that names another outbox than its connector reads: what each command says, before a second one is made."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from cdc_outbox.cli import heartbeats
from cdc_outbox.cli.heartbeats import heartbeat_findings
from cdc_outbox.connect import preflight
from cdc_outbox.connect.client import ConnectorStatus
from cdc_outbox.connect.deploy import Deployment, DeployOptions
from cdc_outbox.connect.plan import Found
from cdc_outbox.connect.preflight import Connected, look_at_postgresql
from cdc_outbox.connect.spec_checks import another_outbox, divergences
from cdc_outbox.debezium.render import render
from cdc_outbox.errors import ConnectError, ConnectorInvalidError
from cdc_outbox.operations.recovery import Beating
from cdc_outbox.spec import parse_spec
from tests.support.commands import run_command
from tests.support.connect_server import Answer, Asked, answering
from tests.support.database_facts import GOOD
from tests.support.specs import MINIMAL

SLIP = f"{MINIMAL}outbox: {{table: outbux}}\n"
SPEC = parse_spec(SLIP)
RUNS = render(parse_spec(MINIMAL))
MESSAGE = "the connector orders reads public.outbox, and the spec names public.outbux."
NO_TABLE = replace(GOOD, table=None)


@pytest.mark.parametrize(
    ("tables", "is_another"),
    [
        ("public.outbox", True),
        (r"public\.outbox", True),
        ("public.outbox,public.invoices", True),
        (r"public\.outbux", False),
        ("public.outbox,public.outbux", False),
        ("", False),
        ("${env:TABLES}", False),
    ],
)
def test_it_is_another_outbox_where_the_spec_s_is_not_read(tables: str, *, is_another: bool) -> None:
    assert bool([*another_outbox(SPEC, RUNS | {"table.include.list": tables})]) is is_another


def test_nothing_is_another_than_a_connector_that_is_not_known() -> None:
    assert [*another_outbox(SPEC, None)] == []


@pytest.mark.parametrize("mode", ["keep", "message"])
def test_a_doctor_says_it_once(mode: str) -> None:
    runs, slip = (parse_spec(f"{MINIMAL}outbox: {{table: {table}, mode: {mode}}}\n") for table in ("outbox", "outbux"))
    found = [*divergences(slip, Found(render(runs), ConnectorStatus("RUNNING", ())))]
    [another] = [finding for finding in found if finding.code == "OP208"]
    assert another.message == MESSAGE
    assert [another] == [*another_outbox(slip, render(runs))]
    assert "table.include.list" not in [finding.location.path for finding in found if finding.code != "OP208"]


def test_a_preflight_says_it_first(monkeypatch: pytest.MonkeyPatch) -> None:
    database: Any = Mock(
        read_surroundings=Mock(return_value=NO_TABLE), read_slots=Mock(return_value=Mock(log_end=None))
    )
    connected = Connected(connector=Found(RUNS, ConnectorStatus("RUNNING", ())), offsets=[])
    monkeypatch.setattr(preflight, "PostgresqlDatabase", lambda *_: database)
    nothing: Any = None
    found = [*look_at_postgresql(SPEC, nothing, nothing, lambda: connected)]
    assert [finding.code for finding in found][:2] == ["OP208", "DB301"]


@pytest.mark.parametrize(
    ("asked", "replaces", "codes"),
    [
        (RUNS, False, ["OP208", "DB301"]),
        (RUNS, True, ["DB301"]),
        (None, False, ["DB301"]),
        (ConnectError(""), False, ["DB301"]),
    ],
)
def test_a_deployment_says_it_before_it_asks_for_the_table(asked: Any, replaces: bool, codes: list[str]) -> None:  # noqa: FBT001
    publishers = Mock(find=Mock(return_value=None))
    client, database = Mock(), Mock(read_facts=Mock(return_value=NO_TABLE), publishers=publishers)
    client.find_config.side_effect = [asked]
    deployment = Deployment(SPEC, client, database, DeployOptions(replaces=replaces), Mock())
    with pytest.raises(ConnectorInvalidError) as caught:
        deployment.dry_run()
    assert [finding.code for finding in caught.value.findings] == codes


@pytest.mark.parametrize(
    ("runs", "function"),
    [(RUNS, "outbox_heartbeat"), (None, "outbux_heartbeat"), ({"name": "orders"}, "outbux_heartbeat")],
)
def test_the_heartbeats_are_those_of_the_connector_that_runs(
    monkeypatch: pytest.MonkeyPatch, runs: dict[str, str] | None, function: str
) -> None:
    judged: list[Beating] = []

    def history(beating: Beating, *_: object) -> Any:
        judged.append(beating)
        return Mock(look=Mock(return_value=[]))

    monkeypatch.setattr(heartbeats, "_history", history)
    client: Any = Mock(find_config=Mock(return_value=runs))
    heartbeat_findings(render(SPEC), "127.0.0.1:1", None, "dbname=orders", client=client)
    assert [each.function.name for each in judged] == [function]
    heartbeat_findings(render(SPEC), "127.0.0.1:1", None, "dbname=orders")
    assert judged[1].function.name == "outbux_heartbeat"


def test_status_says_it_of_a_spec_that_is_named(tmp_path: Path) -> None:
    def answer(asked: Asked) -> Answer:
        if asked.path.endswith("/status"):
            tasks = [{"id": 0, "state": "RUNNING", "worker_id": "w"}]
            return 200, {"name": "orders", "connector": {"state": "RUNNING", "worker_id": "w"}, "tasks": tasks}
        return 200, ["orders"] if asked.path.endswith("/connectors") else RUNS

    spec = tmp_path / "orders.yaml"
    with answering(answer) as (url, _):
        for text, code, found in ((SLIP, 1, [MESSAGE]), (MINIMAL, 0, [])):
            spec.write_text(text)
            done = run_command("status", spec, "--connect-url", url, "--output=json")
            [row] = json.loads(done.stdout)["connectors"]
            assert (done.returncode, [each["message"] for each in row["findings"]]) == (code, found), done.stderr
        assert MESSAGE not in run_command("status", "orders", "--connect-url", url).stdout
