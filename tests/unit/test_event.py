import pickle
import time
from dataclasses import FrozenInstanceError, replace
from datetime import UTC, datetime
from typing import Any
from unittest import mock
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_outbox.consumer import InboxTable
from cdc_outbox.event import KafkaRecord, RecordedEvent, SequenceMode, fast_init, new_event_id, new_recorded_event
from cdc_outbox.message import Message, new_message

NOW = datetime(2026, 11, 27, tzinfo=UTC)


def test_event_ids_are_version_7_and_carry_the_time() -> None:
    before = time.time_ns() // 1_000_000
    event_id = UUID(new_event_id())
    after = time.time_ns() // 1_000_000
    assert (event_id.version, event_id.variant) == (7, "specified in RFC 4122")
    assert before <= event_id.int >> 80 <= after


def id_at(nanoseconds: int) -> str:
    with mock.patch("time.time_ns", return_value=nanoseconds):
        return new_event_id()


@given(st.integers(0, 2**62), st.integers(245, 2_000_000))
def test_event_ids_sort_by_time_to_a_quarter_of_a_microsecond(nanoseconds: int, later: int) -> None:
    """Twelve bits of a millisecond are 244.1 ns; two ids that far apart never share them."""
    one, other = id_at(nanoseconds), id_at(nanoseconds + later)
    assert one < other
    assert {UUID(one).version, UUID(other).version} == {7}


def test_event_ids_of_one_moment_differ() -> None:
    ids = [id_at(1_700_000_000_000_000_000) for _ in range(1000)]
    assert len(set(ids)) == len(ids)


@given(st.integers(1, 2**40))
def test_only_gapless_sequences_prove_what_is_between_them(last: int) -> None:
    gapless, *others = SequenceMode.GAPLESS, SequenceMode.INCREASING, SequenceMode.NONE
    assert (gapless.predecessor(last), gapless.successor(last)) == (last - 1, last + 1)
    assert gapless.is_passed(last, last)
    assert not gapless.is_passed(last, last + 1)
    assert gapless.known_sequences(last) == range(1, last + 1)
    for mode in others:
        assert (mode.predecessor(last), mode.successor(last)) == (None, None)
        assert not mode.is_passed(last, last)
        assert mode.known_sequences(last) == range(last, last + 1)


def test_no_sequence_is_known_where_none_was_given() -> None:
    assert [len(mode.known_sequences(0)) for mode in SequenceMode] == [0, 0, 0]


@pytest.mark.parametrize(
    ("cls", "make", "arguments"),
    [
        (
            RecordedEvent,
            new_recorded_event,
            {"id": "1", "aggregate_type": "a", "aggregate_id": "b", "type": "c", "payload": 1, "created_at": NOW},
        ),
        (Message, new_message, {"topic": "orders", "key": b"1", "value": None}),
    ],
    ids=["event", "message"],
)
def test_what_is_made_fast_is_an_instance_like_any_other(cls: Any, make: Any, arguments: dict[str, Any]) -> None:
    fast, other = make(**arguments), cls(**arguments)
    assert type(fast) is cls
    assert (fast, repr(fast), pickle.loads(pickle.dumps(fast))) == (other, repr(other), other)  # noqa: S301 - our own
    assert replace(fast) == other
    for name in arguments:
        with pytest.raises(FrozenInstanceError):
            setattr(fast, name, None)
        with pytest.raises(TypeError, match=name):
            make(**{other: value for other, value in arguments.items() if other != name})


@pytest.mark.parametrize("cls", [InboxTable, KafkaRecord], ids=lambda cls: cls.__name__)
def test_what_has_more_to_do_is_not_made_fast(cls: type) -> None:
    with pytest.raises(TypeError, match=f"{cls.__name__} has no slots, or a base class or a __post_init__"):
        fast_init(cls)
