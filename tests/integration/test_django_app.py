"""The Django app in a project of its own, run by manage.py as docs/schema.md says."""

import json
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cdc_outbox import OutboxTable
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.drivers import find_driver
from cdc_outbox.databases.migrations import upgrade
from cdc_outbox.testing import MariaDb, MariaDbDsn, Stack
from cdc_outbox.writer.outbox_schema import outbox_component
from tests.support.commands import run_command
from tests.support.patience import patience
from tests.support.pipeline import Pipeline
from tests.support.postgresql import objects
from tests.support.pymysql_connections import connect_pymysql
from tests.support.rig import one, postgres_program
from tests.support.specs import for_any_database

ROOT = Path(__file__).parents[2]
DJANGO = (ROOT / "docs" / "schema.md").read_text().partition("\n## Django\n")[2].partition("\n## ")[0]
BLOCKS = {
    text.partition("\n")[0].removeprefix("# "): text
    for text in re.findall(r"^```python\n(.*?)^```$", DJANGO, re.MULTILINE | re.DOTALL)
}
"""By the file that each says it is."""
SETTINGS, VIEWS, MIGRATION = "settings.py", "orders/views.py", "orders/migrations/0002_tenant.py"
EVENT = """
insert into outbox (id, aggregatetype, aggregateid, type) values ('018f0000-0000-7000-8000-000000000000', 'a', '1', 'X')
"""


@dataclass
class Project:
    """A project in a folder of its own.

    Args:
        databases: Its setting DATABASES.
    """

    folder: Path
    databases: dict[str, Any]

    @classmethod
    def make(cls, folder: Path, databases: dict[str, Any], extra: str = "") -> "Project":
        """Write the files, the documentation's among them, with more settings behind them."""
        shutil.copytree(ROOT / "tests" / "django_project", folder, dirs_exist_ok=True)
        (folder / SETTINGS).write_text(f"from project import *\n\n{BLOCKS[SETTINGS]}\n{extra}")
        (folder / VIEWS).write_text(BLOCKS[VIEWS])
        return cls(folder, databases)

    def manage(self, *arguments: str, fails: bool = False) -> str:
        """Run manage.py, with warnings as errors, and return what it printed."""
        command = [sys.executable, "-W", "error", "manage.py", *arguments]
        done = subprocess.run(
            command,
            cwd=self.folder,
            env={"DATABASES": json.dumps(self.databases), "PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=patience(120),
            check=False,
        )
        assert bool(done.returncode) == fails, done.stdout + done.stderr
        return done.stdout + done.stderr


def on_postgresql(dsn: str) -> dict[str, Any]:
    known = psycopg.conninfo.conninfo_to_dict(dsn)
    keys = {key.upper(): known[key] for key in ("host", "port", "user", "password")}
    return {"ENGINE": "django.db.backends.postgresql", "NAME": known["dbname"], **keys}


def on_mariadb(dsn: MariaDbDsn) -> dict[str, Any]:
    keys = {key.upper(): getattr(dsn, key) for key in ("host", "port", "user", "password")}
    return {"ENGINE": "django.db.backends.mysql", "NAME": dsn.database, **keys}


def on_sqlite(path: Path) -> dict[str, Any]:
    return {"ENGINE": "django.db.backends.sqlite3", "NAME": str(path)}


def outbox_objects(dsn: str) -> list[tuple[object, ...]]:
    """Return what of the catalogue is ours."""
    ours = ("outbox", "orders_outbox", "cdc_outbox_version", "version")
    return [row for row in objects(dsn) if str(row[0]).startswith(ours)]


@pytest.fixture(params=["postgresql", "mariadb", "sqlite"])
def databases(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """One database, whose times Django takes for Tokyo's."""
    if request.param == "sqlite":
        alias = on_sqlite(tmp_path / "orders.db")
    elif request.param == "mariadb":
        mariadb: MariaDb = request.getfixturevalue("mariadb")
        alias = on_mariadb(mariadb.create_database("django_cases"))
    else:
        stack: Stack = request.getfixturevalue("outbox_stack")
        alias = on_postgresql(stack.postgres.create_database("django_cases"))
    return {"default": alias | {"TIME_ZONE": "Asia/Tokyo"}}


def test_admin_model_checks_and_the_documented_view_hold_in_djangos_own_tests(
    tmp_path: Path, databases: dict[str, Any]
) -> None:
    told = Project.make(tmp_path / "project", databases).manage("test", "admin_cases", "check_cases")
    assert re.search(r"Ran (2[0-9]|3[0-9]) tests", told)
    assert "\nOK" in told


def test_migrate_makes_what_init_makes(outbox_stack: Stack, tmp_path: Path) -> None:
    migrated, initialized, scripted = (
        outbox_stack.postgres.create_database(f"django_{name}") for name in ("migrated", "initialized", "scripted")
    )
    spec = tmp_path / "orders.yaml"
    spec.write_text(for_any_database(Pipeline.text("orders")))
    assert run_command("init", str(spec), "--dsn", initialized).returncode == 0
    project = Project.make(tmp_path / "project", {"default": on_postgresql(migrated)})
    told = project.manage("migrate")
    assert "Applying cdc_outbox.0001_initial... OK" in told
    assert outbox_objects(migrated) == outbox_objects(initialized)
    checked = run_command("init", str(spec), "--check", "--dsn", migrated)
    assert (checked.returncode, checked.stdout) == (0, "")
    assert "No changes detected" in project.manage("makemigrations", "--check", "--dry-run")
    project.manage("check", "--database", "default", "--fail-level", "WARNING")

    script = Project(project.folder, {"default": on_postgresql(scripted)}).manage("sqlmigrate", "cdc_outbox", "0001")
    with psycopg.connect(scripted) as connection:
        assert one(connection, "select count(*) from pg_class where relname ~ 'outbox'") == 0
    for _ in range(2):
        psql = [postgres_program("psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", scripted]
        subprocess.run(psql, input=script, text=True, check=True)
    assert outbox_objects(scripted) == outbox_objects(initialized)


def test_what_was_used_is_not_dropped_and_what_was_not_is(outbox_stack: Stack, tmp_path: Path) -> None:
    dsn = outbox_stack.postgres.create_database("django_zero")
    project = Project.make(tmp_path / "project", {"default": on_postgresql(dsn)})
    project.manage("migrate", "cdc_outbox")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(EVENT.encode())
        made = outbox_objects(dsn)
        assert "public.outbox has rows" in project.manage("migrate", "cdc_outbox", "zero", fails=True)
        assert outbox_objects(dsn) == made
        connection.execute("delete from outbox")
        project.manage("migrate", "cdc_outbox", "zero")
        assert all(str(row[0]).startswith("cdc_outbox_version") for row in outbox_objects(dsn))


def test_tables_of_inits_are_taken_over_and_a_changed_setting_is_a_migration(
    outbox_stack: Stack, tmp_path: Path
) -> None:
    dsn = outbox_stack.postgres.create_database("django_changed")
    spec = tmp_path / "orders.yaml"
    spec.write_text(for_any_database(Pipeline.text("orders")))
    assert run_command("init", str(spec), "--dsn", dsn).returncode == 0
    made = outbox_objects(dsn)
    project = Project.make(tmp_path / "project", {"default": on_postgresql(dsn)})
    project.manage("migrate")
    assert outbox_objects(dsn) == made

    with (project.folder / SETTINGS).open("a") as settings:
        settings.write('CDC_OUTBOX |= {"headers": {"tenant": "x-tenant"}}\n')
    (project.folder / MIGRATION).write_text(BLOCKS[MIGRATION])
    project.manage("migrate")
    spec.write_text(for_any_database(Pipeline.text("orders", "outbox: {headers: {tenant: x-tenant}}\n")))
    checked = run_command("init", str(spec), "--check", "--dsn", dsn)
    assert (checked.returncode, checked.stdout) == (0, "")
    project.manage("migrate", "orders", "0001")
    assert len(outbox_objects(dsn)) == len(made) + 1
    assert "No changes detected" in project.manage("makemigrations", "--check", "--dry-run")


def test_the_outbox_is_made_in_its_own_database_only(outbox_stack: Stack, tmp_path: Path) -> None:
    """Also in another schema, partitioned, and under names that must be quoted."""
    default, orders, initialized = (
        outbox_stack.postgres.create_database(f"django_{name}") for name in ("other", "own", "own_initialized")
    )
    for dsn in (orders, initialized):
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute('create schema "Shop"')
    more = 'CDC_OUTBOX |= {"database": "orders", "schema": "Shop", "table": "order outbox", "partitions": "day"}\n'
    aliases = {"default": on_postgresql(default), "orders": on_postgresql(orders)}
    project = Project.make(tmp_path / "project", aliases, more)
    for alias in aliases:
        project.manage("migrate", "cdc_outbox", "--database", alias)
    with psycopg.connect(default) as connection:
        assert one(connection, "select count(*) from pg_class where relname ~ 'outbox'") == 0

    spec = tmp_path / "orders.yaml"
    table = "outbox: {schema: Shop, table: order outbox, partitions: day}\n"
    spec.write_text(for_any_database(Pipeline.text("orders", table)))
    assert run_command("init", str(spec), "--dsn", initialized).returncode == 0
    found, wanted = (run_command("init", str(spec), "--check", "--dsn", dsn) for dsn in (orders, initialized))
    assert (found.returncode, found.stdout) == (0, "")
    assert (wanted.returncode, wanted.stdout) == (0, "")
    code = "from cdc_outbox.contrib.django.models import OutboxEvent; print(OutboxEvent.objects.count(), 'events')"
    assert "0 events" in project.manage("shell", "--command", code)


def test_a_router_is_obeyed(tmp_path: Path) -> None:
    path = tmp_path / "orders.db"
    more = 'DATABASE_ROUTERS = ["check_cases.RouterThatForbids"]\n'
    project = Project.make(tmp_path / "project", {"default": on_sqlite(path)}, more)
    assert "cdc_outbox.W001" in project.manage("migrate", "cdc_outbox")
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("select name from sqlite_master where name like '%outbox%'").fetchall() == []


def test_an_outbox_without_rows_has_no_page_in_the_admin(outbox_stack: Stack, tmp_path: Path) -> None:
    dsn = outbox_stack.postgres.create_database("django_message")
    project = Project.make(tmp_path / "project", {"default": on_postgresql(dsn)}, 'CDC_OUTBOX |= {"mode": "message"}\n')
    project.manage("migrate", "cdc_outbox")
    code = """
from django.contrib import admin
from cdc_outbox.contrib.django.models import OutboxEvent
print(admin.site.is_registered(OutboxEvent))
"""
    assert project.manage("shell", "--command", code).endswith("False\n")
    spec = tmp_path / "orders.yaml"
    spec.write_text(for_any_database(Pipeline.text("orders", "outbox: {mode: message}\n")))
    checked = run_command("init", str(spec), "--check", "--dsn", dsn)
    assert (checked.returncode, checked.stdout) == (0, "")


def test_every_further_key_of_the_setting_does_something(tmp_path: Path) -> None:
    alias = on_sqlite(tmp_path / "orders.db")
    more = """
CDC_OUTBOX |= {
    "aggregates": {"visit": "none"},
    "headers": {"tenant_": "x-tenant"},
    "format": "cloudevents-binary",
    "payload_type": "bytes",
    "mode": "delete",
}
"""
    refused = Project.make(tmp_path / "project", {"default": alias}, more)
    assert "CDC_OUTBOX.format" in refused.manage("migrate", "cdc_outbox", fails=True)
    more = more.replace("cloudevents-binary", "plain").replace("delete", "keep")
    project = Project.make(tmp_path / "project", {"default": alias}, more)
    project.manage("migrate", "cdc_outbox")
    code = """
from django.db import transaction
from cdc_outbox import Event, EventError
from cdc_outbox.contrib.django import outbox
from cdc_outbox.contrib.django.models import OutboxEvent
with transaction.atomic():
    about = {"aggregate_id": "1", "type": "X", "payload": b"\\0\\xff", "headers": {"x-tenant": "t"}}
    outbox.add(Event(aggregate_type="visit", **about))
    try:
        outbox.add(Event(aggregate_type="order", **about))
    except EventError:
        print("refused")
event = OutboxEvent.objects.get()
print(event.payload, event.header_tenant, event.sequence)
"""
    assert project.manage("shell", "--command", code).endswith("refused\n\\x00ff t None\n")


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ("CDC_OUTBOX = {}", "E001"),
        ('CDC_OUTBOX["database"] = "elsewhere"', "E002"),
        ('CDC_OUTBOX["mode"] = "message"', "E003"),
    ],
)
def test_a_wrong_setting_is_a_checks_error_and_no_traceback(tmp_path: Path, more: str, code: str) -> None:
    project = Project.make(tmp_path / "project", {"default": on_sqlite(tmp_path / "orders.db")}, more)
    told = project.manage("check", fails=True)
    assert f"(cdc_outbox.{code})" in told
    assert "Traceback" not in told


def test_on_mariadb_migrate_makes_the_same_as_everywhere(mariadb: MariaDb, tmp_path: Path) -> None:
    migrated, wanted = (mariadb.create_database(f"django_{name}") for name in ("migrated", "wanted"))
    check_other_dialect(
        tmp_path,
        on_mariadb(migrated),
        Dialect.MYSQL,
        *(lambda dsn=dsn: connect_pymysql(dsn) for dsn in (migrated, wanted)),
        definition="show create table {}",
    )


def test_on_sqlite_migrate_makes_the_same_as_everywhere(tmp_path: Path) -> None:
    migrated, wanted = tmp_path / "migrated.db", tmp_path / "wanted.db"
    check_other_dialect(
        tmp_path,
        on_sqlite(migrated),
        Dialect.SQLITE,
        lambda: sqlite3.connect(migrated),
        lambda: sqlite3.connect(wanted),
        definition="select sql from sqlite_master where name = '{}'",
    )


def check_other_dialect(
    folder: Path,
    alias: dict[str, Any],
    dialect: Dialect,
    open_migrated: Callable[[], Any],
    open_wanted: Callable[[], Any],
    *,
    definition: str,
) -> None:
    """Hold what migrate makes against what an upgrade makes, that it is kept while it is used, and dropped then."""
    project = Project.make(folder / "project", {"default": alias})
    project.manage("migrate", "cdc_outbox")
    component = outbox_component(OutboxTable(), first_source="orders.1", dialect=dialect)
    asked = [definition.format(table) for table in ("outbox", "outbox_heads", "cdc_outbox_version")]
    asked.append("select component, version from cdc_outbox_version")
    with closing(open_wanted()) as wanted, closing(open_migrated()) as migrated:
        driver = find_driver(wanted)
        upgrade(lambda sql: driver.fetch(wanted, sql), component)
        assert [driver.fetch(migrated, sql) for sql in asked] == [driver.fetch(wanted, sql) for sql in asked]
        driver.fetch(migrated, EVENT)
        migrated.commit()
        assert "outbox has rows" in project.manage("migrate", "cdc_outbox", "zero", fails=True)
        driver.fetch(migrated, "delete from outbox")
        migrated.commit()
        project.manage("migrate", "cdc_outbox", "zero")
        assert driver.fetch(migrated, "select * from cdc_outbox_version") == []


def test_every_block_of_the_documentation_is_used_here() -> None:
    assert BLOCKS.keys() == {SETTINGS, VIEWS, MIGRATION}
