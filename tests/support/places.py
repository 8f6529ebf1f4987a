"""Databases that are not PostgreSQL, as `cdc-outbox init` finds them: a DSN, a spec, a way to look."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.drivers.mysql import PyMySql
from cdc_outbox.databases.drivers.sqlite3 import Sqlite3
from cdc_outbox.testing import MariaDb, MariaDbDsn
from tests.support.commands import run_here
from tests.support.pymysql_connections import connect_pymysql

_MARIADB = """\
database:
  kind: mariadb
  host: nowhere.invalid
  name: {name}
  user: {name}_connector
  password: ${{env:PASSWORD}}
"""
_SQLITE = "database: {kind: sqlite}\n"


def _mariadb_dsn(address: MariaDbDsn) -> str:
    # The server offers no TLS, and to find out PyMySQL would read the system's certificates at each connection.
    return address.url("mariadb").partition("?")[0] + "?ssl_mode=disabled"


@dataclass(frozen=True)
class Place:
    """An empty database and a spec that speaks of it."""

    dialect: Dialect
    name: str
    spec: Path
    dsn: str
    address: Path | MariaDbDsn

    @classmethod
    def on_sqlite(cls, folder: Path) -> "Place":
        path = folder / "orders.db"
        path.touch()
        place = cls(Dialect.SQLITE, "orders", folder / "orders.yaml", f"sqlite:///{path}", path)
        place.write_spec()
        return place

    @classmethod
    def on_mariadb(cls, folder: Path, mariadb: MariaDb) -> "Place":
        name = f"p{uuid4().hex[:10]}"
        address = mariadb.create_database(name)
        place = cls(Dialect.MYSQL, name, folder / "orders.yaml", _mariadb_dsn(address), address)
        place.write_spec()
        return place

    @property
    def outbox(self) -> str:
        """The outbox as findings call it."""
        return "main.outbox" if self.dialect is Dialect.SQLITE else "outbox"

    @property
    def database(self) -> str:
        """The database as people call it."""
        return str(self.address) if self.dialect is Dialect.SQLITE else self.name

    def write_spec(self, extra: str = "", source: str = "orders") -> None:
        database = _SQLITE if self.dialect is Dialect.SQLITE else _MARIADB.format(name=self.name)
        self.spec.write_text(
            f"version: 1\nname: {source}\n{database}aggregates: {{order: {{}}, metric: {{sequence: none}}}}\n{extra}"
        )

    def init(self, *options: str, dsn: str = "") -> Any:
        """Run the command, as the superuser unless another DSN is given."""
        return run_here("init", str(self.spec), *options, "--dsn", dsn or self.dsn)

    def made(self) -> None:
        """Make everything."""
        done = self.init()
        assert done.returncode == 0, done.stderr

    def found(self) -> list[tuple[str, str]]:
        """Return code and place of each difference, and hold that the exit code says the same."""
        done = self.init("--check")
        lines = done.stdout.splitlines()
        assert done.returncode == (3 if lines else 0), done.stderr
        return [(line.split(": ")[1].split()[1], line.split(": ")[0].removeprefix("database ")) for line in lines]

    @contextmanager
    def connect(self) -> Iterator[Any]:
        """Open a connection that begins transactions by itself."""
        opened: Any = sqlite3.connect(self.address) if isinstance(self.address, Path) else connect_pymysql(self.address)
        with closing(opened):
            yield opened

    def query(self, *statements: str) -> list[tuple[Any, ...]]:
        """Execute statements, commit, and return the last one's rows."""
        rows: list[tuple[Any, ...]] = []
        driver = Sqlite3() if self.dialect is Dialect.SQLITE else PyMySql("pymysql")
        with self.connect() as connection:
            for statement in statements:
                rows = driver.fetch(connection, statement)
            connection.commit()
        return rows
