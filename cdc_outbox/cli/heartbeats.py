"""A pipeline's heartbeats, slot and offset, as the commands look at them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cdc_outbox.cli.brokers import broker_settings
from cdc_outbox.cli.contexts import Databases
from cdc_outbox.cli.database import connected
from cdc_outbox.connect import positions
from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.positions import Positions
from cdc_outbox.connect.publishing import publishers_of, refuse_while_relayed
from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.debezium.config import kind_of, slot_of
from cdc_outbox.debezium.explanations import explained
from cdc_outbox.debezium.preflight import slot_in_use
from cdc_outbox.debezium.slot_plan import is_read_by_other_tool
from cdc_outbox.finding import Finding, Location
from cdc_outbox.kafka import confluent
from cdc_outbox.operations.recovery import Beating, HeartbeatTable, HeartbeatTopic, History


def history_of(config: Mapping[str, str], settings: Mapping[str, Any], dsn: str | None) -> History | None:
    """Return the heartbeats of a connector, ``None`` if it writes none through its outbox.

    Args:
        config: The connector's.
        settings: librdkafka's, for a consumer.
        dsn: The outbox's database; without it a database that went back shows only when its heartbeats arrive.
    """
    beating = Beating.of(config)
    return None if beating is None else _history(beating, settings, dsn)


def _history(beating: Beating, settings: Mapping[str, Any], dsn: str | None) -> History:
    @contextmanager
    def table() -> Iterator[HeartbeatTable]:
        with connected(dsn or "", DatabaseKind.POSTGRESQL) as (connection, driver):
            yield HeartbeatTable(beating, connection, driver)

    return History(beating, HeartbeatTopic(beating.topic, settings), table if dsn else None)


def heartbeat_findings(
    config: Mapping[str, str],
    bootstrap_servers: str | None,
    kafka_settings: Path | None,
    dsn: str | None,
    *,
    client: ConnectClient | None = None,
    runs: bool | None = None,
) -> list[Finding]:
    """Return what a connector's heartbeats show, and a note where they cannot be read.

    Args:
        config: The connector's, as it runs or as a spec says.
        client: Where the connector runs. What it writes there counts, if the spec says something else.
        runs: Whether the connector runs.

    Raises:
        BrokerError, DatabaseError, ConnectError: One of them cannot be read.
    """
    beating = Beating.of(config)
    if beating is None:
        return []
    if bootstrap_servers is None:
        message = "the heartbeats were not read, so a restore of the database to an older state was not checked."
        location = Location(document="heartbeats", path=beating.topic)
        return [explained("OP406", location, message, "Set --bootstrap-servers.")]
    settings = broker_settings(bootstrap_servers, kafka_settings, group="cdc-outbox heartbeats")
    if client is not None:
        beating = Beating.of(client.find_config(beating.name) or {}) or beating
    return _history(beating, settings, dsn).look(runs=runs)


def require_client(config: Mapping[str, str], bootstrap_servers: str | None) -> None:
    """Refuse before a database or a worker is asked where heartbeats would be read without the Kafka client.

    Raises:
        OutboxError: The client is not installed.
    """
    if bootstrap_servers is not None and Beating.of(config) is not None:
        confluent.require()


class Looks:
    """Looks at the histories of connectors again and again; no message of a topic is read twice.

    Args:
        settings: librdkafka's, for a consumer; ``None`` where the brokers are not known.
        databases: ``None`` where they are not known.
    """

    def __init__(self, client: ConnectClient, settings: Mapping[str, Any] | None, databases: Databases | None) -> None:
        self._client, self._settings, self._databases = client, settings, databases
        self._histories: dict[Beating, History] = {}

    def look(self, name: str, *, runs: bool) -> list[Finding]:
        """Return what slot, offset and heartbeats of a connector show.

        Raises:
            CdcOutboxError: One of those who know does not answer.
        """
        config = self._client.find_config(name) or {}
        dsn = None if self._databases is None else self._databases.of(name)
        found = [] if dsn is None else slot_findings(self._client, config, dsn)
        if self._settings is not None:
            history = self._history_of(config, self._settings, dsn)
            found += [] if history is None else history.look(runs=runs)
        return found

    def refuse_relayed(self, name: str) -> None:
        """Refuse to let a connector publish what a relay publishes, as :func:`refuse_relayed` does."""
        refuse_relayed(self._client, name, self._databases)

    def _history_of(self, config: Mapping[str, str], settings: Mapping[str, Any], dsn: str | None) -> History | None:
        """Return the history of the heartbeats that a connector writes now: a deployment may change which."""
        beating = Beating.of(config)
        if beating is None:
            return None
        if beating not in self._histories:
            self._histories[beating] = _history(beating, settings, dsn)
        return self._histories[beating]


def refuse_relayed(client: ConnectClient, name: str, databases: Databases | None) -> None:
    """Refuse to let a connector publish what a relay publishes; without a DSN that is not known.

    Raises:
        ConnectorInvalidError: A relay publishes the outbox.
        CdcOutboxError: Connect or the database does not answer.
    """
    dsn = None if databases is None else databases.find(name)
    config = {} if dsn is None else client.find_config(name) or {}
    if dsn is None or kind_of(config) is not DatabaseKind.POSTGRESQL:
        return
    with connected(dsn, DatabaseKind.POSTGRESQL) as (connection, driver):
        for publishers in publishers_of(connection, driver, config):
            refuse_while_relayed(name, publishers)


def find_positions(client: ConnectClient, config: Mapping[str, str], dsn: str) -> Positions:
    """Return where a connector's slot and its stored offset are, on PostgreSQL."""
    with connected(dsn, DatabaseKind.POSTGRESQL) as (connection, driver):
        return positions.find_positions(connection, driver, client, config)


def slot_findings(client: ConnectClient, config: Mapping[str, str], dsn: str) -> list[Finding]:
    """Return whether another tool reads a connector's slot, and whether slot and offset leave out events between them.

    Raises:
        CdcOutboxError: Connect or the database does not answer.
    """
    if kind_of(config) is not DatabaseKind.POSTGRESQL:
        return []
    found = find_positions(client, config, dsn)
    hole, location = found.find_hole(), Location(document="database", path=slot_of(config))
    findings = [] if hole is None else [explained(hole.code, location, hole.text, hole.hint)]
    if found.slot is not None and is_read_by_other_tool(found.slot):
        findings.insert(0, slot_in_use(found.slot))
    return findings
