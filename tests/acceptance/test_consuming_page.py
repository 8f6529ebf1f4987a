"""The how-tos of docs/consuming.md are executed, as they stand there, over a real topic."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from django.db import models

from cdc_outbox.consumer import AsyncConsumer, Consumer, SequenceMode, WireContract
from cdc_outbox.testing import MariaDb, Stack
from tests.contract.consumer_contract import PostgresLedger, running
from tests.support.django_site import add_entry, entry, remove_alias
from tests.support.events import make_event
from tests.support.mariadb import MariaDbStore
from tests.support.pages import Page
from tests.support.patience import patience
from tests.support.rig import eventually
from tests.support.sqlalchemy_clients import url_of

PAGE = Page("docs/consuming.md")
CONTRACT = WireContract(aggregates={"contract": SequenceMode.GAPLESS})
BILLS = "create table bills (customer varchar(50) primary key)"


@pytest.fixture
def ledger(outbox_stack: Stack, monkeypatch: pytest.MonkeyPatch) -> Iterator[PostgresLedger]:
    with closing(PostgresLedger(outbox_stack.postgres.create_database(f"b{uuid4().hex[:10]}"))) as ledger:
        ledger.query(BILLS)
        monkeypatch.setenv("BILLING_DSN", ledger.dsn)
        monkeypatch.setenv("BILLING_URL", str(url_of(ledger.dsn, "psycopg").render_as_string(hide_password=False)))  # type: ignore[union-attr]
        yield ledger


@pytest.fixture
def bill(outbox_stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., ModuleType]:
    """Return what runs the consumer of a block until it has billed a customer."""
    servers = outbox_stack.broker.bootstrap_servers
    monkeypatch.setenv("CDC_OUTBOX_BOOTSTRAP_SERVERS", servers)
    topic = CONTRACT.topic_of("contract")
    if not outbox_stack.broker.ends(topic):
        outbox_stack.broker.create_topic(topic)

    def run(name: str, query: Callable[[str], list[Any]]) -> ModuleType:
        module = PAGE.imported(name, tmp_path)
        event = make_event(1, uuid4().hex, event_type="ContractSigned", aggregate_type="contract")
        message = CONTRACT.message_of(event)
        producer = Producer({"bootstrap.servers": servers})
        producer.produce(message.topic, message.value, message.key, headers=list(message.headers))
        assert producer.flush(patience()) == 0
        consumer: Consumer | AsyncConsumer = module.consumer
        with running(consumer):
            eventually(lambda: (event.aggregate_id,) in query("select customer from bills"), "the bill")
        return module

    return run


def test_sqlalchemy_as_the_page_says(ledger: PostgresLedger, bill: Callable[..., Any]) -> None:
    bill("sqlalchemy_billing", ledger.query).engine.dispose()


def test_django_as_the_page_says(
    ledger: PostgresLedger, bill: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Bill(models.Model):
        customer: Any = models.CharField(primary_key=True, max_length=50)

        class Meta:
            app_label = "billing"
            db_table = "bills"

    package = ModuleType("billing.models")
    package.Bill = Bill  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "billing", ModuleType("billing"))
    monkeypatch.setitem(sys.modules, "billing.models", package)
    alias = add_entry(entry(ledger.dsn), "default")
    try:
        bill("django_billing", ledger.query)
    finally:
        remove_alias(alias)


def test_asyncio_as_the_page_says(ledger: PostgresLedger, bill: Callable[..., Any]) -> None:
    bill("asyncio_billing", ledger.query)


def test_mariadb_as_the_page_says(mariadb: MariaDb, bill: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(MariaDbStore(mariadb.create_database(f"b{uuid4().hex[:10]}"))) as store:
        store.query(BILLS)
        for key, value in asdict(store.dsn).items():
            monkeypatch.setenv(f"MARIADB_{key.upper()}", str(value))
        env = {
            "PATH": f"{sys.prefix}/bin:/usr/bin:/bin",
            "BILLING_MARIADB_DSN": store.dsn.url("mysql").partition("?")[0],
        }
        script = PAGE.block('cdc-outbox init --inbox --dsn "$BILLING_MARIADB_DSN"')
        subprocess.run(["bash", "-euc", script], env=env, check=True, capture_output=True)
        bill("mariadb_billing", store.query)
