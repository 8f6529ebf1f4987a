"""How long a consumer looks for parked events that are due, with few events parked and with many.

`infra/bench parked` fills a park on PostgreSQL, MariaDB and SQLite, once with few events and once with many, and prints
how long each look takes. It exits 1 if a look into the large park takes more than three times as long.
"""

import argparse
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pymysql

from benchmarks.durable import demand_durable
from cdc_outbox.consumer import InboxTable, inbox_component
from cdc_outbox.consumer.fencing import TopicPartition
from cdc_outbox.consumer.parked_events import ParkStore
from cdc_outbox.consumer.session import sql_stores
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.drivers import find_transaction_driver
from cdc_outbox.databases.drivers.immediate import ImmediateTransactions, finish
from cdc_outbox.databases.drivers.transactions import transaction
from cdc_outbox.databases.migrations import upgrade
from cdc_outbox.testing import MariaDb, Stack, StackConfig

LIMIT = 500
"""Events of one look, as `Limits.batch_events` is by default."""
BOUND = 3.0
"""How many times as long a look into the large park may take."""
TOPIC = "bench.order"
_CONSUMER, _DATABASE = "bench", "bench_parked"

_NUMBERS = {
    Dialect.POSTGRESQL: "select number::bigint as number from generate_series(0, {last}) as numbers (number)",
    Dialect.MYSQL: "select seq as number from seq_0_to_{last}",
    Dialect.SQLITE: (
        "with recursive numbers (number) as (select 0 union all select number + 1 from numbers where number < {last}) "
        "select number from numbers"
    ),
}
_ID = {Dialect.POSTGRESQL: "cast({} as text)", Dialect.MYSQL: "cast({} as char)", Dialect.SQLITE: "cast({} as text)"}
_NOW = {Dialect.POSTGRESQL: "now()", Dialect.MYSQL: "utc_timestamp(6)", Dialect.SQLITE: "julianday('now')"}
_ANALYZE = {Dialect.POSTGRESQL: "analyze", Dialect.MYSQL: "analyze table", Dialect.SQLITE: "analyze"}


class Bench:
    """A park in a database.

    Args:
        connection: In autocommit mode.
    """

    def __init__(self, connection: Any, dialect: Dialect) -> None:  # noqa: ANN401 - any driver's
        self.connection, self.dialect = connection, dialect
        self._driver = find_transaction_driver(connection)
        self._table = InboxTable.on(dialect)
        # MariaDB commits with each statement that creates a table.
        with nullcontext() if dialect is Dialect.MYSQL else transaction(connection, self._driver):
            upgrade(self.fetch, inbox_component(self._table))

    @property
    def park(self) -> ParkStore:
        """The park of the consumer."""
        return sql_stores(table=self._table, consumer=_CONSUMER, driver=ImmediateTransactions(self._driver)).park

    def fetch(self, sql: str) -> list[Any]:
        """Return what a statement returns."""
        return self._driver.fetch(self.connection, sql)

    def fill(self, events: int, *, aggregates: int, due: int) -> None:
        """Park events that wait for a gap, of so many aggregates, the first of which so many are due in."""
        quote, numbers = self.dialect.quote, _NUMBERS[self.dialect].format(last=events - 1)
        columns = [*map(quote, ("partition", "offset")), "timestamp_ms", "headers", "bytes", "value"]
        ids = _ID[self.dialect]
        with transaction(self.connection, self._driver):
            self.fetch(f"delete from {self._table.parked.quoted}")  # noqa: S608 - our own names
            self.fetch(
                f"insert into {self._table.parked.quoted} (consumer, source, aggregatetype, aggregateid, event_id, "  # noqa: S608
                f"type, sequence, turn, state, reason, blocks, topic, retry_at, {', '.join(columns)}) "
                f"select '{_CONSUMER}', 'orders.1', 'order', {ids.format(f'number % {aggregates}')}, "
                f"{ids.format('number')}, 'OrderPlaced', number + 2, number + 2, 'waiting', 'gap', true, "
                f"'{TOPIC}', case when number < {due} then {_NOW[self.dialect]} end, 0, number, 0, '[]', 0, null "
                f"from ({numbers}) as numbers"
            )
        self.fetch(f"{_ANALYZE[self.dialect]} {self._table.parked.quoted}")

    def look(self) -> int:
        """Look for what is due once, and return how many events were found."""
        with transaction(self.connection, self._driver):
            return len(finish(self.park.find_due(self.connection, [TopicPartition(TOPIC, 0)], LIMIT)))


@dataclass
class Side:
    """One park, and how long each look took."""

    name: str
    events: int
    found: int = 0
    seconds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """Seconds."""
        return statistics.median(self.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is measured.

    Args:
        sizes: How many events are parked, few and many.
        due: How many are due, each in an aggregate of its own; ``None`` for all.
        aggregates: How many the parked events are about.
    """

    sizes: tuple[int, int] = (3_000, 300_000)
    due: tuple[int | None, ...] = (0, 1_000, None)
    aggregates: int = 1_000
    looks: int = 20


def measure(bench: Bench, plan: Plan) -> Iterator[tuple[Side, Side]]:
    """Yield a small park and a large one for each number of due events."""
    for due in plan.due:
        sides = []
        for events in plan.sizes:
            bench.fill(events, aggregates=plan.aggregates, due=events if due is None else due)
            name = f"{bench.dialect}, {'all' if due is None else f'{due:,}'} due"
            side = Side(name, events, bench.look())
            for _ in range(plan.looks):
                start = time.perf_counter()
                bench.look()
                side.seconds.append(time.perf_counter() - start)
            sides.append(side)
        yield sides[0], sides[1]


def report(pairs: Sequence[tuple[Side, Side]]) -> str:
    """Return the table."""
    lines = [f"{'':<24} {'parked':>9} {'found':>6} {'p50 ms':>8} {'ratio':>6}"]
    for pair in pairs:
        for side in pair:
            ratio = side.median / pair[0].median
            lines.append(f"{side.name:<24} {side.events:9,} {side.found:6} {side.median * 1000:8.2f} {ratio:6.1f}")
    return "\n".join(lines)


@contextmanager
def opened(dialect: Dialect, stack: Stack, mariadb: MariaDb) -> Iterator[Bench]:
    """Make an inbox in a database of its own."""
    with tempfile.TemporaryDirectory() as folder:
        connect: dict[Dialect, Callable[[], Any]] = {
            Dialect.POSTGRESQL: lambda: psycopg.connect(stack.postgres.create_database(_DATABASE), autocommit=True),
            Dialect.MYSQL: lambda: pymysql.connect(**mariadb.create_database(_DATABASE).parameters(), autocommit=True),
            Dialect.SQLITE: lambda: sqlite3.connect(Path(folder) / _DATABASE, isolation_level=None),
        }
        with closing(connect[dialect]()) as connection:
            yield Bench(connection, dialect)


def main() -> int:
    """Measure, print, and say by the exit code whether the bound is kept."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    plan = Plan()
    parser.add_argument("--sizes", type=int, nargs=2, default=plan.sizes, help="parked events, few and many")
    parser.add_argument("--looks", type=int, default=plan.looks, help="looks into each park (default: %(default)s)")
    parser.add_argument("--only", choices=[str(dialect) for dialect in Dialect], help="one database")
    options = parser.parse_args()
    plan = Plan(sizes=tuple(options.sizes), looks=options.looks)
    pairs: list[tuple[Side, Side]] = []
    with Stack(StackConfig(name="bench", kafka=False, workers=0, mariadb=True)) as stack:
        demand_durable(stack)
        for dialect in Dialect:
            if options.only in {None, str(dialect)}:
                with opened(dialect, stack, stack.mariadb) as bench:
                    pairs.extend(measure(bench, plan))
    print(report(pairs))
    return 0 if all(large.median <= BOUND * small.median for small, large in pairs) else 1


if __name__ == "__main__":
    sys.exit(main())
