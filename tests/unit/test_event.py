import time
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_outbox import EventError
from cdc_outbox.event import new_event_id
from cdc_outbox.payload import decode, encode

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=20,
).filter(lambda value: value is not None)
storable = json_values.filter(lambda value: "\\ud" not in repr(value).lower())


def test_event_ids_are_version_7_and_carry_the_time() -> None:
    before = time.time_ns() // 1_000_000
    event_id = UUID(new_event_id())
    after = time.time_ns() // 1_000_000
    assert (event_id.version, event_id.variant) == (7, "specified in RFC 4122")
    assert before <= event_id.int >> 80 <= after


def test_event_ids_sort_by_time_and_never_repeat() -> None:
    ids = []
    for _ in range(200):
        ids.append(new_event_id())
        time.sleep(0)
    assert len(set(ids)) == len(ids)
    milliseconds = [UUID(event_id).int >> 80 for event_id in ids]
    assert milliseconds == sorted(milliseconds)


def test_event_ids_sort_within_a_millisecond_and_carry_its_fraction(monkeypatch: pytest.MonkeyPatch) -> None:
    moment = 1_700_000_000_123_000_000
    ids = []
    for nanoseconds in range(0, 1_000_000, 1_000):
        monkeypatch.setattr(time, "time_ns", lambda now=moment + nanoseconds: now)
        ids.append(new_event_id())
    assert ids == sorted(ids)
    fractions = [UUID(event_id).int >> 64 & 0xFFF for event_id in ids]
    assert (fractions[0], fractions[500], fractions[-1]) == (0, 2048, 4091)


@given(storable.filter(lambda value: not isinstance(value, str)))
def test_what_is_encoded_decodes_to_the_same(value: object) -> None:
    assert decode(encode(value).encode()) == value


@pytest.mark.parametrize("text", ['{"a": 1}', " [1,  2]\n", '"text"', "1.10", '{"k":"\\u0000"}'])
def test_json_text_is_kept_to_the_byte(text: str) -> None:
    assert encode(text) == text


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("not json", "Expecting value at line 1 column 1"),
        ('{"a": NaN}', "NaN is not a JSON number"),
        (float("nan"), "not JSON compliant"),
        ({"a": {1, 2}}, "set is not JSON serializable"),
        ({"a": b"bytes"}, "bytes is not JSON serializable"),
        ({"a": "\ud800"}, "lone surrogate"),
        ({("a",): 1}, "keys must be"),
        (None, "tombstone"),
    ],
)
def test_what_is_not_json_is_refused(value: object, reason: str) -> None:
    with pytest.raises(EventError, match=reason):
        encode(value)


def test_what_is_nested_too_deeply_is_refused() -> None:
    value: list[object] = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(EventError, match="too deeply"):
        encode(value)
    with pytest.raises(EventError, match="too deeply"):
        encode("[" * 100_000 + "]" * 100_000)


def test_a_refusal_does_not_repeat_the_payload() -> None:
    with pytest.raises(EventError) as caught:
        encode('{"secret": "hunter2"')
    assert "hunter2" not in str(caught.value)
