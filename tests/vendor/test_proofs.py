"""Every hazard that can be provoked here is: what the linter tells of a configuration is what comes of it."""

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import ExitStack
from typing import TypeGuard

import psycopg
import pytest
import requests

from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.debezium.event_router.jvm import RealRouter, fetch_plugin
from cdc_outbox.testing import MariaDb, Stack
from tests.proofs import proven_by_an_outage
from tests.proofs.catalogue import RAN, SENT, Sent
from tests.proofs.place import Topics
from tests.proofs.proof import Proof
from tests.proofs.proven_by_asking import ANSWERED, Answered
from tests.proofs.proven_by_routing import ROUTED
from tests.proofs.proven_in_pairs import Pair
from tests.proofs.proven_on_mariadb import OnMariaDb
from tests.proofs.ran import Ran, Site
from tests.proofs.routed import Routed
from tests.support.patience import patience
from tests.support.pymysql_connections import connect_pymysql
from tests.support.rig import make_connector_role
from tests.support.threads import Threads

AT_ONCE = 14
"""Proofs that run at the same time: each one waits more than it works."""
_PLUGINS = {"mongodb": "3.6.1.Final", "oracle": "3.6.1.Final"}
"""The releases of connectors that the stack does not run."""


Runs = Mapping[str, Future[None]]


class Routers:
    """Debezium's routers, a JVM for each connector's jars, started when the first proof asks."""

    def __init__(self, stack: Stack, opened: ExitStack) -> None:
        self._stack, self._opened = stack, opened
        self._routers: dict[str, RealRouter] = {}

    def of(self, plugin: str) -> RealRouter:
        if plugin not in self._routers:
            jvm = self._stack.jvm
            folders = {folder.name: folder for folder in jvm.plugins}
            # Beside the stack's own jars are those that were fetched before.
            folder = folders.get(f"debezium-connector-{plugin}") or fetch_plugin(
                jvm.home.parent.parent, plugin, _PLUGINS[plugin]
            )
            self._routers[plugin] = self._opened.enter_context(RealRouter.open(jvm, folder))
        return self._routers[plugin]


@pytest.fixture(scope="session")
def outbox_stack(exclusive_stack: Stack) -> Stack:
    """One of the proofs pauses the broker."""
    return exclusive_stack


@pytest.fixture(scope="session")
def mariadb(exclusive_mariadb: MariaDb) -> MariaDb:
    return exclusive_mariadb


@pytest.fixture(scope="module")
def routers(outbox_stack: Stack) -> Iterator[Routers]:
    with ExitStack() as opened:
        yield Routers(outbox_stack, opened)


@pytest.fixture(scope="module")
def site(outbox_stack: Stack) -> Iterator[Site]:
    database = "proofs"
    with psycopg.connect(outbox_stack.postgres.create_database(database), autocommit=True) as connection:
        make_connector_role(connection)
    with Topics(outbox_stack.broker.bootstrap_servers) as topics, ExitStack() as opened:
        yield Site(stack=outbox_stack, topics=topics, database=database, opened=opened)


def is_of_connectors(item: pytest.Item) -> TypeGuard[pytest.Function]:
    return isinstance(item, pytest.Function) and item.function is test_a_connector_shows_it_and_a_mended_one_does_not


def alone(proof: Proof) -> bool:
    return isinstance(proof, OnMariaDb) and proof.alone


@pytest.fixture(scope="module")
def statements(mariadb: MariaDb) -> Iterator[None]:
    """MariaDB keeps what it is asked, for CC708 to look at."""
    with connect_pymysql(mariadb.dsn()) as connection, connection.cursor() as cursor:
        cursor.execute("set global log_output = 'TABLE'")
        cursor.execute("set global general_log = on")
        yield
        cursor.execute("set global general_log = off")


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest, site: Site) -> Iterator[Runs]:
    """Whatever of the proofs was asked for, all of it under way at once."""
    asked = {str(item.callspec.params["proof"]) for item in request.session.items if is_of_connectors(item)}
    proofs: list[Ran | Pair | OnMariaDb] = [proof for proof in reversed(RAN) if proof.code in asked]
    if any(proof.kind is DatabaseKind.MARIADB for proof in proofs):
        request.getfixturevalue("statements")
    with Threads(AT_ONCE, seconds=1800) as pool:
        together = {proof.code: pool.submit(proof.prove, site) for proof in proofs if not alone(proof)}
        wait(together[proof.code] for proof in proofs if proof.kind is DatabaseKind.MARIADB and not alone(proof))
        yield together | {proof.code: pool.submit(proof.prove, site) for proof in proofs if alone(proof)}


@pytest.mark.parametrize("proof", RAN, ids=str)
def test_a_connector_shows_it_and_a_mended_one_does_not(proof: Ran | Pair | OnMariaDb, runs: Runs) -> None:
    runs[proof.code].result()


@pytest.mark.parametrize("proof", ROUTED, ids=str)
def test_a_row_shows_it_and_with_mended_options_it_does_not(proof: Routed, routers: Routers) -> None:
    router = routers.of(proof.plugin)
    flagged = proof.route(router, proof.changes)
    assert proof.shows(flagged), flagged
    fixed = proof.route(router, proof.fixed)
    assert not proof.shows(fixed), fixed


@pytest.mark.parametrize("proof", ANSWERED, ids=str)
def test_the_worker_refuses_it(proof: Answered, site: Site) -> None:
    client = ConnectClient(site.stack.connect_cluster)
    said = {
        changes is proof.changes: [
            finding.message
            for finding in client.validate(proof.config(changes, database=site.database))
            if finding.location.path == proof.option
        ]
        for changes in (proof.changes, proof.fixed)
    }
    client.close()
    assert any(proof.says in message for message in said[True]), said
    assert said[False] == []


@pytest.mark.parametrize("sent", SENT, ids=str)
def test_the_worker_does_not_take_what_is_no_configuration(sent: Sent, outbox_stack: Stack) -> None:
    path = "connectors" if sent.method == "POST" else "connectors/none/config"
    cluster = outbox_stack.connect_cluster
    assert cluster.login is not None
    headers = {"Content-Type": "application/json", "Authorization": cluster.login.header}
    url = f"{cluster.urls[0]}/{path}"
    answer = requests.request(sent.method, url, data=sent.document, headers=headers, timeout=patience())
    assert answer.status_code == sent.status
    assert sent.says in answer.json()["message"]


def test_an_outage_ends_what_does_not_wait_for_its_end(site: Site, runs: Runs) -> None:
    # Those that run would notice the outage too.
    wait(runs.values())
    proven_by_an_outage.prove(site)
