"""What is rendered for each of the six databases: the real worker takes it, its plugins take it, and a row passes.

No server is there. Of PostgreSQL and MariaDB one is on this stack, and test_deploy and test_render_others run theirs.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from datetime import UTC, datetime

import platformdirs
import pytest

from cdc_outbox import RecordedEvent
from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.debezium.event_router import (
    Change,
    ConnectRecord,
    ConnectType,
    ConnectValue,
    LogicalName,
    Routing,
    RoutingConfig,
)
from cdc_outbox.debezium.event_router.jvm import NEWEST_PLUGINS, Outcome, RealRouter, fetch_plugin
from cdc_outbox.debezium.render import raw_topic, render
from cdc_outbox.message import Message
from cdc_outbox.spec import Spec, parse_spec
from cdc_outbox.testing import Stack
from cdc_outbox.testing.configure import ConfigureCheck
from tests.support.specs import MINIMAL, MONGODB

KINDS: list[DatabaseKind] = [kind for kind in DatabaseKind if kind is not DatabaseKind.SQLITE]
UNREACHABLE: Mapping[DatabaseKind, str] = {
    kind: "mongodb.connection.string" if kind is DatabaseKind.MONGODB else "database.hostname" for kind in KINDS
}
"""Where Debezium says that it does not reach the server."""
IMPATIENT = {
    DatabaseKind.SQLSERVER: "driver.loginTimeout: 1",
    DatabaseKind.MONGODB: "mongodb.server.selection.timeout.ms: 300",
}
"""What keeps a driver from trying for half a minute."""

CREATED_AT = datetime(2026, 11, 21, 10, 0, 0, 123_456, tzinfo=UTC)
EVENT = RecordedEvent(
    id="019365a0-7c1e-7b3a-8f00-0123456789ab",
    aggregate_type="customer",
    aggregate_id="ä/42",
    type="OrderPlaced",
    payload='{ "kept":  "verbatim", "twice": 1.10 }',
    sequence=7,
    source="orders.1",
    created_at=CREATED_AT,
    headers={"tenant": "acme"},
)
MICROSECONDS = 1_795_255_200_123_456
TIMES = {
    DatabaseKind.SQLSERVER: ConnectValue(ConnectType.INT64, MICROSECONDS * 1000, LogicalName.NANO_TIMESTAMP),
}
"""What Debezium makes of the time, where it does not make microseconds of it."""
CUT = {DatabaseKind.MONGODB: 123_000}
"""The microseconds of a second, where the database has milliseconds."""
CARRIERS = {DatabaseKind.MYSQL: DatabaseKind.ORACLE, DatabaseKind.SQLSERVER: DatabaseKind.ORACLE}
"""Whose plugin has the same router in the same release, and is started anyway."""
every_kind = pytest.mark.parametrize("kind", KINDS)


def spec_of(kind: DatabaseKind, more: str = "") -> Spec:
    """Return a spec for a server that is not there."""
    text = MINIMAL.replace("postgresql", kind).replace("host: localhost", "host: 127.0.0.1\n  port: 1")
    if kind is DatabaseKind.MONGODB:
        text = MONGODB.replace("mongo-1:27017,mongo-2:27017", "127.0.0.1:1")
    owner = "schema: APP, " if kind is DatabaseKind.ORACLE else ""
    outbox = f"outbox: {{{owner}headers: {{tenant: tenant}}{more}}}\n"
    overrides = f"overrides: {{{IMPATIENT.get(kind, 'max.batch.size: 1024')}}}\n"
    # The worker of the tests has this variable.
    return parse_spec(text.replace("PASSWORD", "CONNECTOR_PASSWORD") + outbox + overrides)


def record_of(spec: Spec) -> ConnectRecord:
    """Return what Debezium makes of the inserted event, in a table that has not the columns of every header yet."""
    kind, columns = spec.database.kind, spec.outbox.columns.names()
    if kind is DatabaseKind.MONGODB:
        document = (
            f'{{"_id": "{EVENT.id}", "aggregatetype": "customer", "aggregateid": "ä/42", "type": "OrderPlaced", '
            r'"payload": "{ \"kept\":  \"verbatim\", \"twice\": 1.10 }", "sequence": {"$numberLong": "7"}, '
            f'"source": "orders.1", "tenant": "acme", "created_at": {{"$numberLong": "{MICROSECONDS // 1000}"}}}}'
        )
        return ConnectRecord(topic=raw_topic(spec), value=Change(row=None, document=document))
    text = ConnectType.STRING
    row = {
        columns["id"]: ConnectValue(text, EVENT.id),
        columns["aggregate_type"]: ConnectValue(text, EVENT.aggregate_type),
        columns["aggregate_id"]: ConnectValue(text, EVENT.aggregate_id),
        columns["type"]: ConnectValue(text, EVENT.type),
        columns["payload"]: ConnectValue(text, str(EVENT.payload)),
        columns["sequence"]: ConnectValue(ConnectType.INT64, EVENT.sequence),
        columns["source"]: ConnectValue(text, EVENT.source),
        columns["created_at"]: TIMES.get(
            kind, ConnectValue(ConnectType.INT64, MICROSECONDS, LogicalName.MICRO_TIMESTAMP)
        ),
        "tenant": ConnectValue(text, "acme"),
    }
    return ConnectRecord(topic=raw_topic(spec), value=Change(row=row))


@pytest.fixture(scope="module")
def client(outbox_stack: Stack) -> Iterator[ConnectClient]:
    with closing(ConnectClient(outbox_stack.connect_cluster)) as opened:
        yield opened


@pytest.fixture(scope="module")
def routed(outbox_stack: Stack) -> Mapping[DatabaseKind, list[Outcome]]:
    """What the real router of each connector makes of the row, all asked before the first answers."""
    cache = platformdirs.user_cache_path("cdc-outbox")
    with ExitStack() as opened:
        asked: dict[str, RealRouter] = {}
        for kind in KINDS:
            plugin = CARRIERS.get(kind, kind)
            if plugin not in asked:
                folder = fetch_plugin(cache, plugin, NEWEST_PLUGINS[plugin]) if plugin in NEWEST_PLUGINS else None
                asked[plugin] = opened.enter_context(RealRouter.open(outbox_stack.jvm, folder))
            spec = spec_of(kind)
            asked[plugin].ask(RoutingConfig.from_config(render(spec)), [record_of(spec)], connector=kind)
        return {kind: asked[CARRIERS.get(kind, kind)].answer() for kind in KINDS}


@every_kind
def test_the_worker_finds_nothing_wrong_but_that_the_server_is_not_there(
    client: ConnectClient, kind: DatabaseKind
) -> None:
    found = client.validate(render(spec_of(kind)))
    assert [finding.location.path for finding in found] == [UNREACHABLE[kind]]


@pytest.fixture(scope="module")
def oracles_check(outbox_stack: Stack) -> Iterator[ConfigureCheck]:
    """What configures plugins in a worker that has no other plugin of Debezium's than Oracle's."""
    folder = fetch_plugin(platformdirs.user_cache_path("cdc-outbox"), "oracle", NEWEST_PLUGINS["oracle"])
    with ConfigureCheck(outbox_stack.jvm, folder.parent) as check:
        yield check


@every_kind
@pytest.mark.parametrize(
    "more", ["", ", format: cloudevents-binary, payload_type: bytes", ", columns: {created_at: null, type: kind}"]
)
def test_every_transform_predicate_and_converter_takes_its_options(
    configure_check: ConfigureCheck, oracles_check: ConfigureCheck, kind: DatabaseKind, more: str
) -> None:
    config = render(spec_of(kind, more))
    check = oracles_check if kind is DatabaseKind.ORACLE else configure_check
    assert check.refusals(config) == []
    # And would not, were they wrong.
    [broken] = check.refusals({**config, "transforms.outbox.route.topic.regex": "[[a"})
    assert broken.option == "transforms.outbox"
    assert "ConfigException" in broken.error


def test_oracles_connector_does_not_start_beside_a_newer_plugin(configure_check: ConfigureCheck) -> None:
    # Connect takes the newest EventRouter of all plugins, which then meets Oracle's service for its own EventRouter.
    [refusal] = configure_check.refusals(render(spec_of(DatabaseKind.ORACLE)))
    assert (refusal.option, refusal.error) == ("transforms.outbox", "java.util.ServiceConfigurationError")
    assert "not a subtype" in refusal.message


@every_kind
def test_the_real_router_makes_of_a_row_what_the_contract_says(
    routed: Mapping[DatabaseKind, list[Outcome]], kind: DatabaseKind
) -> None:
    [message] = routed[kind]
    assert isinstance(message, Message), message
    spec = spec_of(kind)
    stated = spec.contract.message_of(EVENT)
    assert (message.topic, message.key, message.value) == (stated.topic, stated.key, stated.value)
    assert message.timestamp_ms == stated.timestamp_ms
    # The row is older than the columns of some headers.
    told = {**dict.fromkeys(dict(stated.headers)), **dict(message.headers)}
    assert told | {"createdAt": dict(stated.headers)["createdAt"]} == dict(stated.headers)
    read = spec.contract.event_of(message)
    assert read.payload == {"kept": "verbatim", "twice": 1.1}
    # In whatever unit its database has it.
    assert read.created_at == CREATED_AT.replace(microsecond=CUT.get(kind, CREATED_AT.microsecond))
    if kind is not DatabaseKind.MONGODB:  # which is not imitated
        config, version = RoutingConfig.from_config(render(spec)), (3, 5) if kind is DatabaseKind.MARIADB else (3, 6)
        assert Routing.from_config(config, version=version, connector=kind).message(record_of(spec)) == message
