"""What may happen to a consumer, as lists of deliveries. Pure."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain, zip_longest

from cdc_outbox.consumer.ordering import Aggregate, Order, aggregate_of
from cdc_outbox.event import RecordedEvent


class FaultKind(StrEnum):
    """What goes wrong."""

    CRASH = "crash"
    """The process dies; another one gets the same events."""
    CONFLICT = "conflict"
    """The database gives up a transaction because of another one."""
    LOSS = "loss"
    """The connection breaks."""
    ERROR = "error"
    """Something raises."""


class Point(StrEnum):
    """Where it goes wrong."""

    CLAIMED = "claimed"
    STATEMENT = "statement"
    CALLED = "called"
    COMMITTING = "committing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What strikes a transaction once.

    Args:
        statement: Which of the handler's statements fails, from 1.
    """

    kind: FaultKind
    point: Point
    statement: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Events as they are delivered, and what strikes.

    Args:
        batches: One transaction each.
        fault: Strikes each event's first delivery, or the last event's only.
        usurped: Whether another consumer is given the partition in the middle of it.
        remedy: What a handler does wrong whose effects are others than expected.
    """

    name: str
    batches: Sequence[Sequence[RecordedEvent]]
    remedy: str
    fault: Fault | None = None
    strikes_last: bool = False
    usurped: bool = False


AGAIN = (
    "Either the handler keeps state outside the database between calls, or `reset` does not restore everything, or "
    "`effects` returns values that differ each time. Leave out times and generated numbers."
)
REDELIVERED = (
    "An event may come again after its handler ran and nothing was committed. Write through the connection that the "
    "handler gets, keep no state in variables, and do not catch errors of the database."
)
ORDERED = (
    "Events are in order only within one aggregate. A handler that needs the events of another aggregate must raise "
    "while they are missing: the event is then tried again."
)
BATCHED = "Several events share a transaction: the handler must do the same for each event as for a single one."


def scenarios(
    events: Sequence[RecordedEvent], *, order_of: Callable[[str], Order], statements: int, has_others: bool
) -> Iterator[Scenario]:
    """Return what is tried after the first run.

    Args:
        events: In the order in which they were written.
        statements: The most statements that one call of a handler executes, 0 where they cannot be watched.
        has_others: Whether the database lets another consumer work at the same time.
    """
    singles = [[event] for event in events]
    yield Scenario(name="the same once more", batches=singles, remedy=AGAIN)
    yield Scenario(name="all events in one transaction", batches=[events], remedy=BATCHED)
    twice = [[event] for event in events for _ in range(2)]
    yield Scenario(name="every event twice, as after a crash before the offset", batches=twice, remedy=REDELIVERED)
    yield Scenario(name="all events twice, in one transaction each time", batches=[events, events], remedy=REDELIVERED)
    yield from _reordered(events, order_of)
    yield from _struck(singles, statements)
    yield Scenario(
        name="a failure in a batch, whose events come again one by one",
        batches=[events],
        fault=Fault(kind=FaultKind.ERROR, point=Point.CALLED),
        strikes_last=True,
        remedy=REDELIVERED,
    )
    if has_others:
        yield Scenario(
            name="another consumer takes the partition before the commit",
            batches=singles,
            usurped=True,
            remedy=REDELIVERED,
        )


def _reordered(events: Sequence[RecordedEvent], order_of: Callable[[str], Order]) -> Iterator[Scenario]:
    by_aggregate: dict[Aggregate, list[RecordedEvent]] = {}
    for event in events:
        by_aggregate.setdefault(aggregate_of(event), []).append(event)
    groups = list(by_aggregate.values())
    orders = {
        "one aggregate after the other": list(chain.from_iterable(groups)),
        "the last aggregate first": list(chain.from_iterable(reversed(groups))),
        "aggregates in turns": [event for turn in zip_longest(*reversed(groups)) for event in turn if event],
    }
    seen = [list(events)]
    for name, order in orders.items():
        if order not in seen:
            seen.append(order)
            yield Scenario(name=name, batches=[[event] for event in order], remedy=ORDERED)
    late = [event for group in groups for event in _late(group, order_of(group[0].aggregate_type))]
    if late != list(chain.from_iterable(groups)):
        yield Scenario(name="successors before their predecessors", batches=[[e] for e in late], remedy=ORDERED)


def _late(group: Sequence[RecordedEvent], order: Order) -> Sequence[RecordedEvent]:
    """Return an aggregate's events backwards where the consumer would notice, and put them right."""
    return group if order.successor(0) is None else group[::-1]


def _struck(singles: Sequence[Sequence[RecordedEvent]], statements: int) -> Iterator[Scenario]:
    faults = {
        "a crash after the claim": Fault(kind=FaultKind.CRASH, point=Point.CLAIMED),
        "a crash after the handler": Fault(kind=FaultKind.CRASH, point=Point.CALLED),
        "a crash before the commit": Fault(kind=FaultKind.CRASH, point=Point.COMMITTING),
        "a deadlock after the handler": Fault(kind=FaultKind.CONFLICT, point=Point.CALLED),
    }
    sentences = {
        FaultKind.CRASH: "a crash at the handler's statement",
        FaultKind.CONFLICT: "a deadlock at the handler's statement",
        FaultKind.LOSS: "the connection breaks at the handler's statement",
    }
    for number in range(1, statements + 1):
        for kind, sentence in sentences.items():
            faults[f"{sentence} {number}"] = Fault(kind=kind, point=Point.STATEMENT, statement=number)
    for name, fault in faults.items():
        yield Scenario(name=name, batches=singles, fault=fault, remedy=REDELIVERED)
