"""What every driver must do with an event, against a real database. Not collected itself: see ``test_writer_*.py``."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any, ClassVar
from uuid import uuid4

import pytest

from cdc_outbox import (
    DuplicateEventError,
    Event,
    EventError,
    NotInTransactionError,
    OutboxError,
    OutboxMode,
    OutboxTable,
    SequenceMode,
    StaleSequenceError,
    WireContract,
)
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.event import new_event_id
from tests.support.threads import Threads
from tests.support.writer_clients import NUMBERED_BY_CALLER, ORDER, Client, Store

NOT_NUMBERED = WireContract(aggregates={"order": SequenceMode.NONE})
MIXED = WireContract(
    aggregates={"order": SequenceMode.GAPLESS, "metric": SequenceMode.NONE, "cart": SequenceMode.INCREASING}
)
TABLE_NAMES = ["Größe", 'or"der', "se`lect", "select", r"a b.c%s{x}:y\:z::w", "x" * 63]


class PlaceContract(ABC):
    """What every place must do that an event is passed with; subclasses open clients, in the module's ``store``.

    It is enough for a place whose driver is under all of :class:`WriterContract` with another place.
    """

    has_row_locks: ClassVar[bool] = True

    @abstractmethod
    def open(self, store: Any, *, autocommit: bool = False) -> Client: ...

    @pytest.fixture(autouse=True)
    def _empty(self, store: Store) -> None:
        store.reset()

    @pytest.fixture
    def client(self, store: Store) -> Iterator[Client]:
        with closing(self.open(store)) as client:
            yield client

    def test_the_event_is_there_when_the_transaction_commits_and_not_before(self, client: Client, store: Store) -> None:
        event = client.add()
        assert (event.sequence, event.source) == (1, "orders.1")
        if self.has_row_locks:
            assert store.numbers() == []
        client.commit()
        assert store.numbers() == [("42", 1)]

    def test_the_event_and_its_number_go_with_a_rollback(self, client: Client, store: Store) -> None:
        client.add()
        client.rollback()
        assert store.numbers() == []
        assert client.add().sequence == 1

    def test_the_event_goes_with_its_savepoint_and_leaves_no_gap(self, client: Client, store: Store) -> None:
        client.add()
        client.execute("savepoint mine")
        assert client.add().sequence == 2
        client.execute("rollback to savepoint mine")
        assert client.add().sequence == 2
        client.commit()
        assert store.numbers() == [("42", 1), ("42", 2)]

    def test_a_failure_that_the_caller_catches_takes_no_number(self, client: Client, store: Store) -> None:
        for contract, numbers in ((None, (None, None, None)), (NUMBERED_BY_CALLER, (3, 4, 4))):
            first, again, after = (replace(ORDER, sequence=number) for number in numbers)
            known = client.add(first, table=OutboxTable(), contract=contract)
            with pytest.raises(DuplicateEventError):
                client.add(replace(again, id=known.id), table=OutboxTable(), contract=contract)
            if store.dialect is Dialect.POSTGRESQL:  # there nothing of such a transaction is left
                client.rollback()
            else:
                assert client.add(after, table=OutboxTable(), contract=contract).sequence == (known.sequence or 0) + 1
                client.rollback()
        assert store.numbers() == []

    def test_outside_a_transaction_nothing_is_written(self, store: Store) -> None:
        with closing(self.open(store, autocommit=True)) as client:
            for write in (client.add, lambda: client.add_all([ORDER]), lambda: client.collect(lambda _: None)):
                with pytest.raises(NotInTransactionError) as caught:
                    write()
                assert caught.value.hint
        assert store.numbers() == []

    def test_a_transaction_opened_by_name_is_joined(self, store: Store) -> None:
        with closing(self.open(store, autocommit=True)) as client:
            client.begin()
            client.add()
            client.rollback()
            client.begin()
            assert client.add().sequence == 1
            client.commit()
        assert store.numbers() == [("42", 1)]

    def test_no_connection_is_opened_and_none_is_closed(self, client: Client, store: Store) -> None:
        client.execute("select 1")
        before = store.count_sessions()
        client.add()
        client.add_all([ORDER, ORDER])
        assert store.count_sessions() <= before  # fewer, where an earlier client's has only now ended
        client.commit()
        assert store.numbers() == [("42", 1), ("42", 2), ("42", 3)]

    def test_what_is_written_is_what_the_event_says(self, client: Client, store: Store) -> None:
        text = '{ "as":  "is", "ß": "\\u00e9 %s :x $1 \\\\" }'
        event = client.add(replace(ORDER, payload=text, headers={"traceparent": "00-'\"%s-01"}))
        client.commit()
        [row] = store.query(
            "select id, aggregatetype, aggregateid, type, payload, sequence, source, traceparent, tracestate "
            "from outbox"
        )
        assert [str(value) for value in row] == [
            *(str(event.id), "order", "42", "OrderPlaced", text, "1", "orders.1", "00-'\"%s-01", "None")
        ]

    def test_headers_are_written_of_one_event_and_of_many(self, client: Client, store: Store) -> None:
        event = replace(ORDER, headers={"traceparent": "00-'\"%s-ü"})
        client.add(event)
        client.add_all([event, ORDER])
        client.commit()
        found = store.query("select traceparent, tracestate from outbox order by sequence")
        assert found == [("00-'\"%s-ü", None), ("00-'\"%s-ü", None), (None, None)]


class WriterContract(PlaceContract):
    """All that is asked of a driver."""

    def test_eight_writers_number_an_aggregate_without_gaps_in_the_order_of_their_commits(self, store: Store) -> None:
        each, looks, over = 20, [], threading.Event()

        def write(writer: int) -> None:
            with closing(self.open(store)) as client:
                for number in range(each):
                    client.add(replace(ORDER, payload={"writer": writer}))
                    client.rollback() if number % 5 == 4 else client.commit()

        def look() -> None:
            while not over.is_set():
                looks.append([number for _, number in store.numbers()])
                over.wait(0.01)

        with Threads(9) as pool:
            looking = pool.submit(look)
            try:
                for writing in [pool.submit(write, writer) for writer in range(8)]:
                    writing.result()
            finally:
                over.set()
            looking.result()
        looks.append([number for _, number in store.numbers()])
        assert len(looks[-1]) == 8 * each * 4 // 5
        # Whoever looks, at any time, sees no number whose predecessors he does not see.
        assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in looks)

    @pytest.mark.parametrize("name", TABLE_NAMES)
    def test_any_table_name_works(self, client: Client, store: Store, name: str) -> None:
        table = OutboxTable(name=name)
        store.make_tables(table)
        event = replace(ORDER, aggregate_id=str(uuid4()))  # the table may be there from another driver's test
        assert client.add(event, table=table).sequence == 1
        assert [written.sequence for written in client.add_all([event, event], table=table)] == [2, 3]
        client.commit()

    def test_a_list_is_numbered_in_its_order_and_comes_back_in_it(self, client: Client, store: Store) -> None:
        client.add(replace(ORDER, aggregate_id="b"))
        events = client.add_all([replace(ORDER, aggregate_id=name, payload={"n": n}) for n, name in enumerate("bacab")])
        assert [(event.aggregate_id, event.sequence) for event in events] == [
            *(("b", 2), ("a", 1), ("c", 1), ("a", 2), ("b", 3))
        ]
        assert [event.payload["n"] for event in events] == [0, 1, 2, 3, 4]
        assert all(event.source == "orders.1" and event.created_at for event in events)
        client.commit()
        assert store.numbers() == [("a", 1), ("a", 2), ("b", 1), ("b", 2), ("b", 3), ("c", 1)]

    def test_a_list_may_mix_types_of_every_mode(self, client: Client, store: Store) -> None:
        cart = Event(aggregate_type="cart", aggregate_id="1", type="Filled", payload={}, sequence=7)
        metric = Event(aggregate_type="metric", aggregate_id="cpu", type="Measured", payload=1)
        events = client.add_all(
            [ORDER, metric, cart, ORDER, replace(cart, sequence=9)], table=OutboxTable(), contract=MIXED
        )
        assert [event.sequence for event in events] == [1, None, 7, 2, 9]
        assert client.add_all([], table=OutboxTable(), contract=MIXED) == []
        client.commit()
        assert store.query("select count(*) from outbox") == [(5,)]

    def test_one_bad_event_of_a_list_refuses_all_of_it(self, client: Client, store: Store) -> None:
        with pytest.raises(EventError):
            client.add_all([ORDER, replace(ORDER, payload="not json")])
        client.commit()
        assert store.numbers() == []

    def test_collected_events_are_written_at_the_end_of_the_block(self, client: Client, store: Store) -> None:
        seen: list[list[tuple[str, int]]] = []

        def body(events: Any) -> None:
            events.add(replace(ORDER, aggregate_id="z"))
            events.add_all([ORDER, ORDER])
            client.execute("select 1")
            seen.append(list(events.written))

        written = client.collect(body)
        assert seen == [[]]
        assert [(event.aggregate_id, event.sequence) for event in written] == [("z", 1), ("42", 1), ("42", 2)]
        client.commit()
        assert store.numbers() == [("42", 1), ("42", 2), ("z", 1)]

    def test_a_block_left_by_an_exception_writes_nothing(self, client: Client, store: Store) -> None:
        def body(events: Any) -> None:
            events.add(ORDER)
            raise LookupError

        with pytest.raises(LookupError):
            client.collect(body)
        client.commit()
        assert store.numbers() == []

    def test_a_block_that_has_ended_takes_no_more(self, client: Client) -> None:
        kept: list[Any] = []
        client.collect(kept.append)
        with pytest.raises(OutboxError, match="has ended, so the event was not written"):
            kept[0].add(ORDER)

    def test_collecting_writers_never_wait_for_each_other_in_a_circle(self, store: Store) -> None:
        there, back = "abcdefgh", "hgfedcba"

        def write(names: str) -> None:
            with closing(self.open(store)) as client:
                for _ in range(15):
                    client.collect(lambda events: [events.add(replace(ORDER, aggregate_id=name)) for name in names])
                    client.commit()

        with Threads(4) as pool:
            list(pool.map(write, [there, back, there, back]))
        assert store.numbers() == [(name, number) for name in there for number in range(1, 61)]

    def test_the_callers_own_numbers_must_rise(self, client: Client, store: Store) -> None:
        def add(sequence: int) -> int | None:
            return client.add(
                replace(ORDER, sequence=sequence), table=OutboxTable(), contract=NUMBERED_BY_CALLER
            ).sequence

        assert [add(3), add(8)] == [3, 8]
        for sequence in (8, 7, 1):
            with pytest.raises(StaleSequenceError):
                add(sequence)
        again = replace(ORDER, id=new_event_id(), sequence=9)
        assert client.add(again, table=OutboxTable(), contract=NUMBERED_BY_CALLER).sequence == 9
        with pytest.raises(StaleSequenceError):
            client.add(again, table=OutboxTable(), contract=NUMBERED_BY_CALLER)
        client.commit()
        assert store.numbers() == [("42", 3), ("42", 8), ("42", 9)]
        with pytest.raises(EventError, match="does not follow"):
            client.add_all(
                [replace(ORDER, sequence=n) for n in (12, 11)], table=OutboxTable(), contract=NUMBERED_BY_CALLER
            )
        with pytest.raises(StaleSequenceError):
            client.add_all(
                [replace(ORDER, sequence=n) for n in (9, 12)], table=OutboxTable(), contract=NUMBERED_BY_CALLER
            )

    def test_what_is_not_numbered_has_no_number_and_takes_no_lock(self, client: Client, store: Store) -> None:
        event = client.add(table=OutboxTable(), contract=NOT_NUMBERED)
        assert (event.sequence, event.source) == (None, "orders.1")
        if self.has_row_locks:
            with closing(self.open(store)) as other:
                other.add(table=OutboxTable(), contract=NOT_NUMBERED)
                other.commit()
        client.commit()
        assert {number for _, number in store.numbers()} == {None}
        assert store.query("select count(*) from outbox_heads") == [(0,)]

    def test_a_row_may_go_with_the_transaction_that_wrote_it(self, client: Client, store: Store) -> None:
        table = OutboxTable(mode=OutboxMode.DELETE)
        assert client.add(table=table).sequence == 1
        assert [event.sequence for event in client.add_all([ORDER, ORDER], table=table)] == [2, 3]
        client.commit()
        assert store.numbers() == []
        assert store.query("select last from outbox_heads") == [(3,)]

    @pytest.mark.parametrize(("kind", "sequence"), [("order", None), ("cart", 7), ("metric", None)])
    def test_an_event_that_is_written_again_with_its_id_is_refused_or_keeps_its_id(
        self, client: Client, store: Store, kind: str, sequence: int | None
    ) -> None:
        """The table in docs/writing.md says what consumers do with it."""
        for mode in OutboxMode:
            if mode is OutboxMode.MESSAGE and store.dialect is not Dialect.POSTGRESQL:
                continue
            event = replace(ORDER, aggregate_type=kind, aggregate_id=mode, sequence=sequence, id=new_event_id())
            options: dict[str, Any] = {"contract": MIXED, "table": OutboxTable(mode=mode)}
            if kind == "order" and not mode.keeps_rows:
                with pytest.raises(EventError, match="cannot be detected"):
                    client.add(event, **options)
                continue
            assert client.add(event, **options).id == event.id
            client.commit()
            if mode.keeps_rows:
                with pytest.raises((DuplicateEventError, StaleSequenceError)):
                    client.add(event, **options)
                client.rollback()
                store.query("delete from outbox")  # as prune does
            if kind == "cart":
                with pytest.raises(StaleSequenceError):
                    client.add(event, **options)
            else:
                # Consumers park a second number as a conflict, and skip what has none by its id.
                again = client.add(event, **options)
                assert (again.id, again.sequence) == (event.id, 2 if kind == "order" else None)
            client.rollback()
