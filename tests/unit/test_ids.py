"""Ids as the inbox remembers them."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_outbox.consumer.ordering import bound_at, key_of, time_of
from cdc_outbox.event import new_event_id


@given(st.text())
def test_ids_of_another_kind_have_keys_of_their_own_behind_those_that_tell_their_time(event_id: str) -> None:
    assert key_of(event_id).endswith(event_id)
    assert len(key_of(event_id)) == len(event_id) + 1
    assert key_of(event_id) > new_event_id()


def test_our_own_ids_are_keys_as_they_are_and_tell_their_time() -> None:
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    event_id = new_event_id()
    made = time_of(event_id)
    assert key_of(event_id) == event_id
    assert made
    assert before <= made <= datetime.now(UTC)
    assert bound_at(made) <= event_id < bound_at(made + timedelta(milliseconds=1))


@pytest.mark.parametrize(
    "event_id", ["", "42", "5f0d8c4e-9d3a-4b60-8a55-0d7c3d1f2a10", "01A1FDE3-2757-7FF4-9746-05B2BEFD6070"]
)
def test_other_ids_tell_nothing(event_id: str) -> None:
    assert time_of(event_id) is None
    assert key_of(event_id) == f"~{event_id}"


def test_a_time_beyond_the_calendar_is_none() -> None:
    assert time_of("ffffffff-ffff-7fff-bfff-ffffffffffff") is None
