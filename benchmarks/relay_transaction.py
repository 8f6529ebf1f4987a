"""One transaction of a million events while the broker does not answer: the relay's memory, and what becomes of it.

The relay reads a part of the transaction and must wait for the broker: its memory stays bounded, its slot stays its own
and is not confirmed, and in the end each event is in the topic once. `infra/bench relay_transaction` runs it in some
minutes, and exits 1 if a bound is missed.
"""

import argparse
import sys
import time
from dataclasses import dataclass

import psycopg

from benchmarks.consumers.side import Finding
from benchmarks.latency import PASSWORD, prepare
from benchmarks.relay import (
    AGGREGATES,
    BACKLOG,
    LOOK_SECONDS,
    MAX_MEGABYTES,
    STUCK_SECONDS,
    check_order,
    create_topic,
    drop_slot,
    peak_megabytes,
    relay,
    spec_of,
    wait_for,
)
from cdc_outbox.errors import BrokerError
from cdc_outbox.testing import Stack, StackConfig

DATABASE, NAME = "bench_relay", "bench_transaction"
SLOT = """\
select active_pid, wal_status in ('reserved', 'extended'), confirmed_flush_lsn <= cast(%(end)s as pg_lsn)
from pg_replication_slots where slot_name = %(slot)s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How large the transaction is, and how long the broker is paused after its commit."""

    events: int = 1_000_000
    paused_seconds: float = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What was seen.

    Args:
        idle_megabytes: The most memory that the relay had before the transaction.
        peak_megabytes: The most that it had in all.
        is_kept: Whether the relay read its slot all the time, and confirmed nothing of the transaction too early.
        seconds: From the broker's return until the last event was in the topic.
    """

    idle_megabytes: float
    peak_megabytes: float
    is_kept: bool
    seconds: float


def main() -> int:
    """Run it and print what was seen."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--events", type=int, default=Plan().events, help="of the transaction")
    parser.add_argument("--paused-seconds", type=float, default=Plan().paused_seconds)
    plan = Plan(**vars(parser.parse_args()))
    with Stack(StackConfig(name="bench-transaction", environment={"BENCH_PASSWORD": PASSWORD})) as stack:
        outcome = measure(stack, plan)
    found = findings(outcome)
    print(
        f"{plan.events:,} events in a transaction, the broker paused for {plan.paused_seconds:.0f} s: "
        f"{outcome.idle_megabytes:.0f} MB before, {outcome.peak_megabytes:.0f} MB at most, "
        f"all delivered {outcome.seconds:.0f} s after the broker was back"
    )
    print(*found, sep="\n")
    return 0 if all(finding.met for finding in found) else 1


def measure(stack: Stack, plan: Plan) -> Outcome:
    """Write the transaction while the broker is paused, and have it published afterwards.

    Raises:
        RuntimeError: An event is missing, repeated or out of its order.
    """
    dsn, spec = stack.postgres.create_database(DATABASE), spec_of(NAME)
    prepare(dsn, spec)
    topic = create_topic(stack, spec)
    with relay(stack, dsn, NAME) as process, psycopg.connect(dsn, autocommit=True) as connection:
        _write(connection, 0, AGGREGATES)
        wait_for(stack, topic, AGGREGATES)
        idle_megabytes = peak_megabytes(process)
        stack.broker.pause()
        try:
            with connection.transaction():
                _write(connection, AGGREGATES, plan.events)
                [(end,)] = connection.execute("select cast(pg_current_wal_insert_lsn() as text)").fetchall()
            is_kept = _is_kept(connection, end, plan.paused_seconds)
        finally:
            stack.broker.resume()
        began = time.monotonic()
        _wait_for_all(stack, topic, AGGREGATES + plan.events)
        seconds = time.monotonic() - began
        _wait_until_confirmed(connection, end)
        peak = peak_megabytes(process)
    check_order(stack, topic, AGGREGATES + plan.events)
    stack.broker.delete_topics(topic)
    drop_slot(dsn, NAME)
    return Outcome(idle_megabytes=idle_megabytes, peak_megabytes=peak, is_kept=is_kept, seconds=seconds)


def _write(connection: psycopg.Connection, first: int, events: int) -> None:
    connection.execute(BACKLOG, {"aggregates": AGGREGATES, "first": first, "last": first + events - 1})


def _is_kept(connection: psycopg.Connection, end: str, seconds: float) -> bool:
    """Look at the slot for so long; return whether one process read it and confirmed nothing behind a position."""
    seen, deadline = set(), time.monotonic() + seconds
    while time.monotonic() < deadline:
        seen |= {*connection.execute(SLOT, {"end": end, "slot": NAME}).fetchall()}
        time.sleep(LOOK_SECONDS)
    return len(seen) == 1 and all(reader and has_log and is_before for reader, has_log, is_before in seen)


def _wait_for_all(stack: Stack, topic: str, count: int) -> None:
    """Wait until the topic has so many messages: after a long pause it has no leader for a moment."""
    deadline = time.monotonic() + STUCK_SECONDS
    while True:
        try:
            wait_for(stack, topic, count)
        except BrokerError:
            if time.monotonic() > deadline:
                raise
            time.sleep(LOOK_SECONDS)
        else:
            return


def _wait_until_confirmed(connection: psycopg.Connection, end: str) -> None:
    deadline = time.monotonic() + STUCK_SECONDS
    while [is_before for _, _, is_before in connection.execute(SLOT, {"end": end, "slot": NAME})] != [False]:
        if time.monotonic() > deadline:
            raise RuntimeError("the transaction was not confirmed")
        time.sleep(LOOK_SECONDS)


def findings(outcome: Outcome) -> list[Finding]:
    """Return whether the relay is within its bounds."""
    peak, is_kept = outcome.peak_megabytes, outcome.is_kept
    return [
        Finding(f"memory: {peak:.0f} MB, at most {MAX_MEGABYTES}", peak <= MAX_MEGABYTES),
        Finding(f"the slot {'was' if is_kept else 'was not'} kept, unconfirmed", is_kept),
    ]


if __name__ == "__main__":
    sys.exit(main())
