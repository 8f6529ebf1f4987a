"""The least roles on MariaDB, as `init --grants` prints them: each can do its work, and nothing beside it."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pymysql
import pytest
from pymysql.connections import Connection

from cdc_outbox import Event, Outbox, OutboxMode, SequenceMode
from cdc_outbox.consumer.ordering import Move
from cdc_outbox.contract.wire import WireContract
from cdc_outbox.databases.drivers.immediate import finish
from cdc_outbox.databases.table import OutboxTable
from cdc_outbox.errors import StaleSequenceError
from cdc_outbox.testing import MariaDb, MariaDbDsn
from tests.contract.inbox_contract import HOME, A, B, gap, opened_on
from tests.support.commands import run_here
from tests.support.places import Place
from tests.support.pymysql_connections import connect_pymysql

PASSWORD = "se'cret"
CONTRACT = WireContract(
    aggregates={"order": SequenceMode.GAPLESS, "own": SequenceMode.INCREASING, "metric": SequenceMode.NONE}
)
DENIED = (1044, 1142, 1143, 1227)


@pytest.fixture
def place(mariadb: MariaDb, tmp_path: Path) -> Iterator[Place]:
    made = Place.on_mariadb(tmp_path, mariadb)
    yield made
    made.query(*(f"drop user if exists {account}" for account in accounts(made)))


def accounts(place: Place) -> list[str]:
    kinds = ("connector", "writer", "migrator", "consumer")
    return [f"'{place.name}_{kind}'@'{host}'" for kind in kinds for host in ("%", "::1")]


def grant(place: Place, *options: str) -> None:
    """Run what is printed, twice, and give everybody a password."""
    names = [f"--{kind}-role={place.name}_{kind}" for kind in ("writer", "migrator")]
    printed = run_here("init", str(place.spec), "--grants", *names, *options)
    assert printed.returncode == 0, printed.stderr
    statements = [part for part in printed.stdout.rstrip().removesuffix(";").split(";\n") if part.strip()]
    place.query(*statements * 2)


def let_in(place: Place, kind: str) -> MariaDbDsn:
    literal = PASSWORD.replace("'", "''")
    place.query(f"alter user '{place.name}_{kind}'@'%' identified by '{literal}' account unlock")
    assert isinstance(place.address, MariaDbDsn)
    return replace(place.address, user=f"{place.name}_{kind}", password=PASSWORD)


def refused(connection: "Connection[Any]", *statements: str) -> None:
    for statement in statements:
        with connection.cursor() as cursor, pytest.raises(pymysql.err.MySQLError) as caught:
            cursor.execute(statement)
        assert caught.value.args[0] in DENIED, (statement, caught.value)


def test_nobody_logs_in_without_a_password(place: Place) -> None:
    place.made()
    grant(place)
    assert isinstance(place.address, MariaDbDsn)
    for kind in ("writer", "connector", "migrator"):
        unnamed = replace(place.address, user=f"{place.name}_{kind}", password="")
        with pytest.raises(pymysql.err.OperationalError, match="locked"):
            connect_pymysql(unnamed)


def test_the_writer_adds_and_neither_changes_nor_deletes(place: Place) -> None:
    """Nor does it read but what it inserts: MariaDB's `returning` asks for the right to read all of that."""
    place.made()
    place.query("alter table outbox add column note text")
    grant(place)
    event = Event(aggregate_type="order", aggregate_id="1", type="X", payload={"a": 1}, headers={"traceparent": "t"})
    outbox = Outbox(table=OutboxTable(), contract=CONTRACT)
    with closing(connect_pymysql(let_in(place, "writer"))) as connection:
        assert [outbox.add(connection, event).sequence for _ in range(2)] == [1, 2]
        own = replace(event, aggregate_type="own", sequence=7)
        assert outbox.add(connection, own).sequence == 7
        with pytest.raises(StaleSequenceError):
            outbox.add(connection, own)
        assert outbox.add(connection, replace(event, aggregate_type="metric")).sequence is None
        assert [added.sequence for added in outbox.add_all(connection, [event, event])] == [3, 4]
        connection.commit()
        refused(
            connection,
            "select note from outbox",
            "select * from outbox",
            "update outbox set type = 'x'",
            "delete from outbox",
            "truncate outbox",
            "alter table outbox add column a int",
            "delete from outbox_heads",
            "update outbox_heads set source = 'x'",
            "select * from cdc_outbox_version",
            "create table mine (a int)",
        )
    assert place.query("select count(*) from outbox") == [(6,)]


def test_a_writer_that_deletes_what_it_inserted_may_do_that(place: Place) -> None:
    place.write_spec("outbox: {mode: delete}\n")
    place.made()
    grant(place)
    event = Event(aggregate_type="order", aggregate_id="1", type="X", payload={"a": 1})
    with closing(connect_pymysql(let_in(place, "writer"))) as connection:
        outbox = Outbox(table=OutboxTable(mode=OutboxMode.DELETE))
        assert [outbox.add(connection, event).sequence for _ in range(2)] == [1, 2]
        connection.commit()
        refused(connection, "update outbox set type = 'x'")
    assert place.query("select count(*) from outbox") == [(0,)]


def test_the_connector_reads_the_log_and_the_table_and_nothing_else(place: Place) -> None:
    place.made()
    grant(place)
    with closing(connect_pymysql(let_in(place, "connector"))) as connection:
        # What Debezium asks with snapshot.locking.mode none, before it opens the log.
        for statement in (
            "show master status",
            "show binary logs",
            "show full tables",
            "show create table outbox",
            "select * from outbox",
            "show variables",
        ):
            with connection.cursor() as cursor:
                cursor.execute(statement)
        refused(connection, "insert into outbox (id) values ('x')", "select * from outbox_heads", "flush tables")


def test_the_migrator_makes_adds_checks_and_begins_incarnations(place: Place) -> None:
    grant_migrator(place)
    address = let_in(place, "migrator")
    dsn = address.url("mysql").partition("?")[0]
    made = place.init(dsn=dsn)
    assert made.returncode == 0, made.stderr
    place.write_spec("outbox: {headers: {tenant: x-tenant}}\n")
    for way in ([], ["--new-incarnation", "--from-source", "orders.1"], ["--check"]):
        done = place.init(*way, dsn=dsn)
        assert (done.returncode, done.stderr.count("error")) == (0, 0), done.stdout + done.stderr
    with closing(connect_pymysql(address)) as connection:
        refused(
            connection,
            "select * from outbox",
            "insert into outbox (id) values ('x')",
            "delete from outbox",
            "drop table outbox",
            "drop table outbox_heads",
            "create table mine (a int)",
        )
    others = place.init("--check", "--writer-role=somebody", dsn=dsn)
    assert others.returncode == 1
    assert "SELECT command denied" in others.stderr


def grant_migrator(place: Place) -> None:
    """Run only the migrator's statements: the tables of the others are not there yet."""
    printed = run_here("init", str(place.spec), "--grants", f"--migrator-role={place.name}_migrator").stdout
    own = printed[printed.index(f"-- {place.name}_migrator") :]
    place.query(*own.rstrip().removesuffix(";").split(";\n"))


def test_what_was_granted_is_found_to_be_right(place: Place) -> None:
    place.made()
    grant(place)
    roles = [f"--{kind}-role={place.name}_{kind}" for kind in ("writer", "connector", "migrator")]
    done = place.init("--check", *roles)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


@pytest.mark.parametrize(
    ("change", "kind", "finding"),
    [
        ("revoke insert on outbox_heads from {}", "writer", "error DB212: the role lacks insert on outbox_heads."),
        ("revoke select (id) on outbox from {}", "writer", "error DB212: the role lacks select (`id`,"),
        ("grant delete on outbox to {}", "writer", "warning DB213: the role does not need delete on outbox."),
        (
            "grant update (payload) on outbox to {}",
            "writer",
            "DB213: the role does not need update (payload) on outbox",
        ),
        ("grant select on {database}.* to {}", "writer", "DB213: the role does not need select on outbox."),
        ("grant drop on *.* to {}", "writer", "DB213: the role does not need drop on outbox."),
        ("grant super on *.* to {}", "writer", "DB213: the role does not need super on *.*."),
        ("revoke replication slave on *.* from {}", "connector", "DB212: the role lacks replication slave on *.*."),
        ("revoke binlog monitor on *.* from {}", "connector", "DB212: the role lacks replication client on *.*."),
        ("revoke select on outbox from {}", "connector", "DB212: the role lacks select on outbox."),
        ("revoke alter on outbox_heads from {}", "migrator", "DB212: the role lacks alter on outbox_heads."),
        ("drop user {}", "migrator", "error DB211: the role does not exist."),
    ],
)
def test_what_a_role_lacks_and_what_it_has_beyond_is_found(place: Place, change: str, kind: str, finding: str) -> None:
    place.made()
    grant(place)
    role = f"{place.name}_{kind}"
    place.query(change.format(f"'{role}'@'%'", database=place.name))
    done = place.init("--check", f"--{kind}-role={role}")
    assert done.returncode == 3
    assert finding in done.stdout
    assert done.stdout.count("\n") <= 2


def test_the_consumer_does_its_work_and_forgets_no_watermark(place: Place) -> None:
    init = ["init", "--inbox", "--dsn", place.dsn]
    role = f"--consumer-role={place.name}_consumer"
    assert run_here(*init).returncode == 0
    printed = run_here(*init, "--grants", role, f"--migrator-role={place.name}_migrator")
    place.query(*printed.stdout.rstrip().removesuffix(";").split(";\n"))
    checked = run_here(*init, "--check", role, f"--migrator-role={place.name}_migrator")
    assert (checked.returncode, checked.stdout) == (0, "")
    with opened_on(connect_pymysql(let_in(place, "consumer"))) as opened:
        assert opened.claim("1", "2") == {"1", "2"}
        finish(opened.inbox.release(opened.connection, ["2"]))
        finish(opened.inbox.lock_watermarks(opened.connection, [B]))
        opened.advance(Move(A, 0, 1), Move(B, 0, 0, parked=1))
        opened.add(1, gap(), aggregate=B)
        assert opened.wake({B: 1}) == 1
        finish(opened.park.remove(opened.connection, [row.parked_id for row in opened.due()]))
        tenure = opened.issue(HOME)[HOME]
        finish(opened.epochs.finish(opened.connection, {HOME: tenure.epoch}))
        assert finish(opened.epochs.start(opened.connection, "1")) == 1
        finish(opened.epochs.forget_start(opened.connection, "1"))
        claims = finish(opened.inbox.claim(opened.connection, ["3"]))
        assert finish(opened.inbox.take_back(opened.connection, claims))
        refused(
            opened.connection,
            "update inbox set event_id = 'x'",
            "delete from inbox_watermarks",
            "insert into inbox_purges (consumer, purged_before) values ('x', now())",
            "create table mine (a int)",
        )


def test_a_role_may_be_limited_to_where_it_comes_from(place: Place) -> None:
    place.made()
    grant(place, f"--writer-role={place.name}_writer@::1")
    hosts = f"select host from mysql.user where user = '{place.name}_writer'"  # noqa: S608 - our own name
    assert place.query(hosts) == [("::1",)]
    assert place.init("--check", f"--writer-role={place.name}_writer@::1").returncode == 0
    elsewhere = place.init("--check", f"--writer-role={place.name}_writer")
    assert "DB211: the role does not exist." in elsewhere.stdout
