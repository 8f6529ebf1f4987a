"""Parked events of topic-partitions that no consumer is assigned: one instance of the consumer applies them.

A topic gets another name, or is created anew with fewer partitions: what was parked before stays parked under the
topic-partition that it came from, which nobody is assigned any more. The consumer that is assigned the first
topic-partition of the contract tries such events too. Two instances may do so for a while, as two replays may: the
locks on the watermarks and the claims decide between them.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping

from cdc_outbox.consumer.epochs import Place, place_of
from cdc_outbox.consumer.park import ParkedEvent
from cdc_outbox.wire import WireContract

_log = logging.getLogger(__name__)

_ASK_SECONDS = 30.0
"""How often the brokers are asked which partitions there are, while events of others than the consumer's are parked."""


class Adoption:
    """What one instance of a consumer applies beside the events of its own partitions.

    Args:
        find_topics: Asks the brokers which topics there are, each with its partitions.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        contract: WireContract,
        find_topics: Callable[[], Awaitable[Mapping[str, Collection[int]]]],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._contract, self._find_topics, self._clock = contract, find_topics, clock
        self._asked_at: float | None = None
        self._known: set[Place] = set()
        self.adopted: frozenset[Place] = frozenset()
        """Topic-partitions that no consumer is assigned, if this instance is the one that looks after them."""
        self.guardian: Place | None = None
        """The assigned topic-partition whose owner looks after the others."""

    async def look(self, parked: Collection[Place], held: Collection[Place]) -> None:
        """Find out what to adopt.

        Args:
            parked: The topic-partitions of all parked events that wait.
            held: Those that this instance is assigned.

        Raises:
            BrokerUnavailableError: The brokers do not answer.
        """
        if self._known.issuperset(parked) or set(parked) <= set(held):
            self.adopted = frozenset()
            return
        if self._asked_at is None or self._clock() - self._asked_at >= _ASK_SECONDS:
            topics = await self._find_topics()
            self._known = {Place(topic, number) for topic in self._contract.topics for number in topics.get(topic, ())}
            self._asked_at = self._clock()
        self.guardian = min(self._known, default=None)
        before = self.adopted
        is_guardian = self.guardian is not None and self.guardian in held
        self.adopted = frozenset(set(parked) - self._known) if is_guardian else frozenset()
        for place in sorted(self.adopted - before):
            _log.warning(
                "parked events of a partition that no consumer is assigned are applied here",
                extra={"topic": place.topic, "partition": place.partition},
            )

    def takes(self, row: ParkedEvent) -> bool:
        """Tell whether this consumer can apply a parked event: another one may know aggregate types more."""
        is_own = place_of(row.message) not in self.adopted
        return is_own or row.aggregate.aggregate_type in {"", *self._contract.aggregates}

    def owner_of(self, row: ParkedEvent) -> Place:
        """Return the assigned topic-partition under whose epoch a parked event is applied."""
        place = place_of(row.message)
        return self.guardian if place in self.adopted and self.guardian is not None else place
