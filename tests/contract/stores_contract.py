"""What a database promises that keeps inbox, park and epochs, and what can only go wrong where it speaks SQL."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest

from cdc_outbox.consumer.claims import Claims
from cdc_outbox.consumer.fencing import Assignment
from cdc_outbox.consumer.ordering import Move, Watermark
from cdc_outbox.databases.drivers.immediate import finish
from cdc_outbox.errors import MessageError, TransactionEndedError
from tests.contract.inbox_contract import CONSUMER, HOME, A, EpochContract, InboxContract, Opened, failed, gap
from tests.contract.order_contract import OrderContract
from tests.contract.park_contract import ParkContract
from tests.support.rig import eventually
from tests.support.threads import Threads


class StoresContract(InboxContract, ParkContract, EpochContract, OrderContract):
    """All of it, as one database keeps it."""

    def test_a_rollback_undoes_all_of_it(self, opened: Opened) -> None:
        opened.claim("1")
        opened.advance(Move(A, 0, 3, parked=1))
        opened.add(5, gap())
        opened.issue(HOME)
        finish(opened.epochs.start(opened.connection, "1"))
        opened.roll_back()
        assert opened.claim("1") == {"1"}
        assert opened.watermarks(A) == {}
        assert opened.counts() == set()
        assert opened.issue(HOME) == {HOME: Assignment(1, 1)}
        assert finish(opened.epochs.start(opened.connection, "1")) == 1


class SqlStoresContract(StoresContract):
    """What only a database with several connections and consumers can break."""

    MAX_ID_BYTES = 2600 - len(CONSUMER) - 1
    """What an id may have, without the character in front that tells ids that have no time."""
    MAX_AGGREGATE_ID_BYTES = 2600 - len(CONSUMER) - len("orders.1order")
    AND_CHAIN = " and chain"
    """What begins another transaction at once, behind what ends one."""

    @pytest.fixture
    def opens(self) -> Iterator[Callable[[], AbstractContextManager[Opened]]]:
        """Yield what opens further transactions on the same tables; what they commit is cleared away at the end."""
        raise NotImplementedError

    def test_consumers_are_kept_apart(self, opened: Opened) -> None:
        assert opened.others
        other = Opened(opened.connection, opened.driver, opened.others)
        opened.claim("1")
        opened.advance(Move(A, 0, 3))
        opened.add(5, failed())
        assert other.claim("1") == {"1"}
        assert other.watermarks(A) == {}
        assert (other.due(), other.counts()) == ([], set())
        assert [one.issue(HOME)[HOME].epoch for one in (opened, other)] == [1, 1]
        other.advance(Move(A, 0, 3))
        opened.advance(Move(A, 3, 4))
        assert other.watermarks(A) == {A: Watermark(3)}
        assert other.wake({A: 5}) == 0

    def test_what_somebody_decided_stays_decided_until_it_is_dead(self, opened: Opened) -> None:
        opened.add(1, failed())
        finish(opened.driver.fetch(opened.connection, "update inbox_parked set forced = true"))
        [row] = opened.due()
        finish(opened.park.fail(opened.connection, row.parked_id, failed()))
        assert [row.forced for row in opened.due()] == [True]
        finish(opened.park.fail(opened.connection, row.parked_id, failed(None)))
        finish(opened.park.fail(opened.connection, row.parked_id, failed()))
        assert [row.forced for row in opened.due()] == [False]

    @pytest.mark.parametrize("moves", [[Move(A, 0, 1)], []], ids=["numbered", "not numbered"])
    @pytest.mark.parametrize("claims_ids", [True, False])
    @pytest.mark.parametrize("end", ["commit", "rollback"])
    def test_another_transaction_than_that_of_the_claims_is_noticed(
        self, opens: Any, moves: list[Move], end: str, *, claims_ids: bool
    ) -> None:
        with opens() as opened:
            claim = opened.inbox.claim(opened.connection, ["1"])
            claims = finish(claim if claims_ids else opened.inbox.identify(opened.connection))
            claim.close()
            for statement in (f"{end}{self.AND_CHAIN}").split(";"):
                finish(opened.driver.fetch(opened.connection, statement))
            with pytest.raises(TransactionEndedError):
                finish(opened.inbox.advance(opened.connection, claims, moves))

    def test_a_claim_that_was_committed_too_soon_is_taken_back_and_no_other(self, opens: Any) -> None:
        with opens() as opened:
            mine = finish(opened.inbox.claim(opened.connection, ["1"]))
            opened.commit()
            other = finish(opened.inbox.claim(opened.connection, ["2"]))
            opened.commit()
            wrong = Claims(frozenset("2"), mine.transaction)
            assert not finish(opened.inbox.take_back(opened.connection, wrong))
            assert finish(opened.inbox.take_back(opened.connection, mine))
            assert finish(opened.inbox.take_back(opened.connection, other))
            opened.commit()
            assert opened.claim("1", "2") == {"1", "2"}

    def test_what_is_as_long_as_a_key_can_be_is_stored(self, opened: Opened) -> None:
        event_id = noise(self.MAX_ID_BYTES)
        assert opened.claim(event_id) == {event_id}
        assert opened.claim(event_id) == set()
        aggregate = A._replace(aggregate_id=noise(self.MAX_AGGREGATE_ID_BYTES))
        assert opened.watermarks(aggregate) == {}
        opened.advance(Move(aggregate, 0, 1))
        assert opened.watermarks(aggregate) == {aggregate: Watermark(1)}

    @pytest.mark.parametrize("mark", ["", "\0", "ä"])
    def test_what_cannot_be_a_key_breaks_the_contract(self, opened: Opened, mark: str) -> None:
        id_, aggregate_id = (
            f"a{mark}" if mark == "\0" else "a" * (size - len(mark.encode()) + 2) + mark
            for size in (self.MAX_ID_BYTES, self.MAX_AGGREGATE_ID_BYTES)
        )
        with pytest.raises(MessageError, match=r"the id 'a.* cannot be a key of the inbox"):
            opened.claim(id_)
        with pytest.raises(MessageError, match=r"the aggregate 'orders.1/order/a.* cannot be a key"):
            opened.watermarks(A._replace(aggregate_id=aggregate_id))

    def test_keys_are_told_apart_by_each_byte(self, opened: Opened) -> None:
        names = ["a", "A", "a ", " a", "ä", "a\u0308", "𝄞", "\\n'\"`%s:x{}", "1", "01", "1.0"]
        assert opened.claim(*names) == set(names)
        assert opened.claim(*names) == set()
        watermarks = {A._replace(aggregate_id=name): Watermark(number) for number, name in enumerate(names, 1)}
        opened.advance(*(Move(aggregate, 0, mark.last) for aggregate, mark in sorted(watermarks.items())))
        assert opened.watermarks(*watermarks) == watermarks
        ids = [opened.add(mark.last + 1, gap(), aggregate=aggregate) for aggregate, mark in watermarks.items()]
        assert opened.wake({aggregate: mark.last + 1 for aggregate, mark in watermarks.items()}) == len(names)
        assert sorted(opened.due_ids(limit=100)) == sorted(ids)


class ServerStoresContract(SqlStoresContract):
    """What only a database breaks that has several transactions at a time."""

    def is_waiting(self, opened: Opened) -> bool:
        """Tell whether a connection waits for a lock."""
        raise NotImplementedError

    def test_the_second_of_two_claims_waits_and_is_told(self, opens: Any) -> None:
        with opens() as first, opens() as second, Threads() as threads:
            first.claim("1")
            claiming = threads.submit(second.claim, "1", "2")
            eventually(lambda: self.is_waiting(second), "the second to wait")
            assert not claiming.done()
            first.commit()
            assert claiming.result() == {"2"}

    def test_the_second_of_two_locks_waits_and_reads_what_the_first_left(self, opens: Any) -> None:
        with opens() as first, opens() as second, Threads() as threads:
            finish(first.inbox.lock_watermarks(first.connection, [A]))
            second.claim("2")
            locking = threads.submit(lambda: finish(second.inbox.lock_watermarks(second.connection, [A])))
            eventually(lambda: self.is_waiting(second), "the second to wait")
            first.advance(Move(A, 0, 4, parked=2))
            first.commit()
            assert locking.result() == {A: Watermark(4, 2)}

    def test_who_owns_a_partition_is_read_without_waiting(self, opens: Any) -> None:
        with opens() as first, opens() as second:
            first.issue(HOME)
            first.commit()
            first.issue(HOME)
            assert finish(second.epochs.find_stale(second.connection, {HOME: 1})) == []
            first.commit()
            assert finish(second.epochs.find_stale(second.connection, {HOME: 1})) == [HOME]

    def test_who_stores_an_offset_keeps_its_partition_until_the_commit(self, opens: Any) -> None:
        with opens() as first, opens() as second, Threads() as threads:
            held = {HOME: first.issue(HOME)[HOME].epoch}
            first.commit()
            assert first.store_offsets(held, {HOME: 7}) == []
            issuing = threads.submit(second.issue, HOME)
            eventually(lambda: self.is_waiting(second), "the second to wait")
            first.commit()
            assert issuing.result()[HOME].next_offset == 7
            second.commit()
            assert first.store_offsets(held, {HOME: 8}) == [HOME]


def noise(size: int) -> str:
    """Return text that a database cannot compress."""
    return secrets.token_urlsafe(size)[:size]
