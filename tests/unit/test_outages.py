"""What a consumer does while handlers of several aggregates fail at one host, by a clock that nobody waits for."""

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from cdc_outbox.consumer import loop, offsets
from cdc_outbox.consumer.delivery import Delivered
from cdc_outbox.consumer.fencing import TopicPartition
from cdc_outbox.consumer.item import Item
from cdc_outbox.databases.drivers.immediate import finish
from cdc_outbox.errors import HandlerError
from fuzz.consumer_group import Group
from fuzz.consumer_world import ModelPoller
from tests.support.loop_rig import PLACE, Second, append, rig

OTHER_PLACE = TopicPartition(PLACE.topic, 1)
HEALTHY = [f"healthy{number}" for number in range(20)]


def timed_out(_aggregate: str) -> Exception:
    """Return what names no host."""
    return TimeoutError("timed out")


def refused(aggregate: str) -> Exception:
    """Return the error of one host for all."""
    del aggregate
    return ConnectionRefusedError(111, "Connect call failed ('10.0.0.7', 443)")


def refused_elsewhere(aggregate: str) -> Exception:
    """Return the error of a host for each."""
    return ConnectionRefusedError(111, f"Connect call failed ('10.0.1.{aggregate.removeprefix('dead')}', 443)")


class Webhooks(Second):
    """A consumer's database that works, and hosts of which those for the aggregates ``dead…`` are away for ever.

    Args:
        error: Makes the error of a dead aggregate's handler.
    """

    def __init__(self, error: Callable[[str], Exception]) -> None:
        super().__init__(back_at=0)
        self._error = error
        self.applied_at: dict[str, float] = {}
        self.stored: dict[TopicPartition, int] = {}

    async def apply(self, items: Sequence[Item], *arguments: Any, stored: Mapping[TopicPartition, int]) -> Delivered:
        for item in items:
            aggregate = item.event.aggregate_id
            if item.failure is None and aggregate.startswith("dead"):
                self.clock += 0.01
                raise HandlerError(f"the handler of {item.event} raised") from self._error(aggregate)
        delivered = await super().apply(items, *arguments, stored=stored)
        for item in items:
            if item.failure is None:
                assert item.event.aggregate_id not in self.applied_at, "it was applied twice"
                self.applied_at[item.event.aggregate_id] = self.clock
            if item.parked is None:
                assert item.next_offset >= self.stored.get(item.topic_partition, 0), "its partition went back"
                self.stored[item.topic_partition] = item.next_offset
        return delivered


@pytest.fixture
def deliver(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Group]:
    def deliver(webhooks: Webhooks, *written: Sequence[str], seconds: float = 60) -> Group:
        """Run a consumer of these aggregates' first events, one list for each partition."""
        for module in (loop, offsets):
            monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=webhooks.monotonic))
        group = Group([PLACE, OTHER_PLACE])
        for place, aggregates in zip((PLACE, OTHER_PLACE), written, strict=False):
            for aggregate in aggregates:
                append(group, place, aggregate, 1)
        running, _, _ = rig(webhooks, group, ModelPoller)
        seen = [0.0]

        def is_stopping() -> bool:
            if seen == [webhooks.clock]:
                webhooks.clock += 0.5
            seen[:] = [webhooks.clock]
            return webhooks.clock >= seconds

        finish(running.run(is_stopping))
        return group

    return deliver


@pytest.mark.parametrize("error", [timed_out, refused, refused_elsewhere])
@pytest.mark.parametrize("dead", [3, 40])
def test_healthy_aggregates_behind_dead_hosts_are_applied_within_a_minute(
    deliver: Callable[..., Group], error: Callable[[str], Exception], dead: int
) -> None:
    webhooks = Webhooks(error)
    seconds = 60 if dead == 3 or error is refused else 120  # each that fails alone is tried again for two seconds
    group = deliver(webhooks, [*(f"dead{number}" for number in range(dead)), *HEALTHY], seconds=seconds)
    assert sorted(webhooks.applied_at) == sorted(HEALTHY)
    waiting = dead - len(webhooks.rows)
    assert waiting == 0 or (error is refused and waiting <= 1), "what fails alone is parked"
    assert group.committed[PLACE] >= dead + len(HEALTHY) - 1 - waiting


@pytest.mark.parametrize("error", [timed_out, refused])
def test_healthy_aggregates_of_another_partition_do_not_wait(
    deliver: Callable[..., Group], error: Callable[[str], Exception]
) -> None:
    webhooks = Webhooks(error)
    deliver(webhooks, [f"dead{number}" for number in range(3)], HEALTHY, seconds=20)
    assert sorted(webhooks.applied_at) == sorted(HEALTHY)


def test_an_event_that_was_applied_before_its_turn_is_not_read_again(deliver: Callable[..., Group]) -> None:
    webhooks = Webhooks(refused)
    group = deliver(webhooks, ["dead0", "dead1", "dead2", "dead3", "healthy"], seconds=120)
    assert list(webhooks.applied_at) == ["healthy"]
    done = group.committed[PLACE]
    assert (done == 5) is (len(webhooks.rows) == 4), "the offset moved past an event that is not done with"
    assert done == webhooks.stored[PLACE]


def test_an_event_that_is_due_in_the_park_is_tried_in_an_outage(deliver: Callable[..., Group]) -> None:
    class OnceAway(Webhooks):
        async def apply(self, items: Sequence[Item], *rest: Any, stored: Mapping[TopicPartition, int]) -> Delivered:
            if self.clock < 3 and any(item.event.aggregate_id == "late" and not item.failure for item in items):
                self.clock += 0.01
                raise HandlerError("the handler raised") from ValueError()
            return await super().apply(items, *rest, stored=stored)

    webhooks = OnceAway(refused)
    deliver(webhooks, ["late", "dead0", "dead1", "dead2"], seconds=40)
    assert list(webhooks.applied_at) == ["late"]
