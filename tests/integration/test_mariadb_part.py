"""MariaDB as a part of the stack."""

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import pymysql
import pytest
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from cdc_outbox.errors import StackError
from cdc_outbox.testing import MariaDb, MariaDbDsn, Stack, StackConfig
from cdc_outbox.testing.mariadb import make_mariadb
from tests.support.pymysql_connections import connect_pymysql
from tests.support.rig import open_folder


@contextmanager
def connect(dsn: MariaDbDsn) -> Iterator["Connection[Cursor]"]:
    connection = connect_pymysql(dsn)
    try:
        yield connection
    finally:
        connection.close()


def rows(connection: "Connection[Cursor]", statement: str) -> tuple[tuple[Any, ...], ...]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall()


@pytest.fixture(scope="module")
def mariadb(outbox_stack: Stack) -> Iterator[MariaDb]:
    """A server of its own, for it is killed and paused."""
    with open_folder() as folder:
        server = make_mariadb(folder / "mariadb", outbox_stack.folder.reserve_port())
        server.start()
        yield server
        server.kill()


@pytest.fixture
def database(mariadb: MariaDb) -> MariaDbDsn:
    return mariadb.create_database(f"d{uuid4().hex[:10]}")


def test_it_writes_whole_rows_into_its_binlog_and_is_strict(database: MariaDbDsn) -> None:
    with connect(database) as connection:
        for variable, value in {
            "log_bin": 1,
            "binlog_format": "ROW",
            "binlog_row_image": "FULL",
            "server_id": 1,
            "gtid_strict_mode": 1,
            "default_storage_engine": "InnoDB",
            "character_set_database": "utf8mb4",
            "character_set_client": "utf8mb4",
            "system_time_zone": "UTC",
            "socket": "",
        }.items():
            assert rows(connection, f"select @@{variable}") == ((value,),), variable
        [(mode,)] = rows(connection, "select @@sql_mode")
        assert "STRICT_TRANS_TABLES" in mode
        [(version,)] = rows(connection, "select version()")
        assert tuple(map(int, version.split("-")[0].split(".")[:2])) >= (10, 11)


@pytest.mark.parametrize("user", ["root", "nobody"])
def test_it_asks_for_a_password(user: str, mariadb: MariaDb) -> None:
    with (
        pytest.raises(pymysql.OperationalError, match="Access denied"),
        connect(mariadb.dsn(user=user, password="wrong")),
    ):
        pass
    with connect(mariadb.dsn()) as connection:
        # Other tests make accounts here; a server of its own has nobody without a name, and root with a password alone.
        own = "select User, authentication_string <> '' from mysql.user where User in ('', 'root')"
        assert rows(connection, own) == (("root", 1),)
    assert mariadb.password not in repr(mariadb.dsn())


def test_pymysql_mysqlclient_and_sqlalchemy_reach_it_and_keep_every_character(database: MariaDbDsn) -> None:
    import MySQLdb
    import sqlalchemy

    text = "größer als 𝄞"
    with connect(database) as connection:
        rows(connection, "create table words (word text)")
        with connection.cursor() as cursor:
            cursor.execute("insert into words values (%s)", (text,))
        connection.commit()
    with closing(MySQLdb.connect(**database.parameters())) as other, other.cursor() as cursor:
        cursor.execute("select word from words")
        assert cursor.fetchall() == ((text,),)
    for scheme in ("mysql+pymysql", "mariadb+pymysql", "mysql+mysqldb"):
        engine = sqlalchemy.create_engine(database.url(scheme), poolclass=sqlalchemy.NullPool)
        with engine.connect() as connected:
            assert connected.scalar(sqlalchemy.text("select word from words")) == text


def test_a_url_keeps_what_a_password_may_hold() -> None:
    import sqlalchemy

    dsn = MariaDbDsn(host="h", port=1, user="u@x", password="p:/?#[]@ ü%", database="a b")
    url = sqlalchemy.make_url(dsn.url())
    assert (url.username, url.password, url.database) == ("u@x", "p:/?#[]@ ü%", "a b")


def test_its_user_owns_the_data_and_nothing_else(mariadb: MariaDb) -> None:
    user = psutil.Process(mariadb.pid).uids().effective
    if os.geteuid() == 0:
        assert {path.name for path in mariadb.folder.iterdir() if path.stat().st_uid == user} == {"data", "tmp"}
    for path in (mariadb.folder, mariadb.log, mariadb.folder / "process.json"):
        assert path.lstat().st_uid == os.geteuid(), path
        assert path.lstat().st_mode & 0o022 == 0, path
    if user != os.geteuid():
        planted = mariadb.folder / "planted"
        with connect(mariadb.dsn()) as connection, pytest.raises(pymysql.Error, match="Permission denied"):
            rows(connection, f"select 'x' into outfile '{planted}'")
        assert not planted.exists()


def test_a_databases_name_is_only_a_name(mariadb: MariaDb) -> None:
    name = f"x`y {uuid4().hex[:6]}; drop database mysql"
    with connect(mariadb.create_database(name)) as connection:
        assert rows(connection, "select database()") == ((name,),)


def test_what_was_committed_survives_kill_9_and_what_was_not_does_not(mariadb: MariaDb, database: MariaDbDsn) -> None:
    with connect(database) as connection, connect(database) as open_one:
        rows(connection, "create table numbers (number int auto_increment primary key)")
        for _ in range(100):
            rows(connection, "insert into numbers values ()")
            connection.commit()
        rows(open_one, "insert into numbers values (1000)")
        [(position,)] = rows(connection, "select @@gtid_binlog_pos")
        mariadb.kill()
        assert not mariadb.is_running
        assert not mariadb.answers()
        mariadb.start()
    with connect(database) as connection:
        assert rows(connection, "select count(*), max(number) from numbers") == ((100, 100),)
        # Table and binlog agree, or a connector would publish what is not there, or not what is.
        assert rows(connection, "select @@gtid_binlog_pos") == ((position,),)


def test_it_is_paused_resumed_and_restarted_as_every_part(mariadb: MariaDb, database: MariaDbDsn) -> None:
    mariadb.pause()
    try:
        assert mariadb.state() == "paused"
        assert not mariadb.answers()
    finally:
        mariadb.resume()
    assert mariadb.answers()
    before = mariadb.pid
    mariadb.restart()
    assert mariadb.pid != before
    assert "Shutdown complete" in mariadb.log.read_text(), "it was ended by force"
    with connect(database):
        pass


def test_it_comes_up_in_a_deep_folder_and_leaves_nothing(server_folder: Path) -> None:
    root = server_folder / ("deep" * 30)
    root.mkdir()
    with Stack(StackConfig(name="mariadb", kafka=False, mariadb=True, root=root)) as stack:
        assert [part.name for part in stack.parts] == ["postgres", "mariadb"]
        assert stack.folder.find_states() == {"mariadb": "running", "postgres": "running"}
        mariadb, outside = stack.mariadb, stack.folder.path
        mariadb.kill()
        mariadb.start()
        process, port = psutil.Process(mariadb.pid), mariadb.port
        assert process.uids().effective == process.uids().real != 0
        opened = [Path(file.path) for file in process.open_files()]
        assert opened
        assert all(outside in path.parents for path in opened), opened
        with pytest.raises(StackError, match="the stack already has a MariaDB server"):
            stack.add_mariadb()
    assert list(root.iterdir()) == []
    assert not process.is_running()
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0
    assert not mariadb.is_running


def test_once_started_it_answers(outbox_stack: Stack, server_folder: Path) -> None:
    part = make_mariadb(server_folder / "mariadb", outbox_stack.folder.reserve_port())
    try:
        part.start()
        assert part.answers()
    finally:
        part.stop()


def test_a_stack_has_none_unless_asked() -> None:
    with pytest.raises(StackError, match="was made without MariaDB"):
        _ = Stack().mariadb


@pytest.mark.parametrize("missing", ["_SERVER_FOLDERS", "_SCRIPT_FOLDERS"])
def test_a_missing_server_is_one_sentence_with_the_package_that_has_it(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"cdc_outbox.testing.mariadb.{missing}", ())
    if missing == "_SERVER_FOLDERS":
        monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StackError, match=r"MariaDB server is not installed.*mariadb-server-core") as caught:
        make_mariadb(tmp_path / "mariadb", 1)
    assert "apt-get install mariadb-server-core" in caught.value.hint
    assert list(tmp_path.iterdir()) == []


def test_a_missing_driver_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymysql", None)
    with pytest.raises(StackError, match="needs the package pymysql") as caught:
        make_mariadb(tmp_path / "mariadb", 1)
    assert "cdc-outbox[testing,mysql]" in caught.value.hint
