import time
from unittest import mock
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from cdc_outbox.event import SequenceMode, new_event_id


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
