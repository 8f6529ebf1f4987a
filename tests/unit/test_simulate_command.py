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
