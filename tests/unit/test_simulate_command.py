"""What `cdc-outbox simulate` refuses."""

import json
from pathlib import Path

import pytest

from cdc_outbox.cli.specs import read_config
from cdc_outbox.databases.database import DatabaseKind
from tests.support.commands import run_command
from tests.support.configs import CLEAN
from tests.support.specs import MINIMAL


@pytest.mark.parametrize("kind", ["mariadb", "mysql"])
def test_rows_are_read_of_postgresql_only(kind: str, tmp_path: Path) -> None:
    spec = tmp_path / "orders.yaml"
    spec.write_text(MINIMAL.replace("postgresql", kind))
    done = run_command("simulate", spec, "--from-table", "--dsn", f"{kind}://me@nowhere.invalid/orders")
    assert (done.returncode, "--from-table reads PostgreSQL only; give a row with --row" in done.stderr) == (2, True)


def test_a_column_that_the_table_does_not_have_is_answered_with_the_nearest(tmp_path: Path) -> None:
    spec = tmp_path / "orders.yaml"
    spec.write_text(MINIMAL)
    done = run_command("simulate", spec, "--row", '{"agregatetype": "customer", "zzz": 1, "id": null}')
    notes = [line for line in done.stderr.splitlines() if "has no column" in line]
    assert notes == [
        "note       row 1: the table has no column 'agregatetype'. Did you mean 'aggregatetype'?",
        "note       row 1: the table has no column 'zzz'.",
    ]
    refused = run_command("simulate", spec, "--row", "{}", "--column-type", "paylod=bytea")
    assert (refused.returncode, "hint: Did you mean 'payload'?" in refused.stderr) == (2, True)


FLAT = CLEAN[DatabaseKind.POSTGRESQL]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ('{"connector.class": "x",\n"connector.class": "y"}', 2, "the key 'connector.class' appears twice"),
        ('{"connector.class": "x",\n"slot.name": ' + "[" * 100, 2, "deeper than 64 levels"),
        ('{"connector.class": "x",\n"slot.name": "\\ud800"}', 2, "half a surrogate pair is no text"),
        ('{"connector.class": "x"\n"slot.name": "y"}', 2, "not JSON: a comma or } is missing"),
        ('{"connector.class": "x",\n"slot.name": {}}', 2, "slot.name must be text"),
    ],
)
def test_a_configuration_is_refused_with_the_line_as_lint_refuses_it(
    text: str, line: int, message: str, tmp_path: Path
) -> None:
    config = tmp_path / "connector.json"
    config.write_text(text)
    done = run_command("simulate", config, "--row", "{}")
    assert (done.returncode, f"{config}:{line}" in done.stderr, message in done.stderr) == (2, True, True)


def test_one_configuration_is_taken_in_every_form_that_lint_reads_and_of_two_none(tmp_path: Path) -> None:
    config = tmp_path / "connector.json"
    of_connect = {"shop": {"info": {"name": "shop", "config": FLAT | {"name": "shop"}}}}
    for form in (FLAT | {"name": "shop"}, {"name": "shop", "config": FLAT | {"name": "shop"}}, of_connect):
        config.write_text(json.dumps(form))
        given = read_config(config, {"slot.name": "another"})
        assert (given.name, given.options["slot.name"]) == ("shop", "another")
    config.write_text(json.dumps([FLAT, FLAT]))
    done = run_command("simulate", config, "--row", "{}")
    assert (done.returncode, "holds 2 connectors" in done.stderr) == (2, True)
