import pytest

from cdc_outbox import ConfigError, OutboxMode, OutboxTable
from cdc_outbox.consumer import InboxTable
from cdc_outbox.consumer.schema import inbox_component
from cdc_outbox.migrations import Component, Migration, pending, script, upgrade
from cdc_outbox.modes import Partitions
from cdc_outbox.table import Dialect, TableName
from cdc_outbox.writer.schema import outbox_component, publication_statement

STEPS = tuple(Migration(version=n, statements=(f"step {n}",)) for n in (1, 2, 3))
COMPONENT = Component(kind="outbox", tables=(TableName(schema="public", name="outbox"),), migrations=STEPS)


@pytest.mark.parametrize(("current", "versions"), [(0, [1, 2, 3]), (1, [2, 3]), (3, [])])
def test_only_what_is_missing_is_run(current: int, versions: list[int]) -> None:
    assert [step.version for step in pending(current, STEPS)] == versions


def test_a_database_that_is_ahead_is_not_touched() -> None:
    with pytest.raises(ConfigError, match="the tables have version 4, this release knows 3"):
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


@pytest.mark.parametrize(
    "component",
    [
        *(outbox_component(OutboxTable(), first_source="orders.1", dialect=dialect) for dialect in Dialect),
        *(inbox_component(InboxTable.on(dialect)) for dialect in Dialect),
    ],
    ids=lambda component: f"{component.kind}-{component.dialect}",
)
def test_our_components_have_versions_without_holes(component: Component) -> None:
    assert [step.version for step in component.migrations] == list(range(1, len(component.migrations) + 1))


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
    assert statement.endswith(f"{tag};")
