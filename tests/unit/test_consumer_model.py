"""Two hundred of the stories of which `infra/fuzz consumer` tells five thousand longer ones."""

import logging
from collections.abc import Iterator
from dataclasses import replace

import pytest

from cdc_outbox.consumer import delivery
from cdc_outbox.consumer.delivery import Delivery
from cdc_outbox.consumer.fencing import Assignment, TopicPartition
from cdc_outbox.consumer.handlers import HandlerRunner, Handlers
from cdc_outbox.consumer.item import Item, Outcome, unreadable
from cdc_outbox.consumer.ordering import orders_of
from cdc_outbox.consumer.parked_events import Failure, Reason, State
from cdc_outbox.databases.drivers.immediate import finish
from cdc_outbox.errors import MessageError
from cdc_outbox.testing import MemoryDatabase
from fuzz.consumer import explore
from fuzz.consumer_story import Plan, Story
from fuzz.consumer_world import CONTRACT, GAPLESS, INCREASING, LATEST, NONE, PLACES, Fault, Running
from tests.support.events import make_event


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Nearly all that a consumer warns of is wanted here, and to write it down is what would take longest."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("way", ["one statement", "short", "whole"])
def test_effects_happen_once_and_in_order_whatever_happens_to_the_consumers(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "short":
        monkeypatch.setattr(MemoryDatabase, "claim_next", nothing)
    if way == "whole":  # also for batches whose events are all new and next
        monkeypatch.setattr(delivery, "_are_plain", lambda _: False)
    explore(100, steps=30)


async def nothing(*_: object) -> None:
    """Stand for a database that has no statement for it."""


@pytest.fixture
def story() -> Iterator[Story]:
    """A story to be told by hand; its end is held against the laws as that of any other."""
    story = Story()
    yield story
    story.teardown()


def go_round(story: Story, times: int) -> None:
    for _ in range(times):
        story.turn_all()
        story.laws_hold()


def park(story: Story, kind: str, events: int) -> None:
    """Have an event fail until it is parked, and as many as there are with what comes after it."""
    story.write(kind=kind, number=0, fault=Fault(30), is_heard=True)
    for _ in range(events - 1):
        story.write(kind=kind, number=0, fault=None, is_heard=True)
    while len(story.operator.rows()) < events:
        go_round(story, 1)


def test_what_left_the_park_in_a_commit_that_was_not_answered_does_not_leave_it_twice(story: Story) -> None:
    story.begin(events=50, room=10_000)
    park(story, kind=GAPLESS, events=4)
    story.world.faults.clear()
    story.world.sleep(30.0)
    story.turn(number=0, plan=Plan("committed", 1, "cut"), turns=3)
    story.laws_hold()


def test_what_is_parked_and_comes_again_is_parked_once(story: Story) -> None:
    story.begin(events=3, room=10_000)
    park(story, kind=GAPLESS, events=2)
    story.repeat(which=0, events=2)
    go_round(story, 12)
    assert len(story.operator.rows()) == 2


def test_what_is_dead_and_was_superseded_stays_in_the_park_unclaimed(story: Story) -> None:
    story.begin(events=1, room=10_000)
    story.write(kind=LATEST, number=0, fault=Fault(1, is_hopeless=True), is_heard=True)
    go_round(story, 2)
    story.withhold(kind=LATEST, number=0)
    story.write(kind=LATEST, number=0, fault=Fault(6), is_heard=True)
    go_round(story, 3)


def test_what_waits_for_its_turn_while_another_takes_its_place_does_not_wait_for_ever(story: Story) -> None:
    story.begin(events=2, room=10_000)
    story.withhold(kind=GAPLESS, number=0)
    story.withhold(kind=GAPLESS, number=0)
    story.contradict(kind=GAPLESS, number=0)
    go_round(story, 3)
    # Both in one transaction, which leaves no moment at which the one that waits is next.
    story.world.consumers[0].loop._fresh.size.succeeded(1)
    story.send_withheld(which=0)
    story.send_withheld(which=0)
    go_round(story, 4)
    [(_, row)] = story.operator.rows()
    assert row.parked.reason is Reason.CONFLICT


def test_nobody_gives_up_a_parked_event_while_it_is_applied(story: Story) -> None:
    story.begin(events=50, room=10_000)
    park(story, kind=NONE, events=1)
    story.world.faults.clear()
    story.world.sleep(30.0)
    story.turn(number=0, plan=Plan("advance", 0, "operator"), turns=1)
    story.laws_hold()
    assert not story.oracle.skipped


def test_what_waits_behind_an_event_that_fails_again_does_not_overtake_it(story: Story) -> None:
    story.begin(events=3, room=10_000)
    park(story, kind=INCREASING, events=3)
    for _ in range(8):
        story.world.sleep(3.0)
        go_round(story, 2)


def chain(story: Story, *, number: int, first: TopicPartition, second: TopicPartition) -> tuple[int, int]:
    """Have an event dead, and one behind it in another partition; return their numbers in the park."""
    story.oracle.disordered.add(story._aggregate(NONE, str(number)))
    story._homes[NONE, str(number)] = first
    story.write(kind=NONE, number=number, fault=Fault(1, is_hopeless=True), is_heard=True)
    go_round(story, 3)
    story._homes[NONE, str(number)] = second
    story.write(kind=NONE, number=number, fault=None, is_heard=True)
    go_round(story, 3)
    (one, _), (other, _) = story.operator.rows()[-2:]
    return one, other


def applied(story: Story) -> list[str]:
    return [event.aggregate_id for event in story.world.server.committed.effects]


def test_what_waits_behind_another_ones_event_does_not_overtake_it_nor_hold_up_what_does_not(story: Story) -> None:
    story.begin(events=50, room=10_000)
    first, second = chain(story, number=0, first=PLACES[0], second=PLACES[1])
    third, fourth = chain(story, number=1, first=PLACES[1], second=PLACES[1])
    for place in (second, third, fourth):
        story.operator.retry(place, is_forced=False)
    go_round(story, 5)
    assert applied(story) == ["1", "1"]
    story.operator.retry(first, is_forced=False)
    go_round(story, 5)
    assert applied(story) == ["1", "1", "0", "0"]


@pytest.mark.parametrize("heir", [0, 1], ids=["renewed", "lost"])
def test_what_waits_behind_an_event_whose_partition_goes_while_it_is_at_hand_does_not_overtake_it(
    story: Story, heir: int
) -> None:
    story.begin(events=50, room=10_000)
    running = story.world.consumers[0]
    story.world.group.give(PLACES[1], running.client)
    parked = [*chain(story, number=0, first=PLACES[0], second=PLACES[0])]
    parked += chain(story, number=1, first=PLACES[1], second=PLACES[0])
    for place in parked:
        story.operator.retry(place, is_forced=False)
    running.turn()  # which finds all of it, and applies one
    assert applied(story) == ["0"]
    story.world.group.give(PLACES[1], story.world.consumers[heir].client)
    running.turn()
    assert "1" not in applied(story)
    go_round(story, 5)
    assert sorted(applied(story)) == ["0", "0", "1", "1"]
    ids = [event.id for event in story.world.server.committed.effects if event.aggregate_id == "1"]
    assert ids == sorted(ids), "they sort by time"


@pytest.mark.parametrize("heir", [0, 1], ids=["renewed", "lost"])
def test_how_often_an_event_was_tried_is_forgotten_with_its_partition(story: Story, heir: int) -> None:
    story.begin(events=3, room=10_000)
    story.write(kind=GAPLESS, number=0, fault=Fault(1), is_heard=True)
    running = story.world.consumers[0]
    while not running.loop._retries._tries:
        running.turn()
    story.world.faults.clear()
    story.world.group.give(PLACES[0], story.world.consumers[heir].client)
    story.turn(number=0, plan=Plan("begin", 0, "conflict"), turns=1)
    story.world.sleep(2.0)
    story.turn(number=0, plan=Plan("claim", 0, "conflict"), turns=1)
    assert not running.loop._retries._tries


def test_what_is_at_hand_and_has_no_effects_yet_is_still_to_go(story: Story) -> None:
    story.begin(events=2, room=10_000)
    story.write_more(kind=GAPLESS, number=0, events=5)
    running = story.world.consumers[0]
    running.turn()
    assert running.stats.progress().lag_events == 5
    go_round(story, 5)
    story.world.sleep(2.0)
    running.turn()
    assert running.stats.progress().lag_events == 0


def test_a_zombie_has_no_effects_once_its_successor_began(story: Story) -> None:
    story.begin(events=3, room=10_000)
    story.write_more(kind=GAPLESS, number=0, events=3)
    go_round(story, 1)
    story.write_more(kind=INCREASING, number=0, events=3)
    # Nobody else comes as far as the events, for the zombie holds their claims.
    story.turn(number=0, plan=Plan("handler", 0, "evict"), turns=1)
    story.laws_hold()


def test_what_may_have_been_forgotten_is_not_taken_for_one_that_waits_behind_another(story: Story) -> None:
    story.begin(events=3, room=10_000)
    story.write(kind=NONE, number=0, fault=None, is_heard=True)
    go_round(story, 3)
    park(story, kind=NONE, events=1)
    story.purge(seconds=0.0)
    story.repeat(which=0, events=1)
    go_round(story, 3)


def test_another_event_under_an_applied_number_contradicts_it_unless_it_is_older_than_the_purge(story: Story) -> None:
    story.begin(events=3, room=10_000)
    story.write(kind=GAPLESS, number=0, fault=None, is_heard=True)
    go_round(story, 3)
    story.contradict(kind=GAPLESS, number=0)
    story.world.sleep(1.0)
    story.purge(seconds=0.0)
    go_round(story, 3)
    assert story.operator.rows() == []
    story.contradict(kind=GAPLESS, number=0)
    go_round(story, 3)
    [(_, row)] = story.operator.rows()
    assert row.parked.reason is Reason.CONFLICT


def test_a_group_that_rebalances_is_not_taken_for_one_that_gave_the_partition_away(story: Story) -> None:
    story.begin(events=3, room=10_000)
    story.write_more(kind=GAPLESS, number=0, events=2)
    running = story.world.consumers[0]
    running.turn()
    # Another one takes it in the database, and never had it from the group for long.
    story.world.server.change(lambda now: now.epochs.update({PLACES[0]: Assignment(9, 1)}), ())
    story.write_more(kind=GAPLESS, number=0, events=2)
    running.client.refusals = 10
    story.world.sleep(2.0)
    go_round(story, 3)


def test_a_partition_that_comes_anew_is_read_anew_and_nothing_of_it_is_passed_over(story: Story) -> None:
    story.begin(events=1, room=10_000)
    story.move_home(kind=LATEST, number=1, place=PLACES[2])
    story.write(kind=GAPLESS, number=0, fault=Fault(30), is_heard=True)
    go_round(story, 10)
    story.world.faults.clear()
    running = story.world.consumers[0]
    for kind, number in ((NONE, 0), (LATEST, 1), (INCREASING, 0)):
        story.write(kind=kind, number=number, fault=None, is_heard=True)
        story.world.sleep(1.1)
        story.turn(number=0, plan=Plan("claim", 0, "conflict"), turns=1)
    story.world.sleep(30.0)
    # While something comes out of the park, a partition is taken and given back, of which two events are at hand.
    disturbed = story.world.step

    def renew(_running: Running, step: str) -> None:
        if step == "handler":
            story.world.step = disturbed
            story.world.group.give(PLACES[0], running.client)
            running.keep()

    story.world.step = renew
    go_round(story, 2)
    story.turn(number=0, plan=Plan("claim", 0, "crash"), turns=1)
    assert story.world.consumers[0] is not running
    story.laws_hold()


def test_what_was_polled_during_a_transaction_that_lost_its_partition_is_not_passed_over(story: Story) -> None:
    story.begin(events=1, room=10_000)
    park(story, kind=GAPLESS, events=1)
    go_round(story, 2)
    story.world.faults.clear()
    story.world.sleep(30.0)
    disturbed = story.world.step

    def take_and_return(running: Running, step: str) -> None:
        if step == "handler":
            story.world.step = disturbed
            story._disturb(running, "evict")
            story.write(kind=NONE, number=0, fault=None, is_heard=True)
            story.world.group.give(PLACES[0], running.client)
            story._let_others(running)
            running.keep()

    story.world.step = take_and_return
    story.turn(number=0, plan=None, turns=1)
    assert story.world.step is not take_and_return
    story.laws_hold()


def test_whoever_has_a_killer_tried_again_is_not_told_of_its_old_deaths() -> None:
    database = MemoryDatabase()
    database.committed.starts["a"] = 4
    crashed = item(Failure(reason=Reason.CRASHED, error="it was begun 3 times"))
    assert apply(database, crashed) == [Outcome.PARKED]
    assert not database.committed.starts


@pytest.mark.parametrize(
    ("is_due", "state"),
    [pytest.param(False, State.WAITING, id="not-due"), pytest.param(True, State.DEAD, id="due")],
)
def test_what_cannot_be_read_any_more_still_counts_among_those_that_block_its_aggregate(
    *, is_due: bool, state: State
) -> None:
    database = MemoryDatabase()
    apply(database, item(Failure(reason=Reason.FAILED, error="it failed", retry_seconds=5.0)))
    [row] = database.committed.rows.values()
    parked = replace(row.parked, is_due=is_due)
    apply(database, unreadable(parked.message, MessageError("the contract is another one"), parked))
    [row] = database.committed.rows.values()
    assert (row.parked.state, row.parked.blocks) == (state, True)
    assert [mark.parked for mark in database.committed.watermarks.values()] == [1]


def item(failure: Failure) -> Item:
    event = make_event(1, "0", event_type="gapless-done", aggregate_type=GAPLESS, event_id="a", source="s")
    message = replace(CONTRACT.message_of(event), partition=0, offset=0)
    return Item(event=event, message=message, failure=failure)


def apply(database: MemoryDatabase, *items: Item) -> list[Outcome]:
    calls = HandlerRunner(driver=database, handlers=Handlers())
    orders = orders_of(CONTRACT)
    delivery = Delivery(stores=database.stores, driver=database, calls=calls, order_of=orders.__getitem__)
    return finish(delivery.apply(items, None, {})).outcomes


def test_what_was_caught_after_a_partition_came_anew_is_not_taken_for_what_came_before() -> None:
    story = Story()
    story.begin(events=2, room=2)
    story.withhold(kind="gapless", number=0)
    story.evict(number=0)
    story.send_withheld(which=0)
    story.write_more(events=2, kind="gapless", number=1)
    story.begin_incarnation(kind="gapless")
    story.turn(number=1, plan=Plan("begin", 2, "return"), turns=1)
    story.teardown()
