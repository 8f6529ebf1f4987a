from hypothesis import given
from hypothesis import strategies as st

from cdc_outbox.pgoutput import inserted_values


def insert(values: list[bytes | None]) -> bytes:
    columns = (b"n" if value is None else b"t" + len(value).to_bytes(4) + value for value in values)
    return b"I" + (16384).to_bytes(4) + b"N" + len(values).to_bytes(2) + b"".join(columns)


@given(st.lists(st.none() | st.binary()))
def test_what_was_inserted_is_read_back(values: list[bytes | None]) -> None:
    assert inserted_values(insert(values)) == values


@given(st.binary().filter(lambda message: not message.startswith(b"I")))
def test_any_other_message_is_none(message: bytes) -> None:
    assert inserted_values(message) is None
