"""Debezium's own EventRouter in a JVM, and what our messages become in it."""

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import platformdirs
import pytest

from cdc_outbox import ForeignOutbox, PayloadType, RecordedEvent, SequenceMode, WireContract
from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.debezium.event_router import (
    Change,
    ConnectRecord,
    ConnectSchema,
    ConnectStruct,
    ConnectType,
    ConnectValue,
    LogicalName,
    Routing,
    RoutingConfig,
)
from cdc_outbox.debezium.event_router.column_values import ColumnModes
from cdc_outbox.debezium.event_router.jvm import Jvm, RealRouter, encoding, fetch_plugin, find_jvm
from cdc_outbox.debezium.event_router.outbox_rows import Row, outbox_columns, parse_row
from cdc_outbox.debezium.event_router.routing import CONVERTERS as CLASSES
from cdc_outbox.debezium.event_router.routing import EVENT_ROUTER, ConnectPlugin
from cdc_outbox.debezium.render import raw_topic, render
from cdc_outbox.errors import EventError, StackError
from cdc_outbox.formats import expansion
from cdc_outbox.formats.timestamps import to_milliseconds
from cdc_outbox.message import Message
from cdc_outbox.spec import Spec, parse_spec
from fuzz.router_cases import make_case
from fuzz.router_tables import CONVERTERS
from tests.support.profiles import PROFILES, payload_of
from tests.support.shapes import object_text
from tests.support.specs import MINIMAL


@pytest.fixture(scope="module")
def jvm() -> Jvm:
    return find_jvm(platformdirs.user_cache_path("cdc-outbox"))


@pytest.fixture(scope="module")
def real(jvm: Jvm) -> Iterator[RealRouter]:
    with RealRouter.open(jvm) as opened:
        yield opened


def test_the_real_one_answers_in_turn_and_goes_on_after_an_error(real: RealRouter) -> None:
    case = make_case(0)
    broken = ConnectPlugin(case.config.router.java_class, {"route.topic.regex": "("})
    config = RoutingConfig(router=broken, key=case.config.key, value=case.config.value, header=case.config.header)
    [error] = real.route(config, case.records, connector="postgresql")
    assert "ConfigException" in repr(getattr(error, "exception", None))
    assert len(real.route(case.config, case.records, connector="postgresql")) == len(case.records)


def test_both_pass_on_what_is_no_change_and_drop_a_tombstone(real: RealRouter) -> None:
    config = make_case(0).config
    schema = ConnectSchema(type=ConnectType.STRUCT, fields=(("a", ConnectSchema(type=ConnectType.STRING)),))
    records = [ConnectRecord(topic="x", value=ConnectStruct(schema, {"a": "b"})), ConnectRecord(topic="x", value=None)]
    [passed, dropped] = real.route(config, records, connector="postgresql")
    routing = Routing.from_config(config)
    assert isinstance(passed, Message)
    assert [passed, dropped] == [routing.message(record) for record in records] == [passed, None]


def test_a_document_is_sent_as_it_is() -> None:
    change = encoding.record(ConnectRecord(topic="x", value=Change(row=None, document="{}")))["value"]["change"]
    assert change["document"] == "{}"


def test_a_java_without_a_compiler_is_named(jvm: Jvm, tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'error: no compiler module found' >&2\nexit 1\n")
    java.chmod(0o755)
    case = make_case(0)
    with (
        RealRouter.open(Jvm(str(java), jvm.home)) as opened,
        pytest.raises(StackError, match="no compiler module found") as caught,
    ):
        opened.route(case.config, case.records, connector="postgresql")
    assert "jdk" in caught.value.hint


def test_a_release_that_maven_does_not_have_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maven = tmp_path / "mvn"
    maven.write_text("#!/bin/sh\nexit 1\n")
    maven.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(StackError, match=r"postgres:3\.5\.2\.Final") as caught:
        fetch_plugin(tmp_path / "cache", "postgres", "3.5.2.Final")
    assert "release" in caught.value.hint
    assert list((tmp_path / "cache" / "plugins").iterdir()) == []


def test_json_expansion_is_left_to_the_real_one(real: RealRouter) -> None:
    case = make_case(0)
    config = RoutingConfig(
        router=ConnectPlugin(case.config.router.java_class, {"table.expand.json.payload": "true"}),
        key=CONVERTERS["String"],
        value=CONVERTERS["Json without schemas"],
        header=case.config.header,
    )
    columns = {"id": "1", "aggregatetype": "User", "aggregateid": "7", "payload": '{"a": [1], "b": null, "c": 1.50}'}
    row = {name: ConnectValue(ConnectType.STRING, text) for name, text in columns.items()}
    [message] = real.route(config, [ConnectRecord(topic="x", value=Change(row=row))], connector="postgresql")
    assert isinstance(message, Message)
    assert message.value == b'{"a":[1],"c":1.5}'


def spec_of(kind: DatabaseKind, profile: str) -> Spec:
    return parse_spec(f"{MINIMAL}outbox: {{schema: APP{profile}}}\n".replace("postgresql", kind))


def row_of(spec: Spec, event: RecordedEvent) -> Row:
    """Return the row that a writer makes of an event, as a connector hands it to the router."""
    columns, content = spec.outbox.columns.names(), event.payload
    values = {columns[role]: getattr(event, role) for role in columns if role != "created_at"}
    values[columns["payload"]] = f"\\x{content.hex()}" if isinstance(content, bytes) else content
    headers = {column: "x" for column in spec.outbox.header_columns if column not in spec.outbox.headers}
    row = values | headers | ({columns["created_at"]: "2026-01-02 03:04:05.678901"})
    return parse_row(json.dumps(row), outbox_columns(spec.outbox), {}, ColumnModes(render(spec)))


@pytest.mark.parametrize(
    "kind", [kind for kind in DatabaseKind if kind not in {DatabaseKind.SQLITE, DatabaseKind.MONGODB}]
)
def test_a_row_of_every_profile_passes_the_real_router_and_is_read(real: RealRouter, kind: DatabaseKind) -> None:
    for name, profile in PROFILES.items():
        spec = spec_of(kind, profile)
        event = RecordedEvent(
            aggregate_type="customer",
            aggregate_id="ü",
            type="Placed",
            payload=payload_of(spec.outbox.payload_type),
            id="019a9e2c-1c80-7abc-8def-0123456789ab",
            sequence=2**40,
            source="orders.1",
            created_at=datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC),
        )
        record = ConnectRecord(topic=raw_topic(spec), value=Change(row=row_of(spec, event)))
        config = RoutingConfig.from_config(render(spec))
        [message] = real.route(config, [record], connector="postgresql")
        assert isinstance(message, Message), (name, message)
        if spec.outbox.payload_type is not PayloadType.EXPANDED:
            assert Routing.from_config(config).message(record) == message
        if name == "cloudevents-structured":
            continue  # its envelope is the writer's
        read = spec.contract.event_of(message)
        if spec.outbox.payload_type is not PayloadType.EXPANDED:
            assert spec.contract.message_of(event).value == message.value
        expected = event.payload if isinstance(event.payload, bytes) else json.loads(event.payload)
        assert replace(read, headers={}) == replace(event, payload=expected), name


TEXT = '{"total": 10, "note": "é"}'
PAYLOADS = [
    ConnectValue(ConnectType.STRING, TEXT, LogicalName.JSON),
    ConnectValue(ConnectType.STRING, TEXT),
    ConnectValue(ConnectType.STRING, json.dumps(TEXT), LogicalName.JSON),
    ConnectValue(ConnectType.STRING, None, LogicalName.JSON),
]
IDS = [ConnectValue(ConnectType.STRING, "42"), ConnectValue(ConnectType.INT64, 42)]


@pytest.mark.parametrize("placement", ["", "type:header:eventType", "type:envelope:eventType"])
def test_a_foreign_outbox_is_read_whatever_its_connector_was_told(real: RealRouter, placement: str) -> None:
    foreign = ForeignOutbox(default_type="{aggregate_type}")
    contract = WireContract(aggregates={"order": SequenceMode.NONE, "bill": SequenceMode.NONE}, foreign=foreign)
    kind = "Placed" if placement else "order"
    expected = RecordedEvent(
        aggregate_type="order",
        aggregate_id="42",
        type=kind,
        payload=json.loads(TEXT),
        id="e1",
        created_at=datetime(2026, 1, 2, tzinfo=UTC),
    )
    texts = {"id": "e1", "aggregatetype": "order", "type": "Placed"}
    row = {name: ConnectValue(ConnectType.STRING, text) for name, text in texts.items()}
    records = [
        ConnectRecord(
            topic="x",
            value=Change(
                row={**row, "aggregateid": identity, "payload": held},
                connector_time_ms=to_milliseconds(expected.created_at),
            ),
        )
        for identity, held in product(IDS, PAYLOADS)
    ]
    headers = [ConnectPlugin(CLASSES["SimpleHeaderConverter"]), CONVERTERS["Json"], CONVERTERS["Json without schemas"]]
    text, *others = (CONVERTERS[name] for name in ("String", "Json", "Json without schemas"))
    values = others if "envelope" in placement else [text, *others]
    router = ConnectPlugin(EVENT_ROUTER, {"table.fields.additional.placement": placement} if placement else {})
    for key, value, header in product([text, *others], values, headers):
        config = RoutingConfig(router=router, key=key, value=value, header=header)
        messages = real.route(config, records, connector="postgresql")
        for (_, held), message in zip(product(IDS, PAYLOADS), messages, strict=True):
            assert isinstance(message, Message), message
            payload = None if held.value is None else expected.payload
            assert contract.event_of(message) == replace(expected, payload=payload), (config, message)


def test_what_writers_let_be_expanded_arrives_as_it_was_written(real: RealRouter) -> None:
    texts = [object_text(number) for number in range(4_000)]
    taken = []
    for text in texts:
        with suppress(EventError):
            taken.append(expansion.check(text))
    assert len(taken) > len(texts) / 2
    assert expand(real, taken) == [json.loads(text) for text in taken]
    # Nor does it refuse without need: of what it does, hardly anything would have arrived.
    refused = sorted({*texts} - {*taken})
    arrived = [one == json.loads(text) for one, text in zip(expand(real, refused), refused, strict=True)]
    assert sum(arrived) < len(refused) / 5


def expand(real: RealRouter, texts: list[str]) -> list[object]:
    """Return what arrives of payloads, or the error at which the task would fail."""
    spec = spec_of(DatabaseKind.POSTGRESQL, PROFILES["expanded"])
    columns = {"id": "1", "aggregatetype": "order", "aggregateid": "7"}
    records = [
        ConnectRecord(
            topic=raw_topic(spec),
            value=Change(row={name: ConnectValue(ConnectType.STRING, held) for name, held in row.items()}),
        )
        for row in (columns | {"payload": text} for text in texts)
    ]
    # A row of these columns alone: what else is placed would be ignored, but for the time.
    config = render(spec)
    del config["transforms.outbox.table.field.event.timestamp"]
    outcomes = real.route(RoutingConfig.from_config(config), records, connector="postgresql")
    return [json.loads(one.value or b"") if isinstance(one, Message) else one for one in outcomes]
