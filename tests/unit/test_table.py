import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cdc_outbox.databases.sql
from cdc_outbox import ConfigError, OutboxMode, OutboxTable, PayloadType
from cdc_outbox.consumer import InboxTable
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.quoting import derived_name, literal, quote
from cdc_outbox.databases.sql import FOLDER, PYFORMAT, Statement, load
from cdc_outbox.databases.table import OutboxColumns, TableName
from cdc_outbox.redaction import has_controls

names = st.text(min_size=1).filter(lambda name: not has_controls(name) and len(name.encode()) <= 63)


@given(names)
def test_a_quoted_name_is_one_identifier(name: str) -> None:
    quoted = quote(name)
    assert quoted[0] == quoted[-1] == '"'
    assert quoted[1:-1].replace('""', "") == name.replace('"', "")
    assert quoted[1:-1].replace('""', '"') == name


@pytest.mark.parametrize("name", ["", "a\0b", "x" * 64, "ä" * 32])
def test_a_name_that_postgresql_would_cut_or_refuse_is_refused(name: str) -> None:
    with pytest.raises(ConfigError):
        quote(name)
    with pytest.raises(ConfigError):
        TableName(schema="public", name=name)


SQL = Path(cdc_outbox.databases.sql.__file__).parent


def test_a_literal_cannot_be_left() -> None:
    assert literal("o'clock") == "'o''clock'"
    with pytest.raises(ConfigError):
        literal("a\0")


@given(names, names)
def test_derived_names_fit_and_do_not_collide(one: str, other: str) -> None:
    derived = derived_name(one, "heads")
    assert len(derived.encode()) <= 63
    assert derived.endswith("heads")
    assert (derived == derived_name(other, "heads")) == (one == other)


def test_tables_know_their_siblings() -> None:
    assert OutboxTable().heads.quoted == '"public"."outbox_heads"'
    assert InboxTable(schema="app").watermarks.quoted == '"app"."inbox_watermarks"'


def test_statements_put_in_names_and_parameters() -> None:
    statement = Statement("select :value from `{table}` where a = 'x' and cast(:value as text) = :other")
    assert statement.render({"table": '"t"'}, PYFORMAT) == (
        "select %(value)s from \"t\" where a = 'x' and cast(%(value)s as text) = %(other)s"
    )


def test_a_percent_sign_in_a_name_survives_drivers_that_look_for_it() -> None:
    statement = Statement("select 1 from `{table}` where a = :a")
    assert statement.render({"table": '"100%s"'}, PYFORMAT) == ('select 1 from "100%%s" where a = %(a)s')
    assert statement.render({"table": '"100%s"'}) == 'select 1 from "100%s" where a = :a'


def test_braces_and_colons_in_a_name_are_not_read_again() -> None:
    statement = Statement("select 1 from `{table}`")
    assert statement.render({"table": '"{table}:a"'}, PYFORMAT) == 'select 1 from "{table}:a"'


def test_a_part_of_a_constant_an_identifier_or_a_comment_is_no_name() -> None:
    text = (
        """select ':a', '{x} it''s', "{x} y", `:a` -- "{x}" :a; \n/* '{x}' :a */ from "t""{x}" /*M! returning :b */"""
    )
    rendered = Statement(text).render({"x": "changed"}, PYFORMAT)
    assert rendered == text.replace(":b", "%(b)s")


def test_a_name_without_items_takes_its_comma_along() -> None:
    statement = Statement('insert into t (id, "{columns}") select :id\n    , "{values}"\nfrom t')
    assert statement.render({"columns": "a, b", "values": "1, 2"}) == (
        "insert into t (id, a, b) select :id\n    , 1, 2\nfrom t"
    )
    assert statement.render({"columns": "", "values": ""}) == "insert into t (id) select :id\n    \nfrom t"
    given = statement.with_parameters("values", ["c", "d"])
    assert given.render({"columns": ""}, PYFORMAT).endswith("select %(id)s\n    , %(c)s, %(d)s\nfrom t")


def test_a_region_stands_there_where_its_name_is_not_empty() -> None:
    statement = Statement('create table t (\n    a int\n    -- if more\n    , "{more}" int\n    -- end\n)')
    assert statement.render({"more": "b"}) == "create table t (\n    a int\n    , b int\n)"
    assert statement.render({"more": ""}) == "create table t (\n    a int\n)"


def test_a_name_does_not_end_the_block_that_it_stands_in() -> None:
    statement = Statement("do $$\nbegin\n    perform '{name_literal}';\nend\n$$")
    assert statement.render({"name_literal": "'a'"}).count("$$") == 2
    assert statement.render({"name_literal": "'a$$; drop table b'"}) == (
        "do $q1$\nbegin\n    perform 'a$$; drop table b';\nend\n$q1$"
    )
    assert statement.render({"name_literal": "'$$ $q1$'"}).count("$q2$") == 2


INBOX_FILES = ("decisions", "remembered", "reset", "inbox", "park", "epochs")


@pytest.mark.parametrize(("dialect", "file"), sorted((file.parent.name, file.stem) for file in SQL.glob("*/*.sql")))
def test_every_file_of_statements_can_be_read(dialect: str, file: str) -> None:
    statements = load(dialect, file)
    assert statements
    assert all(statement.text for statement in statements.values())


@pytest.mark.parametrize("table", [OutboxTable, InboxTable])
@pytest.mark.parametrize(("schema", "name"), [("public", ""), ("", "t"), ("public", "x" * 64)])
def test_a_table_with_a_bad_name_is_never_made(table: type[OutboxTable | InboxTable], schema: str, name: str) -> None:
    with pytest.raises(ConfigError):
        table(schema=schema, name=name)


@pytest.mark.parametrize(
    ("columns", "reason"), [({"id": ""}, "cannot be the name"), ({"type": "id"}, "cannot be both id and type")]
)
def test_columns_with_bad_names_are_never_made(columns: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        OutboxColumns(**columns)


@pytest.mark.parametrize("dialect", Dialect)
def test_every_dialect_knows_every_name_that_its_statements_use(dialect: Dialect) -> None:
    names = {**OutboxTable().names(dialect), "first_source": dialect.literal("orders.1")}
    for statement in load(dialect, "outbox").values():
        for step in statement.steps():
            rendered = step.with_parameters("header_values", ["header_a"]).render(names, PYFORMAT)
            assert not re.search(r"\{\w+\}|;\n", rendered)


@pytest.mark.parametrize("dialect", Dialect)
@pytest.mark.parametrize("file", INBOX_FILES)
def test_every_dialect_has_every_statement_of_the_inbox_and_all_its_names(dialect: Dialect, file: str) -> None:
    statements, table = load(dialect, file), InboxTable.on(dialect)
    # Elsewhere no statement claims and reads, and a savepoint proves what a transaction's number does here.
    of_postgresql, of_others = {"claim_next"}, {"prove"}
    assert statements.keys() - of_others - of_postgresql == load("postgresql", file).keys() - of_postgresql
    for statement in statements.values():
        for step in statement.steps():
            # Drivers that read % as the start of a parameter read it in texts, too.
            rendered = step.render({"table": table.parked.quoted, **table.names()}, PYFORMAT)
            assert not re.search(r"\{\w+\}|;\n|%(?!\()", rendered)


def test_keys_of_the_inbox_have_the_sizes_that_a_consumer_checks() -> None:
    sizes = Dialect.MYSQL.features.key_bytes
    sizes = {**sizes, "aggregatetype": sizes["aggregate_type"], "aggregateid": sizes["aggregate_id"]}
    [path] = (FOLDER / Dialect.MYSQL / "migrations" / "inbox").iterdir()
    found = re.findall(r"(\w+) varbinary\((\d+)\)", path.read_text())
    keys = {(column, int(size)) for column, size in found if column in sizes}
    assert keys == {(name, sizes[name]) for name in ("event_id", "source", "aggregatetype", "aggregateid")}


def test_a_table_is_called_as_its_dialect_calls_it() -> None:
    assert OutboxTable(name="a`b").table_in(Dialect.MYSQL).quoted == "`a``b`"
    assert str(OutboxTable().table_in(Dialect.MYSQL)) == "outbox"
    assert OutboxTable(schema="app").table_in(Dialect.MYSQL).sibling("heads").quoted == "`app`.`outbox_heads`"
    assert OutboxTable().table_in(Dialect.SQLITE).quoted == '"main"."outbox"'


def test_a_backslash_does_not_leave_a_literal_in_any_mode() -> None:
    assert Dialect.MYSQL.literal("o'clock") == "'o''clock'"
    assert Dialect.MYSQL.literal("\\'") == "_utf8mb4 x'5c27'"
    assert Dialect.SQLITE.literal("\\'") == "'\\'" + "''"


def test_a_header_column_is_not_one_of_the_events_own() -> None:
    with pytest.raises(ConfigError, match="already belongs to the payload"):
        OutboxTable(headers={"payload": "x"})


def test_rows_are_sorted_by_what_the_table_has() -> None:
    assert OutboxTable().names()["in_order"] == '"sequence" nulls first, "created_at" nulls first'
    bare = OutboxTable(columns=OutboxColumns(sequence=None, source=None, created_at=None))
    assert (bare.names()["in_order"], bare.returned) == ("", ())


def test_what_a_message_cannot_carry_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        OutboxTable(mode=OutboxMode.MESSAGE, payload_type=PayloadType.BYTES)
    assert caught.value.field == "payload_type"
    for mode in (OutboxMode.KEEP, OutboxMode.DELETE):
        assert OutboxTable(mode=mode, payload_type=PayloadType.BYTES).mode is mode


def test_no_two_outboxes_share_a_prefix() -> None:
    tables = [OutboxTable(schema="a.b", name="c"), OutboxTable(schema="a", name="b.c"), OutboxTable(name="outbox")]
    assert len({table.message_prefix for table in tables}) == 3
