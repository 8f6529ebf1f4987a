"""What `--dsn` takes: which driver it leads to, and what is refused without a word of a password."""

import sqlite3
import ssl
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from cdc_outbox import ConfigError
from cdc_outbox.cli.database import connected, dialect_of
from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.drivers import mysql
from cdc_outbox.databases.drivers.mysql_dsn import options_of
from cdc_outbox.databases.drivers.sqlite3 import Sqlite3
from cdc_outbox.errors import DatabaseUnavailableError


@pytest.mark.parametrize(
    ("dsn", "dialect"),
    [
        ("postgresql://orders@localhost/orders", Dialect.POSTGRESQL),
        ("postgres:///orders", Dialect.POSTGRESQL),
        ("host=localhost password=mysql://x", Dialect.POSTGRESQL),
        ("mysql://orders@localhost/orders", Dialect.MYSQL),
        ("mariadb://orders@localhost/orders", Dialect.MYSQL),
        ("sqlite:///orders.db", Dialect.SQLITE),
        ("MySQL://orders@localhost/orders", Dialect.MYSQL),
    ],
)
def test_the_scheme_picks_the_driver(dsn: str, dialect: Dialect) -> None:
    assert dialect_of(dsn) is dialect


def test_a_scheme_that_nobody_knows_is_refused_with_those_that_are() -> None:
    with pytest.raises(ConfigError, match=r"a DSN cannot begin with mysql\+pymysql://") as caught:
        dialect_of("mysql+pymysql://orders:secret@localhost/orders")
    assert caught.value.hint == "Write mysql://, without a driver."
    with pytest.raises(ConfigError, match=r"a DSN cannot begin with oracle://") as caught:
        dialect_of("oracle://localhost/orders")
    assert "mariadb://" in caught.value.hint


def test_a_dsn_of_another_kind_is_refused_before_anybody_connects() -> None:
    sentence = "the DSN leads to MariaDB or MySQL, but PostgreSQL is required"
    with (
        pytest.raises(ConfigError, match=sentence),
        connected("mysql://a:b@nowhere.invalid/orders", DatabaseKind.POSTGRESQL),
    ):
        pass
    for kind in (DatabaseKind.MARIADB, DatabaseKind.MYSQL):
        with (
            pytest.raises(ConfigError, match="the DSN leads to PostgreSQL, but MariaDB or MySQL"),
            connected("host=nowhere.invalid", kind),
        ):
            pass


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What PyMySQL was asked for."""
    import pymysql

    options: dict[str, Any] = {}
    monkeypatch.setattr(pymysql, "connect", lambda **given: options.update(given))
    return options


def test_a_url_is_taken_apart_and_each_part_decoded(given: dict[str, Any]) -> None:
    mysql.connect("mariadb://a%40b:p%2F%3Aw%25@[::1]:3307/or%20ders")
    wanted = {"user": "a@b", "password": "p/:w%", "host": "::1", "port": 3307, "database": "or ders"}
    assert wanted.items() <= given.items()
    assert given["autocommit"] is True
    mysql.connect("mysql://localhost/orders")
    assert (given["host"], given["port"]) == ("localhost", 3306)


@pytest.mark.parametrize(
    "url",
    [
        "mysql://orders:sec/ret@localhost/orders",
        "mysql://orders:12/sec@ret@localhost/orders",
        "mysql://orders:sec?ret@localhost/orders",
        "mysql://orders:sec#ret@localhost/orders",
        "mysql://orders:sec[ret@localhost/orders",
        "mysql://orders:sec℀ret@localhost/orders",
        "mysql://orders:secret@localhost:sec/orders",
        "mysql://orders:secret@localhost:99999/orders",
        "mysql://orders:secret@localhost",
        "mysql://orders:secret@/orders",
        "mysql://orders:secret@localhost/orders?ssl=ret",
        "mysql://orders:secret@localhost/orders?ssl_mode=secure",
        "mysql://orders:secret@localhost/orders?ssl_mode=required&ssl_mode=disabled",
        "mysql://orders:secret@localhost/orders?ssl_ca=",
        "mysql://orders:secret@localhost/orders?ssl_key=secret.pem",
    ],
)
def test_a_url_that_cannot_be_read_is_not_quoted(url: str, given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        mysql.connect(url)
    assert "sec" not in f"{caught.value} {caught.value.hint}"
    assert caught.value.__context__ is None
    assert not given


@pytest.mark.parametrize(
    ("dsn", "offer"),
    [
        ("hots=localhost password=secret", "Did you mean 'host'?"),
        ("postgresql://orders:secret@localhost/orders?slmode=require", "Did you mean 'sslmode'?"),
        ("host=localhost password=my s3=1", "In a postgresql:// URI"),
        ("host=localhost password=my secret", "In a postgresql:// URI"),
    ],
)
def test_a_key_that_libpq_does_not_know_is_answered_with_the_nearest(dsn: str, offer: str) -> None:
    with pytest.raises(ConfigError, match="the DSN cannot be read") as caught, connected(dsn):
        pass
    assert caught.value.hint.startswith(offer)
    assert "secret" not in f"{caught.value} {caught.value.hint}"
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    ("query", "verifies", "checks_name"),
    [
        ("ssl_mode=required", ssl.CERT_NONE, False),
        ("ssl_mode=verify_ca", ssl.CERT_REQUIRED, False),
        ("ssl_mode=verify_identity", ssl.CERT_REQUIRED, True),
    ],
)
def test_a_url_says_how_far_a_certificate_is_verified(query: str, *, verifies: int, checks_name: bool) -> None:
    context = options_of(f"mysql://localhost/orders?{query}")["ssl"]
    assert (context.verify_mode, context.check_hostname) == (verifies, checks_name)


def test_a_url_may_turn_tls_off_or_say_nothing_of_it() -> None:
    assert options_of("mysql://localhost/orders?ssl_mode=disabled")["ssl_disabled"] is True
    assert not {"ssl", "ssl_disabled"} & options_of("mysql://localhost/orders").keys()


def test_a_file_of_tls_that_is_not_there_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="No such file"):
        options_of("mysql://localhost/orders?ssl_ca=/nowhere.pem")


def test_a_server_that_does_not_answer_is_our_error() -> None:
    with pytest.raises(DatabaseUnavailableError) as caught:
        mysql.connect("mysql://orders:secret@127.0.0.1:1/orders")
    assert "secret" not in str(caught.value)


def test_a_file_is_found_here_or_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "or ders%41.db"
    path.touch()
    monkeypatch.chdir(tmp_path)
    for dsn in (f"sqlite:///{path.name}", f"sqlite:///{path}"):
        with connected(dsn, DatabaseKind.SQLITE) as (connection, driver):
            assert isinstance(driver, Sqlite3)
            driver.fetch(connection, "create table if not exists t (a int)")
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("select count(*) from t").fetchall() == [(0,)]


@pytest.mark.parametrize(
    "dsn", ["sqlite://", "sqlite:///", "sqlite:///:memory:", "sqlite://x.db", "sqlite:///x.db?a=b"]
)
def test_what_is_no_file_is_refused(dsn: str) -> None:
    with pytest.raises(ConfigError, match="the DSN cannot be read"), connected(dsn):
        pass


def test_a_file_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no database file"), connected(f"sqlite:///{tmp_path}/x.db"):
        pass
    assert not list(tmp_path.iterdir())
