"""The page about a restore of the producer's database, followed on MariaDB."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdc_outbox.connect.wait import Condition, condition_of
from cdc_outbox.testing import Stack
from tests.support.commands import run_command
from tests.support.mariadb_pruning import NAME, SPEC, Orders, running_orders
from tests.support.rig import eventually
from tests.support.runbooks import blocks, run_block


@pytest.fixture(scope="module")
def orders(outbox_stack: Stack) -> Iterator[Orders]:
    with running_orders(outbox_stack) as made:
        made.wait_for_messages()
        yield made


def replace_data(orders: Orders, source: str, target: str) -> None:
    """Stop the server, copy a folder of data over another, and start it again."""
    orders.server.stop()
    folder = orders.server.folder
    shutil.rmtree(folder / target, ignore_errors=True)
    subprocess.run(["cp", "-a", str(folder / source), str(folder / target)], check=True)
    orders.server.start()


@pytest.mark.parametrize("grows", [False, True], ids=["shorter than the offset", "longer than the offset"])
def test_a_restored_server_is_published_again(orders: Orders, tmp_path: Path, *, grows: bool) -> None:
    spec = tmp_path / "orders.yaml"
    spec.write_text(SPEC)
    environment = orders.stack.environment() | {
        "CDC_OUTBOX_DSN": orders.dsn.url("mysql").partition("?")[0],
        "CDC_OUTBOX_STABLE_FOR": "0s",
    }
    [(source,)] = orders.query(
        "select column_default from information_schema.columns where table_name = "
        "'outbox_heads' and column_name = 'source'"
    )
    words = {"connectors/orders-mariadb.yaml": str(spec), "orders-mariadb": NAME, "orders.1": source.strip("'")}
    replace_data(orders, "data", "copy")
    orders.client.restart(NAME, only_failed=False)
    kept = orders.rows
    before = orders.messages()
    orders.write(5)
    eventually(lambda: orders.messages() == before + 5, "what the restore takes back")
    orders.halt()
    replace_data(orders, "copy", "data")
    found = run_command("preflight", spec, env=environment)
    assert (found.returncode, "DB524" in found.stdout) == (1, True), found.stdout
    doctor = run_command("doctor", spec, env=environment)
    assert "DB524" in doctor.stdout, doctor.stdout
    if grows:
        orders.query("set global server_id = 77")
        orders.write(30)
        found = run_command("preflight", spec, env=environment)
        assert (found.returncode, "DB524" in found.stdout) == (1, True), found.stdout
        # Under its old id it gives out the offset's GTIDs again, and nothing tells any more.
        replace_data(orders, "copy", "data")
        orders.write(30)
        kept += 30
        found = run_command("preflight", spec, env=environment)
        assert found.returncode == 0, found.stdout
        orders.go_on()
        eventually(lambda: orders.messages() > before + 5, "what follows the offset")
        found = run_command("preflight", spec, env=environment)
        assert found.returncode == 0, found.stdout
        missing = run_command("verify", spec, env=environment)
        assert "conflict" in missing.stdout, missing.stdout
    else:
        orders.client.resume(NAME)
        eventually(lambda: condition_of(orders.client.glance_at(NAME)) is Condition.FAILED, "the failure")
    reset, publish = blocks("producer-database.md", "On MariaDB")
    run_block(reset, words, environment)
    there = orders.messages()
    printed = run_block(publish, words, environment)
    assert "missing" not in printed
    assert "extra" in printed or grows
    eventually(lambda: orders.messages() == there + kept, "the rows of the table")
    orders.write(2)
    eventually(lambda: orders.messages() == there + kept + 2, "what is new")
