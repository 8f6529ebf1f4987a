"""Every code block of the README is executed, as it stands there."""

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest
from psycopg.sql import SQL, Literal

import cdc_outbox
from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.testing import MariaDb, Stack
from tests.support.mariadb import MariaDbStore
from tests.support.postgresql import PostgresStore
from tests.support.rig import CONNECTOR_PASSWORD, eventually, import_block, one

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


class Block(NamedTuple):
    language: str
    text: str


BLOCKS = [Block(*found) for found in re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)]


def block(start: str) -> str:
    """Return the one block that starts so, and note that it was executed."""
    [found] = [block.text for block in BLOCKS if block.text.startswith(start)]
    EXECUTED.add(found)
    return found


EXECUTED: set[str] = set()


@pytest.fixture(scope="module")
def services(outbox_stack: Stack) -> Iterator[dict[str, str]]:
    """The two databases of the README's services, and the variables that it speaks of."""
    orders, shipping = (outbox_stack.postgres.create_database(name) for name in ("orders", "shipping"))
    with psycopg.connect(orders) as connection:
        # What the service's own migrations make.
        connection.execute("create table orders (id serial, customer int, total_cents int)")
    yield {
        **outbox_stack.environment(),
        "CDC_OUTBOX_DSN": orders,
        "ORDERS_DSN": orders,
        "SHIPPING_DSN": shipping,
        "ORDERS_URL": outbox_stack.postgres.url("orders"),
    }
    client = ConnectClient(outbox_stack.connect_cluster)
    if client.find_config("orders"):
        client.delete("orders")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "connectors").symlink_to(ROOT / "connectors")
    return tmp_path


def run(script: str, folder: Path, services: dict[str, str]) -> str:
    env = {**services, "PATH": f"{sys.prefix}/bin:/usr/bin:/bin"}
    done = subprocess.run(
        ["bash", "-euxc", script], cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_writing_deploying_and_consuming_as_the_readme_says(services: dict[str, str], folder: Path) -> None:
    deploy = block("cdc-outbox init connectors/orders.yaml ")
    with psycopg.connect(services["ORDERS_DSN"], autocommit=True) as orders:
        init, grants, *rest = deploy.splitlines()
        run(init, folder, services)
        orders.execute(run(grants, folder, services).encode())
        orders.execute(SQL("alter role orders_connector password {}").format(Literal(CONNECTOR_PASSWORD)))
        assert run("\n".join(rest), folder, services) == "orders: deployed\norders: nothing to change\n"

    for name in ("orders", "shipping"):
        (folder / f"{name}.py").write_text(block(f"# {name}.py"))
    run("python orders.py", folder, services)

    export, init, consume = block("cdc-outbox contract export").splitlines()
    run(f"{export}\n{init}", folder, services)
    with psycopg.connect(services["SHIPPING_DSN"], autocommit=True) as shipping:
        shipping.execute("create table shipments (customer int)")
        env = {**services, "PATH": f"{sys.prefix}/bin:/usr/bin:/bin"}
        consuming = subprocess.Popen(
            ["bash", "-euc", f"exec {consume}"], cwd=folder, env=env, stderr=subprocess.PIPE, text=True
        )
        try:
            eventually(lambda: one(shipping, "select count(*) from shipments") == 1, "the shipment")
        finally:
            consuming.terminate()
            _, err = consuming.communicate(timeout=30)
    assert err.endswith("shipping: 1 applied\n")
    for parked in ("cdc-outbox parked list --dsn", "export CDC_OUTBOX_INBOX_DSN="):
        assert run(block(parked), folder, services) == ""


def test_the_pytest_fixture_as_the_readme_says(outbox_stack: Stack) -> None:
    namespace: dict[str, Any] = {}
    exec(compile(block("# test_pipeline.py"), "README.md", "exec"), namespace)  # noqa: S102 - our own README
    namespace["test_the_broker_is_real"](outbox_stack)


def test_fastapi_and_sqlalchemy_as_the_readme_says(
    services: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fastapi.testclient import TestClient

    monkeypatch.setenv("ORDERS_URL", services["ORDERS_URL"])
    run("cdc-outbox init connectors/orders.yaml", folder, services)
    module = imported("fastapi_orders", folder)
    with TestClient(module.app) as client:
        answers = [client.post("/orders", params={"customer": 4711, "total_cents": 5}).json() for _ in range(2)]
        assert client.portal is not None
        client.portal.call(module.sessions.kw["bind"].dispose)
    assert answers == [{"sequence": 1}, {"sequence": 2}]
    with psycopg.connect(services["ORDERS_DSN"]) as orders:
        assert one(orders, "select count(*) from orders where customer = 4711") == 2


def test_django_as_the_readme_says(services: dict[str, str], folder: Path) -> None:
    from django.test import RequestFactory

    from tests.support.django_site import add_alias, remove_alias

    run("cdc-outbox init connectors/orders.yaml", folder, services)
    with closing(PostgresStore(services["ORDERS_DSN"])) as store:
        alias = add_alias(store, "default")
        try:
            module = imported("views", folder)
            request = RequestFactory().post("/", {"customer": "4712", "total_cents": "5"})
            answers = [json.loads(module.place_order(request).content) for _ in range(2)]
        finally:
            remove_alias(alias)
    assert answers == [{"sequence": 1}, {"sequence": 2}]
    with psycopg.connect(services["ORDERS_DSN"]) as orders:
        assert one(orders, "select count(*) from orders where customer = 4712") == 2


def test_mariadb_as_the_readme_says(mariadb: MariaDb, folder: Path, services: dict[str, str]) -> None:
    store = MariaDbStore(mariadb.create_database("orders"))
    store.query("create table orders (id serial, customer int, total_cents int)")
    (folder / "mariadb_orders.py").write_text(block("# mariadb_orders.py"))
    dsn = {f"MARIADB_{key.upper()}": str(value) for key, value in asdict(store.dsn).items()}
    dsn["MARIADB_DSN"] = store.dsn.url("mysql").partition("?")[0]
    run(block("cdc-outbox init connectors/orders-mariadb.yaml"), folder, services | dsn)
    for _ in range(2):
        run("python mariadb_orders.py", folder, services | dsn)
    assert store.query("select customer from orders") == [(42,), (42,)]
    assert store.numbers() == [("42", 1), ("42", 2)]


def test_a_stack_of_ones_own_as_the_readme_says(server_folder: Path) -> None:
    # PostgreSQL alone, which is there in seconds; the whole stack comes up elsewhere.
    env = {"TMPDIR": str(server_folder), "CDC_OUTBOX_KAFKA": "false", "HOME": os.environ["HOME"]}
    up, env_of, *rest = block("cdc-outbox stack up").splitlines()
    told = 'printf "%s\\n" "$ORDERS_DSN" "$SHIPPING_DSN" "$CDC_OUTBOX_DSN"'
    try:
        orders, shipping, first, status = run("\n".join([up, env_of, told, *rest]), server_folder, env).splitlines()
    finally:
        run(rest[-1], server_folder, env)
    assert first == orders != shipping
    assert status.split()[:2] == ["postgres", "running"]
    assert not list(server_folder.iterdir())


def imported(name: str, folder: Path) -> Any:
    """Import a block of the README as the module that its first line names."""
    return import_block(block(f"# {name}.py"), name, folder)


def test_the_demo_as_the_readme_says() -> None:
    """The real thing, stack and kills included; its table is the one that the README shows."""
    shown = block("  orders committed")
    done = subprocess.run(
        ["bash", "-euc", block("./infra/demo")], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    table = [line for line in done.stdout.splitlines() if line.startswith("  ") and not re.match(r"  +\d+ s ", line)]
    assert len(table) == len(shown.splitlines())
    for line, expected in zip(table, shown.splitlines(), strict=True):
        assert re.sub(r"[\d,]+", "#", line).split() == re.sub(r"[\d,]+", "#", expected).split()
    for name in ("effects twice", "lost", "ghosts", "out of order", "gaps"):
        [line] = [line for line in table if line.strip().startswith(name)]
        assert line.split(name)[1].split()[0] == "0"
    for kill in ("of a consumer", "of the Connect worker"):
        assert re.search(rf"kill -9 {kill}, with [1-9]\d* ", done.stdout)


def test_the_extras_that_are_installed_exist() -> None:
    """tests/acceptance/test_dependencies.py installs them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for extras in re.findall(r"^pip install '\.\[(.+?)\]'", block("pip install '.[postgres]'"), re.MULTILINE):
        assert set(extras.split(",")) <= project["optional-dependencies"].keys()


def test_every_block_is_executed_by_one_of_these_tests(request: pytest.FixtureRequest) -> None:
    """Last, and only where all of this file runs: what nobody executed is not true, it only stands there."""
    if len([item for item in request.session.items if item.path == request.path]) < 4:
        pytest.fail("run the whole file") if os.environ.get("WHOLE_TEST_RUN") else None
        return
    assert {found.text for found in BLOCKS} == EXECUTED


def test_every_file_that_the_readme_links_to_is_there() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target


def test_what_to_install_is_said_before_what_needs_it() -> None:
    install = README[README.index("## Install") :].partition("\n## ")[0]
    assert README.index("## Install") < README.index("## Write")
    assert "`psql`" in install


def test_each_outbox_is_shown_with_its_spec(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    calls = [
        call
        for found in [*BLOCKS, Block("python", (ROOT / "examples/orders/orders.py").read_text())]
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
        code = [line for line in block(f"# {name}.py").splitlines() if line.strip() and not line.startswith("#")]
        imports = [line for line in code if line.startswith(("import ", "from "))]
        assert len(code) - len(imports) <= 12
