from dataclasses import replace
from datetime import UTC, datetime
from typing import assert_type

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_outbox import ConfigError, ForeignOutbox, HeaderNames, RecordedEvent, SequenceMode, WireContract
from cdc_outbox.errors import MessageError
from cdc_outbox.event import KafkaRecord
from cdc_outbox.message import Message

CONTRACT = WireContract(aggregates={"order": SequenceMode.GAPLESS, "metric": SequenceMode.NONE})

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
# The length of a number tells its unit, for times from 1973 on.
moments = st.datetimes(datetime(1974, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
storable = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
json_objects = st.dictionaries(storable, st.integers() | storable | st.booleans() | st.none())


@st.composite
def events(draw: st.DrawFn) -> RecordedEvent:
    aggregate_type = draw(st.sampled_from(sorted(CONTRACT.aggregates)))
    headers = {"traceparent": draw(texts), "tracestate": draw(texts)} if draw(st.booleans()) else {}
    return RecordedEvent(
        aggregate_type=aggregate_type,
        aggregate_id=draw(texts),
        type=draw(texts),
        payload=draw(json_objects),
        id=draw(texts),
        sequence=draw(st.integers(1, 2**63 - 1)) if aggregate_type == "order" else None,
        source=draw(texts),
        created_at=draw(moments),
        headers=headers,
    )


@given(events())
def test_a_message_carries_the_whole_event(event: RecordedEvent) -> None:
    assert CONTRACT.event_of(CONTRACT.message_of(event)) == event


@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                ["id", "eventType", "aggregateType", "sequence", "source", "createdAt", "other", "__debezium.x"]
            ),
            st.none() | st.binary(max_size=20) | st.sampled_from([b"order", b"metric", b"1", b"0", b"-1", b"9" * 30]),
        )
    ),
    st.none() | st.binary(),
    st.none() | st.binary() | st.just(b"{}"),
    st.none() | st.integers(-(2**63), 2**63 - 1),
)
def test_any_message_is_an_event_or_a_message_error(
    headers: list[tuple[str, bytes | None]], key: bytes | None, value: bytes | None, timestamp: int | None
) -> None:
    message = Message(
        topic="t", partition=0, offset=1, key=key, value=value, headers=tuple(headers), timestamp_ms=timestamp
    )
    try:
        event = CONTRACT.event_of(message)
    except MessageError:
        return
    assert event.id
    assert event.aggregate_id


def message(**headers: str | None) -> Message:
    complete = {"id": "1", "eventType": "OrderPlaced", "aggregateType": "order", "sequence": "7", "source": "orders.1"}
    pairs = [(name, None if value is None else value.encode()) for name, value in (complete | headers).items()]
    return Message(
        topic="t",
        partition=2,
        offset=3,
        key=b"42",
        value=b'{"a":1}',
        headers=tuple(pairs),
        timestamp_ms=1_800_000_000_000,
    )


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({"id": None}, "'id' is missing"),
        ({"id": ""}, "'id' is missing or empty"),
        ({"eventType": None}, "'eventType' is missing"),
        ({"aggregateType": None}, "'aggregateType' is missing"),
        ({"aggregateType": "nobody"}, "'nobody' is not in the contract"),
        ({"sequence": None}, "its sequence or source is missing"),
        ({"source": None}, "its sequence or source is missing"),
        ({"sequence": "0"}, "'0' is not a positive number"),
        ({"sequence": "\u0661"}, "not a positive number"),
        ({"sequence": "9223372036854775808"}, "not a positive number"),
    ],
)
def test_a_header_that_breaks_the_contract_is_named(headers: dict[str, str | None], reason: str) -> None:
    with pytest.raises(MessageError, match=reason):
        CONTRACT.event_of(message(**headers))


def test_a_repeated_header_must_repeat_itself() -> None:
    twice = message()
    same = replace(twice, headers=(*twice.headers, ("id", b"1")))
    other = replace(twice, headers=(*twice.headers, ("id", b"2")))
    assert CONTRACT.event_of(same).id == "1"
    with pytest.raises(MessageError, match="'id' appears twice"):
        CONTRACT.event_of(other)


def test_headers_that_nobody_asked_for_may_be_anything() -> None:
    foreign = (("b3", b"\xff\x01"), ("baggage", b"a=1"), ("baggage", b"b=2"), ("baggage", b"\xff"))
    event = CONTRACT.event_of(replace(message(), headers=(*message().headers, *foreign)))
    assert event.headers == {"baggage": "a=1"}


@pytest.mark.parametrize("foreign", [None, ForeignOutbox(default_type="OrderPlaced")])
@pytest.mark.parametrize(
    ("values", "kept"),
    [((b"stored", b"instrumented"), "stored"), ((b"\xff", b"later"), "later"), ((b"\xff",), None), ((None, b"a"), "a")],
)
@pytest.mark.parametrize("name", ["traceparent", "tracestate"])
def test_trace_context_never_decides_about_an_event(
    name: str, values: tuple[bytes | None, ...], kept: str | None, foreign: ForeignOutbox | None
) -> None:
    traced = replace(message(), headers=(*message().headers, *((name, value) for value in values)))
    assert replace(CONTRACT, foreign=foreign).event_of(traced).headers == ({name: kept} if kept else {})


@pytest.mark.parametrize("name", ["id", "eventType", "aggregateType", "sequence", "source"])
def test_headers_of_the_contract_are_text(name: str) -> None:
    broken = tuple((known, value) for known, value in message().headers if known != name)
    with pytest.raises(MessageError, match=f"the header '{name}' is not UTF-8"):
        CONTRACT.event_of(replace(message(), headers=(*broken, (name, b"\xff"))))


def test_headers_of_debezium_are_not_the_events() -> None:
    foreign = replace(message(), headers=(*message().headers, ("__debezium.context.taskId", b"0")))
    assert CONTRACT.event_of(foreign).headers == {}


@pytest.mark.parametrize("value", [b"not json", b"\xff", b'{"a":'])
def test_a_payload_that_is_not_json_is_named(value: bytes) -> None:
    with pytest.raises(MessageError, match="the payload is not JSON"):
        CONTRACT.event_of(replace(message(), value=value))


def test_a_tombstone_has_no_payload() -> None:
    assert CONTRACT.event_of(replace(message(), value=None)).payload is None


def test_topics_come_from_the_aggregate_types() -> None:
    assert CONTRACT.topics == ("outbox.event.metric", "outbox.event.order")
    assert WireContract(aggregates=CONTRACT.aggregates, topic="one").topics == ("one",)


@pytest.mark.parametrize("aggregate_type", ["with space", "ümlaut", "a/b", "x" * 250])
def test_an_aggregate_type_that_kafka_refuses_as_a_topic_is_refused(aggregate_type: str) -> None:
    with pytest.raises(ConfigError, match="which Kafka refuses"):
        WireContract(aggregates={aggregate_type: SequenceMode.GAPLESS})


def test_a_contract_speaks_of_something() -> None:
    with pytest.raises(ConfigError):
        WireContract(aggregates={})


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ({"type": "id"}, "already carries the event's id"),
        ({"type": "kind", "source": "kind"}, "already carries the type"),
        ({"type": ""}, "is empty"),
        ({"source": "a:b"}, "colon"),
        ({"source": "a,b"}, "comma"),
        ({"source": " a"}, "blank"),
        ({"sequence": "__debezium.sequence"}, "for its own headers"),
    ],
)
def test_headers_that_could_not_be_told_apart_or_rendered_are_refused(names: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        HeaderNames(**names)


@pytest.mark.parametrize(
    ("moment", "milliseconds"),
    [
        (datetime(1969, 12, 31, 23, 59, 59, 998_500, tzinfo=UTC), -1),
        (datetime(1969, 12, 31, 23, 59, 59, 999_001, tzinfo=UTC), 0),
        (datetime(1970, 1, 1, 0, 0, 0, 1_999, tzinfo=UTC), 1),
        (datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), 253_402_300_799_999),
    ],
)
def test_a_time_is_cut_towards_1970_as_debezium_cuts_it(moment: datetime, milliseconds: int) -> None:
    event = RecordedEvent(aggregate_type="metric", aggregate_id="1", type="Seen", payload={}, id="1", created_at=moment)
    assert CONTRACT.message_of(event).timestamp_ms == milliseconds


LONG_AGO = datetime(2026, 11, 1, 10, 0, 0, 123_456, tzinfo=UTC)
SEEN = RecordedEvent(aggregate_type="metric", aggregate_id="1", type="Seen", payload={}, id="1", created_at=LONG_AGO)


def without(message: Message, header: str) -> tuple[tuple[str, bytes | None], ...]:
    return tuple(item for item in message.headers if item[0] != header)


def test_what_is_published_late_keeps_the_time_of_its_creation() -> None:
    message = replace(CONTRACT.message_of(SEEN), timestamp_ms=1_800_000_000_000)
    assert CONTRACT.event_of(message).created_at == LONG_AGO


@pytest.mark.parametrize("header", [None, b"1793527200123456"])
def test_without_its_header_the_time_of_creation_is_the_records(header: bytes | None) -> None:
    message = replace(CONTRACT.message_of(SEEN), timestamp_ms=1_800_000_000_000)
    named = () if header is None else (("createdAt", header),)
    event = CONTRACT.event_of(replace(message, headers=(*without(message, "createdAt"), *named)))
    assert event.created_at == (LONG_AGO if header else datetime(2027, 1, 15, 8, tzinfo=UTC))
    assert "createdAt" not in event.headers


def test_a_message_that_says_no_time_of_creation_breaks_the_contract() -> None:
    """Debezium gives every record a timestamp: without one, and without the header, nothing tells the time."""
    told = replace(CONTRACT.message_of(SEEN), timestamp_ms=None)
    assert CONTRACT.event_of(told).created_at == LONG_AGO
    for contract in (CONTRACT, replace(CONTRACT, foreign=ForeignOutbox())):
        with pytest.raises(MessageError, match="neither a header nor a timestamp contains the creation time"):
            contract.event_of(replace(told, headers=without(told, "createdAt")))


def test_an_event_says_in_which_record_it_came() -> None:
    event = CONTRACT.event_of(message())
    assert event.record == KafkaRecord(topic="t", partition=2, offset=3, attempt=1)
    again = CONTRACT.event_of(replace(message(), offset=7), attempt=2)
    assert again.record == KafkaRecord(topic="t", partition=2, offset=7, attempt=2)
    assert again == event  # the same event, in whichever record it came
    assert CONTRACT.event_of(replace(message(), offset=None)).record is None


def test_types_say_what_an_event_that_was_recorded_always_has() -> None:
    event = CONTRACT.event_of(message())
    assert_type(event.id, str)
    assert_type(event.created_at, datetime)
    assert_type(event.sequence, int | None)
    assert_type(event.source, str | None)
    assert (event.id, event.created_at.tzinfo) == ("1", UTC)


def test_a_header_that_holds_no_time_breaks_our_contract_and_is_an_ordinary_header_elsewhere() -> None:
    message = replace(CONTRACT.message_of(SEEN), timestamp_ms=1_800_000_000_000)
    message = replace(message, headers=(*without(message, "createdAt"), ("createdAt", b"Sunday")))
    with pytest.raises(MessageError, match="is not a time: 'Sunday'"):
        CONTRACT.event_of(message)
    event = replace(CONTRACT, foreign=ForeignOutbox()).event_of(message)
    assert (event.created_at, event.headers) == (datetime(2027, 1, 15, 8, tzinfo=UTC), {"createdAt": "Sunday"})
