"""Partitions of the outbox by the time in its events' ids: which there should be, and what is in the way."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from uuid import UUID

from cdc_outbox.contract.outbox_options import Partitions
from cdc_outbox.databases.drivers import AnyConnection, Driver, TransactionDriver
from cdc_outbox.databases.introspection import Catalog
from cdc_outbox.databases.migrations import turn
from cdc_outbox.databases.quoting import literal
from cdc_outbox.databases.sql import load
from cdc_outbox.databases.table import OutboxTable, TableName

AHEAD = {Partitions.DAY: 7, Partitions.MONTH: 2}
"""Partitions beside the present one: a week or two months in which they need no maintenance."""

_BOUNDS = re.compile(r"FOR VALUES FROM \('([0-9a-f-]{36})'\) TO \('([0-9a-f-]{36})'\)")
_NAMES = {Partitions.DAY: "%Y_%m_%d", Partitions.MONTH: "%Y_%m"}


@dataclass(frozen=True, slots=True)
class IdRange:
    """The ids from ``start`` to below ``end``."""

    start: UUID
    end: UUID

    def overlaps(self, other: "IdRange") -> bool:
        """Return whether an id could lie in both."""
        return self.start < other.end and other.start < self.end

    def covers(self, other: "IdRange") -> bool:
        """Return whether every id of the other lies in this one."""
        return self.start <= other.start and other.end <= self.end


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition that there should be."""

    table: TableName
    ids: IdRange


@dataclass(frozen=True, slots=True)
class PartitionStep:
    """What became of a partition that was missing.

    Args:
        obstacle: Why it was not made, empty if it was.
    """

    partition: Partition
    obstacle: str = ""


def create_partitions(
    connection: AnyConnection,
    driver: TransactionDriver,
    table: OutboxTable,
    *,
    now: datetime,
    ahead: int | None = None,
) -> Iterator[PartitionStep]:
    """Create what is missing, each partition in a transaction of its own, and tell of each.

    Writers continue meanwhile, but for those whose events have no partition yet. Where these events came before it, a
    partition is not made: PostgreSQL would not take it, and to move them would publish them once more.

    Args:
        ahead: Partitions beside the present one; ``None`` takes :data:`AHEAD`.

    Raises:
        TransactionConflictError: The default partition was in use for more than five seconds.
    """
    for partition in _wanted(table, now, ahead):
        driver.begin(connection)
        try:
            with turn(partial(driver.fetch, connection), driver.dialect):
                added = list(_add(connection, driver, table, partition))
            yield from added
            driver.commit(connection)
        except BaseException:
            driver.rollback(connection)
            raise


def add_partitions(
    connection: AnyConnection,
    driver: Driver,
    table: OutboxTable,
    *,
    now: datetime,
) -> list[PartitionStep]:
    """Create missing partitions in the caller's transaction, and return each; made for a table that is not used yet."""
    return [
        step for partition in _wanted(table, now, ahead=None) for step in _add(connection, driver, table, partition)
    ]


def _wanted(table: OutboxTable, now: datetime, ahead: int | None) -> list[Partition]:
    if table.partitions is None:
        return []
    return list(wanted_partitions(table, now, ahead=AHEAD[table.partitions] if ahead is None else ahead))


def _add(
    connection: AnyConnection, driver: Driver, table: OutboxTable, partition: Partition
) -> Iterator[PartitionStep]:
    """Create a partition in the transaction that is open, if it is missing and nothing is in the way."""
    found = Catalog(connection, driver).find_table(table.table)
    for missing, overlapping in missing_partitions([partition], found.bounds if found else {}):
        obstacle = f"{overlapping} already covers a part of its time" if overlapping else ""
        yield PartitionStep(missing, obstacle or _create(connection, driver, table, missing))


def _create(connection: AnyConnection, driver: Driver, table: OutboxTable, partition: Partition) -> str:
    """Create a partition, and return what is in the way."""
    files = load("postgresql", "outbox_schema")
    names = {
        **table.names(),
        "partition": partition.table.quoted,
        "from_literal": literal(str(partition.ids.start)),
        "to_literal": literal(str(partition.ids.end)),
    }
    if Catalog(connection, driver).exists(partition.table):
        return "a table with its name exists, but is not a partition"
    driver.fetch(connection, files["lock_rest"].render(names))
    [(rows,)] = driver.fetch(connection, files["count_rest"].render(names))
    if rows:
        return f"{table.rest} already holds {rows:,} event{'s' * (rows != 1)} of its time"
    for name in ("create_partition", "attach_partition"):
        driver.fetch(connection, files[name].render(names))
    return ""


def wanted_partitions(table: OutboxTable, now: datetime, *, ahead: int) -> Iterator[Partition]:
    """Return the partition of the present day or month in UTC, and so many after it; none if the table has none."""
    if table.partitions is None:
        return
    start = _start(table.partitions, now.astimezone(UTC))
    for _ in range(ahead + 1):
        end = _next(table.partitions, start)
        name = table.table.sibling(start.strftime(_NAMES[table.partitions]))
        yield Partition(name, IdRange(first_id(start), first_id(end)))
        start = end


def missing_partitions(wanted: Iterable[Partition], bounds: Mapping[str, str]) -> Iterator[tuple[Partition, str]]:
    """Return those that do not exist, each with the name of one that takes a part of its ids, empty if none does.

    Args:
        bounds: Partition → its bounds as PostgreSQL prints them.
    """
    ranges = {name: IdRange(UUID(match[1]), UUID(match[2])) for name, match in _ranges(bounds)}
    for partition in wanted:
        if not any(ids.covers(partition.ids) for ids in ranges.values()):
            yield partition, next((name for name, ids in ranges.items() if ids.overlaps(partition.ids)), "")


def first_id(moment: datetime) -> UUID:
    """Return the least id that a UUIDv7 of this time could be; its first 48 bits are milliseconds since 1970."""
    milliseconds = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    return UUID(int=milliseconds << 80)


def _ranges(bounds: Mapping[str, str]) -> Iterator[tuple[str, re.Match[str]]]:
    for name, text in bounds.items():
        match = _BOUNDS.fullmatch(text)
        if match:
            yield name, match


def _start(span: Partitions, moment: datetime) -> datetime:
    midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight if span is Partitions.DAY else midnight.replace(day=1)


def _next(span: Partitions, start: datetime) -> datetime:
    # No month has 33 days, and the 1st and 32 days is always in the next one.
    return start + timedelta(days=1) if span is Partitions.DAY else (start + timedelta(days=32)).replace(day=1)
