"""Random rows of an outbox, with the values at which two publishers could differ; the same rows for a seed.

The writer writes few of them: they are inserted into a table without its constraints.
"""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from uuid import UUID

from cdc_outbox import OutboxMode, PayloadType
from cdc_outbox.spec import Spec
from tests.support.profiles import FRAMED
from tests.support.rig import Connection
from tests.support.shapes import object_text

UNKNOWN_TYPE = "unknown.Type"
"""An aggregate type that the spec does not name: its topic is created with its first message."""
TIMELESS = "timeless"
"""The key of rows without a time, which get one when they are published."""

_KEYS = ("", "42", "ä/ö", "a b", "x" * 300, "''", "{}", "\U0001f600", "null", *map(str, range(20)))
_TEXTS = ("", " ", "OrderPlaced", "Order Cancelled", "ß", "ü\n", "{}", "7", "true", "null", "\U0001f600", "x" * 1_000)
_JSON = ('{ "kept":  1.10, "kept": 2 }', '"ünï"', "null", "[]", " {} ", "1e400", '"' + "x" * 100_000 + '"')
_NUMBERS = (0, 1, -1, 2**31, 2**63 - 1, -(2**63))
_MOMENTS = (
    *("1970-01-01 00:00:00.001", "1970-01-01 00:00:00.001999", "1970-01-01 00:00:01", "1999-12-31 23:59:59.999999"),
    *("2000-02-29 12:00:00.1", "2026-02-28 12:34:56", "2026-02-28 12:34:56.000001"),
)
_NO_MOMENTS = (None, "1969-12-31 23:59:59.999")
"""A millisecond before 1970 is Connect's number for no time."""
_Value = str | int | bytes | None


def insert_random_rows(connection: Connection, spec: Spec, rows: int, *, seed: str, largest: int = 40) -> int:
    """Insert rows in transactions of up to so many, some of which are rolled back; return how many were committed.

    Drops the constraints that would refuse them. A transaction deletes its rows where the spec's writer does so.
    """
    random = Random(seed)  # noqa: S311 - the same rows each time
    table, columns = spec.outbox.table.quoted, find_columns(connection, spec)
    drop_constraints(connection, spec)
    committed = 0
    while committed < rows:
        size, is_undone = random.randint(1, min(largest, rows - committed)), random.random() < 0.1
        with connection.transaction(force_rollback=is_undone):
            for _ in range(size):
                row = _row(random, spec, columns)
                names = ", ".join(f'"{name}"' for name in row)
                texts = ", ".join(["%s"] * len(row))
                insert = f"insert into {table} ({names}) values ({texts})"  # noqa: S608
                connection.execute(insert.encode(), [*row.values()])
            if spec.outbox.mode is OutboxMode.DELETE:
                connection.execute(f"delete from {table}".encode())  # noqa: S608
        committed += 0 if is_undone else size
    return committed


def find_columns(connection: Connection, spec: Spec) -> list[str]:
    """Return the names of the outbox's columns."""
    query = "select attname from pg_attribute where attrelid = cast(%s as regclass) and attnum > 0 order by attnum"
    return [name for (name,) in connection.execute(query, (spec.outbox.table.quoted,))]


def drop_constraints(connection: Connection, spec: Spec) -> None:
    """Let every column but the id be null, also in a message, where Debezium replaces null by the column's default."""
    for column in find_columns(connection, spec):
        if column != spec.outbox.columns.names()["id"]:
            change = f'alter column "{column}" drop not null, alter column "{column}" drop default'
            connection.execute(f"alter table {spec.outbox.table.quoted} {change}".encode())


def _row(random: Random, spec: Spec, columns: Sequence[str]) -> dict[str, _Value]:
    roles = {column: role for role, column in spec.outbox.columns.names().items()}
    is_timeless = random.random() < 0.03

    def rarely(share: int, value: Callable[[], _Value]) -> _Value:
        return None if not random.randrange(share) else value()

    def payload() -> _Value:
        if spec.outbox.payload_type is not PayloadType.BYTES:
            return random.choice(_JSON) if not random.randrange(20) else object_text(random.randrange(2**32))
        return random.choice((b"", FRAMED, b"\0", random.randbytes(random.randrange(300))))

    def moment() -> _Value:
        if random.randrange(8) == 0:
            return random.choice(_MOMENTS)
        day = f"20{random.randrange(26):02}-{1 + random.randrange(12):02}-{1 + random.randrange(28):02}"
        return f"{day} 12:34:56.{random.randrange(10**6):06}"

    values: Mapping[str, Callable[[], _Value]] = {
        "id": lambda: str(UUID(int=random.getrandbits(128))),
        "aggregate_type": lambda: random.choices(("order", UNKNOWN_TYPE), (95, 5))[0],
        "aggregate_id": lambda: TIMELESS if is_timeless else rarely(15, lambda: random.choice(_KEYS)),
        "payload": lambda: rarely(12, payload),
        "sequence": lambda: rarely(4, lambda: random.choice((*_NUMBERS, random.randrange(1_000)))),
        "created_at": lambda: random.choice(_NO_MOMENTS) if is_timeless else moment(),
    }
    return {
        column: values.get(roles.get(column, ""), lambda: rarely(4, lambda: random.choice(_TEXTS)))()
        for column in columns
    }
