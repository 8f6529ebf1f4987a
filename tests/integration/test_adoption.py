"""An outbox table that somebody else made: written to and published as it is, and never touched."""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from cdc_outbox import Event, Outbox
from cdc_outbox.databases.drivers.psycopg import Psycopg
from cdc_outbox.databases.introspection import Catalog
from cdc_outbox.databases.table import TableName
from cdc_outbox.debezium.slot_plan import EarlierEvents
from cdc_outbox.errors import DatabaseError, EventError
from cdc_outbox.spec import parse_spec
from cdc_outbox.testing import Stack
from tests.support.commands import run_command
from tests.support.pipeline import Pipeline
from tests.support.relay_command import is_read, relay
from tests.support.rig import eventually, make_connector_role, one

# As Debezium's documentation has it.
DEBEZIUM = (
    "create table outboxevent (id uuid not null primary key, aggregatetype varchar(255) not null,"
    " aggregateid varchar(255) not null, type varchar(255) not null, payload jsonb)"
)
DEBEZIUM_SPEC = """\
outbox:
  table: outboxevent
  columns: {sequence: null, source: null, created_at: null}
"""
OTHER = (
    'create table "Events" ("Id" varchar(40) primary key, "Topic" text not null, "Key" text not null,'
    ' "Name" text not null, "Body" text, "Number" bigint, "By" text, "Tenant" text)'
)
OTHER_SPEC = """\
outbox:
  table: Events
  columns:
    {id: Id, aggregate_type: Topic, aggregate_id: Key, type: Name, payload: Body,
     sequence: Number, source: By, created_at: null}
  headers: {Tenant: tenant}
"""

# As services make it whose ids are uuids.
STRICT = (
    "create table outboxevent (id uuid not null primary key, aggregatetype varchar(50) not null,"
    " aggregateid uuid not null, type varchar(50) not null, payload jsonb)"
)


def text(name: str, extra: str, *, numbered: bool) -> str:
    made = Pipeline.text(name, extra)
    return made if numbered else made.replace("order: {}", "order: {sequence: none}")


@pytest.fixture
def adopted(outbox_stack: Stack, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Pipeline]:
    """A pipeline on a table that was there; `init` has made what is missing around it."""
    ddl, extra = request.param
    name = f"p{uuid4().hex[:10]}"
    whole = text(name, extra, numbered="Number" in ddl)
    (tmp_path / "spec.yaml").write_text(whole)
    pipeline = Pipeline(outbox_stack, parse_spec(whole), outbox_stack.postgres.create_database(name))
    with pipeline.connect() as connection:
        make_connector_role(connection)
        connection.execute(ddl.encode())
        connection.execute(f"grant select on {pipeline.spec.outbox.table.quoted} to connector".encode())
    yield pipeline
    pipeline.close()


def shape(pipeline: Pipeline) -> object:
    with pipeline.connect() as connection:
        return Catalog(connection, Psycopg()).find_table(pipeline.spec.outbox.table)


def init(pipeline: Pipeline, tmp_path: Path) -> None:
    before = shape(pipeline)
    for _ in range(2):
        done = run_command("init", str(tmp_path / "spec.yaml"), "--dsn", pipeline.dsn)
        assert done.returncode == 0, done.stderr
    assert shape(pipeline) == before
    check = run_command("init", str(tmp_path / "spec.yaml"), "--check", "--dsn", pipeline.dsn)
    assert (check.returncode, check.stdout) == (0, ""), check.stdout


def event(number: int, **more: object) -> Event:
    return Event(aggregate_type="order", aggregate_id="1", type="OrderPlaced", payload={"n": number}, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("adopted", [(DEBEZIUM, DEBEZIUM_SPEC)], indirect=True)
def test_the_table_of_debeziums_documentation_is_published(adopted: Pipeline, tmp_path: Path) -> None:
    init(adopted, tmp_path)
    with adopted.connect() as connection:
        made = "select array_agg(tablename::text) from pg_tables where schemaname = 'public'"
        beside = ["cdc_outbox_version", "outboxevent_checkpoints", "outboxevent_publishers"]
        assert sorted(one(connection, made)) == sorted([*beside, "outboxevent"])
    outbox = Outbox(spec=adopted.spec)
    with psycopg.connect(adopted.dsn) as connection:
        outbox.add(connection, event(1))
    adopted.deploy(earlier=EarlierEvents.REPUBLISH)
    with psycopg.connect(adopted.dsn) as connection:
        written = outbox.add_all(connection, [event(2), event(3)])
        assert [(one_.sequence, one_.source) for one_ in written] == [(None, None)] * 2
        # The table has no column for it: it is the time of this machine.
        assert all(abs(datetime.now(UTC) - one_.created_at) < timedelta(minutes=1) for one_ in written)
    # What goes on writing to it by itself is published as before.
    with adopted.connect() as connection:
        connection.execute(
            "insert into outboxevent values (gen_random_uuid(), 'order', '1', 'OrderPlaced', '{\"n\": 4}')"
        )
    eventually(lambda: len({message.headers[0] for message in adopted.messages()}) == 4, "four events")
    events = [adopted.spec.contract.event_of(message) for message in adopted.messages()]
    assert list(dict.fromkeys(found.payload["n"] for found in events)) == [1, 2, 3, 4]
    assert {(found.aggregate_id, found.type, found.sequence) for found in events} == {("1", "OrderPlaced", None)}
    assert adopted.deploy().is_empty


PARTITIONED = (
    DEBEZIUM.replace(" primary key", "").replace("payload jsonb)", "payload jsonb, day date default current_date)")
    + " partition by range (day); create table outboxevent_all partition of outboxevent default"
)


@pytest.mark.parametrize(
    "adopted",
    [
        (DEBEZIUM, DEBEZIUM_SPEC),
        (DEBEZIUM, f"{DEBEZIUM_SPEC}  mode: delete\n"),
        (PARTITIONED, DEBEZIUM_SPEC),
        (PARTITIONED, f"{DEBEZIUM_SPEC}  mode: delete\n"),
        (OTHER, OTHER_SPEC),
        (OTHER.replace("varchar(40)", "uuid"), f"{OTHER_SPEC}  mode: delete\n"),
    ],
    ids=["unnumbered", "unnumbered-delete", "partitioned", "partitioned-delete", "numbered", "numbered-delete"],
    indirect=True,
)
def test_a_relay_publishes_what_init_and_the_checks_call_ready(adopted: Pipeline, tmp_path: Path) -> None:
    spec, names = tmp_path / "spec.yaml", adopted.spec.database.publication
    with adopted.connect() as connection:
        if one(connection, "select to_regclass('outboxevent_all') is not null"):
            options = "publish = 'insert', publish_via_partition_root"
            connection.execute(f"create publication {names} for table outboxevent with ({options})".encode())
    init(adopted, tmp_path)
    assert run_command("relay", spec, "--check").returncode == 0
    with relay(adopted, spec) as process:
        eventually(lambda: is_read(adopted) or process.poll() is not None, "the relay to read", seconds=300)
        assert process.poll() is None, spec.with_suffix(".log").read_text()
        with psycopg.connect(adopted.dsn) as connection:
            Outbox(spec=adopted.spec).add(connection, event(1))
        eventually(adopted.messages, "the event")


@pytest.mark.parametrize("adopted", [(DEBEZIUM, DEBEZIUM_SPEC)], indirect=True)
def test_without_a_column_a_header_is_refused_before_the_database_does(adopted: Pipeline) -> None:
    outbox = Outbox(spec=adopted.spec)
    with psycopg.connect(adopted.dsn) as connection, pytest.raises(EventError, match="traceparent"):
        outbox.add(connection, event(1, headers={"traceparent": "x"}))


@pytest.mark.parametrize("adopted", [(OTHER, OTHER_SPEC)], indirect=True)
def test_a_table_with_names_of_its_own_and_a_sequence_is_numbered(adopted: Pipeline, tmp_path: Path) -> None:
    init(adopted, tmp_path)
    adopted.deploy()
    outbox = Outbox(spec=adopted.spec)
    with psycopg.connect(adopted.dsn) as connection:
        outbox.add(connection, event(1, headers={"tenant": "acme"}))
        outbox.add_all(connection, [event(2), event(3)])
    eventually(lambda: len(adopted.messages()) >= 3, "three events")
    events = [adopted.spec.contract.event_of(message) for message in adopted.messages()]
    assert [(found.sequence, found.source) for found in events] == [(n, f"{adopted.name}.1") for n in (1, 2, 3)]
    assert [dict(found.headers) for found in events] == [{"tenant": "acme"}, {}, {}]
    adopted.stop()
    done = run_command(
        "init",
        str(tmp_path / "spec.yaml"),
        "--new-incarnation",
        "--from-source",
        f"{adopted.name}.1",
        "--dsn",
        adopted.dsn,
    )
    assert done.returncode == 0, done.stderr
    with psycopg.connect(adopted.dsn) as connection:
        assert outbox.add(connection, event(4)).source == f"{adopted.name}.2"


@pytest.mark.parametrize("adopted", [(STRICT, DEBEZIUM_SPEC)], indirect=True)
def test_an_aggregate_id_may_be_a_uuid_and_a_type_be_short_where_events_are_not_numbered(
    adopted: Pipeline, tmp_path: Path
) -> None:
    init(adopted, tmp_path)
    adopted.deploy()
    outbox, aggregate_id = Outbox(spec=adopted.spec), str(uuid4())
    placed = replace(event(1), aggregate_id=aggregate_id)
    with psycopg.connect(adopted.dsn) as connection:
        for wrong in (replace(placed, aggregate_id="42"), replace(placed, type="x" * 51)):
            with pytest.raises(DatabaseError, match="a value does not fit the column's type") as refused:
                outbox.add_all(connection, [placed, wrong])
            assert isinstance(refused.value.__cause__, psycopg.DataError)
            connection.rollback()
        outbox.add(connection, placed)
        outbox.add_all(connection, [placed, replace(placed, type="x" * 50)])
    eventually(lambda: len(adopted.messages()) >= 3, "three events")
    events = [adopted.spec.contract.event_of(message) for message in adopted.messages()]
    assert {(found.aggregate_id, found.payload["n"]) for found in events} == {(aggregate_id, 1)}
    assert [found.type for found in events] == ["OrderPlaced", "OrderPlaced", "x" * 50]


@pytest.mark.parametrize("kind", ["uuid", "customer_id"])
def test_a_uuid_as_aggregate_id_is_refused_where_events_are_numbered(
    outbox_stack: Stack, tmp_path: Path, kind: str
) -> None:
    dsn = outbox_stack.postgres.create_database(f"adopt_{kind}")
    path = tmp_path / "spec.yaml"
    path.write_text(text(f"adopt_{kind}", "outbox: {table: outboxevent, columns: {created_at: null}}\n", numbered=True))
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(STRICT.encode())
        connection.execute("alter table outboxevent add column sequence bigint, add column source text")
        connection.execute("create domain customer_id as uuid")
        connection.execute(f"alter table outboxevent alter column aggregateid type {kind}".encode())
        done = run_command("init", str(path), "--dsn", dsn)
        assert done.returncode == 1
        assert (
            "public.outboxevent.aggregateid is a uuid, but the aggregate ids of numbered events are text" in done.stderr
        )
        [remedy] = re.findall(r"alter table .* type text", done.stderr)
        assert one(connection, "select to_regclass('outboxevent_heads') is null")
        connection.execute(remedy.encode())
        again = run_command("init", str(path), "--dsn", dsn)
        assert again.returncode == 0, again.stderr
    spec = parse_spec(path.read_text())
    with psycopg.connect(dsn) as connection:
        assert Outbox(spec=spec).add(connection, event(1)).sequence == 1


def test_roles_of_an_adopted_table_leave_it_to_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(text("adopting", DEBEZIUM_SPEC, numbered=False))
    printed = run_command("init", str(path), "--grants").stdout
    assert '\'"public"."outboxevent"\'' not in printed  # which would be a table to own
    assert '\'"public"."outboxevent_publishers"\'' in printed
    assert 'grant insert, select ("id") on "public"."outboxevent"' in printed


def test_a_table_that_is_not_there_cannot_be_adopted(outbox_stack: Stack, tmp_path: Path) -> None:
    dsn = outbox_stack.postgres.create_database("adopt_nothing")
    path = tmp_path / "spec.yaml"
    path.write_text(text("adopt_nothing", DEBEZIUM_SPEC, numbered=False))
    done = run_command("init", str(path), "--dsn", dsn)
    assert done.returncode == 1
    assert "public.outboxevent does not exist, but the spec adopts it" in done.stderr
    with psycopg.connect(dsn) as connection:
        assert not Catalog(connection, Psycopg()).exists(TableName(schema="public", name="outboxevent"))
        assert one(connection, "select count(*) from pg_publication") == 0
