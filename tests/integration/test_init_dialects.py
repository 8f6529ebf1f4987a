"""`cdc-outbox init` on MariaDB and SQLite: makes, adds, names each drift, begins incarnations; and what is refused."""

from dataclasses import replace
from pathlib import Path

import pytest

from cdc_outbox import Event, Outbox, SequenceMode
from cdc_outbox.cli.database import connected
from cdc_outbox.contract.wire import WireContract
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.introspection import Catalog
from cdc_outbox.databases.source import read_source
from cdc_outbox.databases.table import OutboxTable
from cdc_outbox.testing import MariaDb, MariaDbDsn
from tests.support.commands import run_here, run_program
from tests.support.places import Place

ORDER = Event(aggregate_type="order", aggregate_id="42", type="OrderPlaced", payload={"total": 1})
NUMBERED_BY_CALLER = WireContract(aggregates={"order": SequenceMode.INCREASING})
NOT_NUMBERED = WireContract(aggregates={"metric": SequenceMode.NONE})


@pytest.fixture(params=["mariadb", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "sqlite":
        return Place.on_sqlite(tmp_path)
    return Place.on_mariadb(tmp_path, request.getfixturevalue("mariadb"))


@pytest.fixture
def on_mariadb(mariadb: MariaDb, tmp_path: Path) -> Place:
    return Place.on_mariadb(tmp_path, mariadb)


@pytest.fixture
def on_sqlite(tmp_path: Path) -> Place:
    return Place.on_sqlite(tmp_path)


def write(place: Place, outbox: Outbox | None = None, **changes: object) -> tuple[str | None, int | None]:
    """Add an event in a transaction of its own and return its source and its number."""
    with place.connect() as connection:
        added = (outbox or Outbox()).add(connection, replace(ORDER, **changes))  # type: ignore[arg-type]
        connection.commit()
    return added.source, added.sequence


def test_init_makes_what_the_writer_needs_once_and_says_so(place: Place) -> None:
    first = place.init()
    assert first.returncode == 0, first.stderr
    assert first.stderr == f"database {place.database}\noutbox {place.outbox}: now at version 1\n"
    assert [write(place) for _ in range(2)] == [("orders.1", 1), ("orders.1", 2)]
    again = place.init()
    assert (again.returncode, again.stderr) == (0, f"database {place.database}\noutbox {place.outbox}: up to date\n")
    assert write(place) == ("orders.1", 3)
    assert place.found() == []


def test_the_script_makes_the_same(place: Place) -> None:
    place.write_spec("outbox: {headers: {tenant: x-tenant}}\n")
    script = run_here("init", str(place.spec), "--sql")
    assert script.returncode == 0, script.stderr
    for _ in range(2):
        if place.dialect is Dialect.SQLITE:
            with place.connect() as connection:
                connection.executescript(script.stdout)
        else:
            place.query(*script.stdout.rstrip().removesuffix(";").split(";\n"))
    assert place.found() == []
    done = place.init()
    assert (done.returncode, done.stderr) == (0, f"database {place.database}\noutbox {place.outbox}: up to date\n")


@pytest.mark.parametrize("ways", [["--inbox"], ["SPEC", "--inbox"]], ids=["alone", "beside an outbox"])
def test_an_inbox_is_made_once_and_looked_at(place: Place, ways: list[str]) -> None:
    command = ["init", *(str(place.spec) if way == "SPEC" else way for way in ways), "--dsn", place.dsn]
    inbox = place.outbox.replace("outbox", "inbox")
    missing = run_here(*command, "--check")
    assert missing.returncode == 3
    for state in ("now at version 1", "up to date"):
        done = run_here(*command)
        assert done.returncode == 0, done.stderr
        assert f"inbox {inbox}: {state}\n" in done.stderr
    assert run_here(*command, "--check").stdout == ""
    assert place.query("select count(*) from inbox_parked") == [(0,)]


def test_an_inboxs_script_makes_the_same(place: Place) -> None:
    script = run_here("init", "--inbox", "--sql", "--dsn", place.dsn)
    assert script.returncode == 0, script.stderr
    for _ in range(2):
        if place.dialect is Dialect.SQLITE:
            with place.connect() as connection:
                connection.executescript(script.stdout)
        else:
            place.query(*script.stdout.rstrip().removesuffix(";").split(";\n"))
    assert run_here("init", "--inbox", "--check", "--dsn", place.dsn).stdout == ""
    assert "up to date" in run_here("init", "--inbox", "--dsn", place.dsn).stderr


def test_a_column_for_a_header_is_added_to_a_table_in_use(place: Place) -> None:
    place.made()
    write(place)
    place.write_spec("outbox: {headers: {tenant: x-tenant}}\n")
    assert place.found() == [("DB303", f"{place.outbox}.tenant")]
    for _ in range(2):
        place.made()
    assert place.found() == []
    outbox = Outbox(table=OutboxTable(headers={"tenant": "x-tenant"}))
    assert write(place, outbox, headers={"x-tenant": "é"}) == ("orders.1", 2)
    assert place.query("select tenant from outbox order by sequence") == [(None,), ("é",)]


def test_where_nothing_was_made_that_is_the_finding(place: Place) -> None:
    assert place.found() == [("DB301", place.outbox)]


def test_a_table_that_somebody_else_made_is_not_taken_for_ours(place: Place) -> None:
    place.query("create table outbox_heads (a int)")
    done = place.init()
    assert done.returncode == 1
    assert f"{place.outbox}_heads already exists, but cdc-outbox did not create it" in done.stderr
    assert [code for code, _ in place.found()] == ["DB301"]


def test_an_adopted_table_is_only_numbered(place: Place) -> None:
    columns = "id, aggregate_type: kind, aggregate_id: aggregateid, type, payload, sequence: position, source: origin"
    names = ", ".join(part if ":" in part else f"{part}: {part}" for part in columns.split(", "))
    place.write_spec(f"outbox: {{columns: {{{names}}}}}\n")
    missing = place.init()
    assert missing.returncode == 1
    assert f"{place.outbox} does not exist, but the spec adopts it" in missing.stderr
    place.query(
        "create table outbox (id varchar(36), kind varchar(99), aggregateid varchar(99), type varchar(99), "
        "payload text, position bigint, origin varchar(99))"
    )
    place.made()
    assert place.found() == []
    begun = place.init("--new-incarnation", "--from-source", "orders.1")
    assert (begun.returncode, begun.stdout) == (0, f"{place.outbox}: orders.1 -> orders.2\n"), begun.stderr


_MARIADB_DRIFT = [
    ("drop table outbox", "DB301", "outbox"),
    ("alter table outbox drop column sequence", "DB303", "outbox.sequence"),
    ("alter table outbox drop column tracestate", "DB303", "outbox.tracestate"),
    ("alter table outbox modify type varchar(249)", "DB306", "outbox.type"),
    ("alter table outbox modify payload longtext not null", "DB306", "outbox.payload"),
    ("alter table outbox alter column source drop default", "DB307", "outbox.source"),
    ("alter table outbox modify source varchar(255) not null default (user())", "DB307", "outbox.source"),
    ("alter table outbox modify created_at datetime(6) not null default now(6)", "DB307", "outbox.created_at"),
    ("alter table outbox alter column type set default 'x'", "DB307", "outbox.type"),
    ("alter table outbox drop primary key", "DB308", "outbox"),
    ("alter table outbox drop primary key, add primary key (id(10))", "DB308", "outbox"),
    ("alter table outbox add column tenant text not null", "DB309", "outbox.tenant"),
    ("alter table outbox modify type varchar(10) not null", "DB311", "outbox.type"),
    ("alter table outbox modify aggregateid varchar(1000) collate utf8mb4_general_ci not null", "DB311", "outbox"),
    ("alter table outbox modify created_at timestamp(6) not null default (utc_timestamp(6))", "DB311", "outbox"),
    ("alter table outbox modify payload blob", "DB311", "outbox.payload"),
    ("create unique index once on outbox (aggregateid(10), type(10))", "DB312", "outbox.once"),
    ("drop table outbox_heads", "DB321", "outbox_heads"),
    ("alter table outbox_heads drop column last", "DB322", "outbox_heads.last"),
    ("alter table outbox_heads modify last bigint unsigned not null", "DB311", "outbox_heads.last"),
    ("alter table outbox_heads drop primary key", "DB308", "outbox_heads"),
    ("alter table outbox engine = MyISAM", "DB324", "outbox.engine"),
    ("alter table outbox_heads engine = Aria", "DB324", "outbox_heads.engine"),
    ("alter table outbox_heads row_format = compressed", "DB324", "outbox_heads.row_format"),
    ("alter table outbox default collate = utf8mb4_general_ci", "DB324", "outbox.collate"),
    ("alter table outbox alter column source set default 'orders'", "DB332", "outbox_heads.source"),
    ("alter table outbox_heads alter column source set default 'orders.2'", "DB332", "outbox_heads.source"),
    ("update cdc_outbox_version set version = 0", "DB341", "outbox"),
    ("update cdc_outbox_version set version = 99", "DB342", "outbox"),
    ("delete from cdc_outbox_version", "DB343", "outbox"),
    ("drop table cdc_outbox_version", "DB343", "outbox"),
]


@pytest.fixture(scope="module")
def drifting(mariadb: MariaDb, tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place.on_mariadb(tmp_path_factory.mktemp("drift"), mariadb)


def test_on_mariadb_each_change_is_found_with_its_place(drifting: Place) -> None:
    """In one test, for each takes a moment only."""
    for change, code, where in _MARIADB_DRIFT:
        drifting.query(*(f"drop table if exists {name}" for name in ("outbox", "outbox_heads", "cdc_outbox_version")))
        drifting.made()
        assert drifting.found() == []
        drifting.query(change)
        assert any(found[0] == code and found[1].startswith(where) for found in drifting.found()), change


_SQLITE_OUTBOX = """create table outbox (id text not null primary key, aggregatetype text not null,
    aggregateid text not null, type text not null, payload text, sequence integer,
    source text not null default 'orders.1', traceparent text, tracestate text,
    created_at text not null default (strftime('%Y-%m-%dT%H:%M:%f', 'now'))) strict"""
_SQLITE_HEADS = """create table outbox_heads (source text not null default 'orders.1', aggregatetype text not null,
    aggregateid text not null, last integer not null, event_id text not null,
    primary key (aggregatetype, aggregateid, source)) strict, without rowid"""


@pytest.mark.parametrize(
    ("table", "change", "into", "code", "where"),
    [
        ("outbox", "", "", "", ""),
        ("outbox", "tracestate text,", "", "DB303", "outbox.tracestate"),
        ("outbox", "payload text", "payload text not null", "DB306", "outbox.payload"),
        ("outbox", "default 'orders.1'", "", "DB307", "outbox.source"),
        ("outbox", "default 'orders.1'", "default (hex(1))", "DB307", "outbox.source"),
        ("outbox", "(strftime('%Y-%m-%dT%H:%M:%f', 'now'))", "(datetime('now'))", "DB307", "outbox.created_at"),
        ("outbox", "primary key", "", "DB308", "outbox"),
        ("outbox", "payload text", "tenant text not null, payload text", "DB309", "outbox.tenant"),
        ("outbox", "sequence integer", "sequence text", "DB311", "outbox.sequence"),
        ("outbox", "payload text", "payload blob", "DB311", "outbox.payload"),
        ("outbox", "payload text", "payload text unique", "DB312", "outbox.sqlite_autoindex_outbox_2"),
        ("outbox", " strict", "", "DB324", "outbox.strict"),
        ("outbox_heads", "last integer not null,", "", "DB322", "outbox_heads.last"),
        ("outbox_heads", "aggregatetype, aggregateid, source)", "aggregateid, source)", "DB308", "outbox_heads"),
        ("outbox_heads", "orders.1", "orders.2", "DB332", "outbox_heads.source"),
    ],
)
def test_on_sqlite_each_difference_is_found_with_its_place(
    on_sqlite: Place, table: str, change: str, into: str, code: str, where: str
) -> None:
    on_sqlite.made()
    text = _SQLITE_OUTBOX if table == "outbox" else _SQLITE_HEADS
    assert change in text
    on_sqlite.query(f"drop table {table}", text.replace(change, into) if change else text)
    assert on_sqlite.found() == ([(code, f"main.{where}")] if code else [])


def test_a_missing_head_table_and_another_version_are_found(on_sqlite: Place) -> None:
    on_sqlite.made()
    on_sqlite.query("drop table outbox_heads", "update cdc_outbox_version set version = 99")
    assert on_sqlite.found() == [("DB342", "main.outbox"), ("DB321", "main.outbox_heads")]


def test_emptied_heads_are_found_until_a_new_incarnation_begins(place: Place) -> None:
    place.made()
    write(place)
    assert place.found() == []
    place.query("delete from outbox_heads")
    assert place.found() == [("DB325", f"{place.outbox}_heads")]
    assert place.init("--new-incarnation", "--from-source", "orders.1").returncode == 0
    assert place.found() == []


def test_a_new_incarnation_starts_at_1_and_keeps_what_was_there(place: Place) -> None:
    place.made()
    assert [write(place), write(place, aggregate_id="7")] == [("orders.1", 1), ("orders.1", 1)]
    before = place.query("select * from outbox order by id")
    begin = ["--new-incarnation", "--from-source", "orders.1"]
    unnamed = place.init("--new-incarnation")
    assert (
        unnamed.returncode,
        "the table's current source is orders.1, so add --from-source orders.1" in unnamed.stderr,
    ) == (2, True)
    begun = place.init(*begin)
    assert (begun.returncode, begun.stdout) == (0, f"{place.outbox}: orders.1 -> orders.2\n"), begun.stderr
    again = place.init(*begin)
    assert (again.returncode, again.stdout) == (0, f"{place.outbox}: orders.2 already\n")
    assert place.query("select * from outbox order by id") == before
    assert place.found() == []
    assert [write(place) for _ in range(2)] == [("orders.2", 1), ("orders.2", 2)]
    assert write(place, Outbox(table=OutboxTable(), contract=NOT_NUMBERED), aggregate_type="metric") == (
        "orders.2",
        None,
    )
    outbox = Outbox(table=OutboxTable(), contract=NUMBERED_BY_CALLER)
    assert write(place, outbox, aggregate_id="9", sequence=7) == ("orders.2", 7)
    assert place.init("--new-incarnation", "--from-source", "orders.2", "--to-source", "orders.9").returncode == 0
    assert write(place) == ("orders.9", 1)
    assert place.init().returncode == 0
    assert write(place) == ("orders.9", 2)
    wrong = place.init("--new-incarnation", "--from-source", "orders.4")
    assert (wrong.returncode, "the source is orders.9, not orders.4" in wrong.stderr) == (1, True)


def test_a_source_is_read_whatever_it_is_made_of(on_mariadb: Place) -> None:
    on_mariadb.made()
    source = r"o'clock \ `shop` ä.1"
    for table in ("outbox", "outbox_heads"):
        literal = Dialect.MYSQL.literal(source)
        on_mariadb.query(f"alter table {table} alter column source set default {literal}")
    with connected(on_mariadb.dsn) as (connection, driver):
        assert read_source(OutboxTable(), Catalog(connection, driver)) == source
    assert on_mariadb.found() == [("DB333", "outbox_heads.source")]


def test_on_sqlite_what_would_be_lost_is_named_instead(on_sqlite: Place) -> None:
    begin = ["--new-incarnation", "--from-source", "orders.1"]
    on_sqlite.made()
    on_sqlite.query("create index mine on outbox (type)", "alter table outbox add column note text")
    done = on_sqlite.init(*begin)
    assert done.returncode == 1
    assert "main.outbox must be created again for another source, but has note, index mine" in done.stderr
    on_sqlite.query("drop index mine", "alter table outbox drop column note", "alter table outbox drop column type")
    done = on_sqlite.init(*begin)
    assert (done.returncode, "lacks type; nothing was changed" in done.stderr) == (1, True)


def test_on_mariadb_a_long_transaction_is_not_waited_for_longer_than_writers_can(on_mariadb: Place) -> None:
    on_mariadb.made()
    with on_mariadb.connect() as connection:
        Outbox().add(connection, ORDER)
        done = on_mariadb.init("--new-incarnation", "--from-source", "orders.1")
        assert done.returncode == 75
        assert "Another transaction blocked this one" in done.stderr
        connection.rollback()
    assert on_mariadb.init("--new-incarnation", "--from-source", "orders.1").returncode == 0


def test_a_database_other_than_the_specs_is_refused(on_mariadb: Place, mariadb: MariaDb, tmp_path: Path) -> None:
    other = Place.on_mariadb(tmp_path, mariadb)
    on_mariadb.spec.write_text(on_mariadb.spec.read_text().replace(other.name, on_mariadb.name))
    for way in ([], ["--check"], ["--new-incarnation", "--from-source", "orders.1"]):
        done = on_mariadb.init(*way, dsn=other.dsn)
        assert done.returncode == 2
        assert f"the DSN leads to the database '{other.name}', but the spec names '{on_mariadb.name}'" in (done.stderr)
    assert other.query("show tables") == []


def test_a_dsn_of_another_kind_is_refused_by_every_command(place: Place) -> None:
    for command in (
        ["init"],
        ["init", "--check"],
        ["partitions"],
        ["prune", "--keep=7d", "--without-topics"],
        ["deploy-connector", "--connect-url=http://x"],
    ):
        wrong = run_here(*command[:1], str(place.spec), *command[1:], "--dsn", "postgresql://a:secret@nowhere/b")
        assert wrong.returncode == 2, wrong.stderr
        assert "secret" not in wrong.stderr
    wrong = run_here("init", str(place.spec), "--dsn", "postgresql://a:secret@nowhere/b")
    assert "the DSN leads to PostgreSQL, but " in wrong.stderr


def test_what_is_postgresqls_alone_is_refused(place: Place) -> None:
    partitions = run_here("partitions", str(place.spec), "--dsn", place.dsn)
    assert (partitions.returncode, "the spec has no outbox.partitions" in partitions.stderr) == (2, True)
    for command in (["deploy-connector", "--connect-url", "http://x"], ["prune", "--keep=7d", "--without-topics"]):
        refused = run_here(command[0], str(place.spec), "--dsn", place.dsn, *command[1:])
        assert (refused.returncode, "Traceback" in refused.stderr) == (2, False)


def test_sqlite_says_that_it_has_no_roles(on_sqlite: Place) -> None:
    for way in (["--grants"], ["--check", "--writer-role", "orders_writer"]):
        done = on_sqlite.init(*way)
        assert done.returncode == 2
        assert "SQLite has no roles: write access to the file gives all privileges" in done.stderr


def test_a_driver_that_is_missing_is_named_with_its_extra(tmp_path: Path) -> None:
    (tmp_path / "pymysql.py").write_text("raise ModuleNotFoundError('no pymysql', name='pymysql')")
    place = Place(
        Dialect.MYSQL, "x", tmp_path / "orders.yaml", "", MariaDbDsn(host="", port=1, user="", password="", database="")
    )
    place.write_spec()
    done = run_program(
        "init", str(place.spec), "--dsn", "mysql://a:secret@127.0.0.1/x", env={"PYTHONPATH": str(tmp_path)}
    )
    assert done.returncode == 1
    assert "this command needs the package pymysql" in done.stderr
    assert "pip install 'cdc-outbox[mysql]'" in done.stderr


def test_a_password_that_is_wrong_is_not_told(on_mariadb: Place) -> None:
    done = on_mariadb.init(dsn=on_mariadb.dsn.replace("root:", "root:secret"))
    assert done.returncode == 1
    assert "Access denied" in done.stderr
    assert "secret" not in done.stderr
    assert "Traceback" not in done.stderr
