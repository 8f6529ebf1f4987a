import re
from hashlib import sha256
from pathlib import Path

import pytest

from cdc_outbox import ConfigError, OutboxError, OutboxMode, OutboxTable
from cdc_outbox.consumer import InboxTable
from cdc_outbox.consumer.inbox_tables import inbox_component
from cdc_outbox.contract.outbox_options import Partitions
from cdc_outbox.databases import sql
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.migrations import Component, Migration, pending, script, upgrade
from cdc_outbox.databases.sql import load_versions
from cdc_outbox.databases.table import TableName
from cdc_outbox.writer.outbox_schema import outbox_component, publication_statement, table_made_anew, table_statements
from tests.support.planted_versions import planted

STEPS = tuple(Migration(version=n, statements=(f"step {n}",)) for n in (1, 2, 3))
COMPONENT = Component(kind="outbox", tables=(TableName(schema="public", name="outbox"),), migrations=STEPS)


@pytest.mark.parametrize(("current", "versions"), [(0, [1, 2, 3]), (1, [2, 3]), (3, [])])
def test_only_what_is_missing_is_run(current: int, versions: list[int]) -> None:
    assert [step.version for step in pending(current, STEPS)] == versions


def test_a_database_that_is_ahead_is_not_touched() -> None:
    with pytest.raises(ConfigError, match="the tables have version 4, but this release supports up to 3"):
        pending(4, STEPS)


@pytest.mark.parametrize(("rows", "ran"), [([], ["step 1", "step 2", "step 3"]), ([(2,)], ["step 3"]), ([(3,)], [])])
def test_an_upgrade_locks_looks_runs_and_records(rows: list[tuple[int]], ran: list[str]) -> None:
    said: list[str] = []

    def execute(statement: str) -> list[tuple[int]]:
        said.append(statement)
        if statement.startswith("select pg_catalog.to_regclass"):
            return [(0,)]
        return rows if statement.startswith("select version") else []

    upgrade(execute, COMPONENT)
    assert ["set local search_path = pg_catalog, pg_temp" in sql for sql in said[:2]] == [False, True]
    assert "advisory_xact_lock" in said[3]
    assert [statement for statement in said if statement.startswith("step")] == ran
    assert ("insert into" in said[-2]) == bool(ran)
    assert "cdc_outbox.search_path" in said[-1]


def test_the_script_says_what_an_upgrade_from_nothing_runs() -> None:
    text = script(COMPONENT)
    for part in (
        "advisory_xact_lock",
        "create table if not exists",
        "step 1",
        "step 2",
        "step 3",
        "'outbox public.outbox'",
    ):
        assert part in text


@pytest.mark.parametrize("dialect", Dialect)
@pytest.mark.parametrize("component", ["outbox", "inbox"])
def test_every_version_can_be_read_and_knows_its_names(dialect: Dialect, component: str) -> None:
    assert list(load_versions(dialect, component)) == [1]
    for made in (
        outbox_component(OutboxTable(), first_source="orders.1", dialect=dialect),
        inbox_component(InboxTable.on(dialect)),
    ):
        assert all(step.statements for step in made.migrations)
        assert not re.search(r"\{[a-z]\w*\}|;\n", "".join(sql for step in made.migrations for sql in step.statements))


def test_no_released_version_changes() -> None:
    """A database that has a version never runs its file again: what is new in it takes the next number.

    A version that no release has yet may change. Then the digest here changes with it.
    """
    folder = Path(sql.__file__).parent
    found = {
        f"{file.parents[2].name}/{file.parent.name}/{file.stem}": sha256(file.read_bytes()).hexdigest()[:16]
        for file in folder.glob("*/migrations/*/*.sql")
    }
    assert found == DIGESTS


DIGESTS = {
    "mysql/inbox/0001_initial": "08e7b44d98b5ff36",
    "mysql/outbox/0001_initial": "a00aeae010e8b538",
    "postgresql/inbox/0001_initial": "898e769fd914abf2",
    "postgresql/outbox/0001_initial": "c0e9f039d6fcc29b",
    "sqlite/inbox/0001_initial": "1f4c3ef17e9cbd70",
    "sqlite/outbox/0001_initial": "c8b0742397420320",
}


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("0003_later.sql", "0003_later.sql must have version 2"),
        ("0001_again.sql", "0001_initial.sql must have version 2"),
        ("0000_before.sql", "0000_before.sql must have version 1"),
        ("2_note.sql", "2_note.sql must have a name such as 0002_add_note.sql"),
        ("0002-note.sql", "0002-note.sql must have a name such as"),
        ("0002_note.sql.orig", "0002_note.sql.orig must have a name such as"),
    ],
)
@pytest.mark.parametrize("component", ["outbox", "inbox"])
def test_a_gap_a_duplicate_and_a_wrong_name_are_refused(tmp_path: Path, component: str, name: str, reason: str) -> None:
    with planted(tmp_path / "sql", Dialect.MYSQL, {f"{component}/{name}": "-- name: x\nselect 1;\n"}):
        with pytest.raises(OutboxError, match=re.escape(f"of the {component} on mysql cannot be used: {reason}")):
            load_versions(Dialect.MYSQL, component)
        assert load_versions(Dialect.SQLITE, component)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("-- Nothing yet.\n", "no statement"),
        ("select 1;\n-- name: x\nselect 2;\n", "one without a name"),
        ("-- name: x\nselect 1;\n-- name: x\nselect 2;\n", "a name, or has an invalid line"),
        ("-- name: x\nselect 1;\n-- name: add-note\nselect 2;\n", "an invalid line `-- name: …`"),
        ("-- name: x\nselect 1;\n-- name: y if not partitioned\nselect 2;\n", "an invalid line `-- name: …`"),
        ("-- name: x\nselect 1\n", "not end with a semicolon"),
        ("-- name: x\nselect 1\n-- then\nselect 2;\n", "not end with a semicolon"),
    ],
)
def test_a_statement_that_would_get_lost_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    files, expected = {"outbox/0002_note.sql": text}, f"^0002_note.sql (has|repeats) .*{reason}"
    with planted(tmp_path / "sql", Dialect.SQLITE, files), pytest.raises(OutboxError, match=expected):
        load_versions(Dialect.SQLITE, "outbox")


def test_no_statement_is_split_at_a_semicolon(tmp_path: Path) -> None:
    text = "-- name: x\nselect ';\n';\n-- then\nbegin\n    select 1;\nend;\n-- name: y\nselect 2;\n"
    with planted(tmp_path / "sql", Dialect.SQLITE, {"outbox/0002_note.sql": text}):
        second = outbox_component(OutboxTable(), first_source="orders.1", dialect=Dialect.SQLITE).migrations[1]
    assert second.statements == ("select ';\n'", "begin\n    select 1;\nend", "select 2")


def test_a_condition_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    note = {"outbox/0002_note.sql": "-- name: x if has_rows\nselect 1;\n"}
    with planted(tmp_path / "sql", Dialect.SQLITE, note), pytest.raises(KeyError, match="has_rows"):
        outbox_component(OutboxTable(), first_source="orders.1", dialect=Dialect.SQLITE)


@pytest.mark.parametrize(
    ("table", "runs"),
    [
        (OutboxTable(), ["always", "has_table", "has_heartbeats"]),
        (OutboxTable(mode=OutboxMode.DELETE), ["always", "has_table", "has_heartbeats"]),
        (OutboxTable(partitions=Partitions.DAY), ["always", "has_table", "partitioned", "has_heartbeats"]),
        (OutboxTable(mode=OutboxMode.MESSAGE), ["always", "has_heartbeats"]),
        (OutboxTable(adopted=True), ["always"]),
    ],
    ids=["keep", "delete", "partitioned", "message", "adopted"],
)
def test_a_tables_options_decide_on_statements(tmp_path: Path, table: OutboxTable, runs: list[str]) -> None:
    conditions = ("has_table", "partitioned", "has_heartbeats")
    text = "-- name: always\nalways;\n" + "".join(f"-- name: {each} if {each}\n{each};\n" for each in conditions)
    with planted(tmp_path / "sql", Dialect.POSTGRESQL, {"outbox/0002_note.sql": text}):
        second = outbox_component(table, first_source="orders.1").migrations[1]
    assert (second.version, second.statements) == (2, tuple(runs))


def test_a_table_made_by_a_later_call_has_every_version(tmp_path: Path) -> None:
    """Of the outbox whose mode changes from messages to rows, and of one that SQLite makes anew."""
    text = '-- name: always\nalter "{heads}";\n-- name: x if has_table\nalter "{outbox}";\n'
    for dialect in (Dialect.POSTGRESQL, Dialect.SQLITE):
        with planted(tmp_path / dialect, dialect, {"outbox/0002_note.sql": text}):
            if dialect is Dialect.POSTGRESQL:
                block = table_statements(OutboxTable(), first_source="orders.1")[0]
                assert "create table if not exists" in block
                assert 'alter "public"."outbox";' in block
                assert "outbox_heads" not in block
            else:
                anew = OutboxTable(name="anew").table_in(dialect)
                for name in ("outbox", "heads"):
                    made = table_made_anew(name, OutboxTable(), anew, first_source="orders.2", dialect=dialect)
                    assert (len(made), made[1]) == (2, 'alter "main"."anew"')
                    assert "'orders.2'" in made[0]


def test_partitions_are_postgresqls_alone() -> None:
    table = OutboxTable(partitions=Partitions.DAY)
    assert table.rest in outbox_component(table, first_source="orders.1").tables
    with pytest.raises(ConfigError, match="only PostgreSQL"):
        outbox_component(table, first_source="orders.1", dialect=Dialect.MYSQL)


def test_the_source_of_messages_is_ascii() -> None:
    table = OutboxTable(mode=OutboxMode.MESSAGE)
    with pytest.raises(ConfigError, match="must be ASCII"):
        outbox_component(table, first_source="Größe.1")
    component = outbox_component(table, first_source="it's.1")
    assert not any('"public"."outbox" (' in statement for statement in component.migrations[0].statements)


def test_no_table_name_ends_the_block_that_makes_the_publication() -> None:
    statement = publication_statement(OutboxTable(name="$$; drop table x; $$"), "$q1$")
    tag = statement.removeprefix("do ").partition("\n")[0]
    assert statement.count(tag) == 2
    assert statement.endswith(tag)
