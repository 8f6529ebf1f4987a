"""What a database promises that keeps inbox, park and epochs, and what can only go wrong where it speaks SQL."""

import secrets
import threading
from collections.abc import Callable, Iterator, Set
from contextlib import AbstractContextManager
from typing import Any

import pytest

from cdc_outbox.consumer.epochs import Tenure
from cdc_outbox.consumer.inbox import Claims
from cdc_outbox.consumer.ordering import Mark, Move
from cdc_outbox.drivers.immediate import finish
from cdc_outbox.errors import MessageError, TransactionEndedError
from tests.contract.inbox_contract import HOME, A, EpochContract, InboxContract, Opened, failed, gap
from tests.contract.park_contract import ParkContract
from tests.rig import eventually


class StoresContract(InboxContract, ParkContract, EpochContract):
    """All three, as one database keeps them."""

    def test_a_rollback_undoes_all_of_it(self, opened: Opened) -> None:
        opened.claim("1")
        opened.advance(Move(A, 0, 3, parked=1))
        opened.add(5, gap())
        opened.issue(HOME)
        finish(opened.epochs.start(opened.connection, "1"))
        opened.roll_back()
        assert opened.claim("1") == {"1"}
        assert opened.marks(A) == {}
        assert opened.counts() == set()
        assert opened.issue(HOME) == {HOME: Tenure(1, 1)}
        assert finish(opened.epochs.start(opened.connection, "1")) == 1


class SqlStoresContract(StoresContract):
    """What only a database with several connections and consumers can break."""

    MAX_KEY_BYTES = 2600
    """What the columns of a key may have together."""

    @pytest.fixture
    def opens(self) -> Iterator[Callable[[], AbstractContextManager[Opened]]]:
        """Yield what opens further transactions on the same tables; what they commit is cleared away at the end."""
        raise NotImplementedError

    def is_waiting(self, opened: Opened) -> bool:
        """Tell whether a connection waits for a lock."""
        raise NotImplementedError

    def test_consumers_are_kept_apart(self, opened: Opened) -> None:
        assert opened.others
        other = Opened(opened.connection, opened.driver, opened.others)
        opened.claim("1")
        opened.advance(Move(A, 0, 3))
        opened.add(5, failed())
        assert other.claim("1") == {"1"}
        assert other.marks(A) == {}
        assert (other.due(), other.counts()) == ([], set())
        assert [one.issue(HOME)[HOME].epoch for one in (opened, other)] == [1, 1]
        other.advance(Move(A, 0, 3))
        opened.advance(Move(A, 3, 4))
        assert other.marks(A) == {A: Mark(3)}
        assert other.wake({A: 5}) == 0

    def test_the_second_of_two_claims_waits_and_is_told(self, opens: Any) -> None:
        told: list[Set[str]] = []
        with opens() as first, opens() as second:
            first.claim("1")
            thread = threading.Thread(target=lambda: told.append(second.claim("1", "2")))
            thread.start()
            eventually(lambda: self.is_waiting(second), "the second to wait")
            assert told == []
            first.commit()
            thread.join(10)
        assert told == [{"2"}]

    def test_the_second_of_two_locks_waits_and_reads_what_the_first_left(self, opens: Any) -> None:
        read: list[Any] = []
        with opens() as first, opens() as second:
            finish(first.inbox.lock_marks(first.connection, [A]))
            second.claim("2")
            locks = threading.Thread(
                target=lambda: read.append(finish(second.inbox.lock_marks(second.connection, [A])))
            )
            locks.start()
            eventually(lambda: self.is_waiting(second), "the second to wait")
            first.advance(Move(A, 0, 4, parked=2))
            first.commit()
            locks.join(10)
        assert read == [{A: Mark(4, 2)}]

    def test_who_owns_a_partition_is_read_without_waiting(self, opens: Any) -> None:
        with opens() as first, opens() as second:
            first.issue(HOME)
            first.commit()
            first.issue(HOME)
            assert finish(second.epochs.find_stale(second.connection, {HOME: 1})) == []
            first.commit()
            assert finish(second.epochs.find_stale(second.connection, {HOME: 1})) == [HOME]

    @pytest.mark.parametrize("moves", [[Move(A, 0, 1)], []], ids=["numbered", "not numbered"])
    @pytest.mark.parametrize("claims_ids", [True, False])
    def test_another_transaction_than_that_of_the_claims_is_noticed(
        self, opened: Opened, moves: list[Move], *, claims_ids: bool
    ) -> None:
        claim = opened.inbox.claim(opened.connection, ["1"])
        claims = finish(claim if claims_ids else opened.inbox.identify(opened.connection))
        claim.close()
        finish(opened.driver.fetch(opened.connection, "rollback and chain"))
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
        room = self.MAX_KEY_BYTES - len("shop")
        event_id = noise(room - 1)  # and one for what tells ids that have no time
        assert opened.claim(event_id) == {event_id}
        aggregate = A._replace(aggregate_id=noise(room - len("orders.1order")))
        assert opened.marks(aggregate) == {}
        opened.advance(Move(aggregate, 0, 1))
        assert opened.marks(aggregate) == {aggregate: Mark(1)}

    @pytest.mark.parametrize("size", [None, 0])
    def test_what_cannot_be_a_key_breaks_the_contract(self, opened: Opened, size: int | None) -> None:
        text = "a\0b" if size is None else "a" * self.MAX_KEY_BYTES
        with pytest.raises(MessageError, match=r"the id 'a.* cannot be a key of the inbox"):
            opened.claim(text)
        with pytest.raises(MessageError, match=r"the aggregate 'orders.1/order/a.* cannot be a key"):
            opened.marks(A._replace(aggregate_id=text))


def noise(size: int) -> str:
    """Return text that a database cannot compress."""
    return secrets.token_urlsafe(size)[:size]
