"""Bytes of messages: what contracts make of events and read back, and what the EventRouter makes of rows."""

import json
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cdc_outbox import (
    TOMBSTONE,
    CdcOutboxError,
    EventFormat,
    ForeignOutbox,
    HeaderNames,
    PayloadType,
    RecordedEvent,
    SequenceMode,
    WireContract,
)
from tests.support.commands import run_command
from tests.support.configs import CLEAN
from tests.support.golden import golden
from tests.support.specs import MINIMAL

MODES = {"order": SequenceMode.GAPLESS, "cart": SequenceMode.INCREASING}
PLAIN = WireContract(aggregates=MODES)
NAMES = HeaderNames(type="kind", aggregate_type="of", sequence="number", source="writer", created_at="at")
CONTRACTS = {
    **{f"{form}, {payload}": WireContract(aggregates=MODES, format=form, payload_type=payload)
       for form in EventFormat for payload in PayloadType},
    "other names": WireContract(
        aggregates=MODES, headers=NAMES, extra_headers=("tenant",), topic="shop.{aggregate_type}"
    ),
    "other fields": WireContract(aggregates=MODES, headers=NAMES, format=EventFormat.ENVELOPE),
    "not numbered": WireContract(aggregates={"order": SequenceMode.NONE, "cart": SequenceMode.NONE}, topic="all"),
    "another tool's": WireContract(
        aggregates=MODES, foreign=ForeignOutbox(id_header="eventId", default_type="{aggregate_type}Changed")
    ),
}  # fmt: skip
ORDER = RecordedEvent(
    id="0198c0de-0000-7000-8000-000000000001",
    aggregate_type="order",
    aggregate_id="42",
    type="OrderPlaced",
    payload={"total": 10, "name": "Größe"},
    sequence=1,
    source="orders.1",
    created_at=datetime(2026, 11, 21, 10, 0, 0, 123456, tzinfo=UTC),
)
EVENTS = {
    "an object": ORDER,
    "verbatim text": replace(ORDER, payload='{ "as":  "is", "ß": "\\u00e9" }'),
    "a list": replace(ORDER, payload=[1, 2.5, None, True, "x"], aggregate_type="cart", sequence=2**63 - 1),
    "bytes": replace(ORDER, payload=b"\0\xff%s"),
    "a tombstone": replace(ORDER, payload=TOMBSTONE),
    "no payload": replace(ORDER, payload=None),
    "headers": replace(ORDER, headers={"traceparent": "00-é-01", "tenant": "a,b:c", "other": "x"}),
    "nothing optional": replace(ORDER, sequence=None, source=None),
    "unusual texts": replace(ORDER, id="ü/1", aggregate_id='a b"c\n', type="x:y,z", source="s.9"),
}
ROWS = (
    {"id": ORDER.id, "aggregatetype": "customer", "aggregateid": "42", "type": "Placed", "payload": {"a": 1},
     "sequence": 7, "source": "orders.1", "created_at": "2026-11-21T10:00:00.123456", "traceparent": "00-1"},
    {"id": ORDER.id, "aggregatetype": "Größe", "aggregateid": "é", "type": "Placed", "payload": "[1, 2]",
     "created_at": "2026-11-21T10:00:00"},
    {"id": ORDER.id, "aggregatetype": "customer", "aggregateid": None, "type": None, "payload": None,
     "created_at": "2026-11-21T10:00:00"},
)  # fmt: skip
_R, _T = "transforms.outbox.", "transforms.outbox.table."
OPTIONS: dict[str, dict[str, str]] = {
    "as it is": {},
    "an envelope": {f"{_T}fields.additional.placement": "type:envelope:eventType,aggregateid:envelope"},
    "an expanded payload": {f"{_T}expand.json.payload": "true"},
    "tombstones": {f"{_R}route.tombstone.on.empty.payload": "true"},
    "another key and payload": {f"{_T}field.event.key": "type", f"{_T}field.event.payload": "aggregateid"},
    "another topic": {f"{_R}route.by.field": "type", f"{_R}route.topic.replacement": "x.${{routedByValue}}"},
    "another regex": {f"{_R}route.topic.regex": "(.)(.*)", f"{_R}route.topic.replacement": "$2-$1"},
    "a partition": {f"{_T}fields.additional.placement": "sequence:partition"},
    "a missing column": {f"{_T}fields.additional.placement": "absent:header:x"},
    "a version": {f"{_T}field.event.schema.version": "sequence"},
    "text through JsonConverter": {"value.converter": "org.apache.kafka.connect.json.JsonConverter"},
}


def shown(value: bytes | None) -> str | None:
    """Return bytes as a Python literal shows them."""
    return None if value is None else repr(value)[2:-1]


def written_and_read(contract: WireContract, event: RecordedEvent) -> dict[str, Any]:
    """Return the message of an event, and the event of that message."""
    try:
        message = contract.message_of(event)
    except (CdcOutboxError, UnicodeDecodeError) as error:  # an envelope of text cannot hold such bytes
        return {"refused": f"{type(error).__name__}: {error}"}
    found: dict[str, Any] = {
        "topic": message.topic,
        "key": shown(message.key),
        "value": shown(message.value),
        "headers": [[name, shown(value)] for name, value in message.headers],
        "timestamp_ms": message.timestamp_ms,
    }
    try:
        read = asdict(contract.event_of(message))
    except CdcOutboxError as error:
        return found | {"unread": f"{type(error).__name__}: {error}"}
    was = asdict(event)
    return found | {"read otherwise": {name: repr(value) for name, value in read.items() if value != was[name]}}


def lines(found: dict[str, Any]) -> str:
    """Return one compact entry for each name, so that a difference is short."""
    return "\n\n".join(
        "\n ".join([name, *(f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in content.items())])
        for name, content in found.items()
    )


@pytest.mark.parametrize("name", CONTRACTS)
def test_messages_of_events(name: str) -> None:
    found = {what: written_and_read(CONTRACTS[name], event) for what, event in EVENTS.items()}
    golden(f"messages/{name.replace(', ', '-').replace(' ', '-').replace(chr(39), '')}.txt").check(lines(found))


def test_every_contract_reads_the_messages_of_every_other() -> None:
    found: dict[str, Any] = {}
    for writer, contract in CONTRACTS.items():
        message = contract.message_of(ORDER)
        for reader, other in CONTRACTS.items():
            try:
                event = other.event_of(message)
            except CdcOutboxError as error:
                found[f"{writer} -> {reader}"] = {"error": f"{type(error).__name__}: {error}"}
                continue
            was = asdict(ORDER)
            content = {key: repr(value) for key, value in asdict(event).items() if value != was[key]}
            if content:
                found[f"{writer} -> {reader}"] = content
    golden("messages/read-by-others.txt").check(lines(found))


@pytest.mark.parametrize("kind", [kind for kind in CLEAN if kind.name in {"POSTGRESQL", "MARIADB", "ORACLE"}], ids=str)
def test_the_routers_output_for_rows(kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.json").write_text(json.dumps(CLEAN[kind]))
    rows = [{name.upper(): value for name, value in row.items()} if kind.name == "ORACLE" else row for row in ROWS]
    given = [argument for row in rows for argument in ("--row", json.dumps(row))]
    given += ["--column-type", "CREATED_AT=timestamp" if kind.name == "ORACLE" else "created_at=timestamp"]
    found: dict[str, Any] = {}
    for name, options in OPTIONS.items():
        settings = [argument for option, value in options.items() for argument in ("--set", f"{option}={value}")]
        done = run_command("simulate", "x.json", *given, *settings, "--output", "json")
        outcomes = json.loads(done.stdout)["outcomes"] if done.stdout else []
        found[name] = {"exit": done.returncode, "stderr": done.stderr}
        found[name] |= {f"row {number}": outcome for number, outcome in enumerate(outcomes, 1)}
    golden(f"messages/router-{kind.name.lower()}.txt").check(lines(found))


@pytest.mark.parametrize("form", [str(form) for form in EventFormat])
def test_the_routers_output_for_rows_of_a_spec(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found: dict[str, Any] = {}
    for payload_type in PayloadType:
        outbox = f"format: {form}, payload_type: {payload_type}"
        Path("x.yaml").write_text(f"{MINIMAL}outbox: {{{outbox}, headers: {{tenant: tenant-id}}}}\n")
        row = ROWS[0] | {"tenant": "t", "payload": "eyJhIjogMX0=" if "bytes" in outbox else ROWS[0]["payload"]}
        for operation in ("insert", "delete"):
            done = run_command(
                "simulate", "x.yaml", "--row", json.dumps(row), "--operation", operation, "--output", "json"
            )
            content = {"exit": done.returncode, "stderr": done.stderr}
            if done.stdout:
                content |= json.loads(done.stdout)["outcomes"][0]
            found[f"{outbox}: {operation}"] = content
    golden(f"messages/spec-{form}.txt").check(lines(found))
