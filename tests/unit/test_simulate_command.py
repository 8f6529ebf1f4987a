"""What `cdc-outbox simulate` refuses."""

from pathlib import Path

import pytest

from tests.support.commands import run_command
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
