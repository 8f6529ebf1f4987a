"""When a replay ends."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from cdc_outbox.consumer import Limits, Order, Retry, Selection, SequenceMode, WireContract
from cdc_outbox.consumer.delivery import Delivered, Outcome
from cdc_outbox.consumer.epochs import Place
from cdc_outbox.consumer.item import Item
from cdc_outbox.consumer.ordering import Memory
from cdc_outbox.consumer.poison import Poison
from cdc_outbox.consumer.replay import Fate, Replay
from cdc_outbox.consumer.waits import Blocking
from cdc_outbox.drivers.immediate import finish
from cdc_outbox.errors import TransactionConflictError
from cdc_outbox.event import Event
from cdc_outbox.message import Message
from tests.support.events import make_event

CONTRACT = WireContract(aggregates={"order": SequenceMode.GAPLESS}, topic="orders")
PLACE = Place("orders", 0)
MESSAGE = CONTRACT.message_of(make_event(1))


class OneTopic:
    """A reader of one message."""

    def places(self, _topics: Sequence[str]) -> list[Place]:
        return [PLACE]

    def bounds(self, places: Sequence[Place]) -> Mapping[Place, tuple[int, int]]:
        return dict.fromkeys(places, (0, 1))

    def read(self, _spans: Mapping[Place, tuple[int, int]]) -> Iterator[Message]:
        yield MESSAGE


class Busy:
    """A session in whose way another transaction is, and stays."""

    def __init__(self, stopping: threading.Event, stopped_at: int) -> None:
        self.tries = 0
        self._stopping, self._stopped_at = stopping, stopped_at

    async def find_due(self, _places: object, _limit: int) -> tuple[list[Any], list[Any]]:
        return [], []

    async def recall(self, events: Sequence[Event]) -> Memory:
        return Memory(unseen={one.id or "" for one in events}, marks={})

    async def apply(self, items: Sequence[Item], _held: object, _room: int) -> Delivered:
        self.tries += 1
        if self.tries == self._stopped_at:
            self._stopping.set()
        if self.tries < 10:
            raise TransactionConflictError("deadlock")
        return Delivered(outcomes=[Outcome.APPLIED for _ in items])


@pytest.mark.parametrize(("stopped_at", "tries"), [(3, 3), (0, 10)])
def test_a_replay_that_is_told_to_stop_does_not_wait_for_what_is_in_its_way(stopped_at: int, tries: int) -> None:
    stopping = threading.Event()
    session: Any = Busy(stopping, stopped_at)
    reader: Any = OneTopic()
    replay = Replay(
        session,
        reader,
        contract=CONTRACT,
        order_of=lambda _: Order(mode=SequenceMode.GAPLESS),
        limits=Limits(),
        poison=Poison(Retry()),
        waits=Blocking(stopping),
    )
    done = finish(replay.run(Selection(), is_stopping=stopping.is_set))
    assert session.tries == tries
    assert done.is_complete == (not stopped_at)
    assert done.fates == ({} if stopped_at else {Fate.APPLIED: 1})
