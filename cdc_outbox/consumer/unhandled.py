"""A consumer that has done nothing yet leaves its events alone until the topics hold one that it has a handler for.

An event without a handler is claimed, so that numbers go on: a handler whose event type is misspelled would use up all
of them, and come too late once it is corrected.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

from cdc_outbox.consumer.epochs import NO_OFFSET, Place
from cdc_outbox.consumer.handlers import Handlers
from cdc_outbox.consumer.item import Item, item_of
from cdc_outbox.consumer.topics import TopicReader
from cdc_outbox.consumer.waits import Waits
from cdc_outbox.document import did_you_mean
from cdc_outbox.errors import NoHandlerError
from cdc_outbox.safe_text import shortened
from cdc_outbox.wire import WireContract

_SHOWN = 5
"""Event types that an error names."""


class UnhandledEvents:
    """What a consumer does with events before the first one that has a handler.

    Args:
        opened: Opens what reads the topics.
        alive: Called for each message that is read, for that may take long.
    """

    def __init__(
        self,
        *,
        handlers: Handlers,
        contract: WireContract,
        opened: Callable[[], AbstractContextManager[TopicReader]],
        waits: Waits,
        is_stopping: Callable[[], bool],
        alive: Callable[[], None] = lambda: None,
    ) -> None:
        self._handlers, self._contract, self._opened = handlers, contract, opened
        self._waits, self._is_stopping, self._alive = waits, is_stopping, alive
        self._is_known = False
        self._has_passed = False
        """Whether messages that cannot be read were let through: then stored offsets do not tell that it has begun."""
        self._read: dict[Place, int] = {}
        self._types: Counter[str] = Counter()

    async def refuse(self, items: Sequence[Item], stored: Mapping[Place, int]) -> None:
        """Refuse to use up events while the topics hold none that has a handler.

        Args:
            stored: The next offset that the database has, by partition that is held: with one, the consumer has begun
                before.

        Raises:
            NoHandlerError: So it is.
        """
        readable = [item for item in items if not item.is_unreadable]
        if self._is_known or not items or (self._has_passed and not readable):
            return
        has_begun = not self._has_passed and any(offset != NO_OFFSET for offset in stored.values())
        if has_begun or any(map(self._has_handler, readable)) or await self._waits.call(self._find):
            self._is_known = True
        elif readable or self._types or self._is_stopping():
            raise self._error()
        else:  # nothing in the topics can be read, which no handler would mend
            self._has_passed = True

    def _find(self) -> bool:
        """Tell whether the group has begun, or the topics hold an event with a handler, of what was not read before."""
        with self._opened() as reader:
            places = reader.places(self._contract.topics)
            if not self._read and reader.committed(places):  # of partitions that another instance holds, or held
                return True
            bounds = reader.bounds(places)
            spans = {place: (max(first, self._read.get(place, 0)), end) for place, (first, end) in bounds.items()}
            for message in reader.read(spans):
                item = item_of(message, self._contract)
                if not item.is_unreadable:
                    if self._has_handler(item):
                        return True
                    self._types[item.event.type] += 1
                if self._is_stopping():
                    return False
                self._read[item.place] = (message.offset or 0) + 1
                self._alive()
        return False

    def _has_handler(self, item: Item) -> bool:
        return self._handlers.get(item.event.type) is not None

    def _error(self) -> NoHandlerError:
        # In an order that counts do not change: a text that is the same is logged once.
        handled, there = sorted(self._handlers.types), sorted(name for name, _ in self._types.most_common(_SHOWN))
        near = next(filter(None, (did_you_mean(name, there) for name in handled)), "")
        return NoHandlerError(
            f"no event in the topics has a handler, so all are left there; handled: {', '.join(handled)}; "
            f"in the topics: {', '.join(map(shortened, there))}{near and f'. {near}'}"
        )
