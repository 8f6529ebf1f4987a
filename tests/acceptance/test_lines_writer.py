"""Lines of what the systems before this one could do, each by its name; where ours differs, the docstring says how.

A1 and C1 are in ``tests/integration/exclusive/test_paused_broker.py``, B13 in ``test_prune_command.py`` there,
B18 and C3 in ``tests/integration/test_execution.py``.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from cdc_outbox import Event, Outbox, OutboxTable, RecordedEvent, SequenceMode, WireContract
from cdc_outbox.testing import Stack
from tests.support.commands import run_command
from tests.support.pipeline import Pipeline
from tests.support.rig import Connection, one

PLACED = Event(aggregate_type="order", aggregate_id="1", type="OrderPlaced", payload={})


@pytest.fixture
def dsn(outbox_stack: Stack) -> str:
    return outbox_stack.postgres.create_database(f"lines_{uuid4().hex[:10]}")


@pytest.fixture
def spec(dsn: str, tmp_path: Path) -> Path:
    path = tmp_path / "spec.yaml"
    path.write_text(Pipeline.text(str(conninfo_to_dict(dsn)["dbname"])))
    return path


@pytest.fixture
def connection(dsn: str, spec: Path) -> Iterator[Connection]:
    """A service's connection to a database that has its table and the outbox."""
    assert run_command("init", str(spec), "--dsn", dsn).returncode == 0
    with psycopg.connect(dsn) as connection:
        connection.execute("create table orders (id text primary key, total int)")
        connection.commit()
        yield connection


def tables(dsn: str) -> dict[str, int]:
    """Return the tables, each with what tells it from one that was made again."""
    with psycopg.connect(dsn) as connection:
        query = "select tablename, tablename::regclass::oid::bigint from pg_tables where schemaname = 'public'"
        return dict(connection.execute(query).fetchall())


def ids(connection: Connection) -> set[str]:
    return {event_id for (event_id,) in connection.execute("select id::text from outbox")}


@dataclass
class Order:
    """An aggregate that raises events."""

    id: str
    total: int
    raised: list[Event] = field(default_factory=list)

    @classmethod
    def place(cls, total: int) -> "Order":
        order = cls(uuid4().hex, total)
        order.raised.append(
            Event(aggregate_type="order", aggregate_id=order.id, type="OrderPlaced", payload={"total": total})
        )
        return order


class Orders:
    """A service's repository."""

    def __init__(self, connection: Connection, outbox: Outbox) -> None:
        self._connection, self._outbox = connection, outbox

    def add(self, order: Order) -> None:
        self._connection.execute("insert into orders values (%s, %s)", (order.id, order.total))
        self._outbox.add_all(self._connection, order.raised)


def test_a2_an_aggregate_and_the_events_it_raised_are_one_commit(connection: Connection) -> None:
    """A2: saving an aggregate writes its row and its events in one commit.

    Repository and domain are the service's own; what it calls is ``add_all``.
    """
    orders = Orders(connection, Outbox())
    with connection.transaction(force_rollback=True):
        orders.add(Order.place(1))
    placed = Order.place(1999)
    with connection.transaction():
        orders.add(placed)
    # PostgreSQL knows which transaction wrote a row.
    query = "select orders.id, aggregateid, orders.xmin = outbox.xmin from orders cross join outbox"
    assert connection.execute(query).fetchall() == [(placed.id, placed.id, True)]


def test_a10_one_command_makes_all_tables_or_the_outbox_alone(dsn: str, spec: Path) -> None:
    """A10: commands that make every table, and the outbox alone.

    "Every table" is outbox and inbox, for a service that consumes too: its business tables are its own migrations'.
    """
    assert run_command("init", str(spec), "--dsn", dsn).returncode == 0
    alone = {
        "cdc_outbox_version",
        "outbox",
        "outbox_heads",
        "outbox_heartbeats",
        "outbox_checkpoints",
        "outbox_publishers",
    }
    assert set(tables(dsn)) == alone
    assert run_command("init", str(spec), "--inbox", "--dsn", dsn).returncode == 0
    assert set(tables(dsn)) > alone | {"inbox", "inbox_watermarks"}


def test_b9_making_the_schema_again_changes_nothing(connection: Connection, dsn: str, spec: Path) -> None:
    """B9: ``initialize_schema`` may run again (``IF NOT EXISTS``); here so may its printed script."""
    Outbox().add(connection, PLACED)
    connection.commit()
    before = tables(dsn)
    assert run_command("init", str(spec), "--dsn", dsn).returncode == 0
    script = run_command("init", str(spec), "--sql").stdout
    with psycopg.connect(dsn, autocommit=True) as owner:
        owner.execute(script.encode())
    assert tables(dsn) == before
    assert Outbox().add(connection, PLACED).sequence == 2


def fail_after(event: RecordedEvent) -> None:
    raise LookupError(event.id)


def test_b10_an_event_is_added_on_the_callers_connection_in_the_callers_transaction(
    connection: Connection, dsn: str
) -> None:
    """B10: a context manager for the transaction, ``add_message`` on its connection.

    The context manager is the driver's; where there is none yet, ``execute_with_events`` opens one (B18).
    """
    with psycopg.connect(dsn, autocommit=True) as other:
        with connection.transaction():
            event = Outbox().add(connection, PLACED)
            assert ids(other) == set()
        assert ids(other) == {event.id}
        with pytest.raises(LookupError), connection.transaction():
            fail_after(Outbox().add(connection, PLACED))
        assert ids(other) == {event.id}


@pytest.mark.parametrize(("span", "form"), [("day", "%Y_%m_%d"), ("month", "%Y_%m")])
def test_b19_the_outbox_is_partitioned_by_time_and_partitions_are_made_ahead(
    dsn: str, spec: Path, span: str, form: str
) -> None:
    """B19: partitions by time, made by the library, named ``outbox_YYYY_MM``.

    By the time in the id, not by ``created_at``, so that the id alone stays the primary key. Also by day; with a
    default partition, so that a missing one fails nobody's transaction; and the next ones are made ahead.
    """
    spec.write_text(f"{spec.read_text()}outbox: {{partitions: {span}}}\n")
    assert run_command("init", str(spec), "--dsn", dsn).returncode == 0
    today = f"outbox_{datetime.now(UTC):{form}}"
    made = sorted(name for name in tables(dsn) if name.startswith("outbox_2"))
    assert made[0] == today
    assert len(made) > 1
    outbox = Outbox(table=OutboxTable(), contract=WireContract(aggregates={"order": SequenceMode.GAPLESS}))
    with psycopg.connect(dsn) as connection:
        recent = outbox.add(connection, PLACED)
        ancient = outbox.add(connection, replace(PLACED, id="01000000-0000-7000-8000-000000000000"))
        where = connection.execute("select id::text, tableoid::regclass::text from outbox order by id").fetchall()
        assert where == [(ancient.id, "outbox_rest"), (recent.id, today)]
        key = "select pg_get_constraintdef(oid) from pg_constraint where conname = 'outbox_pkey'"
        assert one(connection, key) == "PRIMARY KEY (id)"
