"""Random events against a real row: each arrives byte for byte, or raises EventError and harms nothing.

The suite runs a thousand of them; `infra/fuzz writer` runs a hundred thousand and prints what became of them. It exits
1 if an event was changed on its way, if anything but EventError was raised, or if a connection did not live to the end.
"""

import argparse
import json
import re
import sqlite3
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack, closing
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pymysql
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cdc_outbox import TOMBSTONE, Event, EventError, Outbox, OutboxTable, PayloadType
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.testing import Stack, StackConfig
from tests.support.mariadb import MariaDbStore
from tests.support.postgresql import PostgresStore
from tests.support.sqlite import BUSY_SECONDS, SqliteStore
from tests.support.strategies import random_events
from tests.support.writer_clients import Store

TABLES = [OutboxTable(), OutboxTable(name="outbox_of_bytes", payload_type=PayloadType.BYTES)]
SETTLED_EVENTS = 100
"""Often enough that the tables stay small."""

ARRIVED = "arrived"

_AS_BYTES = {
    Dialect.POSTGRESQL: "convert_to(cast({} as text), 'UTF8')",
    Dialect.MYSQL: "cast({} as binary)",
    Dialect.SQLITE: "cast({} as blob)",
}
_NAMES = {Dialect.POSTGRESQL: "PostgreSQL", Dialect.MYSQL: "MariaDB", Dialect.SQLITE: "SQLite"}
_SESSIONS = {
    Dialect.POSTGRESQL: "select pg_backend_pid()",
    Dialect.MYSQL: "select connection_id()",
    Dialect.SQLITE: "select 1",
}


class Lane:
    """One table, written to through one connection that has to live as long as the run."""

    def __init__(self, store: Store, table: OutboxTable) -> None:
        store.make_tables(table)
        self.store, self.table, self.connection = store, table, _connect(store)
        self.outbox = Outbox(table=table)
        self.name = f"{_NAMES[store.dialect]}, payloads of {table.payload_type}"
        self.counts: Counter[str] = Counter()
        self._rows = 0
        self._count = f"select count(*) from {table.name}"
        self._session = self.query(_SESSIONS[store.dialect])

    def close(self) -> None:
        self.connection.close()

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        cursor = self.connection.cursor()
        cursor.execute(sql)
        rows = list(cursor.fetchall()) if cursor.description else []
        cursor.close()
        return rows

    def check(self, event: Event, *, many: bool) -> None:
        """Write an event, and look at what became of it on the same connection, in the same transaction."""
        try:
            self.counts[self._outcome(event, many=many)] += 1
        except BaseException:
            # Or every other example would fail too, and the simplest one would show nothing.
            self.connection.rollback()
            self._rows = 0
            raise
        if self._rows == SETTLED_EVENTS:
            self.settle()

    def settle(self) -> None:
        """Commit, and find what was written; then begin with empty tables again."""
        self.connection.commit()
        [(count,)] = self.store.query(self._count)
        assert count == self._rows
        assert self.query(_SESSIONS[self.store.dialect]) == self._session
        for table in (self.table.name, self.table.heads.name):
            self.query(f"delete from {table}")
        self.connection.commit()
        self._rows = 0

    def _outcome(self, event: Event, *, many: bool) -> str:
        try:
            if many:
                [written] = self.outbox.add_all(self.connection, [event])
            else:
                written = self.outbox.add(self.connection, event)
        except EventError as error:
            assert self.query(self._count) == [(self._rows,)]
            return _reason(error)
        self._rows += 1
        assert event.id is None or UUID(written.id) == UUID(event.id)
        assert self._read(str(written.id)) == (
            *(text.encode() for text in (str(written.id), event.aggregate_type, event.aggregate_id, event.type)),
            *(event.headers[name].encode() if name in event.headers else None for name in self.table.headers.values()),
            b"orders.1",
            _bytes_of(event.payload),
            written.sequence,
        )
        return ARRIVED

    def _read(self, event_id: str) -> tuple[Any, ...]:
        as_bytes = _AS_BYTES[self.store.dialect].format
        texts = ["id", "aggregatetype", "aggregateid", "type", *self.table.header_columns, "source"]
        payload = "payload" if self.table.payload_type is PayloadType.BYTES else as_bytes("payload")
        columns = ", ".join([*map(as_bytes, texts), payload, "sequence"])
        [row] = self.query(f"select {columns} from {self.table.name} where id = '{event_id}'")
        return row


def explore(lane: Lane, events: int) -> None:
    """Check so many random events; raise what Hypothesis raises, with the simplest event that fails in a note."""

    @settings(max_examples=events, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(event=random_events, many=st.booleans())
    def explored(event: Event, many: bool) -> None:  # noqa: FBT001 - Hypothesis names it
        lane.check(event, many=many)

    explored()
    lane.settle()


def _connect(store: Store) -> Any:
    match store:
        case PostgresStore():
            return psycopg.connect(store.dsn)
        case MariaDbStore():
            return pymysql.connect(**store.dsn.parameters())
        case SqliteStore():
            return sqlite3.connect(store.path, timeout=BUSY_SECONDS)
    raise TypeError(store)


def _bytes_of(payload: Any) -> bytes | None:
    """Return what must lie in the row; by nothing of what is tested."""
    if payload is TOMBSTONE:
        return None
    if isinstance(payload, bytes | bytearray | memoryview):
        return bytes(payload)
    text = payload if isinstance(payload, str) else json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
    return text.encode()


def _reason(error: EventError) -> str:
    """Return why an event was refused, without what is particular to this one."""
    kind = re.sub(r"b?'.*'|b?\".*\"|\d[\d.,]*", "…", str(error).partition(": ")[0], flags=re.DOTALL)
    return kind.partition(", not ")[0]


def report(counts: Mapping[str, Counter[str]]) -> str:
    """Return what became of each lane's events, and why some were refused."""
    total: Counter[str] = sum(counts.values(), Counter())
    rows = [f"  {'':<32}{'events':>10}{'arrived':>10}{'refused':>10}"]
    for name, found in {**counts, "all": total}.items():
        events, arrived = found.total(), found[ARRIVED]
        rows.append(f"  {name:<32}{events:>10,}{arrived:>10,}{events - arrived:>10,}")
    reasons = [f"  {count:>10,}  {reason}" for reason, count in total.most_common() if reason != ARRIVED]
    return "\n".join([*rows, "  refused, because", *reasons])


def main() -> int:
    """Run the long way and print what became of the events."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--events", type=int, default=100_000)
    options = parser.parse_args()
    with ExitStack() as opened:
        stack = opened.enter_context(Stack(StackConfig(name="fuzz", kafka=False, workers=0, mariadb=True)))
        folder = opened.enter_context(tempfile.TemporaryDirectory())
        stores: list[Store] = [
            opened.enter_context(closing(PostgresStore.create(stack, "fuzz"))),
            opened.enter_context(closing(MariaDbStore.create(stack.mariadb, "fuzz"))),
            opened.enter_context(closing(SqliteStore(Path(folder) / "fuzz.db"))),
        ]
        lanes = [opened.enter_context(closing(Lane(store, table))) for store in stores for table in TABLES]
        ends = [options.events * end // len(lanes) for end in range(len(lanes) + 1)]
        done = [_explored(lane, end - start) for lane, (start, end) in zip(lanes, pairwise(ends), strict=True)]
        print(report({lane.name: lane.counts for lane in lanes}))
        return 0 if all(done) else 1


def _explored(lane: Lane, events: int) -> bool:
    """Explore a lane, and say so at its end: it may take minutes."""
    try:
        explore(lane, events)
    except Exception:  # noqa: BLE001 - whatever it is, the other lanes are worth a look too
        traceback.print_exc()
        good = False
    else:
        good = True
    print(f"{lane.name}: {'good' if good else 'FAILED, see above'}", file=sys.stderr, flush=True)
    return good


if __name__ == "__main__":
    sys.exit(main())
