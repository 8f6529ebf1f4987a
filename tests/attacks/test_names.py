"""Names of others in scripts: nothing of them leaves its quotes or its comment."""

import ast
from pathlib import Path

import pytest

from cdc_outbox import ConfigError, OutboxColumns, OutboxTable
from cdc_outbox.consumer import InboxTable
from cdc_outbox.databases.database import database_spec
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.migrations import script
from cdc_outbox.databases.roles import Role, roles_script
from cdc_outbox.databases.sql import comment
from cdc_outbox.databases.table import TableName
from cdc_outbox.writer.outbox_schema import outbox_component, writer_role
from tests.support.commands import run_command
from tests.support.specs import MINIMAL

PACKAGE = Path(__file__).parents[2] / "cdc_outbox"
CONTROLS = ["\n", "\r", "\x0b", "\x0c", "\x1b", "\x7f", "\x85", "\x9b", "\u2028", "\u2029", "\u202e", "\ud800"]
each_control = pytest.mark.parametrize("control", CONTROLS, ids=ascii)


@each_control
def test_a_comment_is_one_line_of_plain_characters(control: str) -> None:
    line = comment(f"a{control}\\! id")
    assert line.startswith("-- a\\")
    assert line.isprintable()
    assert "\\! id" in line


@each_control
@pytest.mark.parametrize("table", [OutboxTable, InboxTable, TableName])
def test_a_table_whose_name_has_a_control_character_is_never_made(
    table: type[OutboxTable | InboxTable | TableName], control: str
) -> None:
    for schema, name in (("public", f"o{control}x"), (f"o{control}x", "outbox")):
        with pytest.raises(ConfigError, match="control character"):
            table(schema=schema, name=name)


@each_control
def test_a_column_has_no_control_character(control: str) -> None:
    with pytest.raises(ConfigError, match="control character"):
        OutboxColumns(payload=f"p{control}x")


@each_control
@pytest.mark.parametrize("dialect", [Dialect.POSTGRESQL, Dialect.MYSQL])
def test_a_role_has_no_control_character(dialect: Dialect, control: str) -> None:
    with pytest.raises(ConfigError, match="control character"):
        writer_role(f"w{control}x", OutboxTable(), dialect)


@each_control
@pytest.mark.parametrize("key", ["name", "user", "publication"])
def test_names_in_a_database_have_no_control_character(key: str, control: str) -> None:
    content = {"kind": "postgresql", "host": "localhost", "name": "orders", "user": "c", "password": "${env:P}"}
    with pytest.raises(ConfigError, match="control character"):
        database_spec({**content, key: f"a{control}x"}, pipeline="orders")


@pytest.mark.parametrize("name", ['slot: "a\\rb"', 'publication: "a\\rb"', 'user: "a\\rb"'])
def test_a_spec_with_such_a_name_is_refused(tmp_path: Path, name: str) -> None:
    key = name.partition(":")[0]
    lines = [line for line in MINIMAL.splitlines() if not line.strip().startswith(f"{key}:")]
    lines.insert(lines.index("  kind: postgresql") + 1, f"  {name}")
    spec = tmp_path / "orders.yaml"
    spec.write_text("\n".join(lines))
    done = run_command("init", spec, "--sql", "--grants")
    assert (done.returncode, done.stdout) == (2, ""), done.stderr


def test_no_line_of_a_script_begins_in_a_name() -> None:
    name = "o\"'`$$ -- */ \\! id ; \\q"
    outbox = outbox_component(OutboxTable(name=name), first_source="orders.1")
    for text in (script(outbox), roles_script([("the service", writer_role(name, OutboxTable(name=name)))])):
        assert name in text
        assert not [line for line in text.splitlines() if line.lstrip().startswith(('o"', "\\", "*/"))]


def test_what_is_said_about_a_role_stays_in_its_comment() -> None:
    text = roles_script([("reads\n\\! id\rdrop table a;", Role(name="w"))])
    lines = text.splitlines()
    assert "-- w: reads\\n\\! id\\rdrop table a;" in lines


def test_sql_comments_are_written_at_one_place() -> None:
    places = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.lstrip().startswith("-- ")
    ]
    assert places
    assert {place.partition(":")[0] for place in places} == {"databases/sql/__init__.py"}, places
