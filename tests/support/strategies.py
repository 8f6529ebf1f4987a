"""What events and payloads can be made of, and what they should not be made of."""

import json
from collections.abc import Callable
from typing import Any, TypeVar
from uuid import UUID, uuid4

from hypothesis import strategies as st

from cdc_outbox import TOMBSTONE, Event

BACKSLASH = "\\"

characters = st.characters(exclude_categories=["Cs"], exclude_characters="\0") | st.sampled_from(
    '\\"/u0d8{[]}:,\ufeff\x7f'
)
texts = st.text(characters) | st.sampled_from(
    [BACKSLASH + "u0000", 2 * BACKSLASH + "u0000", BACKSLASH + "ud800", '"1":', '{"true":', "\U0001f600", "[" * 200]
)

_any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda children: st.lists(children) | st.dictionaries(texts | st.sampled_from(["1", "-0.5", "null"]), children),
    max_leaves=20,
)

json_values = _any_json.filter(lambda value: value is not None and not isinstance(value, str))
"""Python values that `encode` takes for what they are; a `str` would be JSON text, and `None` is refused."""


@st.composite
def json_texts(draw: st.DrawFn) -> str:
    """JSON that PostgreSQL and every reader take, laid out and escaped in many ways."""
    text = json.dumps(
        draw(_any_json),
        ensure_ascii=draw(st.booleans()),
        indent=draw(st.none() | st.integers(0, 2)),
        separators=draw(st.sampled_from([(",", ":"), (" , ", "\t:\r\n")])),
    )
    blanks = st.text(" \t\r\n", max_size=3)
    return draw(blanks) + text + draw(blanks)


_fragments = st.sampled_from(
    [
        *'{}[],:"0-.e \0\ud800\udc00\ufeff\x1f\u2028',
        *('{"a":', '"a"', "null", "true", "-1", "1e999", "NaN", "Infinity", "-Infinity", "-0", "01", "9" * 5000, "{}"),
        *(BACKSLASH, BACKSLASH + '"', 2 * BACKSLASH, BACKSLASH + "u00", BACKSLASH + "x"),
        *(BACKSLASH + "u" + code for code in ("0000", "0001", "d800", "DBFF", "dc00", "dfFF", "00e9", "00 1")),
        *("[" * 99, "]" * 99, '{"":' * 3, "}" * 3, "//", "'", "\u00a0", "\x0b"),
    ]
)


@st.composite
def _strings_of_fragments(draw: st.DrawFn) -> str:
    """Mostly a well-formed string, so that what is in it gets looked at."""
    return '"' + "".join(draw(st.lists(_fragments, max_size=5))) + '"'


@st.composite
def _mutated_texts(draw: st.DrawFn) -> str:
    text = draw(json_texts())
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + 3)))
        text = text[:start] + draw(st.just("") | _fragments | st.just(text[start:end] * 2)) + text[end:]
    return text


@st.composite
def _objects_of_few_keys(draw: st.DrawFn) -> str:
    keys = draw(st.lists(st.sampled_from(["a", "b", "c", BACKSLASH + "u0061", "1"]), max_size=4))
    return "{" + ",".join(f'"{key}":{draw(st.sampled_from(["1", "NaN", "[]"]))}' for key in keys) + "}"


rubbish_texts: st.SearchStrategy[str] = st.one_of(
    st.text(st.characters()),  # with surrogates, which st.text() alone leaves out
    st.lists(_fragments).map("".join),
    _strings_of_fragments(),
    _mutated_texts(),
    _objects_of_few_keys(),
    st.integers(95, 105).map(lambda depth: "[" * depth + '"]"' + "]" * depth),
    st.integers(95, 105).map(lambda depth: '{"[":' * depth + "1" + "}" * depth),
)
"""Texts that are JSON, nearly JSON or nothing at all."""

T = TypeVar("T")


def _nearly_always(good: st.SearchStrategy[T], bad: st.SearchStrategy[Any]) -> st.SearchStrategy[T]:
    """Draw from ``bad`` once in twenty times: an event has many parts, and one that is bad is enough."""
    return st.integers(0, 19).flatmap(lambda number: bad if number == 13 else good)


def _long(size: st.SearchStrategy[int]) -> st.SearchStrategy[str]:
    return st.builds(lambda character, size: character * size, characters, size)


_no_texts = (
    st.text(st.characters(), max_size=5)
    | st.sampled_from(["", "\0", "a\0", "\ud800", "x\udc00", None, 5, b"bytes", 1.5])
    | _long(st.integers(240, 1100))
)
_names = st.text(characters, min_size=1, max_size=20) | st.sampled_from(["OrderPlaced", "%s:x$1'\"\\`;--", " ", "ß "])
_depths = st.integers(25, 35) | st.integers(95, 105) | st.just(100_000)


def _nested(depth: int, around: Callable[[Any], Any]) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = around(value)
    return value


_payloads = st.one_of(
    json_values,
    json_values,
    json_texts(),
    json_texts(),
    rubbish_texts,
    st.binary().flatmap(lambda value: st.sampled_from([value, bytearray(value), memoryview(value)])),
    st.binary() | st.just(TOMBSTONE),
    st.builds(lambda depth: "[" * depth + "]" * depth, _depths),
    st.builds(_nested, _depths, st.sampled_from([lambda inner: [inner], lambda inner: {"a": inner}])),
    _nearly_always(
        _long(st.integers(0, 70_000)).map(lambda text: [text]), _long(st.integers(999_900, 1_000_100)).map(json.dumps)
    ),
    st.sampled_from([None, float("nan"), {"a": [float("-inf")]}, {1: 2}, {"a": b""}, [{1}], {"a": "\udfff"}, ["\0"]]),
)
_forms: list[Callable[[UUID], str]] = [
    str,
    lambda value: value.hex.upper(),
    lambda value: f"{{{value}}}",
    lambda value: value.urn,
]

random_events: st.SearchStrategy[Event] = st.builds(
    Event,
    aggregate_type=_nearly_always(st.sampled_from(["order", "cart.v2", "A-b_c"]), _no_texts | _names),
    aggregate_id=_nearly_always(_names | _long(st.integers(1, 240)), _no_texts),
    type=_nearly_always(_names | _long(st.integers(1, 60)), _no_texts),
    payload=_payloads,
    id=_nearly_always(
        # A new one each time: the same id again is the database's to refuse.
        st.none() | st.sampled_from(_forms).map(lambda form: form(uuid4())),
        _no_texts,
    ),
    headers=_nearly_always(
        st.dictionaries(st.sampled_from(["traceparent", "tracestate"]), _names | _long(st.integers(1, 70_000))),
        st.dictionaries(st.sampled_from(["traceparent", "tracestate", "other"]), _no_texts),
    ),
    sequence=_nearly_always(st.none(), st.integers()),
)
"""Events of every kind, most of which can be written; each of them has an id that no other has."""
