"""Which of the systems that a command asks do not answer: all are asked at once, so that the wait is one of seconds.

A server may accept connections and say nothing, or a firewall may drop what is sent to it. Each client waits for a
silent server by a time of its own, up to a minute, and then for the next one.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from queue import Empty, Queue
from threading import Thread
from time import monotonic
from typing import Any

import click

from cdc_outbox.cli.contexts import host_of
from cdc_outbox.cli.database import connected
from cdc_outbox.cli.output import ExitCode, exit_code_of, say
from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.cluster import Cluster
from cdc_outbox.connect.timings import Timings
from cdc_outbox.errors import BrokerUnavailableError, CdcOutboxError, ConnectUnavailableError, DatabaseUnavailableError
from cdc_outbox.kafka.admin import Topics
from cdc_outbox.redaction import visible

AFTERWARDS_SECONDS = 1.0
"""How long an answer of Connect may take where the brokers are silent: what it asks them for does not come."""
_AWAY = (BrokerUnavailableError, ConnectUnavailableError, DatabaseUnavailableError)
CONNECT, DATABASE, BROKERS, INBOX = "connect", "database", "topics", "inbox"

_LOG = logging.getLogger("cdc_outbox.cli.probe.librdkafka")
_LOG.addHandler(logging.NullHandler())
_LOG.propagate = False  # what librdkafka says at each attempt, our own error says once


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """Which systems answered.

    Args:
        cluster: With the workers that answered, or all of them if none did. Where no worker answers, or no broker,
            its requests are not repeated unless ``--connect-patience`` or a context says so.
        silent: An error for each that did not, by :data:`CONNECT`, :data:`BROKERS` and the names of the databases.
    """

    cluster: Cluster | None
    silent: Mapping[str, CdcOutboxError]

    def refuse(self, *needed: str) -> None:
        """Refuse to continue without these.

        Raises:
            CdcOutboxError: One of them is silent; the others that are stand in it too.
        """
        missing = [self.silent[what] for what in needed if what in self.silent]
        if missing:
            others = [error for error in self.silent.values() if error not in missing]
            raise type(missing[0])("; ".join(map(str, missing + others)), hint=missing[0].hint)


def probe(
    *,
    cluster: Cluster | None = None,
    dsns: Mapping[str, str] | None = None,
    brokers: Mapping[str, Any] | None = None,
    needs_all: bool = False,
) -> ProbeResult:
    """Ask each system something small, and return which did not answer in time.

    Args:
        dsns: By the name that an error has in :attr:`ProbeResult.silent`.
        brokers: librdkafka's settings.
        needs_all: Whether a refusal is raised; otherwise it counts as an answer, and the next request meets it again.

    Raises:
        CdcOutboxError: A refusal, where all are needed: first one that trying again does not change.
    """
    asks: dict[str, Callable[[], object]] = {}
    errors: dict[str, CdcOutboxError] = {}
    seconds = _timings(cluster).probe_seconds
    missed = f"not answered within {seconds:g} s"
    workers = [] if cluster is None else [replace(cluster, urls=(url,), patience_seconds=0) for url in cluster.urls]
    for worker in workers:
        asks[worker.urls[0]] = _asking_worker(worker)
    for name, dsn in (dsns or {}).items():
        asks[name] = _asking_database(dsn)
        errors[name] = DatabaseUnavailableError(f"the database at {host_of(dsn)} has {missed}")
    if brokers is not None:
        asks[BROKERS] = lambda: Topics(brokers, _LOG).cluster_id()
        errors[BROKERS] = BrokerUnavailableError(f"the brokers {brokers['bootstrap.servers']} have {missed}")
    quiet, refusals = _ask_all(asks, seconds, needs_all=needs_all)
    silent = {name: error for name, error in errors.items() if name in quiet}
    if cluster is not None:
        away = quiet | {name for name, error in refusals.items() if isinstance(error, ConnectUnavailableError)}
        cluster = _hurried(cluster, is_away=away >= {*cluster.urls}, is_without_brokers=BROKERS in silent)
        answering = tuple(url for url in cluster.urls if url not in quiet)
        if not answering:
            silent[CONNECT] = ConnectUnavailableError(f"Kafka Connect at {', '.join(cluster.urls)} has {missed}")
        cluster = replace(cluster, urls=answering or cluster.urls)
    return ProbeResult(cluster=cluster, silent=silent)


class UnreadParts:
    """The parts of a report that could not be read."""

    def __init__(self) -> None:
        self._errors: list[CdcOutboxError] = []

    def add(self, text: str, error: CdcOutboxError) -> None:
        """Report a part."""
        say(visible(text), err=True)
        self._errors.append(error)

    @contextmanager
    def reading(self, name: str, what: str) -> Iterator[None]:
        """Report a part of a connector if reading it fails; the others are shown all the same."""
        try:
            yield
        except CdcOutboxError as error:
            self.add(f"{name}: cannot read its {what}: {error}", error)

    @property
    def code(self) -> ExitCode:
        """The exit code of a report whose other parts have no finding."""
        codes = {exit_code_of(error) for error in self._errors}
        return min(codes, default=ExitCode.DONE)


def _timings(cluster: Cluster | None) -> Timings:
    """Return those of the cluster, or of the command that runs where it asks no Connect."""
    if cluster is not None:
        return cluster.timings
    context = click.get_current_context(silent=True)
    return (context and context.find_object(Timings)) or Timings()


def _hurried(cluster: Cluster, *, is_away: bool, is_without_brokers: bool) -> Cluster:
    if not (is_away or is_without_brokers):
        return cluster
    if cluster.patience_seconds is None:
        cluster = replace(cluster, patience_seconds=0)
    if is_without_brokers:
        answer_seconds = min(cluster.timings.answer_seconds, AFTERWARDS_SECONDS)
        cluster = replace(cluster, timings=replace(cluster.timings, answer_seconds=answer_seconds))
    return cluster


def _asking_worker(worker: Cluster) -> Callable[[], object]:
    def ask() -> None:
        client = ConnectClient(worker)
        try:
            client.find_names()
        finally:
            client.close()

    return ask


def _asking_database(dsn: str) -> Callable[[], object]:
    def ask() -> None:
        with connected(dsn) as (connection, driver):
            driver.fetch(connection, "select 1")

    return ask


def _ask_all(
    asks: Mapping[str, Callable[[], object]], seconds: float, *, needs_all: bool
) -> tuple[set[str], Mapping[str, Exception]]:
    """Return the systems that neither answer nor refuse within the seconds, and the refusals of others."""
    answers: Queue[tuple[str, Exception | None]] = Queue()

    def ask(name: str) -> None:
        refusal = None
        try:
            asks[name]()
        except Exception as error:  # noqa: BLE001 - raised below, or met again by the next request
            refusal = error
        answers.put((name, refusal))

    # The thread of a silent system lasts as long as its client waits; daemons do not keep the command from ending.
    for name in asks:
        Thread(target=ask, args=(name,), daemon=True).start()
    quiet, refusals, deadline = set(asks), dict[str, Exception](), monotonic() + seconds
    with suppress(Empty):
        while quiet:
            name, refusal = answers.get(timeout=max(0.001, deadline - monotonic()))
            if refusal is not None:
                if needs_all and not isinstance(refusal, _AWAY):
                    raise refusal
                refusals[name] = refusal
            quiet.discard(name)
    if needs_all and refusals:
        raise next(refusals[name] for name in asks if name in refusals)
    return quiet, refusals
