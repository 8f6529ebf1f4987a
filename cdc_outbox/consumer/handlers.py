"""Which handler an event goes to."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cdc_outbox.consumer.item import Item
from cdc_outbox.errors import ConfigError
from cdc_outbox.event import Event

if TYPE_CHECKING:  # Python 3.13 has it; type checkers know it without the package
    from typing_extensions import TypeVar

    ConnectionT = TypeVar("ConnectionT", default=Any)
else:
    from typing import TypeVar

    ConnectionT = TypeVar("ConnectionT")

Handler = Callable[[Event, ConnectionT], object]
"""The user's callback: the event, and the connection whose transaction is open. What it returns is ignored."""
BatchHandler = Callable[[list[Event], ConnectionT], object]
"""The same for several events at once, in order."""


@dataclass(frozen=True, slots=True)
class Registered:
    """A handler as it was registered.

    Args:
        call: Takes an event, or a list of events where it ``takes_batch``.
    """

    call: Callable[[Any, Any], object]
    takes_batch: bool


class Handlers:
    """The handlers of a consumer, by event type.

    Args:
        asynchronous: Whether coroutine functions may be among them.
    """

    def __init__(self, *, asynchronous: bool = False) -> None:
        self._asynchronous = asynchronous
        self._by_type: dict[str, Registered] = {}

    def __bool__(self) -> bool:
        return bool(self._by_type)

    @property
    def types(self) -> list[str]:
        """The event types that have a handler."""
        return list(self._by_type)

    def get(self, event_type: str) -> Registered | None:
        """Return the handler of an event type, if it has one."""
        return self._by_type.get(event_type)

    def add(self, event_types: Sequence[str], call: Callable[[Any, Any], object], *, takes_batch: bool) -> None:
        """Register a handler.

        Raises:
            ConfigError: One of the types has a handler already, none was named, the handler must be awaited and
                cannot be, or it cannot be called with an event and a connection.
        """
        if not event_types:
            raise ConfigError("a handler is registered for at least one event type", field="Consumer.on")
        if not all(isinstance(event_type, str) for event_type in event_types):
            raise ConfigError(
                "a handler is registered for event types, which are texts",
                field="Consumer.on",
                hint='Write @consumer.on("OrderPlaced"), with parentheses.',
            )
        is_awaited = inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(getattr(call, "__call__", None))  # noqa: B004
        if self._asynchronous and not is_awaited:
            raise ConfigError(
                f"{getattr(call, '__name__', call)} is no coroutine function, and what it awaits would be lost",
                field="Consumer.on",
                hint="Write it with async def, or use Consumer.",
            )
        if not self._asynchronous and is_awaited:
            raise ConfigError(
                f"{getattr(call, '__name__', call)} is a coroutine function, and would not be awaited",
                field="Consumer.on",
                hint="Use AsyncConsumer, or make it a plain function.",
            )
        if not _takes_two(call):
            raise ConfigError(
                f"{getattr(call, '__name__', call)} cannot be called with {'events' if takes_batch else 'an event'} "
                "and a connection",
                field="Consumer.on",
                hint=f"Write it as def handler({'events' if takes_batch else 'event'}, connection).",
            )
        registered = Registered(call, takes_batch)
        for event_type in event_types:
            if event_type in self._by_type:
                raise ConfigError(f"the event type {event_type!r} has a handler already", field="Consumer.on")
            self._by_type[event_type] = registered

    def runs(self, items: Iterable[Item]) -> Iterator[tuple[Registered, list[Item]]]:
        """Return the calls that a list of events makes, in order: a batch handler's neighbours are one call."""
        run: list[Item] = []
        runner: Registered | None = None
        for item in items:
            registered = self._by_type.get(item.event.type)
            if runner is not None and not (registered is runner and runner.takes_batch):
                yield runner, run
                run = []
            if registered is not None:
                run.append(item)
            runner = registered
        if runner is not None:
            yield runner, run


def _takes_two(call: Callable[..., object]) -> bool:
    """Tell whether something can be called with two arguments, as far as it says what it takes."""
    try:
        inspect.signature(call).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # a builtin that keeps it to itself
        return True
    return True
