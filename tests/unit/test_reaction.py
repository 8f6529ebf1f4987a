"""What handlers add to an outbox in memory: gathered until the end, and there only if nothing failed."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from cdc_outbox import Event, EventError, OutboxTable
from cdc_outbox.testing import AsyncMemoryOutbox, MemoryOutbox
from cdc_outbox.writer.reaction import Reaction
from tests.support.events import make_event

HEADERS = {"causation_id": "causation_id", "correlation_id": "correlation_id"}


def event(aggregate_id: str = "1", **attributes: Any) -> Event:
    return Event(aggregate_type="order", aggregate_id=aggregate_id, type="Answered", payload={}, **attributes)


def test_events_are_there_at_the_end_of_the_block_in_which_handlers_ran() -> None:
    outbox, connection = MemoryOutbox(table=OutboxTable(headers=HEADERS)), object()
    with outbox.gathering(connection) as reaction:
        reaction.caused_by(
            [
                make_event(1, event_id="x"),
                replace(make_event(2, event_id="y"), headers={"correlation_id": "first"}),
            ]
        )
        added = outbox.add(connection, event())
        outbox.add_all(connection, [event("2"), event("1")])
        assert outbox.events == []
    assert (added.id, added.sequence, added.is_written) == (outbox.events[0].id, None, False)
    assert [(found.aggregate_id, found.sequence) for found in outbox.events] == [("1", 1), ("1", 2), ("2", 1)]
    assert {tuple(found.headers.values()) for found in outbox.events} == {("y", "first")}


def test_no_event_is_there_after_a_failure() -> None:
    outbox, connection = MemoryOutbox(), object()

    def handler(failure: Exception) -> None:
        outbox.add(connection, event())
        raise failure

    with pytest.raises(LookupError), outbox.gathering(connection):
        handler(LookupError())
    assert outbox.events == []
    outbox.add(connection, event())
    assert [found.sequence for found in outbox.events] == [1]


def test_what_cannot_be_written_is_refused_at_once() -> None:
    outbox, connection = MemoryOutbox(), object()
    with outbox.gathering(connection):
        with pytest.raises(EventError):
            outbox.add(connection, event(sequence=4))
        outbox.add(connection, event())
    assert len(outbox.events) == 1


def test_another_outbox_and_another_connection_are_not_gathered() -> None:
    outbox, other, connection = MemoryOutbox(), MemoryOutbox(), object()
    with outbox.gathering(connection):
        other.add(connection, event())
        outbox.add(object(), event("2"))
        assert [len(each.events) for each in (outbox, other)] == [1, 1]


def test_blocks_within_each_other_belong_to_their_own_connections() -> None:
    outbox, outer, inner = MemoryOutbox(), object(), object()
    with outbox.gathering(outer):
        outbox.add(outer, event("outer"))
        with outbox.gathering(inner):
            outbox.add(inner, event("inner"))
            outbox.add(outer, event("outer"))
        assert [found.aggregate_id for found in outbox.events] == ["inner"]
    assert [found.aggregate_id for found in outbox.events] == ["inner", "outer", "outer"]


def test_an_asynchronous_outbox_gathers_too() -> None:
    async def react() -> None:
        outbox, connection = AsyncMemoryOutbox(), object()
        async with outbox.gathering(connection):
            await asyncio.gather(outbox.add(connection, event("1")), outbox.add_all(connection, [event("2")]))
            assert outbox.events == []
        assert [found.aggregate_id for found in outbox.events] == ["1", "2"]

    asyncio.run(react())


def test_an_event_without_a_cause_is_told_nothing() -> None:
    reaction = Reaction(None)
    assert reaction.with_cause(event(), HEADERS).headers == {}
    reaction.caused_by([make_event(1, event_id="x")])
    assert reaction.with_cause(event(), ["correlation_id"]).headers == {"correlation_id": "x"}
    reaction.caused_by([])
    assert reaction.with_cause(event(), HEADERS).headers == {}
