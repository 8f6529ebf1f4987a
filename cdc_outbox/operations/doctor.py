"""Diagnose a pipeline: the findings of lint, preflight, plan and status, each cause once.

Each system is queried separately, so a system that does not respond hides no finding about another one. Each fact is
read once, in an order in which a running pipeline shows no false finding: a slot before the offset that Connect
stored, the topic of heartbeats before their table.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from typing import Any

from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.deployed_connector import find_connector
from cdc_outbox.connect.lifecycle import OWED, PAY
from cdc_outbox.connect.neighbours import find_neighbours
from cdc_outbox.connect.plan import Found
from cdc_outbox.connect.positions import find_positions
from cdc_outbox.connect.preflight import LOOKS, Connected
from cdc_outbox.connect.spec_checks import RENDER, divergences
from cdc_outbox.connect.timings import Timings
from cdc_outbox.connect.wait import Condition, condition_of, describe, reason_of
from cdc_outbox.contract.topics import Topic, differences, find_loss
from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.databases.drivers import AnyConnection, TransactionDriver
from cdc_outbox.databases.heartbeats import Chain, Stored
from cdc_outbox.databases.introspection import Catalog
from cdc_outbox.databases.publishers import Publishers
from cdc_outbox.debezium.config import kind_of, slot_of
from cdc_outbox.debezium.diagnosis import Diagnosis
from cdc_outbox.debezium.explanations import explained
from cdc_outbox.debezium.lint import lint_all
from cdc_outbox.debezium.render import topics_of
from cdc_outbox.debezium.render.spec_config import spec_config
from cdc_outbox.errors import (
    BrokerError,
    CdcOutboxError,
    ConnectError,
    ConnectorNotFoundError,
    DatabaseAccessError,
    DatabaseError,
)
from cdc_outbox.finding import Finding, Location
from cdc_outbox.kafka.admin import Topics
from cdc_outbox.operations.merged_findings import by_severity, merge
from cdc_outbox.operations.recovery import Beating, HeartbeatTable, HeartbeatTopic, findings
from cdc_outbox.spec import Spec
from cdc_outbox.writer.drift import find_drift, outbox_catalog

Opening = Callable[[], AbstractContextManager[tuple[Any, TransactionDriver]]]
"""Opens a connection to the outbox's database."""

CONNECT, DATABASE, BROKERS = "connect", "database", "topics"
_NOT_ASKED = {
    CONNECT: ("Connect was not queried: the connector and its offsets were not checked.", "Set --connect-url."),
    DATABASE: ("the database was not checked.", "Set --dsn."),
    BROKERS: ("the brokers were not queried: topics and heartbeats were not checked.", "Set --bootstrap-servers."),
}


class _Relay(Enum):
    """The relay of a pipeline that has one and no connector."""

    RUNS = auto()
    IS_DOWN = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Systems:
    """The systems of a pipeline, ``None`` for one whose address is not known.

    Args:
        kafka_settings: librdkafka settings of the consumer that reads the heartbeats; ``None`` reads none.
        silent: The errors of systems that are known not to respond: ``connect``, ``database`` and ``topics``.
    """

    connect: ConnectClient | None = None
    database: Opening | None = None
    brokers: Topics | None = None
    kafka_settings: Mapping[str, Any] | None = None
    silent: Mapping[str, CdcOutboxError] = field(default_factory=dict)


class Doctor:
    """One diagnosis of one pipeline.

    Args:
        timings: Its timeout limits how long Connect may take to know a connector that was just created.
    """

    def __init__(self, spec: Spec, systems: Systems, *, timings: Timings) -> None:
        self._spec, self._systems, self._timings = spec, systems, timings
        self._kind = spec.database.kind
        self._silent = dict(systems.silent)
        self._sources: list[list[Finding]] = []
        self._connector: Found | None = None
        self._relay: _Relay | None = None
        self._written: list[str] = []
        self._beating: Beating | None = None
        self._chain: Chain | None = None
        self._stored: Stored | None = None
        configs, refused = spec_config(spec.document)
        self._config = configs[0].options if configs else None
        self._linted = [*refused, *lint_all(configs)]

    @property
    def silences(self) -> list[CdcOutboxError]:
        """The errors of systems that did not respond."""
        return [*self._silent.values()]

    def look(self) -> list[Finding]:
        """Return all findings, the most severe first; nothing is changed."""
        self._ask(CONNECT, self._check_connector)
        self._ask(BROKERS, self._check_topics)
        self._ask(BROKERS, self._read_heartbeats)
        self._ask(DATABASE, self._check_database)
        self._ask(CONNECT, self._check_workers)
        self._ask(CONNECT, self._validate)
        found = merge(self._unasked(), self._linted, *self._sources, self._check_heartbeats())
        return by_severity(found if self._relay is None else self._without_connector(found, self._relay))

    def _without_connector(self, findings: Iterable[Finding], relay: "_Relay") -> list[Finding]:
        """Return the findings about a pipeline that a relay publishes: it has no connector."""
        wanted, events = {"OP201", "DB503", "DB601"}, {*self._spec.contract.topics}
        found = [
            each
            for each in findings
            if each.code not in wanted and (each.code != "OP301" or each.location.path in events)
        ]
        location = Location(document=DATABASE, path=self._spec.database.slot)
        if relay is _Relay.RUNS:
            return [*found, explained("OP210", location, "a relay publishes the events.")]
        return [
            *found,
            explained("OP211", location, "the outbox names a relay as its publisher, and no relay reads the slot."),
        ]

    def _ask(self, system: str, ask: Callable[[], Iterable[Finding]]) -> None:
        """Add the findings of a check as one source; skip a system that did not respond before."""
        if system in self._silent:
            return
        source = list[Finding]()
        self._sources.append(source)
        try:
            for finding in ask():
                source.append(finding)
        except CdcOutboxError as error:
            self._silent[_system_of(error) or system] = error

    def _unasked(self) -> Iterator[Finding]:
        """Yield one finding for each system that did not respond, or whose address is not known."""
        known = {CONNECT: self._systems.connect, DATABASE: self._systems.database, BROKERS: self._systems.brokers}
        for system, address in known.items():
            location = Location(document=system, path=self._spec.name)
            if error := self._silent.get(system):
                yield explained("OP101", location, f"{str(error).removesuffix('.')}.", error.hint)
            elif system == DATABASE and self._kind not in LOOKS:
                yield explained("OP102", location, f"doctor does not support databases of the kind {self._kind}.")
            elif address is None and (system == DATABASE or self._config is not None):
                yield explained("OP102", location, *_NOT_ASKED[system])

    def _check_connector(self) -> Iterator[Finding]:
        client, name = self._systems.connect, self._spec.name
        if client is None:
            return
        found = self._connector = find_connector(client, name, timings=self._timings)
        if found is None and self._config is not None:
            is_deployable = self._kind is DatabaseKind.POSTGRESQL
            remedy = "Run `cdc-outbox deploy-connector`." if is_deployable else RENDER
            location = Location(document=CONNECT, path=name)
            yield explained("OP201", location, "Connect has no connector of this name.", remedy)
        if found is not None:
            yield from self._check_status(found)
            with suppress(ConnectError):  # a worker may not track topics
                self._written = client.find_topics(name)
        if self._config is not None:
            yield from () if found is None else divergences(self._spec, found)
            yield from (each.finding for each in find_neighbours(self._spec, client))

    def _check_status(self, found: Found) -> Iterator[Finding]:
        location, condition = Location(document=CONNECT, path=self._spec.name), condition_of(found.status)
        if condition is Condition.PENDING:
            remedy = "Check again in a moment; if the state does not change, read the worker's log."
            if found.status.is_halted:
                remedy = (
                    PAY
                    if found.is_republishing
                    else "Run `cdc-outbox resume` if it was paused or stopped unintentionally."
                )
            yield explained("OP203", location, f"{describe(found.status)}.", remedy)
        if condition is Condition.FAILED:
            reason = reason_of(found.status) or Diagnosis("Connect returned no stack trace.", remedy="")
            remedy = reason.remedy or "Read the worker's log."
            yield explained("OP202", location, f"{describe(found.status)}. {reason.sentence}", remedy)
        if found.is_republishing:
            location = Location(document=DATABASE, path=self._spec.database.slot)
            yield explained("DB515", location, f"the connector has not published all rows: {OWED}.", PAY)

    def _check_workers(self) -> Iterator[Finding]:
        client = self._systems.connect
        if client is None:
            return
        client.refuse_ill_worker()
        try:
            client.refuse_kept()
        except ConnectError as error:
            if error.retryable:
                raise
            location = Location(document=CONNECT, path=self._spec.name)
            yield explained("OP209", location, f"{error}.", error.hint)

    def _names_relay(self, connection: AnyConnection, driver: TransactionDriver) -> bool:
        if self._kind is not DatabaseKind.POSTGRESQL:
            return False
        with suppress(DatabaseAccessError):
            publisher = Publishers(connection, driver, self._spec.outbox.publishers).find()
            return publisher is not None and publisher.kind.is_relay
        return False

    def _validate(self) -> Iterable[Finding]:
        # A worker connects to the database to validate.
        if self._systems.connect is None or self._config is None or DATABASE in self._silent:
            return ()
        return self._systems.connect.validate(dict(self._config), seconds=self._timings.probe_seconds)

    def _check_database(self) -> Iterable[Finding]:
        if self._systems.database is None or not self._kind.has_dialect:
            return ()
        with self._systems.database() as (connection, driver):
            self._ask(DATABASE, partial(self._look, connection, driver))
            self._ask(DATABASE, partial(self._check_tables, Catalog(connection, driver)))
            self._ask(DATABASE, partial(self._read_stored, connection, driver))
        return ()

    def _look(self, connection: AnyConnection, driver: TransactionDriver) -> Iterator[Finding]:
        """Yield the findings of the preflight, and whether slot and connector match."""
        if self._kind not in LOOKS:
            return
        slot = yield from LOOKS[self._kind](self._spec, connection, driver, self._ask_offsets)
        client, found = self._systems.connect, self._connector
        if found is None and slot is not None and slot.is_relayed:
            self._relay = _Relay.RUNS
        elif found is None and self._names_relay(connection, driver):
            self._relay = _Relay.IS_DOWN
        if client is None or found is None or CONNECT in self._silent:
            return
        if {self._kind, kind_of(found.config)} != {DatabaseKind.POSTGRESQL}:
            return
        location = Location(document=DATABASE, path=slot_of(found.config))
        if location.path != self._spec.database.slot:
            hole = find_positions(connection, driver, client, found.config).find_hole()
            if hole is not None:
                yield explained(hole.code, location, hole.text, hole.hint)
        elif slot is not None and not slot.active and condition_of(found.status) is Condition.UP:
            remedy = "Compare the DSN with database.host and database.name of the spec."
            yield explained("OP206", location, "the connector runs, and its slot in this database is inactive.", remedy)

    def _ask_offsets(self) -> Connected | None:
        """Return the connector with its current offsets, ``None`` if Connect does not respond."""
        client, found = self._systems.connect, self._connector
        if client is None or CONNECT in self._silent:
            return None
        try:
            return Connected(connector=found, offsets=client.find_offsets(self._spec.name) if found else [])
        except ConnectorNotFoundError:  # deleted meanwhile
            return Connected(connector=None, offsets=[])
        except ConnectError as error:
            self._silent[CONNECT] = error
            return None

    def _check_tables(self, catalog: Catalog) -> Iterator[Finding]:
        try:
            yield from find_drift(self._spec, catalog, outbox_catalog(self._spec, catalog))
        except DatabaseAccessError:
            message = "this role cannot read all tables, so they were not compared with those of `cdc-outbox init`."
            remedy = "Run `cdc-outbox init --check` with the role that owns the tables."
            yield explained("DB602", Location(document=DATABASE, path=str(self._spec.outbox.table)), message, remedy)

    def _check_topics(self) -> Iterator[Finding]:
        if self._systems.brokers is None or self._config is None:
            return
        wanted = topics_of(self._spec)
        there = self._systems.brokers.find(topic.name for topic in wanted)
        brokers = self._systems.brokers.count_brokers()
        for topic in wanted:
            if topic.name not in there:
                yield self._absent(topic.name)
                continue
            location = Location(document=BROKERS, path=topic.name)
            for each in differences(topic, there[topic.name]):
                yield explained("OP302", location, each.text, each.remedy)
            yield from find_loss_findings(there[topic.name], brokers=brokers)

    def _absent(self, topic: str) -> Finding:
        location = Location(document=BROKERS, path=topic)
        if topic in self._written:
            message = "the topic does not exist, and the connector has written to it before."
            remedy = "Follow docs/recovery/lost-topic.md; `cdc-outbox verify` lists the missing events."
            return explained("OP303", location, message, remedy)
        return explained(
            "OP301", location, "the topic does not exist yet.", "Connect creates it, or run `cdc-outbox topics create`."
        )

    def _read_heartbeats(self) -> Iterable[Finding]:
        settings, runs = self._systems.kafka_settings, self._connector
        self._beating = Beating.of({} if runs is None else runs.config) or Beating.of(self._config or {})
        if settings is not None and self._beating is not None:
            self._chain = HeartbeatTopic(self._beating.topic, settings).read()
        return ()

    def _read_stored(self, connection: AnyConnection, driver: TransactionDriver) -> Iterator[Finding]:
        if self._chain is None or self._beating is None:
            return
        runs = None if self._connector is None else condition_of(self._connector.status) is Condition.UP
        try:
            self._stored = HeartbeatTable(self._beating, connection, driver).read(runs=runs)
        except DatabaseAccessError:
            message = (
                f"this role cannot read {self._beating.table}: only the topic can show that the database was restored."
            )
            remedy = "Set --dsn to a role with SELECT on this table."
            yield explained("OP406", Location(document="heartbeats", path=self._beating.topic), message, remedy)

    def _check_heartbeats(self) -> Iterable[Finding]:
        if self._chain is None or self._beating is None:
            return ()
        return findings(self._beating.topic, self._chain.breaks(self._stored), self._beating.name)


def _system_of(error: CdcOutboxError) -> str | None:
    """Return the system that an error belongs to, ``None`` if it is not known."""
    kinds = {ConnectError: CONNECT, DatabaseError: DATABASE, BrokerError: BROKERS}
    return next((system for kind, system in kinds.items() if isinstance(error, kind)), None)


def find_loss_findings(topic: Topic, *, brokers: int) -> Iterator[Finding]:
    """Yield how acknowledged messages of a topic can be lost, as :func:`find_loss` does."""
    loss = find_loss(topic, brokers=brokers)
    if loss is not None:
        location = Location(document=BROKERS, path=topic.name)
        yield explained("OP304", location, f"the topic {loss.text}", loss.remedy)
