from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_outbox.databases.pgoutput import (
    Begin,
    Commit,
    Delete,
    Insert,
    Keepalive,
    LogicalMessage,
    Origin,
    PgoutputMessage,
    Relation,
    RelationColumn,
    Truncate,
    TypeName,
    Update,
    keepalive_frame,
    read_insert,
    read_keepalive,
    read_message,
    status_update,
)
from cdc_outbox.errors import DecodeError
from tests.support.pgoutput_messages import (
    begin,
    commit,
    delete,
    insert,
    logical_message,
    origin,
    random_message,
    relation,
    truncate,
    type_name,
    update,
)

VALUES = st.lists(st.none() | st.binary())
LSNS = st.integers(0, 2**64 - 1)


@given(VALUES, st.binary(max_size=30))
def test_what_was_inserted_is_read_back_wherever_it_stands(values: list[bytes | None], before: bytes) -> None:
    assert read_message(insert(values)) == Insert(16_384, values)
    assert read_insert(before + insert(values), len(before)) == (16_384, values)


MESSAGES = [
    (begin(2**40), Begin(2**40)),
    (commit(2**40, 2**40 + 48), Commit(2**40, 2**40 + 48)),
    (origin(b"\xffother"), Origin(b"\xffother")),
    (type_name(16_400, "mood"), TypeName(16_400, "public", "mood")),
    (relation([]), Relation(16_384, "public", "outbox", ())),
    (
        relation(["id", "naïve"], 5, "s", "t"),
        Relation(5, "s", "t", (RelationColumn("id", 25, -1), RelationColumn("naïve", 25, -1))),
    ),
    (insert([b"1", None, b""]), Insert(16_384, [b"1", None, b""])),
    (update([b"1", None]), Update(16_384)),
    (update([b"1"], [b"2"]), Update(16_384)),
    (update([b"1", None]).replace(b"n", b"u"), Update(16_384)),
    (delete([b"1", None]), Delete(16_384)),
    (truncate(1, 2), Truncate((1, 2))),
    (logical_message("outbox", b"{}"), LogicalMessage(True, b"outbox", b"{}")),
    (logical_message("", b"", is_transactional=False), LogicalMessage(False, b"", b"")),
]


@pytest.mark.parametrize(("data", "message"), MESSAGES, ids=lambda each: type(each).__name__)
def test_each_kind_of_message_is_read(data: bytes, message: PgoutputMessage) -> None:
    assert read_message(data) == message
    assert read_message(b"frame" + data, 5) == message


@given(st.randoms(use_true_random=False), st.data())
def test_a_message_that_ends_early_or_late_is_refused(random: Random, data: st.DataObject) -> None:
    whole = random_message(random)
    shorter = whole[: data.draw(st.integers(0, len(whole) - 1))]
    for damaged in (shorter, whole + b"\0"):
        with pytest.raises(DecodeError, match=r"malformed|empty"):
            read_message(damaged)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (insert([b"1"]).replace(b"t", b"b"), "column 1 .* kind b'b'"),
        (insert([b"1", None]).replace(b"n", b"u"), "column 2 .* kind b'u'"),
        (insert([]).replace(b"N", b"O"), "malformed"),
        (insert([b"123"]).replace(b"\0\0\0\3", b"\xff\xff\xff\xff"), "malformed"),
        (b"S" + begin(1)[1:], "unknown kind b'S'"),  # a streamed part of a transaction, which nobody asks for
        (commit(1, 2).replace(b"C\0", b"C\1"), "malformed"),
        (relation(["a"]).replace(b"\0d", b"\0x"), "malformed"),
        (relation(["a"]).replace(b"outbox", b"out\xffox"), "malformed"),
        (truncate(1).replace(b"\0\0\0\1\0", b"\0\0\0\1\4"), "malformed"),
        (update([b"1"]).replace(b"N", b"D"), "malformed"),
    ],
)
def test_what_the_protocol_does_not_allow_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        read_message(data)


@given(LSNS, st.booleans())
def test_a_keepalive_is_read_back(wal_end: int, wants_reply: bool) -> None:  # noqa: FBT001
    assert read_keepalive(keepalive_frame(wal_end, wants_reply=wants_reply)) == Keepalive(wal_end, wants_reply)


@pytest.mark.parametrize(
    "damage", [lambda frame: frame[:-1], lambda frame: frame + b"\0", lambda frame: frame[:-1] + b"\2", lambda _: b""]
)
def test_another_frame_than_a_keepalive_is_refused(damage: Callable[[bytes], bytes]) -> None:
    with pytest.raises(DecodeError, match="neither a message nor a keepalive"):
        read_keepalive(damage(keepalive_frame(7)))


def test_a_status_update_confirms_one_position_in_the_time_of_postgresql() -> None:
    update = status_update(7, 946_684_800_000_001)
    assert update == b"r" + (7).to_bytes(8) * 3 + (1).to_bytes(8) + b"\1"
