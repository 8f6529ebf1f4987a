"""Both ways from a message to its event say the same: the quick one, and the general one."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_outbox import EventFormat, ForeignOutbox, HeaderNames, PayloadType, RecordedEvent, SequenceMode, WireContract
from cdc_outbox.contract.plain_reader import PlainReader
from cdc_outbox.errors import MessageError
from cdc_outbox.formats.attributes import BUILT_IN_HEADERS
from cdc_outbox.message import Message

AGGREGATES = {"order": SequenceMode.GAPLESS, "cart": SequenceMode.INCREASING, "metric": SequenceMode.NONE}
PLAIN = WireContract(aggregates=AGGREGATES)
CONTRACTS: Mapping[str, WireContract] = {
    "plain": PLAIN,
    "bytes": replace(PLAIN, payload_type=PayloadType.BYTES),
    "expanded": replace(PLAIN, payload_type=PayloadType.EXPANDED),
    "other names": replace(PLAIN, headers=HeaderNames(type="kind", sequence="n", created_at="at")),
    "special names": replace(PLAIN, headers=HeaderNames(type="ce_specversion", source="content-type")),
    "special headers": replace(PLAIN, extra_headers=("content-type", "ce_id", "x-tenant")),
    "envelope": replace(PLAIN, format=EventFormat.ENVELOPE),
    "structured": replace(PLAIN, format=EventFormat.CLOUDEVENTS_STRUCTURED),
    "foreign": replace(PLAIN, foreign=ForeignOutbox()),
}
MESSAGE = Message(
    topic="outbox.event.order",
    partition=2,
    offset=3,
    key=b"42",
    value=b'{"a": 1}',
    headers=(
        ("id", b"1"),
        ("eventType", b"Placed"),
        ("aggregateType", b"order"),
        ("sequence", b"7"),
        ("source", b"orders.1"),
        ("createdAt", b"1800000000000000"),
        ("traceparent", None),
    ),
    timestamp_ms=1_800_000_000_000,
)


def without(header: str) -> Message:
    return replace(MESSAGE, headers=tuple(pair for pair in MESSAGE.headers if pair[0] != header))


UNUSUAL: Mapping[str, Message] = {
    "no headers": replace(MESSAGE, headers=()),
    "headers that cannot be read": replace(MESSAGE, has_headers=False),
    "no key": replace(MESSAGE, key=None),
    "no value of an id": replace(MESSAGE, headers=(("id", None), *MESSAGE.headers[1:])),
    "a repeated header": replace(MESSAGE, headers=(*MESSAGE.headers, ("id", b"1"))),
    "a contradiction": replace(MESSAGE, headers=(*MESSAGE.headers, ("id", b"2"))),
    "another header": replace(MESSAGE, headers=(*MESSAGE.headers, ("baggage", b"a=1"))),
    "Debezium's header": replace(MESSAGE, headers=(*MESSAGE.headers, ("__debezium.x", b"0"))),
    "no UTF-8": replace(MESSAGE, headers=(*MESSAGE.headers, ("tracestate", b"\xff"))),
    "no sequence": without("sequence"),
    "no source": without("source"),
    "no time": without("createdAt"),
    "CloudEvent": replace(
        MESSAGE,
        value=b'{"specversion": "1.0", "data": 1}',
        headers=(*MESSAGE.headers, ("content-type", b"application/cloudevents+json"), ("ce_id", b"1")),
    ),
    "CloudEvent of bytes": replace(
        MESSAGE,
        headers=(
            *MESSAGE.headers[:1],
            ("ce_specversion", b"1.0"),
            *MESSAGE.headers[2:4],
            ("content-type", b"application/octet-stream"),
            *MESSAGE.headers[5:],
        ),
    ),
    "no JSON": replace(MESSAGE, value=b"{"),
}
USUAL: Mapping[str, Message] = {
    "as written": MESSAGE,
    "tombstone": replace(MESSAGE, value=None),
    "a header of the event": replace(MESSAGE, headers=(*MESSAGE.headers[:-1], ("traceparent", b"00-1"))),
    "not numbered": replace(MESSAGE, headers=(*MESSAGE.headers[:2], ("aggregateType", b"metric"), MESSAGE.headers[5])),
    "numbers in vain": replace(
        MESSAGE, headers=(*MESSAGE.headers[:2], ("aggregateType", b"metric"), *MESSAGE.headers[3:])
    ),
    "an empty source": replace(
        MESSAGE, headers=(*MESSAGE.headers[:2], ("aggregateType", b"metric"), ("source", b""), MESSAGE.headers[5])
    ),
    "not from a topic": replace(MESSAGE, partition=None, offset=None),
    "another order": replace(MESSAGE, headers=MESSAGE.headers[::-1]),
    "letters": replace(MESSAGE, key="ü".encode(), value='"ß"'.encode()),
}


def said(contract: WireContract, message: Message) -> RecordedEvent | str:
    try:
        return contract.event_of(message, attempt=2)
    except MessageError as error:
        return str(error)


def general(contract: WireContract) -> WireContract:
    """Return the contract without its quick way."""
    twin = replace(contract)
    vars(twin)["_plain_reader"] = None
    return twin


def is_quick(contract: WireContract, message: Message) -> bool:
    return contract._plain_reader is not None and contract._plain_reader.event_of(message, 1) is not None


def compare(contract: WireContract, message: Message) -> None:
    quick, slow = said(contract, message), said(general(contract), message)
    assert quick == slow
    if isinstance(quick, RecordedEvent) and isinstance(slow, RecordedEvent):
        assert (quick.record, repr(quick)) == (slow.record, repr(slow))


@pytest.mark.parametrize("name", CONTRACTS)
@pytest.mark.parametrize("message", [*USUAL.values(), *UNUSUAL.values()], ids=[*USUAL, *UNUSUAL])
def test_both_ways_say_the_same(name: str, message: Message) -> None:
    compare(CONTRACTS[name], message)


@pytest.mark.parametrize("message", USUAL.values(), ids=USUAL)
def test_usual_messages_are_read_the_quick_way(message: Message) -> None:
    assert is_quick(PLAIN, message)


@pytest.mark.parametrize("message", UNUSUAL.values(), ids=UNUSUAL)
def test_unusual_messages_are_left_to_the_general_way(message: Message) -> None:
    assert not is_quick(PLAIN, message)


NAMES = ["id", "eventType", "aggregateType", "sequence", "source", "createdAt", *BUILT_IN_HEADERS]
STRANGE = [
    "kind",
    "n",
    "at",
    "x-tenant",
    "baggage",
    "content-type",
    "ce_id",
    "ce_type",
    "ce_specversion",
    "__debezium.x",
]
VALUES = [b"", b"order", b"metric", b"cart", b"1", b"0", b"-1", b"9" * 19, b"9" * 30, b"application/cloudevents+json"]
PAYLOADS = [
    b"{}",
    b"null",
    b"{",
    b"",
    b" 1",
    b"\xef\xbb\xbf1",
    '{"a": "é"}'.encode("utf-16"),
    b'"\xed\xa0\x80"',
    b"[" * 100_000,
]

times = st.sampled_from([b"0", b"-1", b"1800000000000", b"1800000000000000", b"2027-01-01", b"never", b"9" * 19])
binaries = st.none() | st.sampled_from(VALUES) | st.binary(max_size=8)
headers = st.tuples(st.sampled_from(NAMES + STRANGE), binaries | times)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    """Return a usual message with a few headers more, less or changed: mere chance would hardly make an event."""
    pairs = list(draw(st.sampled_from(list(USUAL.values()))).headers)
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(pairs)))
        pairs[place : place + draw(st.integers(0, 1))] = draw(st.lists(headers, max_size=1))
    return replace(
        MESSAGE,
        key=draw(st.sampled_from([b"42", None, b"", b"\xff", b"\xed\xa0\x80"])),
        value=draw(st.none() | st.sampled_from(PAYLOADS)),
        headers=tuple(pairs),
        timestamp_ms=draw(st.sampled_from([1_800_000_000_000, None, 2**63 - 1])),
    )


@given(st.sampled_from(sorted(CONTRACTS)), messages())
def test_both_ways_say_the_same_of_any_message(name: str, message: Message) -> None:
    compare(CONTRACTS[name], message)


def test_names_that_others_choose_are_not_kept() -> None:
    reader = PlainReader.of(PLAIN.headers, AGGREGATES, PLAIN.extra_headers, PLAIN.payload_type)
    assert reader is not None
    assert reader.event_of(MESSAGE, 1) is not None
    kept = dict(reader._layouts)
    for number in range(3):
        assert reader.event_of(replace(MESSAGE, headers=(*MESSAGE.headers, (f"x-{number}", b""))), 1) is None
    assert reader._layouts == kept


def test_headers_that_change_places_fill_no_memory() -> None:
    reader = PlainReader.of(PLAIN.headers, AGGREGATES, PLAIN.extra_headers, PLAIN.payload_type)
    assert reader is not None
    for headers in islice(permutations(MESSAGE.headers), 150):
        assert reader.event_of(replace(MESSAGE, headers=headers), 1) is not None
    assert len(reader._layouts) <= 100
