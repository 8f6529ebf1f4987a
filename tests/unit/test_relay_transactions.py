"""Units of a replication stream: whole transactions or parts of one, with the positions that confirm them."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_outbox.databases.pgoutput import Relation, keepalive_frame, wal_frame
from cdc_outbox.debezium.event_router.compiled import Route
from cdc_outbox.errors import DecodeError
from cdc_outbox.relay.transactions import MAX_BYTES, MAX_EVENTS, Transactions
from cdc_outbox.relay.units import Unit
from fuzz.pgoutput import explore
from tests.support.pgoutput_messages import (
    OID,
    begin,
    commit,
    delete,
    insert,
    logical_message,
    origin,
    relation,
    truncate,
    type_name,
    update,
)


class TableRoutes:
    """Publishes the first column of one table."""

    def __init__(self) -> None:
        self.found: list[Relation] = []
        self.dropped = ""

    def find(self, relation: Relation) -> Route | None:
        self.found.append(relation)
        return None if relation.name == "other" else lambda values: ("topic", values[0], None, -1, 1, [])

    def drop(self, operation: str) -> None:
        self.dropped += operation


def frames(*messages: bytes) -> list[bytes]:
    return [wal_frame(message) for message in messages]


def transaction(number: int, values: Sequence[bytes]) -> list[bytes]:
    """Return a transaction whose commit record lies between 100 and 148 behind the number's thousands."""
    lsn = number * 1_000 + 100
    return frames(begin(lsn), *(insert([value]) for value in values), commit(lsn, lsn + 48))


HEAD = frames(begin(1), relation(["id"]), commit(1, 2))


def units(transactions: Transactions, stream: Sequence[bytes]) -> list[Unit[int]]:
    """Return the units of a stream that is taken when it has to be, and at its end."""
    found = []
    for frame in stream:
        transactions.add(frame)
        if transactions.is_full:
            found.append(transactions.take())
    found.append(transactions.take())
    return [unit for unit in found if unit is not None]


def started() -> Transactions:
    made = Transactions(TableRoutes())
    assert [unit.position for unit in units(made, HEAD)] == [2]
    return made


def values_of(unit: Unit[int]) -> list[bytes | None]:
    return [value for _, value, *_ in unit.events]


@given(st.lists(st.lists(st.binary(max_size=3), max_size=4), max_size=5), st.data())
def test_every_event_is_in_one_unit_and_a_position_lies_behind_whole_transactions(
    rows: list[list[bytes]], data: st.DataObject
) -> None:
    """Wherever the stream is taken from, and wherever keepalives stand in it."""
    stream = []
    for number, values in enumerate(rows, 1):
        for frame in [*transaction(number, values), b""]:
            if data.draw(st.booleans()):  # the server has not sent what is committed after 1,099 of the next thousand
                sent = number * 1_000 + (1_099 if frame == b"" else 99)
                stream.append(keepalive_frame(data.draw(st.integers(sent - 1_000, sent))))
            stream += [frame] if frame else []
    made, seen, last = started(), list[bytes | None](), 2
    for frame in stream:
        made.add(frame)
        unit = made.take() if data.draw(st.booleans()) else None
        if unit is None:
            continue
        seen += values_of(unit)
        if unit.position is not None:
            assert unit.position > last
            last = unit.position
        committed = [value for number, values in enumerate(rows, 1) if number * 1_000 + 148 <= last for value in values]
        assert seen[: len(committed)] == committed
    rest = made.take()
    seen += values_of(rest) if rest else []
    assert seen == [value for values in rows for value in values]
    assert max(last, (rest and rest.position) or 0) >= (len(rows) * 1_000 + 148 if rows else 0)


def test_the_position_is_the_end_of_the_commit() -> None:
    [unit] = units(started(), transaction(5, [b"a", b"b"]))
    assert (values_of(unit), unit.position) == ([b"a", b"b"], 5_148)


def test_a_keepalive_between_transactions_is_a_unit_without_events() -> None:
    [unit] = units(started(), [keepalive_frame(900)])
    assert (list(unit.events), unit.position) == ([], 900)
    made = started()
    assert units(made, [keepalive_frame(2)]) == []


def test_a_keepalive_within_a_transaction_confirms_nothing() -> None:
    made, stream = started(), transaction(5, [b"a", b"b"])
    [first] = units(made, [*stream[:2], keepalive_frame(9_000)])
    assert (values_of(first), first.position) == ([b"a"], None)
    [second] = units(made, stream[2:])
    assert (values_of(second), second.position) == ([b"b"], 5_148)


def test_a_keepalive_that_was_sent_before_the_last_commit_confirms_no_less() -> None:
    [unit] = units(started(), [*transaction(5, [b"a"]), keepalive_frame(5_000)])
    assert unit.position == 5_148


def test_a_large_transaction_is_cut_and_only_its_last_unit_has_a_position() -> None:
    found = units(started(), transaction(5, [b"x"] * (2 * MAX_EVENTS + 1)))
    assert [(len(unit.events), unit.position) for unit in found] == [(MAX_EVENTS, None), (MAX_EVENTS, None), (1, 5_148)]


def test_large_events_end_a_unit_too() -> None:
    found = units(started(), transaction(5, [b"x" * (MAX_BYTES // 2)] * 4))
    assert [(len(unit.events), unit.position) for unit in found] == [(2, None), (2, None), (0, 5_148)]


def test_a_unit_that_ends_within_a_transaction_confirms_the_ones_before() -> None:
    [unit] = units(started(), [*transaction(5, [b"a"]), *transaction(6, [b"b"])[:2]])
    assert (values_of(unit), unit.position) == ([b"a", b"b"], 5_148)


def test_a_table_is_asked_for_again_after_each_change_of_it() -> None:
    routes = TableRoutes()
    made = Transactions(routes)
    stream = frames(
        begin(1), relation(["id"]), insert([b"1"]), relation(["id", "new"]), insert([b"2", None]), commit(1, 2)
    )
    [unit] = units(made, stream)
    assert [len(found.columns) for found in routes.found] == [1, 2]
    assert values_of(unit) == [b"1", b"2"]


def test_what_is_no_event_is_left_out() -> None:
    routes = TableRoutes()
    made = Transactions(routes)
    others = [relation(["id"], 9, name="other"), insert([b"1"], 9), update([b"1"], oid=9), truncate(9)]
    more = [type_name(5, "mood"), logical_message("a", b"b"), update([b"1"]), delete([b"1"]), truncate(OID)]
    stream = frames(begin(1), origin(b"elsewhere"), *others, relation(["id"]), *more, commit(1, 2))
    aside = frames(logical_message("a", b"b", is_transactional=False))
    [unit] = units(made, [*aside, *stream, *aside])
    assert (list(unit.events), unit.position, routes.dropped) == ([], 2, "udt")


@pytest.mark.parametrize(
    ("stream", "reason"),
    [
        (frames(insert([b"1"])), "outside of a transaction"),
        (frames(update([b"1"])), "outside of a transaction"),
        (frames(begin(5), insert([b"1"], oid=5)), "not described"),
        (frames(begin(5), truncate(5)), "not described"),
        (frames(begin(5), begin(6)), "begins within another"),
        (frames(commit(5, 6)), "where none began"),
        (frames(begin(5), commit(6, 7)), "where none began"),
        ([b""], "neither a message nor a keepalive"),
        ([b"w" + bytes(24)], "neither a message nor a keepalive"),
        ([b"d" + bytes(30)], "neither a message nor a keepalive"),
        ([keepalive_frame(5) + b"x"], "neither a message nor a keepalive"),
    ],
)
def test_what_cannot_come_next_is_refused(stream: list[bytes], reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        units(started(), stream)


def test_a_damaged_stream_is_a_message_or_a_decode_error() -> None:
    found = explore(2_000, seed=1)
    assert found["DecodeError"] > 500
    assert found["stream"] > 50
