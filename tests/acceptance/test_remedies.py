"""A remedy that a command prints is one: from the damage, through what it tells, to a command that finds nothing."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cdc_outbox import Event, Outbox
from cdc_outbox.connect.deployed_connector import DeployedConnector
from cdc_outbox.connect.rollback import Rollback
from cdc_outbox.debezium.slot_plan import EarlierEvents
from cdc_outbox.errors import ConnectorInvalidError
from tests.support.deployments import halt_and_advance_slot, halt_and_drop_slot, halt_and_forget, sequences
from tests.support.pipeline import Pipeline
from tests.support.remedies import Operator, commands_in
from tests.support.rig import eventually, one


@pytest.fixture
def operator(pipeline: Pipeline, tmp_path: Path) -> Operator:
    path = tmp_path / "spec.yaml"
    path.write_text(Pipeline.text(pipeline.name))
    return Operator(pipeline, path)


DAMAGES = {
    "DB402": "alter publication {name}_outbox drop table outbox",
    "DB403": "alter publication {name}_outbox set (publish = 'update')",
    "DB404": "alter publication {name}_outbox set table outbox where (aggregateid <> '')",
    "DB405": "alter publication {name}_outbox set table outbox (id, aggregatetype, aggregateid)",
    "DB406": "alter publication {name}_outbox set (publish = 'insert, update')",
    "DB509": "select pg_create_logical_replication_slot('{name}_outbox', 'pgoutput', false, true)",
}


def test_what_preflight_tells_of_the_database_mends_it(operator: Operator) -> None:
    for code, damage in DAMAGES.items():
        with operator.pipeline.connect() as connection:
            connection.execute(damage.format(name=operator.pipeline.name).encode())
        found = {each["code"]: each for each in operator.findings("preflight")}
        operator.obey(found[code]["remedy"].removesuffix(", and deploy again."))
        assert code not in {each["code"] for each in operator.findings("preflight")}
    done = operator.run("deploy-connector")
    assert done.returncode == 0, done.stderr
    assert operator.findings("preflight") == []
    assert [each["code"] for each in operator.findings("doctor") if each["severity"] == "error"] == []


def test_what_doctor_tells_of_silent_heartbeats_makes_them_come(operator: Operator) -> None:
    pipeline = operator.pipeline
    operator.spec.write_text(
        Pipeline.text(pipeline.name, "overrides: {heartbeat.interval.ms: '500', poll.interval.ms: '100'}\n")
    )
    assert operator.run("deploy-connector").returncode == 0
    eventually(lambda: pipeline.stack.broker.ends(pipeline.spec.heartbeat_topic or ""), "the first heartbeat")

    def codes() -> set[str]:
        return {each["code"] for each in operator.findings("doctor")}

    well = codes()
    function = f"{pipeline.spec.outbox.heartbeat.quoted}"
    with pipeline.connect() as connection:
        for damage, told in (
            (f"revoke execute on function {function} from connector", "DB209"),
            (f"select {function}('{pipeline.name}', interval '0')", "OP203"),
        ):
            if told == "OP203":
                assert operator.run("stop").returncode == 0
            connection.execute(damage.encode())
            connection.execute("update outbox_heartbeats set written_at = written_at - interval '1 hour'")
            found = {each["code"]: each for each in operator.findings("doctor")}
            assert found.keys() - well == {"OP405", told}
            assert "`cdc-outbox doctor`" in found["OP405"]["remedy"]
            operator.obey(found[told]["remedy"])
            eventually(lambda: codes() == well, "a heartbeat to come")


def test_rows_that_consumers_have_forgotten_make_way_where_the_slot_is_lost(operator: Operator) -> None:
    pipeline = operator.pipeline
    operator.spec.write_text(Pipeline.text(pipeline.name, "  horizon: 30d\n"))
    pipeline.deploy(stable_seconds=0)
    halt_and_drop_slot(pipeline)
    outbox = Outbox(spec=pipeline.spec)
    with pipeline.connect() as connection:
        for _ in range(2):
            with connection.transaction():
                outbox.add(connection, Event(aggregate_type="metric", aggregate_id="1", type="Seen", payload={}))
        connection.execute(
            "update outbox set created_at = created_at - interval '31 days'"
            " where sequence is not null or id = (select min(id::text)::uuid from outbox where sequence is null)"
        )
    assert "DB512" in {each["code"] for each in operator.findings("preflight")}
    remembering = replace(pipeline.spec, topics=replace(pipeline.spec.topics, horizon_days=30))
    with pytest.raises(ConnectorInvalidError) as caught:
        pipeline.deploy(spec=remembering, earlier=EarlierEvents.REPUBLISH)
    [finding] = caught.value.findings
    assert finding.code == "DB519"
    operator.obey(finding.remedy)
    done = operator.run("deploy-connector", "--earlier-events=republish")
    assert done.returncode == 0, done.stderr
    assert operator.findings("preflight") == []
    with pipeline.connect() as connection:
        assert connection.execute("select sequence from outbox_forgotten").fetchall() == [(None,)]
        assert one(connection, "select count(*) from outbox where sequence is null") == 1


@pytest.mark.parametrize("way", ["republish", "skip"])
@pytest.mark.parametrize(
    ("lose", "code"), [(halt_and_drop_slot, "DB512"), (halt_and_advance_slot, "DB513"), (halt_and_forget, "DB511")]
)
def test_what_is_told_of_a_lost_slot_leads_on(
    operator: Operator, lose: Callable[[Pipeline], None], code: str, way: str
) -> None:
    pipeline = operator.pipeline
    pipeline.deploy(stable_seconds=0)
    lose(pipeline)
    if code != "DB513":  # there the third event is what the slot was moved over
        pipeline.write(1)
    remedies = []
    for command in ("deploy-connector", "plan"):
        refused = operator.run(command)
        assert refused.returncode == 1
        remedies.append(refused.stderr)
    for command in ("preflight", "doctor"):
        remedies += [each["remedy"] for each in operator.findings(command) if each["code"] == code]
    # Whichever of them is asked tells the same.
    [meant, *others] = [commands_in(remedy, way=way) for remedy in remedies]
    assert others == [meant] * 3
    operator.obey(remedies[0], way=way)
    expected = [1, 2, 3] if way == "republish" else [1, 2]
    eventually(lambda: sequences(pipeline) == expected, f"the events {expected}")
    assert "nothing to change" in operator.run("plan").stdout
    assert "nothing to change" in operator.run("deploy-connector").stdout
    assert operator.findings("preflight") == []


def test_what_verify_tells_of_missing_events_sends_them_on_a_healthy_slot(operator: Operator) -> None:
    pipeline = operator.pipeline
    pipeline.deploy(stable_seconds=0)
    publication = f"{pipeline.name}_outbox"
    with pipeline.connect() as connection:
        connection.execute(f"alter publication {publication} drop table outbox".encode())
        pipeline.write(3, "lost")
        connection.execute(f"alter publication {publication} add table outbox".encode())
    pipeline.write(1, "after")
    eventually(lambda: len(pipeline.messages()) == 1, "the event behind them")
    assert operator.findings("preflight") == []
    found = operator.run("verify", "--settle=0s", "--output=json")
    assert found.returncode == 3
    [missing] = json.loads(found.stdout)["findings"]
    pruned = operator.run("prune", "--keep=0s")
    assert (pruned.returncode, pruned.stdout) == (1, ""), pruned.stderr
    assert "3 events are not in the topics" in pruned.stderr
    operator.obey(missing["remedy"])
    assert operator.run("verify", "--settle=30s").returncode == 0
    operator.obey(pruned.stderr)  # the rows come once more
    assert operator.run("verify", "--settle=30s").returncode == 0


def test_to_skip_on_a_healthy_slot_is_refused(operator: Operator) -> None:
    pipeline = operator.pipeline
    pipeline.deploy(stable_seconds=0)
    pipeline.write(1)
    for options in (["--dry-run"], []):
        done = operator.run("deploy-connector", "--earlier-events=skip", *options)
        assert done.returncode == 2
        assert "no event can be skipped" in done.stderr
    pipeline.write(1)
    eventually(lambda: sequences(pipeline) == [1, 2], "the connector to go on")


@pytest.mark.parametrize("killed", [False, True], ids=["interrupted", "killed"])
@pytest.mark.parametrize("has_connector", [True, False], ids=["had a connector", "new connector"])
def test_an_unfinished_republish_is_owed_until_it_is_paid(
    operator: Operator, monkeypatch: pytest.MonkeyPatch, *, has_connector: bool, killed: bool
) -> None:
    pipeline = operator.pipeline
    client, name = pipeline.client, pipeline.name
    if has_connector:
        pipeline.deploy(stable_seconds=0)
        halt_and_drop_slot(pipeline)
    pipeline.write(3 if has_connector else 5)

    def interrupted(*_arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        # Before the first row: the slot is there, and nothing was published.
        patch.setattr(DeployedConnector, "publish_rows", interrupted)
        if killed:
            patch.setattr(Rollback, "take_back", lambda *_, **__: None)
        assert operator.run("deploy-connector", "--earlier-events=republish").returncode != 0
    # A change of the configuration shows as UNASSIGNED until the workers have seen it.
    eventually(lambda: client.find_status(name).state == "STOPPED", "it to be stopped")
    refused = operator.run("resume")
    assert refused.returncode == 1
    assert "has not published all rows" in refused.stderr
    # Whatever else lets it run, or tells it where to go on, does not settle the debt.
    with pipeline.connect() as connection:
        [(lsn,)] = connection.execute("select pg_current_wal_lsn()::text").fetchall()
    moved = operator.run("offsets set", "--to-offset", lsn, "--yes")
    assert moved.returncode == 0, moved.stderr
    client.resume(name)
    eventually(lambda: client.find_status(name).state == "RUNNING", "it to run")
    status = operator.run("status", "--output=json")
    [row] = json.loads(status.stdout)["connectors"]
    assert (status.returncode, row["owesRows"], row["up"]) == (1, True, False)
    assert "has not published all rows" in operator.run("status").stdout
    for command in ("plan", "deploy-connector"):
        assert operator.run(command).returncode == 1
    for command in ("preflight", "doctor"):
        assert "DB515" in {each["code"] for each in operator.findings(command)}
    operator.obey(row["remedy"])
    eventually(lambda: set(sequences(pipeline)) == {1, 2, 3, 4, 5}, "all events")
    assert operator.run("status").returncode == 0
    assert operator.findings("preflight") == []
    assert "nothing to change" in operator.run("deploy-connector").stdout
