"""The how-tos of docs/writing.md are executed, as they stand there."""

import json
import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import psycopg
import pytest

from cdc_outbox.testing import MariaDb, Stack
from tests.support.mariadb import MariaDbStore
from tests.support.pages import ROOT, Page, run_script
from tests.support.postgresql import PostgresStore
from tests.support.rig import one

PAGE = Page("docs/writing.md")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "connectors", tmp_path / "connectors")
    # The database `orders` of the shared server is the README's.
    spec = tmp_path / "connectors" / "orders.yaml"
    spec.write_text(spec.read_text().replace("\n  name: orders\n", "\n  name: writing_page\n"))
    return tmp_path


@pytest.fixture(scope="module")
def database(outbox_stack: Stack) -> str:
    dsn = outbox_stack.postgres.create_database("writing_page")
    with psycopg.connect(dsn) as connection:
        # What the service's own migrations make.
        connection.execute("create table orders (id serial, customer int, total_cents int)")
    return dsn


@pytest.fixture
def orders(database: str, folder: Path) -> Iterator[psycopg.Connection]:
    run_script("cdc-outbox init connectors/orders.yaml", folder, {"CDC_OUTBOX_DSN": database})
    with psycopg.connect(database) as connection:
        yield connection


def test_fastapi_and_sqlalchemy_as_the_page_says(
    orders: psycopg.Connection, outbox_stack: Stack, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fastapi.testclient import TestClient

    monkeypatch.setenv("ORDERS_URL", outbox_stack.postgres.url("writing_page"))
    monkeypatch.chdir(folder)
    module = PAGE.imported("fastapi_orders", folder)
    with TestClient(module.app) as client:
        answers = [client.post("/orders", params={"customer": 4711, "total_cents": 5}).json() for _ in range(2)]
        assert client.portal is not None
        client.portal.call(module.sessions.kw["bind"].dispose)
    assert answers == [{"sequence": 1}, {"sequence": 2}]
    assert one(orders, "select count(*) from orders where customer = 4711") == 2


def test_django_as_the_page_says(
    orders: psycopg.Connection, database: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from django.test import RequestFactory

    from tests.support.django_site import add_alias, remove_alias

    monkeypatch.chdir(folder)
    with closing(PostgresStore(database)) as store:
        alias = add_alias(store, "default")
        try:
            module = PAGE.imported("views", folder)
            request = RequestFactory().post("/", {"customer": "4712", "total_cents": "5"})
            answers = [json.loads(module.place_order(request).content) for _ in range(2)]
        finally:
            remove_alias(alias)
    assert answers == [{"sequence": 1}, {"sequence": 2}]
    assert one(orders, "select count(*) from orders where customer = 4712") == 2


def test_mariadb_as_the_page_says(mariadb: MariaDb, folder: Path) -> None:
    with closing(MariaDbStore(mariadb.create_database("orders"))) as store:
        store.query("create table orders (id serial, customer int, total_cents int)")
        (folder / "mariadb_orders.py").write_text(PAGE.block("# mariadb_orders.py"))
        environment = {f"MARIADB_{key.upper()}": str(value) for key, value in asdict(store.dsn).items()}
        environment["MARIADB_DSN"] = store.dsn.url("mysql").partition("?")[0]
        run_script(PAGE.block("cdc-outbox init connectors/orders-mariadb.yaml"), folder, environment)
        for _ in range(2):
            run_script("python mariadb_orders.py", folder, environment)
        assert store.query("select customer from orders") == [(42,), (42,)]
        assert store.numbers() == [("42", 1), ("42", 2)]
