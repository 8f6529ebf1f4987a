"""Is my handler safe? The answer of trying it."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, TypeVar

from cdc_outbox.consumer import AsyncConsumer
from cdc_outbox.consumer.handlers import ours_of
from cdc_outbox.databases.drivers.immediate import finish
from cdc_outbox.errors import TransactionConflictError
from cdc_outbox.event import Event, RecordedEvent, new_event_id
from cdc_outbox.testing.faults.report import FaultReport, Problem, Repetition, difference
from cdc_outbox.testing.faults.scenarios import Scenario, scenarios
from cdc_outbox.testing.faults.stage import AnyConsumer, OnConnection, Play, Stage, UnsafeError

ResultT = TypeVar("ResultT")
_FIRST = "without a fault"
_WITHOUT_FAULTS = 2
"""How many scenarios have no fault: the first, and the same once more."""
_SOURCE = "test.1"
_WAIT_SECONDS = 60.0
"""How long another consumer may need; longer than any transaction of a test waits for another."""


class HandlerFaults:
    """Run a consumer's handlers with faults and repetitions, and compare their effects."""

    def run(
        self,
        consumer: AnyConsumer,
        *,
        events: Sequence[Event | RecordedEvent],
        connect: Callable[[], Any],
        effects: OnConnection,
        reset: OnConnection,
        calls: Mapping[str, Callable[[], int]] = MappingProxyType({}),
    ) -> FaultReport:
        """Apply the events without a fault, and then repeatedly with one fault after the other.

        It needs no Kafka; the inbox, the transactions and the order of steps are the consumer's own. The inbox is in
        tables that are created for this run and dropped at its end.

        Args:
            consumer: With its handlers registered. It does not connect anywhere.
            events: As a service writes them, or as they were recorded; missing ids and numbers are added. Some of one
                aggregate and some of another show the most.
            connect: Opens a connection to a **test** database, never the consumer's own, because ``reset`` deletes
                rows.
            effects: Given a connection, returns the rows that the handlers make, without times and generated numbers.
            reset: Given a connection, deletes these rows; it is committed.
            calls: Effects of the handlers outside of the database, by name: each function returns how often it has
                happened, for example ``{"mails": lambda: len(outbox)}``. A repeated effect is a note, not a problem.
        """
        run = _Run(consumer, _completed(events, consumer), Stage(consumer, connect, effects, reset), calls)
        return run.loops(run.play_all())


class _Run:
    def __init__(
        self,
        consumer: AnyConsumer,
        events: Sequence[RecordedEvent],
        stage: Stage,
        calls: Mapping[str, Callable[[], int]],
    ) -> None:
        self._events, self._stage = events, stage
        self._calls = calls
        self._report = FaultReport(consumer=consumer.name)
        self._is_asynchronous = isinstance(consumer, AsyncConsumer)
        self._expected: list[object] = []
        self._done: Counter[str] = Counter()

    def loops(self, coroutine: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Run a coroutine to its end, where a loop is needed in one of its own: the test may be in another."""
        if not self._is_asynchronous:
            return finish(coroutine)
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, coroutine).result()

    async def play_all(self) -> FaultReport:
        async with self._stage.opened():
            await self._play_first()
            has_others = self._stage.table.dialect.features.has_row_locks
            wanted = scenarios(
                self._events,
                order_of=self._stage.order_of,
                statements=self._stage.probe.statements,
                has_others=has_others,
            )
            for scenario in wanted:
                # Where handlers fail or differ without a fault, nothing can be said about faults.
                if self._report.problems and len(self._report.scenarios) <= _WITHOUT_FAULTS:
                    break
                await self._play(scenario)
        if not has_others:
            self._report.skipped.append("another consumer at the same time: SQLite has one writer")
        if not self._stage.probe.is_watching:
            self._report.skipped.append("faults within a handler: only psycopg's connections show its statements")
        return self._report

    async def _play_first(self) -> None:
        """Learn what is expected, and watch what becomes visible too early."""
        scenario = Scenario(name=_FIRST, batches=[[event] for event in self._events], remedy="")
        self._report.scenarios.append(_FIRST)
        counts = self._count()
        async with self._stage.playing(_FIRST) as play:
            empty = before = await self._stage.see()

            async def look(events: Sequence[RecordedEvent]) -> None:
                try:
                    seen = difference(before, await self._stage.see())
                except Exception as error:
                    if isinstance(ours_of(error), TransactionConflictError):
                        return  # the handler holds a lock, so that no other connection can read
                    raise
                if seen:
                    self._add(
                        _FIRST,
                        f"effects of {events[0]} are visible before the commit: {seen}",
                        "Write only through the connection that the handler gets.",
                    )

            self._stage.probe.arm(None, ())
            for batch in scenario.batches:
                before = await self._stage.see()
                self._stage.probe.after_call = look
                if not await self._delivered(play, batch, scenario):
                    break
            self._stage.probe.after_call = None
            await self._drained(play, _FIRST)
            self._expected = await self._stage.see()
        self._done = self._count() - counts
        if not self._report.problems and not difference(empty, self._expected):
            self._add(_FIRST, "there is nothing to compare", "`effects` must return what the handlers write.")

    async def _play(self, scenario: Scenario) -> None:
        self._report.scenarios.append(scenario.name)
        counts = self._count()
        events = self._events[-1:] if scenario.strikes_last else self._events
        async with self._stage.playing(scenario.name) as play:
            self._stage.probe.arm(scenario.fault, events)
            if scenario.usurped:
                self._stage.probe.after_call = self._usurping(play, scenario)
            for batch in scenario.batches:
                if not await self._delivered(play, batch, scenario):
                    return
            if not await self._drained(play, scenario.name):
                return
            found = difference(self._expected, await self._stage.see())
        if found:
            self._add(scenario.name, f"the effects differ: {found}", scenario.remedy)
        for name, times in (self._count() - counts - self._done).items():
            self._report.repetitions.append(Repetition(name=name, scenario=scenario.name, times=times))

    def _usurping(
        self, play: Play, scenario: Scenario
    ) -> Callable[[Sequence[RecordedEvent]], Coroutine[Any, Any, None]]:
        """Have the first call of a handler end in a transaction whose partition was given away meanwhile."""

        async def usurp(events: Sequence[RecordedEvent]) -> None:
            self._stage.probe.after_call = None
            issued = threading.Event()

            def run() -> None:
                try:
                    self.loops(play.successor().usurp(events, issued.set))
                except Exception as error:  # noqa: BLE001 - it is in the report
                    self._add(scenario.name, f"the other consumer failed: {error}", scenario.remedy)
                finally:
                    issued.set()

            other = threading.Thread(target=run, daemon=True)
            play.wait_for_owner = lambda: other.join(_WAIT_SECONDS)
            other.start()
            issued.wait(_WAIT_SECONDS)

        return usurp

    async def _delivered(self, play: Play, batch: Sequence[RecordedEvent], scenario: Scenario) -> bool:
        try:
            await play.deliver(batch)
        except UnsafeError as error:
            self._add(scenario.name, str(error), error.remedy)
            return False
        return True

    async def _drained(self, play: Play, name: str) -> bool:
        left = await play.drain(len(self._events))
        if left:
            self._add(name, left, "Check what the handler raises, and which predecessor is missing among the events.")
        return not left

    def _add(self, scenario: str, what: str, remedy: str) -> None:
        problem = Problem(scenario=scenario, what=what, remedy=remedy)
        if problem not in self._report.problems:
            self._report.problems.append(problem)

    def _count(self) -> Counter[str]:
        return Counter({name: count() for name, count in self._calls.items()})


def _completed(events: Sequence[Event | RecordedEvent], consumer: AnyConsumer) -> list[RecordedEvent]:
    """Return the events with what their writer would have added."""
    lasts: Counter[tuple[str, str]] = Counter()
    completed = []
    for event in events:
        aggregate = event.aggregate_type, event.aggregate_id
        is_numbered = consumer.contract.mode_of(event.aggregate_type).is_numbered
        sequence = lasts[aggregate] + 1 if is_numbered and event.sequence is None else event.sequence
        if sequence is not None:
            lasts[aggregate] = sequence
        if isinstance(event, RecordedEvent):
            completed.append(replace(event, sequence=sequence, source=event.source or _SOURCE))
            continue
        completed.append(
            RecordedEvent(
                aggregate_type=event.aggregate_type,
                aggregate_id=event.aggregate_id,
                type=event.type,
                payload=event.payload,
                id=new_event_id() if event.id is None else event.id,
                created_at=datetime.now(UTC),
                sequence=sequence,
                source=_SOURCE,
                headers=event.headers,
            )
        )
    return completed
