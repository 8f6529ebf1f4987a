"""Every code block of the README is executed, as it stands there."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import cdc_outbox
from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.testing import Stack
from tests.support.commands import run_command
from tests.support.pages import ROOT, Block, Page, run_script
from tests.support.patience import patience
from tests.support.rig import CONNECTOR_PASSWORD, eventually, one

README = Page("README.md")
STACK = "export ORDERS_CONNECTOR_PASSWORD=secret\n"


@pytest.fixture
def services(outbox_stack: Stack, tmp_path: Path) -> Iterator[dict[str, str]]:
    """The databases and the variables of the block that starts a stack, for the stack that the tests share."""
    *_, psql, orders, shipping = README.block(STACK).splitlines()
    environment = {
        **outbox_stack.environment(),
        "CDC_OUTBOX_DSN": outbox_stack.postgres.create_database("orders"),
        "SHIPPING_DSN": outbox_stack.postgres.create_database("shipping"),
        "ORDERS_CONNECTOR_PASSWORD": CONNECTOR_PASSWORD,
        "LANG": "C.UTF-8",
    }
    environment["ORDERS_DSN"] = environment["CDC_OUTBOX_DSN"]
    run_script(f"{psql}\n{orders}\n{shipping}", tmp_path, environment)
    yield environment
    client = ConnectClient(outbox_stack.connect_cluster)
    if client.find_config("orders"):
        client.delete("orders")


def test_writing_deploying_and_consuming_as_the_readme_says(services: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "connectors").symlink_to(ROOT / "connectors")
    for name in ("orders", "shipping"):
        (tmp_path / f"{name}.py").write_text(README.block(f"# {name}.py"))
    psql = next(line for line in README.block(STACK).splitlines() if "$POSTGRES_BIN" in line)
    deployed = run_script(f"{psql}\n{README.block('cdc-outbox init connectors/orders.yaml ')}", tmp_path, services)
    assert deployed.endswith("orders: deployed\norders: nothing to change\n")

    export, init, consume = README.block("cdc-outbox contract export").splitlines()
    run_script(f"{export}\n{init}", tmp_path, services)
    with psycopg.connect(services["SHIPPING_DSN"], autocommit=True) as shipping:
        env = {**services, "PATH": f"{sys.prefix}/bin:/usr/bin:/bin"}
        consuming = subprocess.Popen(
            ["bash", "-euc", f"exec {consume}"], cwd=tmp_path, env=env, stderr=subprocess.PIPE, text=True
        )
        try:
            eventually(lambda: one(shipping, "select count(*) from shipments") == 1, "the shipment")
        finally:
            consuming.terminate()
            _, err = consuming.communicate(timeout=patience())
    assert err.endswith("shipping: 1 applied\n")
    assert run_script(README.block("cdc-outbox verify"), tmp_path, services) == README.block("type  ")


def test_a_stack_of_ones_own_as_the_readme_says(server_folder: Path) -> None:
    # PostgreSQL alone, which is there in seconds; the whole stack comes up elsewhere.
    env = {"TMPDIR": str(server_folder), "CDC_OUTBOX_KAFKA": "false", "HOME": os.environ["HOME"]}
    tables = 'psql "$CDC_OUTBOX_DSN" -Atc "table orders"; psql "$SHIPPING_DSN" -Atc "table shipments"'
    assert "`cdc-outbox stack down` stops them and deletes their files." in README.text
    try:
        run_script(f'{README.block(STACK)}\n{tables}\ncommand -v psql | grep -F "$POSTGRES_BIN"', server_folder, env)
    finally:
        run_script("cdc-outbox stack down", server_folder, env)
    assert not list(server_folder.iterdir())


def test_the_commands_of_the_picture_exist() -> None:
    words = README.block("   orders service").split()
    for command in (("init",), ("deploy-connector",), ("relay",), ("topics", "create"), ("consume",), ("verify",)):
        assert set(command) <= set(words)
        assert run_command(*command, "--help").returncode == 0


@pytest.mark.parametrize(("options", "publisher"), [(" --relay", "relay"), ("", "Connect worker")])
def test_the_demo_as_the_readme_says(options: str, publisher: str) -> None:
    """The real thing, stack and kills included; its table is the one that the README shows."""
    shown = README.block("  orders committed")
    command = README.block("./infra/demo").replace(" --relay", options)
    done = subprocess.run(
        ["bash", "-euc", command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=patience(300),
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    table = [line for line in done.stdout.splitlines() if line.startswith("  ") and not re.match(r"  +\d+ s ", line)]
    assert len(table) == len(shown.splitlines())
    for line, expected in zip(table, shown.splitlines(), strict=True):
        assert re.sub(r"[\d,]+", "#", line).split() == re.sub(r"[\d,]+", "#", expected).split()
    for name in ("effects twice", "lost", "ghosts", "out of order", "gaps"):
        [line] = [line for line in table if line.strip().startswith(name)]
        assert line.split(name)[1].split()[0] == "0"
    for kill in ("of a consumer", f"of the {publisher}"):
        assert re.search(rf"kill -9 {kill}, with [1-9]\d* ", done.stdout)


def test_the_extras_that_are_installed_exist() -> None:
    """tests/acceptance/test_dependencies.py installs them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for extras in re.findall(r"^pip install '\.\[(.+?)\]'", README.block("pip install '.[postgres]'"), re.MULTILINE):
        assert set(extras.split(",")) <= project["optional-dependencies"].keys()


def test_every_block_is_executed_by_one_of_these_tests(request: pytest.FixtureRequest) -> None:
    """Last, and only where all of this file runs: what nobody executed is not true, it only stands there."""
    if len([item for item in request.session.items if item.path == request.path]) < 4:
        pytest.fail("run the whole file") if os.environ.get("WHOLE_TEST_RUN") else None
        return
    assert {found.text for found in README.blocks} == README.executed


def test_it_is_shorter_than_220_lines() -> None:
    assert len(README.text.splitlines()) < 220


def test_what_to_install_is_said_before_what_needs_it() -> None:
    install = README.text[README.text.index("## Install") :].partition("\n## ")[0]
    assert README.text.index("## Install") < README.text.index("## Write")
    assert "`psql`" in install


def test_each_outbox_is_shown_with_its_spec(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    example = Block("python", (ROOT / "examples/orders/orders.py").read_text())
    calls = [
        call
        for found in [*README.blocks, *Page("docs/writing.md").blocks, example]
        if found.language == "python"
        for call in ast.walk(ast.parse(found.text))
        if isinstance(call, ast.Call) and ast.unparse(call.func) in {"Outbox", "AsyncOutbox"}
    ]
    assert len(calls) == 5
    for call in calls:
        names = {name: getattr(cdc_outbox, name) for name in ("AsyncOutbox", "Outbox", "load_spec")}
        names |= {"Path": Path, "__file__": str(ROOT / "examples/orders/orders.py")}
        outbox = eval(ast.unparse(call), names)  # noqa: S307 - our own README
        assert list(outbox.contract.aggregates) == ["customer"]


def test_the_blocks_that_write_and_consume_are_a_dozen_lines() -> None:
    for name in ("orders", "shipping"):
        code = [line for line in README.block(f"# {name}.py").splitlines() if line.strip() and not line.startswith("#")]
        imports = [line for line in code if line.startswith(("import ", "from "))]
        assert len(code) - len(imports) <= 12
