"""What the base install and each extra are enough for, found where nothing else is installed."""

import re
from collections.abc import Iterator

import click
import pytest
from packaging.utils import canonicalize_name

from cdc_outbox.cli import cli
from tests.support.clean_environments import CleanEnvironments
from tests.support.extras_table import ENVIRONMENTS, INVOCATIONS, PAGE, Found, files, find, page

BASE: tuple[str, ...] = ()
WRITES = """
import sqlite3
import cdc_outbox.consumer, cdc_outbox.monitoring, shipping
from cdc_outbox import Event, Outbox, load_spec

connection = sqlite3.connect("orders.db")
connection.execute("begin")
event = Event(aggregate_type="orders", aggregate_id="42", type="OrderPlaced", payload={"total": 1})
print(Outbox(spec=load_spec("new.yaml")).add(connection, event).sequence)
connection.commit()
"""


@pytest.fixture(scope="module")
def environments(tmp_path_factory: pytest.TempPathFactory) -> CleanEnvironments:
    return CleanEnvironments(tmp_path_factory.mktemp("clean"), files())


@pytest.fixture(scope="module")
def found(environments: CleanEnvironments) -> Found:
    return find(environments)


def _commands(group: click.Group, *path: str) -> Iterator[str]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            if command.invoke_without_command:
                yield " ".join([*path, name])
            yield from _commands(command, *path, name)
        else:
            yield " ".join([*path, name])


def test_the_page_says_what_was_found(environments: CleanEnvironments, found: Found) -> None:
    hint = "run `.venv/bin/python -m tests.support.extras_table`"
    assert PAGE.read_text() == page(environments, found), hint


def test_every_command_is_tried() -> None:
    tried = {each.shown for each in INVOCATIONS}
    assert [each for each in _commands(cli) if not any(f"{one} ".startswith(f"{each} ") for one in tried)] == []


def test_a_command_that_misses_nothing_ends_where_its_servers_are_missing(found: Found) -> None:
    first = {each: next(answer for answer in answers.values() if not answer.missing) for each, answers in found.items()}
    wrong = [(each.shown, answer) for each, answer in first.items() if each.ends not in answer.said]
    assert wrong == []
    assert [(each.shown, answer) for each, answer in first.items() if "Traceback" in answer.said] == []


def test_a_missing_package_is_one_sentence_and_an_extra_that_brings_it(
    environments: CleanEnvironments, found: Found
) -> None:
    refusals = {
        (each.arguments[0], answer) for each, answers in found.items() for answer in answers.values() if answer.missing
    }
    assert {answer.missing for _, answer in refusals} == {"confluent-kafka", "platformdirs", "psutil", "psycopg"}
    for command, answer in refusals:
        if command in {"doctor", "status"} and answer.missing == "psycopg":
            continue  # they show the rest, and say this of a part
        assert answer.code == 1
        said = [line.partition(":")[0] for line in answer.said.splitlines() if not line.startswith("note ")]
        assert said[:2] == ["error", "hint"]
        [extra] = re.findall(r"pip install 'cdc-outbox\[(.+?)\]'", answer.said)
        assert canonicalize_name(answer.missing) in map(canonicalize_name, environments.brought_by([extra]))


def test_what_connects_to_nothing_needs_no_extra(found: Found) -> None:
    enough = {each.shown.split()[0] for each, answers in found.items() if not answers[BASE].missing}
    assert enough >= {"adopt", "init", "lint", "new", "plan", "render", "simulate", "spec-schema", "status"}


def test_no_environment_has_what_its_extras_do_not_bring(environments: CleanEnvironments) -> None:
    for extras in ENVIRONMENTS:
        brought = set(environments.brought_by(extras))
        assert ("confluent-kafka" in brought) is bool({"kafka", "testing"} & {*extras})
        assert ("psycopg" in brought) is bool({"postgres", "testing"} & {*extras})
    assert "confluent-kafka" in environments.brought_by(["consumer"])


def test_writing_to_sqlite_needs_the_base_install_alone(environments: CleanEnvironments) -> None:
    environments.execute("open('orders.db', 'w').close()")
    new, init, mariadb = environments.run(
        BASE,
        [
            ["new", "orders", "--database=sqlite", "--file=new.yaml"],
            ["init", "new.yaml", "--dsn=sqlite:///orders.db"],
            ["init", "--inbox", "--dsn=mariadb://root@127.0.0.1:1/shipping"],
        ],
    )
    assert (new.code, init.code) == (0, 0), init.said
    assert environments.execute(WRITES) == "1\n"
    assert (mariadb.missing, mariadb.code) == ("pymysql", 1)
    assert "cdc-outbox[mysql]" in mariadb.said
