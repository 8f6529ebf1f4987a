"""What `init` makes, as the catalogs of PostgreSQL and MariaDB say it: outboxes of every mode, inbox, roles."""

import difflib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from cdc_outbox.testing import MariaDb, Stack
from tests.support.catalogs import mariadb_catalog, mariadb_grants, postgresql_catalog, without_dates
from tests.support.commands import run_command
from tests.support.golden import golden, neutral
from tests.support.places import Place

OUTBOXES = (
    "mode: delete",
    "mode: message",
    "payload_type: bytes",
    "format: cloudevents-structured",
    "format: envelope, payload_type: expanded",
    "headers: {tenant: tenant-id, kind: kind}",
    'table: "a.b c"',
)
PARTITIONED = ("partitions: day", "partitions: month, payload_type: bytes")
SPEC = """\
version: 1
name: {name}
database:
  kind: postgresql
  host: ${{env:POSTGRES_HOST}}
  name: ${{env:DATABASE}}
  user: {name}_connector
  password: ${{env:CONNECTOR_PASSWORD}}
aggregates:
  order: {{}}
  metric: {{sequence: none}}
"""


def with_differences(base: list[str], variants: dict[str, list[str]], names: dict[str, str]) -> str:
    """Return the base whole, and what each variant changes in it."""
    plain = [neutral(line, names) for line in base]
    lines = list(plain)
    for name, variant in variants.items():
        other = [neutral(line, names) for line in variant]
        lines += ["", f"== {name}", *list(difflib.unified_diff(plain, other, lineterm="", n=0))[2:]]
    return "\n".join(line for line in lines if not line.startswith("@@"))


class Server:
    """PostgreSQL, with a database for each catalog and roles of their own, which are dropped at the end."""

    def __init__(self, stack: Stack, folder: Path) -> None:
        self._stack, self._folder = stack, folder
        self.name = f"g{uuid4().hex[:10]}"
        self._count = 0
        self.dsns: list[str] = []

    def made(self, extra: str = "", *options: str, grants: bool = False) -> list[str]:
        """Return the catalog of a new database in which ``init`` has run."""
        self._count += 1
        dsn = self._stack.postgres.create_database(f"{self.name}_{self._count}")
        self.dsns.append(dsn)
        spec = self._folder / "x.yaml"
        spec.write_text(SPEC.format(name=self.name) + extra)
        done = run_command("init", spec, *options, "--dsn", dsn)
        assert done.returncode == 0, done.stderr
        with psycopg.connect(dsn, autocommit=True) as connection:
            if grants:
                printed = run_command("init", spec, *options, "--grants")
                assert printed.returncode == 0, printed.stderr
                connection.execute(printed.stdout.encode())
            return without_dates(postgresql_catalog(connection))

    def drop_roles(self) -> None:
        for dsn in self.dsns:
            with psycopg.connect(dsn, autocommit=True) as connection:
                rows = connection.execute("select rolname from pg_roles where starts_with(rolname, %s)", (self.name,))
                for (role,) in rows.fetchall():
                    name = psycopg.sql.Identifier(role)
                    connection.execute(psycopg.sql.SQL("drop owned by {}").format(name))
                    with suppress(psycopg.errors.DependentObjectsStillExist):
                        connection.execute(psycopg.sql.SQL("drop role {}").format(name))


@pytest.fixture
def server(outbox_stack: Stack, tmp_path: Path) -> Iterator[Server]:
    server = Server(outbox_stack, tmp_path)
    yield server
    server.drop_roles()


def test_the_catalog_of_postgresql(server: Server) -> None:
    variants = {outbox: server.made(f"outbox: {{{outbox}}}\n") for outbox in (*OUTBOXES, *PARTITIONED)}
    text = with_differences(server.made(), variants, {server.name: "orders"})
    golden("catalog/postgresql.txt").check(text)


def test_the_inbox_and_the_privileges_on_postgresql(server: Server) -> None:
    base = server.made("", "--inbox", grants=True)
    variants = {"mode: delete": server.made("outbox: {mode: delete}\n", "--inbox", grants=True)}
    text = with_differences(base, variants, {server.name: "orders"})
    golden("catalog/postgresql-roles.txt").check(text)


def of_mariadb(place: Place, *options: str) -> list[str]:
    """Return the catalog after ``init``, and remove what it made."""
    done = place.init(*options)
    assert done.returncode == 0, done.stderr
    found = mariadb_catalog(place.query, place.name)
    tables = place.query(f"select table_name from information_schema.tables where table_schema = '{place.name}'")  # noqa: S608
    place.query("set foreign_key_checks = 0", *(f"drop table `{table}`" for (table,) in tables))
    return found


def test_the_catalog_of_mariadb(mariadb: MariaDb, tmp_path: Path) -> None:
    place = Place.on_mariadb(tmp_path, mariadb)
    base, variants = of_mariadb(place, "--inbox"), {}
    for outbox in OUTBOXES:
        if "message" not in outbox:
            place.write_spec(f"outbox: {{{outbox}}}\n")
            variants[outbox] = of_mariadb(place, "--inbox")
    text = with_differences(base, variants, {place.name: "orders"})
    golden("catalog/mariadb.txt").check(text)


def test_the_privileges_on_mariadb(mariadb: MariaDb, tmp_path: Path) -> None:
    place = Place.on_mariadb(tmp_path, mariadb)
    place.made()
    assert place.init("--inbox").returncode == 0
    names = [f"--{kind}-role={place.name}_{kind}" for kind in ("writer", "migrator", "consumer")]
    printed = run_command("init", place.spec, "--inbox", "--grants", *names)
    assert printed.returncode == 0, printed.stderr
    try:
        place.query(*(part for part in printed.stdout.rstrip().removesuffix(";").split(";\n") if part.strip()))
        text = "\n".join(mariadb_grants(place.query, place.name))
    finally:
        accounts = place.query(f"select user, host from mysql.user where user like '{place.name}\\_%'")  # noqa: S608
        place.query("select 1", *(f"drop user '{user}'@'{host}'" for user, host in accounts))
    golden("catalog/mariadb-roles.txt").check(neutral(text, {place.name: "orders"}))
