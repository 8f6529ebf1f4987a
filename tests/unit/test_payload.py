import copy
import json
import pickle
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_outbox import TOMBSTONE, EventError, Tombstone
from cdc_outbox.formats import payload
from cdc_outbox.formats.payload import decode, encode
from tests.support.models import ID, Attrs, Broken, Colour, Foreign, Line, Model, Point, Secretive, Size, Struct, Word
from tests.support.strategies import json_texts, json_values, rubbish_texts

U = "\\u"
MOMENT = datetime(2026, 3, 1, 12, 30, tzinfo=timezone(timedelta(hours=2)))


def nested(depth: int, around: Callable[[Any], Any] = lambda inner: [inner]) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = around(value)
    return value


def short(value: object) -> str:
    """Return a test's id; the value itself may be megabytes."""
    return ascii(value)[:40] if isinstance(value, str) else type(value).__name__


def strictly(text: str) -> Any:
    """Read as a strict reader would; it shares no code with what is tested."""

    def refuse(reason: str) -> Any:
        raise ValueError(reason)

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return refuse("key") if len({key for key, _ in pairs}) < len(pairs) else dict(pairs)

    def look(value: Any, depth: int) -> None:
        match value:
            case str() if "\0" in value:
                refuse("NUL")
            case str():
                value.encode()
            case dict() | list():
                _ = depth < 100 or refuse("depth")
                for inner in [*value, *value.values()] if isinstance(value, dict) else value:
                    look(inner, depth + 1)

    text.encode()
    value = json.loads(text, object_pairs_hook=unique, parse_constant=refuse)
    look(value, 0)
    return value


@given(json_values)
def test_what_is_encoded_decodes_to_the_same(value: object) -> None:
    text = encode(value)
    assert isinstance(text, str)
    assert decode(text.encode()) == strictly(text) == value


@given(json_values)
def test_the_encoder_that_is_made_once_writes_what_one_for_each_value_writes(value: object) -> None:
    assert "".join(payload._in_chunks(value, 0)) == payload._ENCODER.encode(value)


def test_a_python_without_that_encoder_encodes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json.encoder, "c_make_encoder", None)
    monkeypatch.setattr(payload, "_in_chunks", payload._encoding_in_chunks(payload._ENCODER))
    assert encode({"a": [1, MOMENT, "ü"]}) == '{"a":[1,"2026-03-01T12:30:00+02:00","ü"]}'
    with pytest.raises(EventError, match="NaN"):
        encode([float("nan")])


@given(json_texts())
def test_json_text_is_kept_verbatim(text: str) -> None:
    assert encode(text) is text


@given(rubbish_texts)
def test_a_text_is_refused_if_and_only_if_a_strict_reader_refuses_it(text: str) -> None:
    try:
        strictly(text)
    except ValueError:
        with pytest.raises(EventError):
            encode(text)
    else:
        assert encode(text) == text


keys = st.text(st.characters()) | st.integers() | st.floats() | st.booleans() | st.none() | st.just(("a", 1))
anything = st.recursive(
    st.none()
    | st.integers()
    | st.floats()
    | st.text(st.characters())
    | st.binary()
    | st.decimals()
    | st.datetimes()
    | st.datetimes(timezones=st.just(UTC))
    | st.dates()
    | st.uuids()
    | st.sampled_from([*Colour, Word.YES, TOMBSTONE]),
    lambda children: (
        st.lists(children)
        | st.dictionaries(keys, children)
        | st.builds(Line, st.text(), tags=children)
        | st.builds(Foreign, children)
        | st.builds(Attrs, children)
        | st.tuples(children)
    ),
    max_leaves=10,
)


@given(anything.filter(lambda value: not isinstance(value, (str, bytes))))
def test_any_value_becomes_text_that_a_strict_reader_takes_or_is_refused(value: object) -> None:
    try:
        text = encode(value)
    except EventError:
        return
    if text is None:
        assert value is TOMBSTONE
    else:
        assert isinstance(text, str)
        strictly(text)


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1}',
        " [1,  2]\n",
        '"text"',
        "1.10",
        "null",
        "1e999",
        "9" * 4300,
        '{"k":"' + 2 * "\\" + 'u0000"}',
        '"' + 4 * "\\" + 'u0000"',
        '"' + 2 * "\\" + 'ud800"',
        f'"{U}d83d{U}DE00"',
        f'"{U}D83D{U}de00{U}d83d{U}de00"',
        '"\ufeff"',
        '[{"a":1},{"a":1}]',
        '"' + "[{" * 500 + '"',
        '["' + '\\"[' * 500 + '"]',
        json.dumps([{"a": []}] * 500),
        json.dumps(nested(100)),
    ],
    ids=short,
)
def test_json_text_is_returned_as_it_is(text: str) -> None:
    assert encode(text) is text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty string"),
        (" \n", "empty string"),
        ("\ufeff{}", "byte order mark"),
        ("not json", "the payload is a str that is not JSON text: Expecting value at line 1 column 1"),
        ('{"a": 1', "delimiter at line 1 column 8"),
        ("[1]]", "Extra data"),
        ('"\n"', "Invalid control character"),
        ('"\0"', "Invalid control character"),
        ("\0", "Expecting value"),
        ('{"a": NaN}', "NaN is not a JSON number"),
        ("[Infinity]", "Infinity is not a JSON number"),
        ("-Infinity", "-Infinity is not a JSON number"),
        ("9" * 4301, "too many digits for Python"),
        ('{"a":1,"b":2,"a":1}', "a key twice"),
        (f'[{{"a":1,"{U}0061":1}}]', "a key twice"),
        (f'"{U}0000"', "NUL"),
        (f'"{2 * chr(92)}{U}0000"', "NUL"),
        (f'{{"{U}0000":1}}', "NUL"),
        ('"\ud800"', "lone surrogate"),
        ('"\ud83d\ude00"', "lone surrogate"),
        (f'"{U}d800"', "lone surrogate"),
        (f'"{U}DFFF"', "lone surrogate"),
        (f'"{U}d83d{U}d83d{U}de00"', "lone surrogate"),
        (f'"{U}d83d{U}de00{U}de00"', "lone surrogate"),
        (f'"{U}d83d {U}de00"', "lone surrogate"),
        (f'"{2 * chr(92)}{U}dabc"', "lone surrogate"),
        (json.dumps(nested(101)), "too deeply, the limit is 100"),
        (json.dumps(nested(101, lambda inner: {"]": inner})), "too deeply"),
        ("[" * 100_000 + "]" * 100_000, "too deeply"),
        ("[" * 1_000_000, "too deeply"),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, "too deeply"),
    ],
    ids=short,
)
def test_text_that_not_every_reader_takes_is_refused(text: str, reason: str) -> None:
    with pytest.raises(EventError, match=reason):
        encode(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({}, "{}"),
        ([], "[]"),
        (True, "true"),
        (0, "0"),
        (-1.5, "-1.5"),
        (10**4000, "1" + 4000 * "0"),
        ({"a": None, "ü\U0001f600": [1, 2.0]}, '{"a":null,"ü\U0001f600":[1,2.0]}'),
        (OrderedDict(b=1, a=2), '{"b":1,"a":2}'),
        ({"1": {"true": 1}, "null": {"-1e+5": 2}}, '{"1":{"true":1},"null":{"-1e+5":2}}'),
        ({"a": "\\" + "u0000"}, '{"a":"' + 2 * "\\" + 'u0000"}'),
        ({"a": "\x01"}, f'{{"a":"{U}0001"}}'),
        ((1, Point(1, 2)), "[1,[1,2]]"),
        (ID, f'"{ID}"'),
        (MOMENT, '"2026-03-01T12:30:00+02:00"'),
        (date(2026, 3, 1), '"2026-03-01"'),
        (Decimal("1.10"), '"1.10"'),
        (Colour.RED, '"red"'),
        (Word.YES, '"yes"'),
        (Size.BIG, "3"),
        ([ID, {"at": MOMENT, "c": Colour.MIX, "w": Word.YES}],
         f'["{ID}",{{"at":"2026-03-01T12:30:00+02:00","c":["red",1],"w":"yes"}}]'),
        (Line("a"), '{"sku":"a","price":"1.10","tags":{}}'),
        ({"lines": [Line("a", tags={"at": Line("b")})]},
         '{"lines":[{"sku":"a","price":"1.10","tags":{"at":{"sku":"b","price":"1.10","tags":{}}}}]}'),
        (Model(sku="a"), '{"SKU":"a","price":"1.10","ratio":0.5,"by_number":{"1":"a"},"line":null}'),
        ([Model(sku="ü", by_number={}, line=Line("b"))],
         '[{"SKU":"ü","price":"1.10","ratio":0.5,"by_number":{},"line":{"sku":"b","price":"1.10","tags":{}}}]'),
        (pydantic.RootModel[list[int]]([1, 2]), "[1,2]"),
        (Struct(2), f'{{"type":"Struct","itemCount":2,"ratio":0.5,"id":"{ID}"}}'),
        ({"s": [Foreign(Struct(2))]},
         f'{{"s":[{{"value":{{"type":"Struct","itemCount":2,"ratio":0.5,"id":"{ID}"}}}}]}}'),
        (Attrs("a", [Line("b")]), '{"sku":"a","lines":[{"sku":"b","price":"1.10","tags":{}}]}'),
        ({"a": Attrs("a")}, '{"a":{"sku":"a","lines":[]}}'),
    ],
    ids=short,
)  # fmt: skip
def test_a_value_has_one_compact_text(value: object, text: str) -> None:
    assert encode(value) == text


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "neither a tombstone nor JSON's null"),
        (float("nan"), "NaN, infinite"),
        ({"a": [float("-inf")]}, "NaN, infinite"),
        (Line("a", tags={"x": float("nan")}), "NaN, infinite"),
        (Model(sku="a", ratio=float("nan")), "NaN, infinite"),
        ([Struct(1, ratio=float("inf"))], "NaN, infinite"),
        (Decimal("NaN"), "a Decimal in the payload is NaN"),
        ([Decimal("-Infinity")], "a Decimal in the payload is NaN"),
        (10**5000, "too many digits for Python"),
        ({"a": {1, 2}}, "set has no JSON form"),
        ({"a": b"bytes"}, "bytes has no JSON form"),
        ({"a": TOMBSTONE}, "Tombstone has no JSON form"),
        ([time(12, 0)], "time has no JSON form"),
        ([1j], "complex has no JSON form"),
        (Line, "type has no JSON form"),
        ([Model], "ModelMetaclass has no JSON form"),
        (Foreign(object()), "Foreign cannot be encoded as JSON: TypeError"),
        (Broken(), "Broken cannot be encoded as JSON: AttributeError"),
        ([datetime(2026, 3, 1)], "no time zone"),  # noqa: DTZ001
        ({"a": "\ud800"}, "lone surrogate"),
        ({"\udc00": "a"}, "lone surrogate"),
        ({"a": "\ud83d\ude00"}, "lone surrogate"),
        ({"a": "x\0y"}, "NUL"),
        ({"\0": "a"}, "NUL"),
        ({"a": "\\\0"}, "NUL"),
        ({1: "a"}, "a key is not a string"),
        ({1: "a", "1": "a"}, "a key is not a string"),
        ({"a": [{-1.5e300: 1}]}, "a key is not a string"),
        ({"a": ({True: 1},)}, "a key is not a string"),
        ({None: 1}, "a key is not a string"),
        ({"a": {Size.BIG: 1}}, "a key is not a string"),
        ([Line("a", tags={1: "a"})], "a key is not a string"),
        ({Colour.RED: 1}, "a key is not a string"),
        ([Foreign({1: "a", "1": "b"})], "a key is not a string"),
        ({("a",): 1}, "a key is not a string"),
        (nested(101), "too deeply, the limit is 100"),
        (nested(101, lambda inner: {"a": inner}), "too deeply, the limit is 100"),
        (nested(51, lambda inner: Attrs("]]", [inner])), "too deeply, the limit is 100"),
        (nested(10_000), "too deeply"),
        (nested(10_000, lambda inner: {"a": (inner,)}), "too deeply"),
        (nested(10_000, lambda inner: Line("a", tags=inner)), "too deeply"),
        ([Foreign(nested(10_000))], "too deeply"),
    ],
    ids=short,
)
def test_a_value_without_a_common_reading_is_refused(value: object, reason: str) -> None:
    with pytest.raises(EventError, match=reason):
        encode(value)


def test_what_contains_itself_is_refused() -> None:
    payload: dict[str, Any] = {}
    payload["self"] = [payload]
    with pytest.raises(EventError, match="contains itself"):
        encode(payload)


@pytest.mark.parametrize(
    "value", [nested(100), nested(50, lambda inner: {"[": [inner]}), [{"a": "[["}] * 500], ids=short
)
def test_what_is_wide_or_as_deep_as_the_limit_is_taken(value: object) -> None:
    assert decode(str(encode(value)).encode()) == value


def test_the_depth_can_be_set() -> None:
    assert encode("1", max_depth=0) == "1"
    assert encode([[]], max_depth=2) == encode("[[]]", max_depth=2) == "[[]]"
    payloads: list[Any] = [[[]], "[[]]"]
    for each in payloads:
        with pytest.raises(EventError, match="the limit is 1"):
            encode(each, max_depth=1)


@pytest.mark.parametrize("payload", ["[" * 100_000 + "]" * 100_000, nested(10_000)], ids=short)
def test_no_depth_that_may_be_set_breaks_the_interpreter(payload: object) -> None:
    if sys.version_info < (3, 14) or isinstance(payload, str):
        with pytest.raises(EventError, match="too deeply"):
            encode(payload, max_depth=99_999)


@pytest.mark.parametrize("payload", [b"\0\1\xff", bytearray(b"\0\1\xff"), memoryview(b"\0\1\xff"), b""])
def test_bytes_pass_as_they_are(payload: bytes) -> None:
    encoded = encode(payload)
    assert type(encoded) is bytes
    assert encoded == bytes(payload)


def test_a_tombstone_is_none_and_stays_the_only_one() -> None:
    assert encode(TOMBSTONE) is None
    assert repr(TOMBSTONE) == "TOMBSTONE"
    assert isinstance(TOMBSTONE, Tombstone)
    assert pickle.loads(pickle.dumps(TOMBSTONE)) is TOMBSTONE  # noqa: S301
    assert copy.deepcopy({"payload": TOMBSTONE})["payload"] is TOMBSTONE


def test_none_is_refused_with_both_things_that_it_may_mean() -> None:
    with pytest.raises(EventError) as caught:
        encode(None)
    assert "TOMBSTONE" in caught.value.hint
    assert "'null'" in caught.value.hint


@pytest.mark.parametrize(
    "payload",
    [
        '{"secret": "hunter2"',
        '{"key": "hunter2", "key": 2}',
        f'"hunter2{U}0000"',
        '"hunter2\ud800"',
        {"key": float("nan"), "secret": "hunter2"},
        {("hunter2",): 1},
        {"secret": "hunter2\ud800"},
        {"key": {"hunter2"}},
        Secretive(name="hunter2"),
    ],
    ids=short,
)
def test_a_refusal_repeats_no_value_of_the_payload(payload: object) -> None:
    with pytest.raises(EventError) as caught:
        encode(payload)
    assert "hunter2" not in str(caught.value) + caught.value.hint
    if not isinstance(payload, Secretive):  # there the cause is the model's own error, and the caller's to read
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None


def test_foreign_libraries_are_not_imported() -> None:
    code = (
        "import cdc_outbox.formats.payload, sys; assert not {'pydantic', 'msgspec', 'attrs', 'attr'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("payload", "path"),
    [
        ({"id": 1, "connection": object()}, "at connection"),
        ({"lines": [{"price": 1}, {"price": float("inf")}]}, "at lines[1].price"),
        ({"lines": ({"sent": datetime(2026, 3, 1)},)}, "at lines[0].sent"),  # noqa: DTZ001
        ({"order": Line("a", tags={"x": {1}})}, "at order.tags.x"),
        ({"text": "\ud800"}, "at text"),
        ({"text": "\0"}, "at text"),
        ({"of customer": {1: "a"}}, "at of customer"),
        ({"a\nb": object()}, "at a\\nb"),
        ('{"a": {"key": 1, "key": 2}}', "'key'"),
    ],
    ids=short,
)
def test_a_refusal_names_the_key(payload: object, path: str) -> None:
    with pytest.raises(EventError) as caught:
        encode(payload)
    assert str(caught.value).endswith(f", {path}")


@pytest.mark.parametrize("payload", [object(), [nested(101)], "{", {1: 2}], ids=short)
def test_a_refusal_of_the_whole_names_no_key(payload: object) -> None:
    with pytest.raises(EventError) as caught:
        encode(payload)
    assert " at " not in str(caught.value).replace("at line", "")


def test_the_named_key_is_bounded() -> None:
    with pytest.raises(EventError) as caught:
        encode({"k" * 10_000: object()})
    assert len(str(caught.value)) < 300
