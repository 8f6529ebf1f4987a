"""What every park promises."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from cdc_outbox.consumer.fencing import TopicPartition
from cdc_outbox.consumer.parked_events import Failure, Reason, State
from cdc_outbox.databases.drivers.immediate import finish
from tests.contract.inbox_contract import AWAY, HOME, MESSAGE, A, B, Opened, failed, gap


class ParkContract:
    """Events set aside."""

    def test_an_event_is_parked_once_and_found_by_its_id(self, opened: Opened) -> None:
        first = opened.add(3, gap())
        assert finish(opened.park.find_parked(opened.connection, [first, "other"])) == {first: (A, 3)}
        assert finish(opened.park.find_parked(opened.connection, [])) == {}

    @pytest.mark.parametrize(
        "message",
        [
            {"key": None, "value": None, "headers": (), "timestamp_ms": None},
            {"key": b"\xff\0", "value": b"\0\xfe", "headers": (("id", b"1"), ("id", None), ("ü", b"\xff\0"))},
            {"partition": 7, "offset": 2**40, "timestamp_ms": 1_700_000_000_123, "value": b""},
        ],
        ids=["empty", "bytes", "numbers"],
    )
    def test_the_message_comes_out_as_it_went_in(self, opened: Opened, message: dict[str, Any]) -> None:
        opened.add(1, failed(), **message)
        [row] = opened.due(HOME, TopicPartition("orders", 7))
        assert row.message == replace(MESSAGE, **message)

    def test_a_row_says_what_is_known_of_it(self, opened: Opened) -> None:
        event_id = opened.add(1, failed(attempts=2))
        [row] = opened.due()
        expected = (event_id, State.WAITING, Reason.FAILED, True, False, 2, True)
        assert (row.event_id, row.state, row.reason, row.blocks, row.forced, row.attempts, row.is_due) == expected
        assert row.aggregate == A

    def test_what_waits_for_a_time_is_due_after_it_and_only_where_its_partition_is(self, opened: Opened) -> None:
        now, _later, _dead = (opened.add(1, failed(seconds), aggregate=A) for seconds in (0.0, 3600.0, None))
        away = opened.add(1, failed(), aggregate=B, partition=AWAY.partition)
        assert [row.event_id for row in opened.due(HOME) if row.is_due] == [now]
        assert opened.due_ids(AWAY) == [away]
        assert finish(opened.park.find_due(opened.connection, [], 10)) == []

    def test_what_is_due_comes_with_all_that_waits_behind_it_in_order(self, opened: Opened) -> None:
        fourth, third = opened.add(4, gap()), opened.add(3, gap())
        other = opened.add(9, gap(), aggregate=B)
        second = opened.add(2, failed())
        assert opened.due_ids() == [second, third, fourth]
        assert opened.due_ids(limit=2) == [second, third]
        assert other not in opened.due_ids()

    def test_what_is_not_numbered_comes_in_the_order_in_which_it_was_parked(self, opened: Opened) -> None:
        behind = Failure(reason=Reason.BEHIND, error="", attempts=0)
        ids = [opened.add(None, failed()), *(opened.add(None, behind) for _ in range(3))]
        assert opened.due_ids() == ids

    @pytest.mark.parametrize("what", [failed, gap], ids=["due", "waiting"])
    def test_each_aggregate_has_its_turn_however_much_of_another_is_parked(
        self, opened: Opened, what: Callable[[], Failure]
    ) -> None:
        many = [opened.add(1, failed()), *(opened.add(number, what()) for number in (2, 3, 4))]
        others = [opened.add(1, failed(), aggregate=B) for _ in range(2)]
        assert opened.due_ids(limit=2) == [many[0], others[0]]
        assert opened.due_ids(limit=4) == [*many[:2], *others]
        assert opened.due_ids(limit=6) == [*many[:3], *others]

    def test_no_more_is_read_than_a_bound_of_bytes_unless_one_event_has_them(self, opened: Opened) -> None:
        sized: dict[str, Any] = {"key": None, "headers": (("h", b"123456789"),), "value": b"x" * 90}
        ids = [opened.add(1, failed(), **sized), *(opened.add(number, gap(), **sized) for number in (2, 3, 4))]
        assert [opened.due_ids(most_bytes=most) for most in (300, 299, 1)] == [ids[:3], ids[:2], ids[:1]]

    def test_each_aggregate_has_its_turn_where_bytes_are_bounded(self, opened: Opened) -> None:
        conflict = Failure(reason=Reason.CONFLICT, error="", attempts=0, retry_seconds=0.0)
        sized: dict[str, Any] = {"key": None, "value": b"x" * 100}
        many = [opened.add(1, failed(), **sized), opened.add(2, gap(), **sized)]
        other, alone = opened.add(1, failed(), aggregate=B, **sized), opened.add(9, conflict, **sized)
        found = [opened.due_ids(most_bytes=100) for _ in range(3)]
        assert sorted(found) == sorted([[many[0]], [other], [alone]])
        assert set(opened.due_ids(most_bytes=300)) == {many[0], other, alone}
        assert set(opened.due_ids(most_bytes=400)) == {*many, other, alone}

    def test_what_has_no_number_waits_behind_what_was_parked_before_it(self, opened: Opened) -> None:
        behind = Failure(reason=Reason.BEHIND, error="", attempts=0)
        ids = [opened.add(10, failed()), *(opened.add(number, behind) for number in (None, None, 30))]
        assert opened.due_ids() == ids
        ids.insert(1, opened.add(9, behind))
        assert opened.due_ids() == [ids[1], ids[0], *ids[2:]]

    def test_events_that_others_do_not_wait_for_are_due_one_by_one(self, opened: Opened) -> None:
        conflict = Failure(reason=Reason.CONFLICT, error="", attempts=0, retry_seconds=0.0)
        ids = [opened.add(number, conflict) for number in (2, 1, 3)]
        opened.add(4, gap())
        assert sorted(opened.due_ids()) == sorted(ids)
        assert len(opened.due_ids(limit=2)) == 2

    def test_the_one_that_follows_is_woken_and_no_other(self, opened: Opened) -> None:
        fifth, third = opened.add(5, gap()), opened.add(3, gap())
        other = opened.add(3, gap(), aggregate=B)
        assert opened.due() == []
        assert opened.wake({A: 2}) == 0
        assert opened.wake({A: 3}) == 1
        assert [(row.event_id, row.is_due) for row in opened.due()] == [(third, True), (fifth, False)]
        assert opened.wake({A: 3}) == 0, "it is due already"
        assert opened.wake({B: None}) == 1
        assert other in opened.due_ids()
        assert opened.wake({}) == 0

    def test_what_another_event_took_the_place_of_is_woken_to_be_found_out(self, opened: Opened) -> None:
        opened.add(3, gap())
        assert opened.wake({A: 5}) == 1

    def test_what_came_first_is_woken_where_no_number_is_named(self, opened: Opened) -> None:
        behind = Failure(reason=Reason.BEHIND, error="", attempts=0)
        first, _second = (opened.add(None, behind) for _ in range(2))
        assert opened.wake({A: None}) == 1
        assert [row.event_id for row in opened.due() if row.is_due] == [first]

    def test_what_is_dead_is_not_woken_and_nothing_passes_it(self, opened: Opened) -> None:
        opened.add(None, failed(None))
        opened.add(None, Failure(reason=Reason.BEHIND, error="", attempts=0))
        assert opened.wake({A: None}) == 0
        assert opened.due() == []

    def test_what_waits_for_its_time_is_not_woken_before(self, opened: Opened) -> None:
        opened.add(3, failed(3600.0))
        assert opened.wake({A: 3}) == 0
        assert opened.due() == []

    def test_what_was_due_and_cannot_be_applied_rests_until_it_is_woken(self, opened: Opened) -> None:
        opened.add(3, gap())
        opened.wake({A: 3})
        [row] = opened.due()
        finish(opened.park.rest(opened.connection, [row.parked_id]))
        assert opened.due() == []
        assert opened.wake({A: 3}) == 1

    def test_what_fails_again_is_tried_later_or_is_dead(self, opened: Opened) -> None:
        opened.add(1, failed())
        for retry_seconds, state in ((0.0, State.WAITING), (None, State.DEAD)):
            [row] = opened.due()
            finish(opened.park.fail(opened.connection, row.parked_id, failed(retry_seconds, row.attempts + 1)))
            assert opened.counts() == {(state, Reason.FAILED)}
        assert opened.due() == []

    def test_the_partitions_of_what_waits_are_known(self, opened: Opened) -> None:
        opened.add(1, failed())
        opened.add(2, gap())
        opened.add(1, failed(None), aggregate=B, partition=AWAY.partition)
        assert finish(opened.park.find_partitions(opened.connection)) == {HOME}

    def test_what_is_taken_out_is_gone(self, opened: Opened) -> None:
        ids = {opened.add(number, failed()) for number in (1, 2)}
        finish(opened.park.remove(opened.connection, [row.parked_id for row in opened.due()]))
        finish(opened.park.remove(opened.connection, []))
        assert finish(opened.park.find_parked(opened.connection, sorted(ids))) == {}
        assert opened.counts() == set()

    @pytest.mark.parametrize("reason", list(Reason))
    def test_what_is_set_aside_without_a_time_is_what_its_reason_says(self, opened: Opened, reason: Reason) -> None:
        opened.add(3, Failure(reason=reason, error="nul\0", attempts=0))
        assert opened.counts() == {(reason.state, reason)}

    def test_they_are_counted_by_what_they_are(self, opened: Opened) -> None:
        for failure in (gap(), gap(), failed(None)):
            opened.add(3, failure)
        counts = finish(opened.park.count(opened.connection))
        assert sum(count.events for count in counts) == 3
        assert sum(count.bytes for count in counts) == 3 * len(b"a{}")
        assert all(count.gap_seconds >= 0 for count in counts)

    def test_the_bytes_of_their_messages_are_counted(self, opened: Opened) -> None:
        opened.add(3, gap(), key=None, value=None)
        opened.add(4, gap(), value=b"\0" * 100_000, headers=(("ü", b"\xff\0"), ("id", None)))
        opened.add(5, failed(None), value=b"1234")
        counts = finish(opened.park.count(opened.connection))
        expected = {Reason.GAP: 1 + 100_000 + 4 + 2, Reason.FAILED: 5}
        assert {
            reason: sum(count.bytes for count in counts if count.reason is reason) for reason in expected
        } == expected

    def test_who_waits_behind_a_failed_one_misses_nothing(self, opened: Opened) -> None:
        def missing() -> int:
            return sum(count.gap_events for count in finish(opened.park.count(opened.connection)))

        for number, failure in ((2, failed(None)), (3, gap()), (4, gap())):
            opened.add(number, failure)
        opened.add(1, Failure(reason=Reason.CONFLICT, error="", attempts=0), aggregate=B)
        assert missing() == 0
        for number in (7, 8):
            opened.add(number, gap(), aggregate=B)
        assert missing() == 2
        assert opened.wake({B: 7}) == 1
        assert missing() == 0
