"""`cdc-outbox preflight` against a real MariaDB, whose settings are put back; nothing is changed by looking."""

import json
import struct
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pymysql
import pytest

from cdc_outbox.connect.binlog_database import BinlogDatabase
from cdc_outbox.spec import parse_spec
from cdc_outbox.testing import MariaDb, MariaDbDsn
from tests.support.commands import run_here
from tests.support.places import Place
from tests.support.pymysql_connections import connect_pymysql

REGISTER_REPLICA = 0x15
INSERT = "insert into outbox (id, aggregatetype, aggregateid, type) values (uuid(), 'order', '1', 'x')"

REVOKE = "revoke all privileges on outbox from {user}"


@pytest.fixture
def place(mariadb: MariaDb, tmp_path: Path) -> Iterator[Place]:
    """Everything as `init` makes it, and a connector's user who may log in."""
    made = Place.on_mariadb(tmp_path, mariadb)
    made.made()
    printed = run_here("init", str(made.spec), "--grants").stdout
    made.query(*(part for part in printed.rstrip().removesuffix(";").split(";\n") if part.strip()))
    made.query(f"alter user {connector(made)} identified by 'x' account unlock")
    yield made
    made.query(f"drop user if exists {connector(made)}")


def connector(place: Place) -> str:
    return f"'{place.name}_connector'@'%'"


def look(place: Place, dsn: str = "") -> list[dict[str, Any]]:
    """Return each finding but for the note that Connect was not asked, and hold that the exit code says the same."""
    done = run_here("preflight", str(place.spec), "--dsn", dsn or place.dsn, "--output", "json")
    findings = json.loads(done.stdout)["findings"]
    assert done.returncode == any(finding["severity"] == "error" for finding in findings), done.stderr
    assert all(finding["remedy"] for finding in findings)
    return [finding for finding in findings if finding["code"] != "DB601"]


def found(place: Place, dsn: str = "") -> list[tuple[str, str, str]]:
    """Return severity, code and place of each."""
    return [(finding["severity"], finding["code"], finding["path"]) for finding in look(place, dsn)]


@contextmanager
def server_setting(place: Place, name: str, value: str) -> Iterator[None]:
    """Change one setting for all, and put it back."""
    [(before,)] = place.query(f"select @@global.{name}")
    try:
        place.query(f"set global {name} = {value}")
        yield
    finally:
        place.query(f"set global {name} = {before if isinstance(before, int) else repr(before)}")


def test_what_init_made_is_in_order(place: Place) -> None:
    assert found(place) == []


@pytest.mark.parametrize(
    ("setting", "value", "severity", "code"),
    [
        ("binlog_format", "MIXED", "error", "DB122"),
        ("binlog_row_image", "MINIMAL", "error", "DB123"),
        ("binlog_expire_logs_seconds", "86400", "warning", "DB127"),
        ("gtid_strict_mode", "0", "note", "DB128"),
        ("log_bin_compress", "1", "error", "DB129"),
    ],
)
def test_a_setting_is_found(place: Place, setting: str, value: str, severity: str, code: str) -> None:
    with server_setting(place, setting, value):
        assert found(place) == [(severity, code, setting)]
    assert found(place) == []


@pytest.mark.parametrize(
    ("change", "severity", "code", "where"),
    [
        ("drop user {user}", "error", "DB201", "{name}_connector"),
        ("alter user {user} account lock", "error", "DB207", "{name}_connector"),
        ("revoke replication slave on *.* from {user}", "error", "DB208", "{name}_connector"),
        ("revoke binlog monitor on *.* from {user}", "error", "DB208", "{name}_connector"),
        (REVOKE, "error", "DB208", "{name}_connector"),
        ("drop table outbox", "error", "DB301", "outbox"),
        ("alter table outbox drop column source", "error", "DB303", "outbox.source"),
        ("alter table outbox modify created_at timestamp(6)", "error", "DB304", "outbox.created_at"),
        ("alter table outbox modify id binary(16)", "error", "DB304", "outbox.id"),
        ("alter table outbox modify payload longblob", "error", "DB304", "outbox.payload"),
        ("rename table outbox to old; create view outbox as select * from old", "error", "DB305", "outbox"),
        ("alter table outbox modify id varchar(35)", "error", "DB314", "outbox.id"),
        ("alter table outbox_heads alter column source set default 'shop.1'", "error", "DB333", "outbox_heads.source"),
        ("alter table outbox modify aggregateid varchar(100)", "warning", "DB315", "outbox.aggregateid"),
        ("alter table outbox drop primary key", "warning", "DB316", "outbox"),
        ("alter table outbox drop primary key, add index (id)", "warning", "DB316", "outbox"),
        ("alter table outbox engine = Aria", "error", "DB361", "outbox"),
        ("alter table outbox engine = MyISAM", "error", "DB361", "outbox"),
        (
            "alter table outbox modify aggregateid varchar(100) character set latin1 not null",
            "warning",
            "DB362",
            "outbox.aggregateid",
        ),
        (INSERT, "warning", "DB523", "outbox"),
    ],
)
def test_each_state_is_found_with_its_place(place: Place, change: str, severity: str, code: str, where: str) -> None:
    place.query(*change.format(user=connector(place)).split("; "))
    [first, *more] = look(place)
    assert (first["severity"], first["code"], first["path"]) == (severity, code, where.format(name=place.name))
    assert {item["code"] for item in more} <= {"DB315"}  # `modify` takes `not null` away
    # A remedy that is a statement helps.
    if first["remedy"].startswith("alter ") and "…" not in first["remedy"]:
        place.query(first["remedy"])
        assert code not in {item[1] for item in found(place)}


def test_what_works_is_not_found(place: Place) -> None:
    place.query(f"grant select on {place.name}.* to {connector(place)}", REVOKE.format(user=connector(place)))
    place.query("alter table outbox modify type enum('x', 'y') not null")
    place.query("alter table outbox partition by key (id) partitions 2")
    assert found(place) == []


def test_rights_that_come_by_a_role_are_not_called_missing(place: Place) -> None:
    role = f"{place.name}_role"
    place.query(
        REVOKE.format(user=connector(place)),
        f"create role {role}",
        f"grant select on outbox to {role}",
        f"grant {role} to {connector(place)}",
    )
    assert found(place) == [("note", "DB602", f"{place.name}_connector")]
    place.query(f"drop role {role}")


def test_one_account_that_is_as_it_should_be_is_enough(place: Place) -> None:
    elsewhere = f"'{place.name}_connector'@'10.0.0.1'"
    place.query(f"create user {elsewhere} account lock")
    assert found(place) == []
    place.query(f"drop user {elsewhere}")


def test_the_servers_own_number_is_refused(place: Place) -> None:
    spec = place.spec.read_text()
    place.spec.write_text(spec.replace("  user:", "  server_id: 1\n  user:"))
    assert found(place) == [("error", "DB125", "1")]


def test_a_replica_with_the_connectors_number_is_found(place: Place) -> None:
    number = int(parse_spec(place.spec.read_text()).database.server_id)
    assert isinstance(place.address, MariaDbDsn)
    with closing(connect_pymysql(place.address)) as replica:
        # As a replica makes itself known: its number, no host, user or password, no port, no rank, no master.
        known: Any = replica
        known._execute_command(REGISTER_REPLICA, struct.pack("<I3xHII", number, 0, 0, 0))
        known._read_ok_packet()
        assert found(place) == [("error", "DB126", str(number))]


def test_another_database_is_found(place: Place) -> None:
    [first, *_] = found(place, place.dsn.replace(place.name, "mysql"))
    assert first == ("error", "DB101", "mysql")


def test_what_the_role_may_not_see_is_said(place: Place) -> None:
    assert isinstance(place.address, MariaDbDsn)
    own = replace(place.address, user=f"{place.name}_connector", password="x").url("mysql").partition("?")[0]
    assert found(place, own) == [
        ("note", "DB602", "the server ids of replicas"),
        ("note", "DB602", "the privileges of the connector's user"),
    ]


def test_looking_changes_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.query(INSERT)
    before = place.query("select * from outbox")
    count = BinlogDatabase._count

    def write(database: BinlogDatabase) -> Any:
        with database._connection.cursor() as cursor:
            cursor.execute(INSERT)
        return count(database)

    monkeypatch.setattr(BinlogDatabase, "_count", write)
    with pytest.raises(pymysql.err.OperationalError, match="READ ONLY transaction"):
        run_here("preflight", str(place.spec), "--dsn", place.dsn)
    assert place.query("select * from outbox") == before
