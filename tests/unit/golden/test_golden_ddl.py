"""What `init` makes: the statements that it prints for every dialect, and the catalog of SQLite."""

import difflib
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.commands import run_command
from tests.support.golden import golden, neutral
from tests.support.specs import MINIMAL

BASES = {
    "postgresql": MINIMAL,
    "mariadb": MINIMAL.replace("postgresql", "mariadb"),
    "sqlite": "version: 1\nname: orders\ndatabase: {kind: sqlite}\naggregates:\n  customer: {}\n",
}
OUTBOXES = (
    "mode: delete",
    "mode: message",
    "payload_type: bytes",
    "payload_type: bytes, mode: delete",
    "format: cloudevents-structured",
    "format: cloudevents-binary",
    "format: envelope, payload_type: expanded",
    "headers: {tenant: tenant-id, kind: kind}",
    "columns: {payload: body}",
    "columns: {payload: body, sequence: null, source: null}",
    "partitions: day",
    "partitions: month, payload_type: bytes",
    'schema: Größe, table: "a.b c"',
)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def printed(text: str, *options: str) -> list[str]:
    """Return the lines that ``init`` prints for a spec, and how the call ends."""
    Path("x.yaml").write_text(text)
    done = run_command("init", "x.yaml", *options)
    return [*done.stdout.splitlines(), *done.stderr.splitlines(), f"exit {done.returncode}"]


def with_differences(base: list[str], variants: dict[str, list[str]]) -> str:
    """Return the base whole, and what each variant changes in it."""
    lines = list(base)
    for name, variant in variants.items():
        lines += ["", f"== {name}"]
        lines += list(difflib.unified_diff(base, variant, lineterm="", n=0))[2:]
    return neutral("\n".join(lines))


@pytest.mark.parametrize("kind", BASES)
def test_statements_that_init_prints(kind: str) -> None:
    base = BASES[kind]
    variants = {outbox: printed(f"{base}outbox: {{{outbox}}}\n", "--sql") for outbox in OUTBOXES}
    if kind == "mariadb":
        variants["MySQL"] = printed(base.replace("mariadb", "mysql"), "--sql")
    variants["not numbered"] = printed(base.replace("customer: {}", "customer: {sequence: none}"), "--sql")
    variants["a publication"] = printed(base.replace("  name:", "  publication: P\n  name:"), "--sql")
    golden(f"ddl/{kind}.sql").check(with_differences(printed(base, "--sql"), variants))


@pytest.mark.parametrize("kind", BASES)
def test_statements_that_init_prints_for_an_inbox(kind: str) -> None:
    both = printed(BASES[kind], "--inbox", "--sql")
    schema = printed(BASES[kind], "--inbox", "--inbox-schema", "other", "--sql")
    golden(f"ddl/{kind}-inbox.sql").check(with_differences(both, {"another schema": schema}))


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_roles_that_init_prints(kind: str) -> None:
    base = BASES[kind]
    variants = {outbox: printed(f"{base}outbox: {{{outbox}}}\n", "--inbox", "--grants") for outbox in OUTBOXES[:4]}
    roles = [f"--{role}-role=my_{role}" for role in ("writer", "consumer", "connector", "migrator")]
    variants["other names"] = printed(base, "--inbox", "--grants", *roles)
    golden(f"ddl/{kind}-roles.sql").check(with_differences(printed(base, "--inbox", "--grants"), variants))


def catalog() -> list[str]:
    """Return every object of the SQLite database, its columns and what was versioned."""
    with closing(sqlite3.connect("x.db")) as connection:
        objects = connection.execute("select type, name, tbl_name, sql from sqlite_schema order by 1, 2").fetchall()
        lines = [
            f"{kind} {name} on {table}: {' '.join((sql or 'automatic').split())}" for kind, name, table, sql in objects
        ]
        for kind, name, *_ in objects:
            if kind == "table":
                columns = connection.execute("select * from pragma_table_xinfo(?)", (name,)).fetchall()
                lines += [f"column {name}.{column[1]}: {column[2:]}" for column in columns]
        versions = connection.execute("select * from cdc_outbox_version order by 1").fetchall()
    return [*lines, *(f"version {row}" for row in versions)]


def made(text: str) -> list[str]:
    Path("x.db").unlink(missing_ok=True)
    Path("x.db").touch()
    Path("x.yaml").write_text(text)
    done = run_command("init", "x.yaml", "--inbox", "--dsn", "sqlite:///x.db")
    return [f"exit {done.returncode}", *done.stderr.splitlines(), *(catalog() if done.returncode == 0 else [])]


def test_the_catalog_of_sqlite() -> None:
    outboxes = ("mode: delete", "payload_type: bytes", "headers: {tenant: tenant-id, kind: kind}")
    variants = {outbox: made(f"{BASES['sqlite']}outbox: {{{outbox}}}\n") for outbox in outboxes}
    golden("catalog/sqlite.txt").check(with_differences(made(BASES["sqlite"]), variants))
