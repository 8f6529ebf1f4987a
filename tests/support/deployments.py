"""What tests of deployments ask of a pipeline, and the ways in which its configuration breaks."""

import pytest

from cdc_outbox.debezium.render import render
from cdc_outbox.errors import ConnectorInvalidError
from cdc_outbox.spec import Spec, parse_spec
from tests.support.pipeline import Pipeline
from tests.support.rig import eventually, one


def spec_with(pipeline: Pipeline, old: str, new: str) -> Spec:
    text = Pipeline.text(pipeline.name)
    assert old in text
    return parse_spec(text.replace(old, new), name="changed.yaml")


def sequences(pipeline: Pipeline) -> list[int]:
    """Return the numbers in the topic, repeated ones left out."""
    events = [pipeline.spec.contract.event_of(message) for message in pipeline.messages()]
    return list(dict.fromkeys(event.sequence or 0 for event in events))


def codes(error: ConnectorInvalidError) -> list[str]:
    return [finding.code for finding in error.findings]


def halt_and_drop_slot(pipeline: Pipeline) -> None:
    """Publish two events, stop the connector, which makes Connect store its offset, and drop the slot."""
    publish_and_halt(pipeline)
    with pipeline.connect() as connection:
        connection.execute("select pg_drop_replication_slot(%s)", (pipeline.spec.database.slot,))


def halt_and_advance_slot(pipeline: Pipeline) -> None:
    """Publish two events, stop the connector, and move the slot over a third one."""
    with pipeline.keep_log(), pipeline.connect() as connection:
        publish_and_halt(pipeline)
        pipeline.write(1)
        advance = "select pg_replication_slot_advance(%s, pg_current_wal_lsn())"
        connection.execute(advance, (pipeline.spec.database.slot,))


def halt_and_forget(pipeline: Pipeline) -> None:
    """Publish two events, stop the connector, and remove slot and offset, as a new server beside a new Connect does."""
    halt_and_drop_slot(pipeline)
    pipeline.client.reset_offsets(pipeline.name)


def publish_and_halt(pipeline: Pipeline) -> None:
    """Publish two events, and stop the connector, which makes Connect store its offset."""
    pipeline.write(2)
    eventually(lambda: sequences(pipeline) == [1, 2], "two events")
    pipeline.client.stop(pipeline.name)
    eventually(lambda: pipeline.client.find_offsets(pipeline.name), "Connect to store an offset")
    with pipeline.connect() as connection:
        active = "select count(*) from pg_replication_slots where active and database = %s"
        eventually(lambda: not one(connection, active, pipeline.name), "the slot to be free")


def slot_exists(pipeline: Pipeline) -> bool:
    with pipeline.connect() as connection:
        return bool(one(connection, "select count(*) from pg_replication_slots where database = %s", pipeline.name))


def break_transform(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the connector rendered with a placement that `/validate` takes and the task does not."""
    monkeypatch.setattr("cdc_outbox.connect.deploy.render", lambda spec: broken(render(spec)))


def broken(config: dict[str, str]) -> dict[str, str]:
    return config | {"transforms.outbox.table.fields.additional.placement": "type"}
