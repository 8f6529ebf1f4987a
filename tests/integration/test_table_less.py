"""What logical messages do to connectors that nobody told of them: what is rendered is what keeps them from it."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import psycopg
import pytest

from cdc_outbox import TOMBSTONE, Event, Outbox, OutboxMode
from cdc_outbox.connect.wait import PASSING, Condition, condition_of
from cdc_outbox.debezium.lint import lint
from cdc_outbox.debezium.render import render
from cdc_outbox.spec import Spec, parse_spec
from tests.support.configs import config_of
from tests.support.pipeline import Pipeline
from tests.support.rig import eventually

PREFIXES, NULLS = "message.prefix.exclude.list", "transforms.decode.fields.null.include"
MISSING = "transforms.outbox.table.field.additional.missing"
EVENT = Event(aggregate_type="order", aggregate_id="1", type="OrderPlaced", payload={"total": 10})


EMPTY: Mapping[str, str] = {}
ENVELOPE = {
    "transforms.outbox.table.fields.additional.placement": "type:envelope,sequence:envelope",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}


class Connectors:
    """Connectors of one database, each with a slot and topics of its own, by the options that theirs lack."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.configs: dict[str, dict[str, str]] = {}

    def spec(self, name: str, mode: OutboxMode) -> Spec:
        text = Pipeline.text(name, f"outbox: {{mode: {mode}}}\n")
        return parse_spec(text.replace(f"  name: {name}\n  user", f"  name: {self.pipeline.name}\n  user"))

    def start(
        self, name: str, mode: OutboxMode, *, without: tuple[str, ...] = (), more: Mapping[str, str] = EMPTY
    ) -> str:
        """Start what is rendered without some options and with others, and return its name."""
        whole = f"{self.pipeline.name}-{name}"
        spec = self.spec(whole, mode)
        config = {option: value for option, value in render(spec).items() if option not in without} | dict(more)
        config |= {"publication.name": self.pipeline.spec.database.publication, "slot.name": slot_of(whole)}
        with self.pipeline.connect() as connection:
            connection.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", (slot_of(whole),))
        self.pipeline.client.put_config(config)
        self.configs[whole] = config
        return whole

    def condition(self, name: str) -> Condition | None:
        try:
            return condition_of(self.pipeline.client.find_status(name))
        except PASSING:
            return None

    def codes(self, name: str) -> set[str]:
        return {finding.code for finding in lint(config_of(self.configs[name]))}

    def keys(self, topic: str) -> list[bytes | None]:
        return [message.key for message in self.pipeline.stack.broker.messages(topic)]


def slot_of(name: str) -> str:
    return name.replace("-", "_")


@pytest.fixture
def connectors(pipeline: Pipeline) -> Iterator[Connectors]:
    made = Connectors(pipeline)
    yield made
    for name in made.configs:
        pipeline.client.delete(name)


def test_a_null_fails_a_task_and_a_message_becomes_a_record_only_without_what_is_rendered(
    connectors: Connectors,
) -> None:
    start = connectors.start
    rows, rows_default = start("rows", OutboxMode.KEEP), start("rows-default", OutboxMode.KEEP, without=(PREFIXES,))
    messages = start("messages", OutboxMode.MESSAGE)
    default = start("default", OutboxMode.MESSAGE, without=(NULLS, MISSING))
    lenient = start("lenient", OutboxMode.MESSAGE, without=(NULLS,))
    names = connectors.configs.keys()
    eventually(lambda: {connectors.condition(name) for name in names} == {Condition.UP}, "every connector to run")

    pipeline = connectors.pipeline
    emitting = Outbox(table=connectors.spec(messages, OutboxMode.MESSAGE).outbox)
    with psycopg.connect(pipeline.dsn) as connection:
        emitting.add(connection, replace(EVENT, aggregate_id="whole", headers={"traceparent": "x", "tracestate": "x"}))
        connection.commit()
    readers = (messages, default, lenient)
    eventually(
        lambda: all(connectors.keys(f"{name}.order") == [b"whole"] for name in readers), "an event without nulls"
    )

    with psycopg.connect(pipeline.dsn) as connection:
        emitting.add(connection, replace(EVENT, aggregate_id="null header"))
    eventually(lambda: connectors.condition(default) is Condition.FAILED, "a null column to fail the task")
    with psycopg.connect(pipeline.dsn) as connection:
        emitting.add(connection, replace(EVENT, aggregate_id="null payload", payload=TOMBSTONE))
    eventually(lambda: connectors.condition(lenient) is Condition.FAILED, "a null payload to fail the task")
    eventually(lambda: len(connectors.keys(f"{messages}.order")) == 3, "every event where it was rendered")
    assert set(connectors.keys(f"{lenient}.order")) == {b"whole", b"null header"}

    pipeline.write(1)
    eventually(lambda: len(connectors.keys(f"{rows}.order")) == 1, "the row behind the messages")
    eventually(lambda: len(connectors.keys(f"{rows_default}.message")) >= 3, "messages in a topic of their own")
    assert not pipeline.stack.broker.ends(f"{rows}.message")
    assert {connectors.condition(name) for name in (rows, messages)} == {Condition.UP}

    assert {name: connectors.codes(name) & {"CC511", "CC512", "CC522"} for name in connectors.configs} == {
        rows: set(),
        rows_default: {"CC512"},
        messages: set(),
        default: {"CC522"},
        lenient: {"CC522"},
    }


def test_a_logical_messages_number_changes_its_type_which_an_envelope_does_not_take(connectors: Connectors) -> None:
    name = connectors.start("enveloped", OutboxMode.MESSAGE, more=ENVELOPE)
    spec = connectors.spec(name, OutboxMode.MESSAGE)
    outbox = Outbox(spec=spec)
    with psycopg.connect(connectors.pipeline.dsn) as connection:
        outbox.add_all(connection, [EVENT, replace(EVENT, aggregate_type="metric")])
    eventually(lambda: len(connectors.keys(f"{name}.metric")) == 1, "a number, and none behind it")
    assert connectors.condition(name) is Condition.UP
    with connectors.pipeline.connect() as connection:
        connection.execute("update outbox_heads set last = 2147483647")
        with connection.transaction():
            outbox.add(connection, EVENT)
    eventually(lambda: connectors.condition(name) is Condition.FAILED, "a large number to fail the task")
