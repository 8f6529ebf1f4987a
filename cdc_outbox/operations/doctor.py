"""Everything that can be asked of a pipeline, each part for itself, so that one that is silent hides no other."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from typing import Any

from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.deployed_connector import find_connector
from cdc_outbox.connect.lifecycle import PAY
from cdc_outbox.connect.neighbours import find_neighbours
from cdc_outbox.connect.plan import Found
from cdc_outbox.connect.preflight import LOOKS
from cdc_outbox.connect.spec_checks import RENDER, divergences
from cdc_outbox.connect.timings import Timings
from cdc_outbox.connect.wait import Condition, condition_of, describe, reason_of
from cdc_outbox.contract.topics import differences
from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.databases.drivers import AnyConnection, TransactionDriver
from cdc_outbox.databases.introspection import Catalog
from cdc_outbox.databases.slots import find_lag
from cdc_outbox.debezium.diagnosis import Diagnosis
from cdc_outbox.debezium.explanations import explained
from cdc_outbox.debezium.lint import lint
from cdc_outbox.debezium.lint.specs import rendered
from cdc_outbox.debezium.render import render, topics_of
from cdc_outbox.errors import CdcOutboxError, ConnectError
from cdc_outbox.finding import Finding, Location, Severity
from cdc_outbox.kafka.admin import Topics
from cdc_outbox.spec import Spec
from cdc_outbox.writer.drift import check_source
from cdc_outbox.writer.incarnation import read_source

Opening = Callable[[], AbstractContextManager[tuple[Any, TransactionDriver]]]
"""Opens a connection to the outbox's database."""


@dataclass(kw_only=True)
class Doctor:
    """One pipeline, and those who can be asked about it.

    Args:
        database: ``None`` where none was named.
        brokers: The same.
        heartbeats: Finds what they show, told whether the connector runs, and given Connect if that answers.
        timings: Its timeout is how long Connect may take to know a connector that was just made.
        silent: Which parts are known not to answer, with the error: they are not asked.
        silences: Why a server could not be asked.
    """

    spec: Spec
    client: ConnectClient
    database: Opening | None
    brokers: Topics | None
    timings: Timings
    heartbeats: Callable[[bool | None, ConnectClient | None], Iterable[Finding]] = lambda _runs, _client: ()
    silent: Mapping[str, CdcOutboxError] = field(default_factory=dict)
    silences: list[CdcOutboxError] = field(default_factory=list, init=False)
    _connect_answers: bool = field(default=True, init=False)
    _written: Sequence[str] = field(default=(), init=False)
    _runs: bool | None = field(default=None, init=False)

    def look(self) -> Iterator[Finding]:
        """Yield everything that is found, and change nothing; what is told by two of them is told once."""
        told: set[tuple[str, str, str]] = set()
        for part, ask in (
            ("spec", self._spec),
            ("connect", self._connect),
            ("database", self._database),
            ("topics", self._topics),
            ("heartbeats", self._heartbeats),
        ):
            for finding in self._asked(part, ask):
                key = (finding.code, finding.place.path, finding.message)
                if key not in told:
                    told.add(key)
                    yield finding

    def _asked(self, part: str, ask: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
        try:
            if part in self.silent:
                raise self.silent[part]
            # Heartbeats are in the database and in a topic.
            if part != "heartbeats" or not self.silent.keys() & {"database", "topics"}:
                yield from ask()
        except CdcOutboxError as error:
            self.silences.append(error)
            # Who does not answer once is not waited for again.
            self._connect_answers = self._connect_answers and not isinstance(error, ConnectError)
            yield explained("OP101", Location(document=part, path=self.spec.name), f"{error}.", error.hint)

    @property
    def _is_deployable(self) -> bool:
        """Whether `deploy-connector` takes the spec."""
        return self.spec.database.kind is DatabaseKind.POSTGRESQL

    def _spec(self) -> Iterator[Finding]:
        yield from lint(rendered(self.spec))

    def _connect(self) -> Iterator[Finding]:
        name, config = self.spec.name, render(self.spec)
        found = find_connector(self.client, name, timings=self.timings)
        if found is None:
            message = "Connect knows no connector of this name."
            remedy = "Run `cdc-outbox deploy-connector`." if self._is_deployable else RENDER
            yield explained("OP201", Location(document="connect", path=name), message, remedy)
        else:
            yield from self._status(found)
            yield from divergences(self.spec, found)
            with suppress(ConnectError):  # a worker may take no notes of topics
                self._written = self.client.find_topics(name)
        yield from (each.finding for each in find_neighbours(self.spec, self.client))
        if "database" not in self.silent:  # a worker that validates logs into it
            yield from self.client.validate(config, seconds=self.timings.probe_seconds)

    def _status(self, found: Found) -> Iterator[Finding]:
        place, condition = Location(document="connect", path=self.spec.name), condition_of(found.status)
        self._runs = condition is Condition.UP
        if condition is Condition.PENDING:
            remedy = "Look again in a moment; if it stays so, look into the worker's log."
            if found.status.is_halted:
                remedy = PAY if found.is_republishing else "Run `cdc-outbox resume` if it was not halted on purpose."
            yield explained("OP203", place, f"{describe(found.status)}.", remedy)
        if condition is Condition.FAILED:
            reason = reason_of(found.status) or Diagnosis("There is no trace.", remedy="")
            remedy = reason.remedy or "Look into the worker's log."
            yield explained("OP202", place, f"{describe(found.status)}. {reason.sentence}", remedy)

    def _database(self) -> Iterator[Finding]:
        kind = self.spec.database.kind
        look = LOOKS.get(kind)
        if self.database is None or look is None:
            message = f"there is no look into {kind}." if look is None else "the database was not asked."
            remedy = "" if look is None else "Give --dsn."
            yield explained("OP102", Location(document="database", path=self.spec.name), message, remedy)
            return
        with self.database() as (connection, driver):
            found = look(self.spec, connection, driver, self.client if self._connect_answers else None)
            yield from (each for each in found if self._connect_answers or not _hangs_on_connect(each))
            catalog = Catalog(connection, driver)
            source = read_source(self.spec.outbox, catalog)
            yield from check_source(self.spec.outbox, self.spec.first_source, source, catalog.dialect)
            if kind is DatabaseKind.POSTGRESQL and self._connect_answers:
                yield from self._reading(connection, driver)

    def _heartbeats(self) -> Iterable[Finding]:
        return self.heartbeats(self._runs, self.client if self._connect_answers else None)

    def _reading(self, connection: AnyConnection, driver: TransactionDriver) -> Iterator[Finding]:
        slot = find_lag(connection, driver, self.spec.database.slot)
        if slot is None or slot.active or self.client.find_config(self.spec.name) is None:
            return
        if condition_of(self.client.find_status(self.spec.name)) is Condition.UP:
            message = "the connector runs, and its slot has no reader here."
            remedy = "Compare the DSN with database.host and database.name of the spec."
            yield explained("OP206", Location(document="database", path=slot.slot), message, remedy)

    def _topics(self) -> Iterator[Finding]:
        if self.brokers is None:
            message, remedy = "the brokers were not asked for the topics.", "Give --bootstrap-servers."
            yield explained("OP102", Location(document="topics", path=self.spec.name), message, remedy)
            return
        wanted = topics_of(self.spec)
        there = self.brokers.find(topic.name for topic in wanted)
        for topic in wanted:
            if topic.name not in there:
                yield self._absent(topic.name)
                continue
            for each in differences(topic, there[topic.name]):
                yield explained("OP302", Location(document="topics", path=topic.name), each.text, each.remedy)

    def _absent(self, topic: str) -> Finding:
        place = Location(document="topics", path=topic)
        if topic in self._written:
            message = "does not exist any more: the connector has written to it."
            remedy = "Do what docs/recovery/lost-topic.md says; `cdc-outbox verify` names the events that are missing."
            return explained("OP303", place, message, remedy)
        return explained("OP301", place, "does not exist yet.", "Connect makes it, or `cdc-outbox topics create`.")


def _hangs_on_connect(finding: Finding) -> bool:
    """Tell whether Connect's offset may refute a finding, or whether it only says that Connect was not asked."""
    return finding.code == "DB601" or (finding.code == "DB511" and finding.severity is Severity.WARNING)


def by_severity(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings, the worst first; each part's stay in their order. Pure."""
    return sorted(findings, key=lambda finding: list(Severity).index(finding.severity))
