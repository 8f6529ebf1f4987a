"""The outbox in a service's metadata: on each database it becomes what an upgrade makes there."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from sqlalchemy import Connection, MetaData, NullPool, create_engine, inspect, select, text
from sqlalchemy.exc import InvalidRequestError

from cdc_outbox import ConfigError, Outbox, OutboxColumns, OutboxMode, OutboxTable, Partitions, PayloadType
from cdc_outbox.contrib.alembic import make_outbox_table
from cdc_outbox.databases.drivers.sqlalchemy import find
from cdc_outbox.databases.migrations import upgrade
from cdc_outbox.errors import OutboxError
from cdc_outbox.testing import MariaDb, Stack
from cdc_outbox.writer.outbox_schema import outbox_component
from tests.support.alembic_service import METADATA, ORDER, Service, dump
from tests.support.sqlalchemy_clients import make_url

DECLARE = """
from cdc_outbox import OutboxTable
from cdc_outbox.contrib.alembic import make_outbox_table

make_outbox_table(
    target_metadata,
    table=OutboxTable(name="events", headers={"tenant": "x-tenant"}),
    first_source="orders.1",
    publication="orders_outbox",
)
"""
EVENTS = OutboxTable(name="events", headers={"tenant": "x-tenant"})
OPTIONS = ", compare_server_default=True"


@dataclass
class Database:
    url: str
    shape: Callable[[Connection], Any]
    """Return the tables that are there, as the database describes them."""

    def connect(self) -> Connection:
        return create_engine(self.url, poolclass=NullPool).connect()

    def look(self) -> Any:
        with self.connect() as connection:
            return self.shape(connection)


@pytest.fixture(params=["postgresql", "mariadb", "sqlite"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], Database]:
    """Make an empty database of each kind."""
    number = abs(hash(request.node.name)) % 10**8

    def make(name: str) -> Database:
        if request.param == "sqlite":
            return Database(f"sqlite:///{tmp_path}/{name}.db", _shape_of_sqlite)
        if request.param == "mariadb":
            mariadb: MariaDb = request.getfixturevalue("mariadb")
            dsn = mariadb.create_database(f"{name}_{number}")
            return Database(dsn.url("mariadb+pymysql"), _shape_of_mariadb)
        stack: Stack = request.getfixturevalue("outbox_stack")
        postgres = stack.postgres.create_database(f"{name}_{number}")
        url = make_url(postgres, "psycopg").render_as_string(hide_password=False)
        return Database(url, lambda _connection: dump(postgres, "public"))

    return make


def _shape_of_sqlite(connection: Connection) -> Any:
    # Not the statements that made them, whose spaces and capitals are nobody's concern.
    tables = connection.exec_driver_sql(
        "select name, type, ncol, wr, strict from pragma_table_list where name <> 'alembic_version' order by name"
    ).all()
    return [
        (table, connection.exec_driver_sql(f"select * from pragma_table_xinfo('{table.name}')").all())  # noqa: S608
        for table in tables
    ]


def _shape_of_mariadb(connection: Connection) -> Any:
    names = [name for name in sorted(inspect(connection).get_table_names()) if name != "alembic_version"]
    return [connection.exec_driver_sql(f"show create table {name}").all() for name in names]


def upgraded(database: Database, table: OutboxTable) -> Database:
    with database.connect() as connection:
        run_upgrade(connection, table)
        connection.commit()
    return database


def run_upgrade(connection: Connection, table: OutboxTable) -> None:
    driver = find(connection)
    component = outbox_component(table, first_source="orders.1", dialect=driver.dialect)
    upgrade(lambda sql: driver.fetch(connection, sql), component)


def write(database: Database, table: OutboxTable) -> list[int | None]:
    with database.connect() as connection:
        numbers = [Outbox(table=table).add(connection, ORDER).sequence for _ in range(2)]
        connection.commit()
    return numbers


def test_alembic_makes_what_an_upgrade_makes(make: Callable[[str], Database], tmp_path: Path) -> None:
    database = make("migrated")
    service = Service(tmp_path, database.url)
    service.declare(METADATA, DECLARE, options=OPTIONS)
    told = service.revise()
    assert "op.create_outbox(first_source='orders.1', table=OutboxTable(name='events'" in told
    assert ("create_outbox_publication" in told) == database.url.startswith("postgresql")
    service.upgrade()
    if not database.url.startswith("postgresql"):  # which has the publication besides
        assert database.look() == upgraded(make("direct"), EVENTS).look()
    assert service.is_settled()
    service.run(command.downgrade, "base")
    service.upgrade()
    assert service.is_settled()

    assert write(database, EVENTS) == [1, 2]
    assert service.is_settled()
    with pytest.raises(OutboxError, match="events has rows"):
        service.run(command.downgrade, "base")


def test_a_new_header_is_a_new_column_everywhere(make: Callable[[str], Database], tmp_path: Path) -> None:
    database = make("header")
    service = Service(tmp_path, database.url)
    service.declare(METADATA, DECLARE.replace('"tenant": "x-tenant"', ""), options=OPTIONS)
    service.revise()
    service.upgrade()
    service.declare(METADATA, DECLARE, options=OPTIONS)
    assert "op.add_column('events', sa.Column('tenant'" in service.revise()
    service.upgrade()
    assert service.is_settled()
    assert write(database, EVENTS) == [1, 2]


@pytest.mark.parametrize("payload_type", [PayloadType.JSON, PayloadType.BYTES])
def test_create_all_makes_what_an_upgrade_makes(make: Callable[[str], Database], payload_type: PayloadType) -> None:
    metadata, outbox, database = MetaData(), OutboxTable(payload_type=payload_type), make("created")
    make_outbox_table(metadata, table=outbox, first_source="orders.1")
    with database.connect() as connection:
        metadata.create_all(connection)
        connection.commit()
    assert database.look() == upgraded(make("direct"), outbox).look()


def test_drop_all_leaves_no_numbers_behind(make: Callable[[str], Database]) -> None:
    metadata, database = MetaData(), make("dropped")
    table = make_outbox_table(metadata, first_source="orders.1")
    for _ in range(2):
        with database.connect() as connection:
            metadata.create_all(connection)
            connection.commit()
            assert write(database, OutboxTable()) == [1, 2]
            rows = connection.execute(select(table).order_by(table.c.sequence)).mappings().all()
            assert [(row["aggregateid"], row["sequence"], row["source"]) for row in rows] == [
                ("42", 1, "orders.1"),
                ("42", 2, "orders.1"),
            ]
            assert all(isinstance(row["id"], str) for row in rows)
            metadata.drop_all(connection)
            connection.commit()
        with database.connect() as connection:
            assert inspect(connection).get_table_names() == ["cdc_outbox_version"]
            assert connection.scalar(text("select count(*) from cdc_outbox_version")) == 0


@pytest.mark.parametrize(
    "table",
    [
        OutboxTable(schema="own", name="events", mode=OutboxMode.MESSAGE),
        OutboxTable(partitions=Partitions.MONTH),
        OutboxTable(schema="own", columns=OutboxColumns(id="Id", payload="select")),
    ],
    ids=["messages", "partitions", "names"],
)
def test_create_all_takes_every_kind_of_postgresqls(outbox_stack: Stack, table: OutboxTable) -> None:
    shapes = []
    for way in ("upgrade", "create_all"):
        dsn = outbox_stack.postgres.create_database(f"{way}_{abs(hash(repr(table))) % 10**8}")
        engine = create_engine(make_url(dsn, "psycopg"), poolclass=NullPool)
        with engine.begin() as connection:
            connection.execute(text("create schema own"))
            # The metadata's own schema is not where the writer looks, and its conventions are not ours.
            metadata = MetaData(schema="own", naming_convention={"ck": "ck_%(table_name)s_%(constraint_name)s"})
            make_outbox_table(metadata, table=table, first_source="orders.1")
            if way == "upgrade":
                run_upgrade(connection, table)
            else:
                metadata.create_all(connection)
        shapes.append(dump(dsn, table.schema or "public"))
    assert shapes[0] == shapes[1]


def test_the_metadatas_schema_is_the_outboxs_unless_it_says_otherwise() -> None:
    metadata = MetaData(schema="own")
    assert make_outbox_table(metadata, first_source="orders.1").schema == "own"
    assert make_outbox_table(metadata, table=OutboxTable(name="events"), first_source="orders.1").schema is None


def test_what_is_declared_again_is_the_same_table_unless_it_says_otherwise() -> None:
    metadata = MetaData()
    for table in (OutboxTable(), OutboxTable(schema="own", name="events", mode=OutboxMode.MESSAGE)):
        first, second = (make_outbox_table(metadata, table=table, first_source="orders.1") for _ in range(2))
        assert first is second
        with pytest.raises(InvalidRequestError, match="already defined"):
            make_outbox_table(metadata, table=table, first_source="shop.1")


@pytest.mark.parametrize("source", ["", "orders", "orders.0"])
def test_a_source_without_an_incarnation_is_refused(source: str) -> None:
    with pytest.raises(ConfigError, match="is not a source"):
        make_outbox_table(MetaData(), first_source=source)


def test_an_adopted_table_must_be_in_the_metadata_and_numbered() -> None:
    numbered = OutboxTable(adopted=True)
    with pytest.raises(ConfigError, match="is adopted, but the metadata does not contain it"):
        make_outbox_table(MetaData(), table=numbered, first_source="orders.1")
    with pytest.raises(ConfigError, match="adopted and not numbered"):
        make_outbox_table(
            MetaData(), table=replace(numbered, columns=OutboxColumns(sequence=None)), first_source="orders.1"
        )
