"""Which aggregate a message that cannot be read is told to be of."""

from dataclasses import replace

import pytest

from cdc_outbox.consumer import ForeignOutbox, SequenceMode, WireContract
from cdc_outbox.consumer.item import aggregate_in, item_of, stray_id
from cdc_outbox.consumer.ordering import Aggregate
from cdc_outbox.formats.event_format import EventFormat
from cdc_outbox.message import Message

CONTRACT = WireContract(aggregates={"price": SequenceMode.INCREASING, "visit": SequenceMode.NONE})
SHARED = replace(CONTRACT, topic="events")
PRICE, VISIT = Aggregate("prices.1", "price", "1"), Aggregate("", "visit", "1")


def message(*headers: tuple[str, bytes | None], topic: str = "outbox.event.price", key: bytes | None = b"1") -> Message:
    return Message(topic=topic, key=key, value=b"\xff", headers=headers)


TYPE, SOURCE = ("aggregateType", b"price"), ("source", b"prices.1")


@pytest.mark.parametrize("contract", [CONTRACT, SHARED])
def test_headers_and_key_tell_the_aggregate(contract: WireContract) -> None:
    assert aggregate_in(message(TYPE, SOURCE), contract) == PRICE
    binary = message(("ce_type", b"Changed"), ("ce_aggregatetype", b"price"), ("ce_source", b"prices.1"))
    assert aggregate_in(binary, contract) == PRICE
    assert aggregate_in(message(("aggregateType", b"visit")), contract) == VISIT


def test_a_topic_of_one_type_tells_the_type_that_no_header_tells() -> None:
    for headers in ([SOURCE], [SOURCE, ("aggregateType", None)], [SOURCE, ("aggregateType", b"")]):
        assert aggregate_in(message(*headers), CONTRACT) == PRICE
        assert aggregate_in(message(*headers, topic="events"), SHARED) is None
    nameless = replace(message(topic="outbox.event.visit"), has_headers=False)
    assert aggregate_in(nameless, CONTRACT) == VISIT


@pytest.mark.parametrize("key", [None, b"", b"\xff"])
def test_without_a_key_that_is_text_it_cannot_be_told(key: bytes | None) -> None:
    assert aggregate_in(message(TYPE, SOURCE, key=key), CONTRACT) is None


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param([TYPE], id="no-source"),
        pytest.param([TYPE, ("source", b"\xff")], id="source-is-no-text"),
        pytest.param([TYPE, SOURCE, ("source", b"prices.2")], id="two-sources"),
        pytest.param([("aggregateType", b"unknown"), SOURCE], id="unknown-type"),
        pytest.param([("aggregateType", b"\xff"), SOURCE], id="type-is-no-text"),
        pytest.param([TYPE, ("aggregateType", b"visit"), SOURCE], id="two-types"),
    ],
)
def test_what_says_nothing_or_two_things_is_not_guessed(headers: list[tuple[str, bytes | None]]) -> None:
    assert aggregate_in(message(*headers), CONTRACT) is None


def test_the_fields_of_an_envelope_tell_what_its_headers_do_not() -> None:
    contract = replace(SHARED, format=EventFormat.ENVELOPE)
    value = b'{"payload":null,"eventType":"Changed","aggregateType":"price","source":"prices.1","sequence":"x"}'
    assert aggregate_in(replace(message(topic="events"), value=value), contract) == PRICE
    assert aggregate_in(replace(message(topic="events"), value=value.replace(b"prices", b"\\ud800")), contract) is None
    assert aggregate_in(message(topic="events"), contract) is None


def test_what_a_converter_puts_around_key_and_headers_is_taken_off() -> None:
    contract = replace(CONTRACT, foreign=ForeignOutbox())
    told = message(("aggregateType", b'"price"'), ("source", b'"prices.1"'), key=b'"1"')
    assert aggregate_in(told, contract) == PRICE


def test_a_message_without_any_header_of_the_contract_is_stray_and_holds_up_no_aggregate() -> None:
    theirs = message(("trace", b"x"), ("id", None), topic="outbox.event.visit")
    assert stray_id(theirs, CONTRACT) == "outbox.event.visit[None]#stray"
    item = item_of(theirs, CONTRACT)
    assert item.failure is not None
    assert (item.failure.is_stray, item.is_judged, item.event.id) == (True, False, stray_id(theirs, CONTRACT))
    foreign = replace(CONTRACT, foreign=ForeignOutbox(default_type="Changed"))
    for ours, contract in (
        (message(("id", b"1")), CONTRACT),
        (message(("ce_type", b"Changed")), CONTRACT),
        (message(("content-type", b"application/cloudevents+json")), CONTRACT),
        (message(TYPE), CONTRACT),
        (replace(theirs, has_headers=False), CONTRACT),
        (theirs, foreign),
    ):
        assert stray_id(ours, contract) is None
        failure = item_of(ours, contract).failure
        assert failure is not None
        assert not failure.is_stray
