"""A contract as a file: written and read it is the same, and what is no contract is refused with its reason."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cdc_outbox import EventFormat, ForeignOutbox, HeaderNames, PayloadType, SequenceMode, WireContract, load_spec
from cdc_outbox.consumer import load_contract
from cdc_outbox.contract.contract_file import contract_json, parse_contract
from cdc_outbox.errors import ConfigError
from cdc_outbox.testing import MemoryOutbox
from tests.support.commands import run_command

ROOT = Path(__file__).parents[2]
PLAIN = WireContract(aggregates={"order": SequenceMode.GAPLESS, "metric": SequenceMode.NONE})
CONTRACTS = [
    PLAIN,
    replace(PLAIN, topic="orders", extra_headers=(), format=EventFormat.ENVELOPE),
    replace(PLAIN, headers=HeaderNames(type="t", source="from"), payload_type=PayloadType.BYTES),
    WireContract(
        aggregates={"order": SequenceMode.INCREASING},
        format=EventFormat.CLOUDEVENTS_BINARY,
        extra_headers=("tenant",),
        foreign=ForeignOutbox(default_type="{aggregate_type}", id_header="message-id"),
    ),
    replace(PLAIN, foreign=ForeignOutbox()),
    replace(PLAIN, latest=("order",), by_watermark=("order",)),
]


@pytest.mark.parametrize("contract", CONTRACTS)
def test_a_contract_that_is_written_and_read_is_the_same(contract: WireContract, tmp_path: Path) -> None:
    path = tmp_path / "orders.contract.json"
    path.write_text(json.dumps(contract_json(contract)))
    assert load_contract(path) == load_contract(str(path)) == contract


def test_the_command_writes_what_the_spec_says(tmp_path: Path) -> None:
    path = tmp_path / "orders.contract.json"
    printed = run_command("contract", "export", str(ROOT / "connectors/orders.yaml"))
    assert printed.returncode == 0, printed.stderr
    path.write_text(printed.stdout)
    assert load_contract(path) == load_spec(ROOT / "connectors/orders.yaml").contract
    assert (ROOT / "examples/orders/orders.contract.json").read_text() == printed.stdout


def test_a_file_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "orders.contract.json"
    command = ("contract", "export", str(ROOT / "connectors/orders.yaml"), "--file", str(path))
    assert run_command(*command).returncode == 0
    again = run_command(*command)
    assert (again.returncode, "exists" in again.stderr) == (2, True)


def changed(**keys: Any) -> str:
    return json.dumps({**contract_json(PLAIN), **keys})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not JSON"),
        ("[]", "contract must be an object"),
        ("{}", "version must be 1, not None"),
        (changed(version=2), "version must be 1, not 2"),
        ('{"version": 1, "topic": "orders"}', "the key 'aggregates' is missing"),
        ('{"version": 1, "aggregates": {"order": "none"}}', "the key 'topic' is missing"),
        (changed(topics="orders"), "unknown key 'topics' in contract"),
        (changed(aggregates={}), "at least one aggregate type"),
        (changed(aggregates=["order"]), "aggregates must be an object"),
        (changed(aggregates={"order": "gaplss"}), "aggregates.order must be one of gapless, increasing or none"),
        (changed(aggregates={"or der": "none"}), "which Kafka refuses"),
        (changed(topic=["orders"]), "topic must be a string"),
        (changed(headers={"kind": "t"}), "unknown key 'kind' in headers"),
        (changed(headers={"type": "a:b"}), "cannot be the header"),
        (changed(extra_headers="tenant"), "extra_headers must be a list"),
        (changed(latest=["metric"]), "latest needs sequence numbers, but events of 'metric' have none"),
        (changed(by_watermark=["price"]), "the aggregate type 'price' is not in the contract"),
        (changed(latest={"order": True}), "latest must be a list"),
        (changed(format="plane"), "format must be one of plain, envelope, cloudevents-binary or"),
        (changed(payload_type=None), "payload_type must be one of json, bytes or expanded"),
        (changed(foreign={"id_heder": "id"}), "unknown key 'id_heder' in foreign"),
        ('{"version": 1, "version": 1}', "not JSON"),
    ],
)
def test_what_is_no_contract_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_contract(text, name="orders.contract.json")
    assert str(raised.value).startswith("orders.contract.json is not ")
    assert reason in str(raised.value)
    assert raised.value.hint


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.json cannot be read: No such file") as raised:
        load_contract(tmp_path / "nowhere.json")
    assert "contract export" in str(raised.value.hint)


def test_a_spec_is_all_that_an_outbox_needs(tmp_path: Path) -> None:
    path = tmp_path / "orders.yaml"
    text = (ROOT / "connectors/orders.yaml").read_text().replace("table: outbox", "table: order_events")
    path.write_text(text.replace("  schema: public", "  mode: delete"))
    spec = load_spec(path)
    outbox = MemoryOutbox(spec=spec)
    assert (outbox.table.name, outbox.table.mode, outbox.contract) == ("order_events", "delete", spec.contract)
