"""What it costs to give each event of a batch clean settings of its transaction, in ways that could be thought of.

`SET LOCAL`, `set_config(…, true)`, role and search path last until the transaction ends, which a batch shares. Each way
applies the same events through the consumer's own transactions, without a broker; the ways take turns in rounds.
`infra/bench isolation` runs it.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any
from uuid import uuid4

import psycopg

from benchmarks.consumers.effects import Effects
from benchmarks.consumers.work import BATCH, EVENT_TYPE, contract_of, upsert
from benchmarks.durable import demand_durable
from benchmarks.machine import IdleTime
from cdc_outbox.consumer import Consumer, EffectsDatabase, RecordedEvent
from cdc_outbox.consumer.fencing import TopicPartition
from cdc_outbox.consumer.item import item_of
from cdc_outbox.consumer.limits import ENDLESS
from cdc_outbox.consumer.session import Session
from cdc_outbox.databases.drivers.immediate import finish
from cdc_outbox.event import new_event_id
from cdc_outbox.message import Message
from cdc_outbox.testing import Stack, StackConfig

_TOPIC = "events"
_RESET = "select set_config('role', 'none', true), set_config('search_path', 'public', true)"
_LIST = "select name, setting from pg_settings"
"""Without the parameters that services define themselves: PostgreSQL lists none of those."""

Connection = psycopg.Connection[Any]


@contextmanager
def _savepoint(connection: Connection) -> Iterator[None]:
    connection.execute("savepoint event")
    yield
    connection.execute("release event")


@contextmanager
def _reset(connection: Connection) -> Iterator[None]:
    yield
    connection.execute(_RESET)


class _Listed:
    """Reads all settings before the handlers of a batch, and after them."""

    def caused_by(self, events: Sequence[RecordedEvent]) -> None:
        """Take no notice."""

    @contextmanager
    def gathering(self, connection: Connection) -> Iterator["_Listed"]:
        """Compare them."""
        before = connection.execute(_LIST).fetchall()
        yield self
        assert connection.execute(_LIST).fetchall() == before  # noqa: S101 - no handler sets one


Around = Callable[[Connection], Any]
_NOTHING: Around = lambda _: nullcontext()  # noqa: E731
WAYS: dict[str, tuple[Around, _Listed | None, int]] = {
    "nothing": (_NOTHING, None, BATCH),
    "a savepoint for each event, which resets nothing": (_savepoint, None, BATCH),
    "named settings reset after each event": (_reset, None, BATCH),
    "all listed settings compared once a batch": (_NOTHING, _Listed(), BATCH),
    "a transaction for each event": (_NOTHING, None, 1),
}
"""What is done around a handler and around those of a batch, and how many events are a batch."""


def messages(events: int) -> list[Message]:
    """Return events of aggregates that have ten each."""
    run = uuid4().hex
    return [
        Message(
            topic=_TOPIC,
            partition=0,
            offset=number,
            key=f"{run}-{number // 10}".encode(),
            value=json.dumps({"customer": number}).encode(),
            headers=(
                ("id", new_event_id().encode()),
                ("eventType", EVENT_TYPE.encode()),
                ("aggregateType", b"order"),
                ("sequence", str(number % 10 + 1).encode()),
                ("source", b"orders.1"),
                ("createdAt", b"1700000000000000"),
            ),
        )
        for number in range(events)
    ]


def rate(effects: Effects, way: str, events: int, *, pipeline: bool) -> float:
    """Return how many events a second are applied in this way."""
    around, listed, size = WAYS[way]
    contract = contract_of(_TOPIC)
    database = EffectsDatabase(connect=lambda: psycopg.connect(effects.dsn), pipeline=pipeline, before_commit=listed)
    consumer = Consumer(name=f"bench-{uuid4().hex}", contract=contract, kafka="nowhere", database=database)

    @consumer.on(EVENT_TYPE)
    def place(event: RecordedEvent, connection: Connection) -> None:
        with around(connection):
            upsert(connection, (event.id, event.aggregate_id, event.payload["customer"]))

    session, given = Session(database.connect, consumer._know), messages(events)  # noqa: SLF001
    held = {tp: found.epoch for tp, found in finish(session.issue([TopicPartition(_TOPIC, 0)])).items()}
    begun = time.perf_counter()
    for first in range(0, events, size):
        items = [item_of(message, contract) for message in given[first : first + size]]
        finish(session.apply(items, held, ENDLESS))
    seconds = time.perf_counter() - begun
    finish(session.close())
    return events / seconds


def measure(stack: Stack, events: int, rounds: int, idle: IdleTime) -> dict[tuple[str, str], list[float]]:
    """Return the rates of each way, by the kind of handler."""
    effects = Effects.create(stack, "bench_isolation")
    rates: dict[tuple[str, str], list[float]] = {}
    for _ in range(rounds):
        for kind, pipeline in (("pipeline", True), ("per event", False)):
            for way in WAYS:
                effects.forget()
                idle.pause()
                rates.setdefault((kind, way), []).append(rate(effects, way, events, pipeline=pipeline))
    effects.connection.close()
    return rates


def report(rates: dict[tuple[str, str], list[float]]) -> str:
    """Return each way's rate, and the median over the rounds of its ratio to doing nothing."""
    lines = [f"  {'':<11}{'':<50}{'events/s':>10}{'ratio':>8}"]
    for (kind, way), found in rates.items():
        ratio = statistics.median(one / other for one, other in zip(found, rates[kind, "nothing"], strict=True))
        lines.append(f"  {kind:<11}{way:<50}{statistics.median(found):>10,.0f}{ratio:>8.2f}")
    return "\n".join(lines)


def main() -> int:
    """Measure every way and print them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    options, idle = parser.parse_args(), IdleTime()
    with Stack(StackConfig(name="bench", workers=0)) as stack:
        demand_durable(stack)
        print(report(measure(stack, options.events, options.rounds, idle)))
    print(idle)
    return idle.exit_code(met=True)


if __name__ == "__main__":
    raise SystemExit(main())
