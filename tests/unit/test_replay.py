"""When a replay ends, and what is said of one that applied nothing."""

import threading
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from cdc_outbox.cli.replay import hint_of
from cdc_outbox.consumer import Limits, Retry, Selection, SequenceMode, WireContract
from cdc_outbox.consumer.delivery import Delivered
from cdc_outbox.consumer.fencing import TopicPartition
from cdc_outbox.consumer.item import Item, Outcome
from cdc_outbox.consumer.ordering import Memory
from cdc_outbox.consumer.replay import Fate, Replay, Replayed
from cdc_outbox.consumer.retries import RetryTracker
from cdc_outbox.consumer.topic_reader import TopicReader
from cdc_outbox.consumer.waits import Blocking
from cdc_outbox.databases.drivers.immediate import finish
from cdc_outbox.errors import TransactionConflictError
from cdc_outbox.event import RecordedEvent
from cdc_outbox.message import Message
from tests.support.events import make_event

CONTRACT = WireContract(aggregates={"order": SequenceMode.GAPLESS}, topic="orders")
PLACE = TopicPartition("orders", 0)
MESSAGE = CONTRACT.message_of(make_event(1))


class OneTopic(TopicReader):
    """A reader of one message."""

    def __init__(self) -> None:
        """Need no client."""

    def partitions(self, topics: Collection[str]) -> list[TopicPartition]:
        return [PLACE]

    def bounds(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        return dict.fromkeys(places, (0, 1))

    def read(self, spans: Mapping[TopicPartition, tuple[int, int]]) -> Iterator[Message]:
        yield MESSAGE


class Busy:
    """A session in whose way another transaction is, and stays."""

    isolated: frozenset[str] = frozenset()

    def __init__(self, stopping: threading.Event, stopped_at: int) -> None:
        self.tries = 0
        self._stopping, self._stopped_at = stopping, stopped_at

    async def find_due(self, _places: object, _limit: int) -> tuple[list[Any], list[Any]]:
        return [], []

    async def recall(self, events: Sequence[RecordedEvent]) -> Memory:
        return Memory(unseen={one.id or "" for one in events}, watermarks={})

    async def apply(self, items: Sequence[Item], _held: object, _room: int) -> Delivered:
        self.tries += 1
        if self.tries == self._stopped_at:
            self._stopping.set()
        if self.tries < 10:
            raise TransactionConflictError("deadlock")
        return Delivered(outcomes=[Outcome.APPLIED for _ in items])


def run(stopping: threading.Event, selection: Selection, stopped_at: int = 0) -> tuple[Replayed, Busy]:
    session: Any = Busy(stopping, stopped_at)
    replay = Replay(
        session,
        OneTopic(),
        contract=CONTRACT,
        limits=Limits(),
        retries=RetryTracker(Retry()),
        waits=Blocking(stopping),
    )
    return finish(replay.run(selection, is_stopping=stopping.is_set)), session


@pytest.mark.parametrize(("stopped_at", "tries"), [(3, 3), (0, 10)])
def test_a_replay_that_is_told_to_stop_does_not_wait_for_what_is_in_its_way(stopped_at: int, tries: int) -> None:
    done, session = run(threading.Event(), Selection(), stopped_at)
    assert session.tries == tries
    assert done.is_complete == (not stopped_at)
    assert done.fates == ({} if stopped_at else {Fate.APPLIED: 1})


def test_an_event_type_that_no_message_has_is_told_with_those_that_there_are() -> None:
    done, _ = run(threading.Event(), Selection(event_type="OrderPlacd"))
    assert (done.fates, done.passed_over) == ({}, {"OrderPlaced": 1})
    assert hint_of("shipping", done, "OrderPlacd") == "The topics hold OrderPlaced. Did you mean 'OrderPlaced'?"
    others = Replayed(passed_over=Counter({f"Type{number}": 9 - number for number in range(9)}))
    assert hint_of("shipping", others, "Refund") == "The topics hold Type0, Type1, Type2, Type3, Type4."


@pytest.mark.parametrize("event_type", [None, "OrderPlaced"])
def test_a_selection_that_no_message_meets_for_another_reason_is_no_misspelt_type(event_type: str | None) -> None:
    done = Replayed(passed_over=Counter({"OrderPlaced": 3}))
    assert not hint_of("shipping", done, event_type)


def test_a_replay_of_duplicates_alone_is_told_with_what_makes_effects_run_again() -> None:
    done = Replayed(fates=Counter({Fate.DUPLICATE: 3}))
    assert hint_of("our shop", done, None).endswith("only after `cdc-outbox reset SPEC --consumer 'our shop' …`.")
    assert not hint_of("shop", Replayed(fates=Counter({Fate.DUPLICATE: 3, Fate.APPLIED: 1})), None)
