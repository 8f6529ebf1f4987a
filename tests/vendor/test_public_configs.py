"""The configurations that others published and the linter finds no error in: the real worker takes them too."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.testing import Stack
from cdc_outbox.testing.configure import ConfigureCheck
from tests.support.configs import PUBLIC_CONFIGS

NOWHERE = {"database.hostname": "127.0.0.1", "database.port": "1", "database.password": "${env:CONNECTOR_PASSWORD}"}
"""A server that refuses at once."""
MONGODB = {
    "mongodb.connection.string": "mongodb://127.0.0.1:1/?replicaSet=rs0",
    "mongodb.server.selection.timeout.ms": "300",
}
SQLSERVER = {"driver.loginTimeout": "1"}
AVRO = "postgresql-cloudevents"
"""Its converter looks for Avro's, which no Debezium plugin brings, and Connect answers for it at the start alone."""

published = pytest.mark.parametrize("path", sorted(PUBLIC_CONFIGS.glob("*.json")), ids=lambda path: path.stem)


def config_of(path: Path) -> dict[str, str]:
    """Return a configuration as it was published, but for where the server is."""
    config: dict[str, str] = json.loads(path.read_text())["config"]
    if "MongoDb" in config["connector.class"]:
        return {"name": path.stem, **config, **MONGODB}
    login = SQLSERVER if "SqlServer" in config["connector.class"] else {}
    return {"name": path.stem, **config, **NOWHERE, **login}


@pytest.fixture(scope="module")
def client(outbox_stack: Stack) -> Iterator[ConnectClient]:
    with closing(ConnectClient(outbox_stack.connect_cluster)) as opened:
        yield opened


@published
def test_the_worker_finds_nothing_wrong_but_that_the_server_is_not_there(client: ConnectClient, path: Path) -> None:
    [finding] = client.validate(config_of(path))
    assert finding.location.path in {"database.hostname", "mongodb.connection.string"}


@published
def test_its_transforms_and_converters_take_their_options(configure_check: ConfigureCheck, path: Path) -> None:
    refused = [refusal.option for refusal in configure_check.refusals(config_of(path))]
    assert refused == (["value.converter"] if path.stem == AVRO else [])
