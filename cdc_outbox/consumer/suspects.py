"""Events one of which may have crashed the process before: each is noted before it begins."""

from collections.abc import Sequence

from cdc_outbox.consumer.fencing import Ownership
from cdc_outbox.consumer.item import Item
from cdc_outbox.consumer.parked_events import Failure, Reason
from cdc_outbox.consumer.session import Session


class Suspects:
    """The first events of partitions whose last owners did not finish.

    Args:
        most_starts: How often an event may be begun and not ended before it is parked.
    """

    def __init__(self, session: Session, ownership: Ownership, most_starts: int) -> None:
        self._session, self._ownership, self._most_starts = session, ownership, most_starts

    def is_one(self, item: Item) -> bool:
        """Return whether an event must have a transaction of its own, because it may crash the process."""
        return item.failure is None and self._ownership.is_suspect(item.topic_partition)

    async def begun(self, items: Sequence[Item]) -> Sequence[Item]:
        """Note before its handler runs that a suspect is begun, and give up what was begun and never ended."""
        [item, *others] = items
        if others or not self.is_one(item) or item.is_begun:
            return items
        started = await self._session.start(item.event_id)
        if started <= self._most_starts:
            return [item.begun()]
        error = f"{item.event} was started {started - 1} times and never finished: its handler may crash the process"
        return [item.begun().failing(Failure(reason=Reason.CRASHED, error=error))]
