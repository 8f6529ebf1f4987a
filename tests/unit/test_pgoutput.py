import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_outbox.databases.pgoutput import emitted_content, inserted_values
from cdc_outbox.errors import DecodeError


def insert(values: list[bytes | None]) -> bytes:
    columns = (b"n" if value is None else b"t" + len(value).to_bytes(4) + value for value in values)
    return b"I" + (16384).to_bytes(4) + b"N" + len(values).to_bytes(2) + b"".join(columns)


@given(st.lists(st.none() | st.binary()))
def test_what_was_inserted_is_read_back(values: list[bytes | None]) -> None:
    assert inserted_values(insert(values)) == values


@given(st.binary().filter(lambda message: not message.startswith(b"I")))
def test_any_other_message_is_none(message: bytes) -> None:
    assert inserted_values(message) is None


@given(st.lists(st.none() | st.binary()), st.data())
def test_a_message_that_ends_early_is_refused(values: list[bytes | None], data: st.DataObject) -> None:
    whole = insert(values)
    with pytest.raises(DecodeError, match="ends before byte"):
        inserted_values(whole[: data.draw(st.integers(1, len(whole) - 1))])


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (insert([b"1"]) + b"\0", "continues for 1 bytes"),
        (insert([b"1"]).replace(b"t", b"b"), "column 1 .* kind b'b'"),
        (insert([b"1", None]).replace(b"n", b"u"), "column 2 .* kind b'u'"),
        (insert([]).replace(b"N", b"O"), "unknown kind b'O'"),
    ],
)
def test_what_is_not_null_or_text_is_refused(message: bytes, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        inserted_values(message)


def logical_message(prefix: str, content: bytes) -> bytes:
    return b"M\1" + (2**40).to_bytes(8) + prefix.encode() + b"\0" + len(content).to_bytes(4) + content


prefixes = st.text(st.characters(codec="utf-8", exclude_characters="\0"))


@given(prefixes, st.binary(), prefixes)
def test_the_content_of_our_messages_is_read_back(prefix: str, content: bytes, other: str) -> None:
    message = logical_message(prefix, content)
    assert emitted_content(message, prefix) == content
    assert emitted_content(message, other) == (content if other == prefix else None)
    assert emitted_content(insert([content]), prefix) is None


@given(prefixes, st.binary(), st.data())
def test_a_logical_message_of_another_length_is_refused(prefix: str, content: bytes, data: st.DataObject) -> None:
    whole = logical_message(prefix, content)
    shortest = len(whole) - len(content) - 4
    with pytest.raises(DecodeError, match="ends before byte"):
        emitted_content(whole[: data.draw(st.integers(shortest, len(whole) - 1))], prefix)
    with pytest.raises(DecodeError, match="continues"):
        emitted_content(whole + b"x", prefix)
