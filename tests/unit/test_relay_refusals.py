"""What the relay refuses in a configuration, with the reason and what to do; everything else it takes as it is."""

from dataclasses import replace

import pytest

from cdc_outbox.contract.outbox_options import OutboxMode
from cdc_outbox.debezium.relay_refusals import find_relay_refusals
from cdc_outbox.debezium.render import render
from cdc_outbox.formats.event_format import EventFormat, PayloadType
from cdc_outbox.spec import Spec, load_spec
from tests.support.specs import ORDERS


@pytest.fixture
def spec() -> Spec:
    return load_spec(ORDERS)


@pytest.mark.parametrize("mode", [OutboxMode.KEEP, OutboxMode.DELETE])
@pytest.mark.parametrize("event_format", EventFormat)
def test_what_is_rendered_is_taken(spec: Spec, mode: OutboxMode, event_format: EventFormat) -> None:
    outbox = replace(spec.outbox, mode=mode, format=event_format)
    contract = replace(spec.contract, format=event_format)
    assert find_relay_refusals(render(replace(spec, outbox=outbox, contract=contract))) == []


def test_bytes_and_unusual_names_are_taken(spec: Spec) -> None:
    outbox = replace(spec.outbox, payload_type=PayloadType.BYTES, name="out.box ж$", schema="Sch-ema")
    assert find_relay_refusals(render(replace(spec, outbox=outbox))) == []


def test_logical_messages_are_refused(spec: Spec) -> None:
    config = render(replace(spec, outbox=replace(spec.outbox, mode=OutboxMode.MESSAGE)))
    [refusal] = find_relay_refusals(config)
    assert str(refusal) == (
        "transforms.decode.type: the relay does not read logical messages (outbox.mode: message). "
        "Choose the mode keep or delete, or publish with Debezium."
    )


ROUTER = "transforms.outbox."


@pytest.mark.parametrize(
    ("changed", "option", "reason"),
    [
        ({"connector.class": "io.debezium.connector.mariadb.MariaDbConnector"}, "connector.class", "PostgreSQL only"),
        ({"table.include.list": "public\\..*"}, "table.include.list", "reads one table"),
        ({"table.include.list": "public\\.a,public\\.b"}, "table.include.list", "reads one table"),
        ({"plugin.name": "decoderbufs"}, "plugin.name", "needs the value pgoutput"),
        ({"snapshot.mode": "initial"}, "snapshot.mode", "needs the value no_data or never"),
        ({"extended.headers.enabled": "true"}, "extended.headers.enabled", "needs the value false"),
        ({"errors.tolerance": "all"}, "errors.tolerance", "knows the value none only"),
        ({"time.precision.mode": "isostring"}, "time.precision.mode", "is not supported here"),
        ({"column.mask.with.0.chars": "public.outbox.payload"}, "column.mask.with.0.chars", "changes neither rows"),
        ({"producer.override.partitioner.class": "x.Y"}, "producer.override.partitioner.class", "nor partitions"),
        ({"transforms": "outbox,other", "transforms.other.type": "x.Y"}, "transforms.other.type", "runs no transform"),
        ({f"{ROUTER}table.expand.json.payload": "true"}, "table.expand.json.payload", "does not expand JSON"),
        ({f"{ROUTER}type": "x.MongoEventRouter"}, "transforms", "is not supported"),
        ({f"{ROUTER}negate": "true"}, f"{ROUTER}predicate", "every row of the table"),
        ({"predicates.isOutbox.pattern": "other"}, f"{ROUTER}predicate", "every row of the table"),
        ({"value.converter": "io.confluent.connect.avro.AvroConverter"}, "converter", "is not supported"),
        ({"transforms": ""}, "transforms", "no EventRouter"),
        ({f"{ROUTER}route.topic.regex": "("}, "transforms", "is not a regular expression"),
    ],
)
def test_what_the_relay_does_not_do_is_refused(spec: Spec, changed: dict[str, str], option: str, reason: str) -> None:
    [refusal] = find_relay_refusals(render(spec) | changed)
    assert refusal.option == option
    assert reason in refusal.reason
    assert refusal.remedy.endswith(".")


def test_a_header_converter_of_the_worker_is_refused(spec: Spec) -> None:
    config = render(spec)
    del config["header.converter"]
    [refusal] = find_relay_refusals(config)
    assert "Set header.converter=" in refusal.remedy
