"""What every inbox and every register of epochs promises; a subclass says how to open a transaction."""

import secrets
from collections.abc import Iterator, Sequence, Set
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from cdc_outbox.consumer import InboxTable
from cdc_outbox.consumer.claims import ClaimedNext, Claims, IdClaimedError, InboxStore
from cdc_outbox.consumer.delivery import Stores
from cdc_outbox.consumer.fencing import NO_OFFSET, Assignment, EpochStore, OffsetMove, TopicId, TopicPartition
from cdc_outbox.consumer.ordering import Aggregate, Move, Watermark
from cdc_outbox.consumer.parked_events import Failure, ParkedEvent, ParkStore, Reason, State
from cdc_outbox.consumer.session import sql_stores
from cdc_outbox.databases.drivers import AsyncTransactionDriver, find_transaction_driver
from cdc_outbox.databases.drivers.immediate import ImmediateTransactions, finish
from cdc_outbox.errors import WatermarkMovedError
from cdc_outbox.event import RecordedEvent
from cdc_outbox.message import Message

A, B = Aggregate("orders.1", "order", "a"), Aggregate("orders.1", "order", "b")
HOME, AWAY = TopicPartition("orders", 0), TopicPartition("orders", 1)
MESSAGE = Message(topic=HOME.topic, partition=HOME.partition, offset=7, key=b"a", value=b"{}")
CONSUMER = "shipping"
TIMED, UNTIMED = "01a1fd38-56c2-7501-996e-34f2120154f5", "42"


@dataclass(frozen=True)
class Opened:
    """A connection with an open transaction, and the stores over it.

    Args:
        others: The stores of another consumer in the same tables, where there can be one.
    """

    connection: Any
    driver: AsyncTransactionDriver
    stores: Stores
    others: Stores | None = None

    @property
    def inbox(self) -> InboxStore:
        return self.stores.inbox

    @property
    def park(self) -> ParkStore:
        return self.stores.park

    @property
    def epochs(self) -> EpochStore:
        return self.stores.epochs

    def claim(self, *event_ids: str) -> Set[str]:
        return finish(self.inbox.claim(self.connection, event_ids)).new

    def watermarks(self, *aggregates: Aggregate) -> dict[Aggregate, Watermark]:
        return dict(finish(self.inbox.find_watermarks(self.connection, aggregates)))

    def advance(self, *moves: Move) -> Sequence[Aggregate]:
        """Move watermarks as a delivery does, for an id that was claimed in the same transaction."""
        claims = finish(self.inbox.claim(self.connection, [secrets.token_hex()]))
        return finish(self.inbox.advance(self.connection, claims, moves))

    def add(self, sequence: int | None, failure: Failure, *, aggregate: Aggregate = A, **message: Any) -> str:
        """Park an event and return its id."""
        event_id = secrets.token_hex(8)
        event = RecordedEvent(
            id=event_id,
            source=aggregate.source,
            aggregate_type=aggregate.aggregate_type,
            aggregate_id=aggregate.aggregate_id,
            type="OrderPlaced",
            payload=None,
            created_at=datetime.now(UTC),
            sequence=sequence,
        )
        finish(self.park.add(self.connection, event, replace(MESSAGE, **message), failure))
        return event_id

    def due(self, *owned: TopicPartition, limit: int = 10, **bounds: float) -> list[ParkedEvent]:
        return finish(self.park.find_due(self.connection, owned or [HOME], limit, **bounds))

    def due_ids(self, *owned: TopicPartition, limit: int = 10, **bounds: float) -> list[str]:
        return [row.event_id for row in self.due(*owned, limit=limit, **bounds)]

    def wake(self, successors: dict[Aggregate, int | None]) -> int:
        return finish(self.park.wake(self.connection, successors))

    def counts(self) -> set[tuple[State, Reason]]:
        return {(count.state, count.reason) for count in finish(self.park.count(self.connection))}

    def issue(self, *places: TopicPartition, topic_id: TopicId = TopicId()) -> dict[TopicPartition, Assignment]:  # noqa: B008 - a value
        topic_ids = {place.topic: topic_id for place in places}
        return dict(finish(self.epochs.issue(self.connection, places, topic_ids)))

    def store_offsets(
        self, held: dict[TopicPartition, int], offsets: dict[TopicPartition, int], before: int | None = None
    ) -> list[TopicPartition]:
        moves = {place: OffsetMove(before, offset) for place, offset in offsets.items()}
        return finish(self.epochs.store_offsets(self.connection, held, moves))

    def commit(self) -> None:
        """Commit, and begin the next transaction."""
        finish(self.driver.commit(self.connection))
        finish(self.driver.begin(self.connection))

    def roll_back(self) -> None:
        """Undo, and begin the next transaction."""
        finish(self.driver.rollback(self.connection))
        finish(self.driver.begin(self.connection))


def gap() -> Failure:
    return Failure(reason=Reason.GAP, error="a predecessor is missing", attempts=0)


def failed(retry_seconds: float | None = 0.0, attempts: int = 1) -> Failure:
    return Failure(reason=Reason.FAILED, error="its handler raised", attempts=attempts, retry_seconds=retry_seconds)


class InboxContract:
    """Claims and watermarks.

    Attributes:
        CLAIMS_NEXT: Whether one statement claims events that are next.
    """

    CLAIMS_NEXT = False

    @pytest.fixture
    def opened(self) -> Any:
        """Yield a database with nothing in it and an open transaction, which is rolled back at the end."""
        raise NotImplementedError

    def test_an_id_is_new_once(self, opened: Opened) -> None:
        assert opened.claim("1", "2") == {"1", "2"}
        assert opened.claim("2", "3") == {"3"}
        assert opened.claim("1", "2", "3") == set()

    def test_ids_are_text_of_any_kind(self, opened: Opened) -> None:
        ids = ["42", "~42", "ünï'cödé", "a" * 500, TIMED, TIMED.upper(), "{}"]
        assert opened.claim(*ids) == set(ids)
        assert opened.claim(*ids) == set()

    def test_to_look_for_claims_makes_none(self, opened: Opened) -> None:
        opened.claim("1", TIMED, UNTIMED)
        wanted = ["1", "2", TIMED, UNTIMED]
        for _ in range(2):
            assert finish(opened.inbox.find_claims(opened.connection, wanted)) == {"1", TIMED, UNTIMED}
        assert opened.claim("2") == {"2"}

    def test_a_claim_that_is_given_back_is_new_again(self, opened: Opened) -> None:
        opened.claim(TIMED, UNTIMED, "3")
        finish(opened.inbox.release(opened.connection, {TIMED, UNTIMED}))
        assert opened.claim(TIMED, UNTIMED, "3") == {TIMED, UNTIMED}

    def test_an_empty_list_does_nothing(self, opened: Opened) -> None:
        assert opened.claim() == set()
        assert self.claim_next(opened, [], range(1)) is None
        assert self.claim_next(opened, ["1"]) is None
        assert opened.claim("1") == {"1"}
        assert opened.watermarks() == {}
        assert finish(opened.inbox.lock_watermarks(opened.connection, [])) == {}
        assert finish(opened.inbox.advance(opened.connection, Claims(), [])) == []
        assert not finish(opened.inbox.take_back(opened.connection, Claims()))
        finish(opened.inbox.release(opened.connection, []))

    def test_a_watermark_is_where_it_was_moved_to(self, opened: Opened) -> None:
        assert opened.watermarks(A, B) == {}
        opened.advance(Move(A, 0, 3))
        opened.advance(Move(A, 3, 4), Move(B, 0, 1))
        assert opened.watermarks(B, A, A) == {A: Watermark(4), B: Watermark(1)}

    @pytest.mark.parametrize("move", [Move(A, 0, 1), Move(A, 1, 2), Move(A, 4, 5)])
    def test_a_watermark_moves_only_from_where_it_is(self, opened: Opened, move: Move) -> None:
        opened.advance(Move(A, 0, 3))
        with pytest.raises(WatermarkMovedError) as caught:
            opened.advance(move)
        assert caught.value.retryable

    def test_sources_are_kept_apart(self, opened: Opened) -> None:
        opened.advance(Move(A, 0, 3))
        opened.advance(Move(A._replace(source="orders.2"), 0, 1))
        assert opened.watermarks(A) == {A: Watermark(3)}

    def test_a_lock_makes_the_watermark_of_a_new_aggregate_and_changes_no_other(self, opened: Opened) -> None:
        opened.advance(Move(A, 0, 3))
        assert finish(opened.inbox.lock_watermarks(opened.connection, [B, A])) == {A: Watermark(3), B: Watermark(0)}
        opened.advance(Move(B, 0, 1))
        assert opened.watermarks(A, B) == {A: Watermark(3), B: Watermark(1)}

    def test_a_watermark_counts_what_is_parked_behind_it_and_tells_while_there_is_something(
        self, opened: Opened
    ) -> None:
        assert opened.advance(Move(A, 0, 0, parked=2), Move(B, 0, 1)) == [A]
        assert opened.watermarks(A) == {A: Watermark(0, 2)}
        assert opened.advance(Move(A, 0, 3, parked=-1)) == [A]
        assert opened.advance(Move(A, 3, 4)) == [A]
        assert opened.advance(Move(A, 4, 4, parked=-1)) == []
        assert opened.watermarks(A) == {A: Watermark(4)}

    def test_nothing_is_forgotten_before_the_first_purge(self, opened: Opened) -> None:
        assert finish(opened.inbox.find_purge(opened.connection)) is None

    def test_a_transaction_has_a_name_without_a_claim(self, opened: Opened) -> None:
        claims = finish(opened.inbox.identify(opened.connection))
        assert claims.transaction
        assert not claims.new
        assert finish(opened.inbox.advance(opened.connection, claims, [Move(A, 0, 1)])) == []

    def claim_next(self, opened: Opened, ids: Sequence[str], *lasts: range, **held: int) -> ClaimedNext | None:
        """Claim ids in one statement, expecting the watermarks of A, B and so on."""
        expected = dict(zip((A, B), lasts, strict=False))
        owned = {TopicPartition("orders", int(number.removeprefix("p"))): epoch for number, epoch in held.items()}
        return finish(opened.inbox.claim_next(opened.connection, ids, expected, owned))

    def test_one_statement_claims_events_that_are_next(self, opened: Opened) -> None:
        opened.advance(Move(A, 0, 3))
        claimed = self.claim_next(opened, [TIMED, "2"], range(3, 4), range(1))
        if not self.CLAIMS_NEXT:
            assert claimed is None
            assert opened.claim(TIMED, "2") == {TIMED, "2"}
            return
        assert claimed is not None
        assert claimed.claims.new == {TIMED, "2"}
        assert claimed.watermarks == {A: Watermark(3), B: Watermark()}
        assert not claimed.is_stale
        assert finish(opened.inbox.advance(opened.connection, claimed.claims, [Move(A, 3, 4), Move(B, 0, 1)])) == []
        assert opened.watermarks(A, B) == {A: Watermark(4), B: Watermark(1)}
        assert opened.claim(TIMED, "2", "3") == {"3"}

    @pytest.mark.parametrize("moves", [[Move(A, 0, 2)], [Move(A, 0, 4)], [Move(A, 0, 3, parked=1)], [Move(B, 0, 1)]])
    def test_it_claims_nothing_where_a_watermark_is_not_as_expected(self, opened: Opened, moves: list[Move]) -> None:
        opened.advance(*moves)
        if moves[0].aggregate == B:
            opened.advance(Move(A, 0, 3))
        assert self.claim_next(opened, [TIMED, "2"], range(3, 4), range(1)) is None
        assert opened.claim(TIMED, "2") == {TIMED, "2"}

    @pytest.mark.parametrize("last", [0, 3])
    def test_more_than_one_watermark_may_be_expected(self, opened: Opened, last: int) -> None:
        if last:
            opened.advance(Move(A, 0, last))
        claimed = self.claim_next(opened, ["2"], range(4))
        assert (claimed and claimed.watermarks) == ({A: Watermark(last)} if self.CLAIMS_NEXT else None)

    def test_it_fails_where_an_id_was_claimed(self, opened: Opened) -> None:
        opened.claim("1")
        with pytest.raises(IdClaimedError) if self.CLAIMS_NEXT else nullcontext():
            assert self.claim_next(opened, ["1", "2"], range(1)) is None
        opened.roll_back()
        assert opened.claim("1", "2") == {"1", "2"}

    def test_it_notices_that_a_partition_has_another_owner(self, opened: Opened) -> None:
        first, second = opened.issue(HOME)[HOME].epoch, opened.issue(HOME)[HOME].epoch
        claimed = [self.claim_next(opened, [str(epoch)], range(1), p0=epoch) for epoch in (first, second)]
        assert [one and one.is_stale for one in claimed] == ([True, False] if self.CLAIMS_NEXT else [None, None])


class EpochContract:
    """Who owns a partition."""

    def test_the_last_one_who_took_a_partition_owns_it(self, opened: Opened) -> None:
        first, second = opened.issue(HOME, AWAY), opened.issue(HOME)
        assert second[HOME].epoch > first[HOME].epoch
        held = {place: tenure.epoch for place, tenure in first.items()}
        assert finish(opened.epochs.find_stale(opened.connection, held)) == [HOME]
        assert finish(opened.epochs.find_stale(opened.connection, {HOME: second[HOME].epoch})) == []
        assert finish(opened.epochs.find_stale(opened.connection, {})) == []

    def test_a_partition_that_nobody_took_is_nobodys(self, opened: Opened) -> None:
        assert finish(opened.epochs.find_stale(opened.connection, {HOME: 1})) == [HOME]

    def test_assignments_that_got_nothing_done_are_counted_until_one_does(self, opened: Opened) -> None:
        assert [opened.issue(HOME)[HOME].unfinished for _ in range(3)] == [1, 2, 3]
        tenure = opened.issue(HOME)[HOME]
        finish(opened.epochs.finish(opened.connection, {HOME: tenure.epoch - 1}))  # an owner of the past
        assert opened.issue(HOME)[HOME].unfinished == 5
        finish(opened.epochs.finish(opened.connection, {HOME: tenure.epoch + 1}))
        finish(opened.epochs.finish(opened.connection, {}))
        assert opened.issue(HOME)[HOME].unfinished == 1

    def test_a_next_offset_is_stored_by_who_owns_the_partition_and_told_to_the_next_owner(self, opened: Opened) -> None:
        first = opened.issue(HOME, AWAY)
        assert [tenure.next_offset for tenure in first.values()] == [None, None]
        held = {place: tenure.epoch for place, tenure in first.items()}
        assert opened.store_offsets(held, {HOME: 7, AWAY: 9}) == []
        assert opened.store_offsets(held, {HOME: 8}) == []
        assert {place: tenure.next_offset for place, tenure in opened.issue(HOME, AWAY).items()} == {HOME: 8, AWAY: 9}
        assert sorted(opened.store_offsets(held, {HOME: 10})) == [HOME, AWAY]
        assert opened.store_offsets({}, {}) == []
        assert opened.issue(HOME)[HOME].next_offset == 8

    def test_a_next_offset_moves_only_from_where_it_is_known_to_be(self, opened: Opened) -> None:
        held = {HOME: opened.issue(HOME)[HOME].epoch}
        assert opened.store_offsets(held, {HOME: 7}, before=3) == [HOME]
        assert opened.store_offsets(held, {HOME: 7}, before=NO_OFFSET) == []
        assert opened.store_offsets(held, {HOME: 8}, before=NO_OFFSET) == [HOME]
        assert opened.store_offsets(held, {HOME: 9}, before=8) == [HOME]
        assert opened.store_offsets(held, {HOME: 8}, before=7) == []
        assert opened.issue(HOME)[HOME].next_offset == 8

    def test_the_topic_that_a_next_offset_counts_in_stays_with_it(self, opened: Opened) -> None:
        old, new = TopicId("cluster", "old"), TopicId("cluster", "new")
        assert opened.issue(HOME)[HOME].topic_id == TopicId()
        assert opened.issue(HOME, topic_id=old)[HOME].topic_id == old
        tenure = opened.issue(HOME, topic_id=new)[HOME]
        assert tenure.topic_id == new
        opened.store_offsets({HOME: tenure.epoch}, {HOME: 1})
        assert opened.issue(HOME, topic_id=old)[HOME].topic_id == new

    def test_a_next_offset_keeps_its_leader_until_a_message_of_another_one(self, opened: Opened) -> None:
        held = {HOME: opened.issue(HOME)[HOME].epoch}
        for offset, leader, stored in ((7, 3, 3), (7, None, 3), (8, 0, 0)):
            move = {HOME: OffsetMove(None, offset, leader)}
            assert finish(opened.epochs.store_offsets(opened.connection, held, move)) == []
            tenure = opened.issue(HOME)[HOME]
            assert (tenure.next_offset, tenure.leader_epoch) == (offset, stored)
            held = {HOME: tenure.epoch}

    def test_the_starts_of_an_event_are_counted_until_it_ends(self, opened: Opened) -> None:
        assert [finish(opened.epochs.start(opened.connection, "1")) for _ in range(3)] == [1, 2, 3]
        assert finish(opened.epochs.start(opened.connection, "2")) == 1
        finish(opened.epochs.forget_start(opened.connection, "1"))
        assert finish(opened.epochs.start(opened.connection, "1")) == 1


@contextmanager
def opened_on(connection: Any) -> Iterator[Opened]:
    """Open a transaction on a connection, and close both at the end."""
    driver = ImmediateTransactions(find_transaction_driver(connection))
    table = InboxTable.on(driver.dialect)
    own, other = (sql_stores(table=table, consumer=name, driver=driver) for name in (CONSUMER, "other"))
    with closing(connection):
        finish(driver.begin(connection))
        yield Opened(connection, driver, own, other)
        finish(driver.rollback(connection))
