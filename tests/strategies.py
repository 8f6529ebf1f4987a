"""What payloads can be made of, and what they should not be made of."""

import json

from hypothesis import strategies as st

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
