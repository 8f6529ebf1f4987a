"""One point, one fault: a relay comes to the point, something happens to it, and outbox and topic are counted."""

import logging
import signal
import socket
import time
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random
from typing import Self

import psycopg

from cdc_outbox.databases.publishers import PublisherKind
from cdc_outbox.debezium.render import topics_of
from cdc_outbox.kafka.admin import Topics
from cdc_outbox.testing import Postgres, Stack
from cdc_outbox.testing.postgres import make_postgres
from tests.faults.broker_outage import BrokerOutage
from tests.faults.commander import CUT, GO
from tests.faults.deliveries import EARLIEST_SECONDS, Deliveries
from tests.faults.line import Line
from tests.faults.member import Member, end_all
from tests.faults.outbox_load import LOW_LIMIT, OutboxLoad, TopicTail
from tests.faults.relay_points import RelayPoint
from tests.faults.relay_program import RelayOrders
from tests.faults.report import Result
from tests.support.pipeline import Pipeline
from tests.support.publishers import declare
from tests.support.rig import eventually, open_folder
from tests.support.topic_limits import set_limit

RECOVERY_SECONDS = 60.0
"""By when an event must be published that was committed after the fault. PostgreSQL frees the slot of a relay that is
paused after fifteen."""
_END_SECONDS = 60.0
"""By when everything must be published once the writers have stopped."""
_LOCK_SECONDS = 12.0
_LOG = logging.getLogger(__name__)


class RelayFault(StrEnum):
    KILL = "kill"
    PAUSE = "pause"
    """Until a successor has gone on; then it wakes up."""
    CUT = "cut"
    """Its connections to the database, to the broker, or both are reset."""
    SILENCE = "silence"
    """Its connections to the database stay open, and nothing comes through them any more."""
    LOCK = "lock"
    """Where it writes its positions is locked for twelve seconds."""
    BROKER_DOWN = "broker-down"
    """Every second relay is killed meanwhile, when it has read what it cannot deliver."""
    REFUSED = "refused"
    """The first event of a partition is refused, in this relay and in the next one, until the topic takes it."""
    SERVER_KILLED = "server-killed"
    """PostgreSQL, which did not save the slot since it was made: one transaction was open all the time."""

    @property
    def signal(self) -> int | None:
        """What the process sends to itself."""
        return {RelayFault.KILL: signal.SIGKILL, RelayFault.PAUSE: signal.SIGSTOP}.get(self)


_OPENINGS = {RelayPoint.BEFORE_SLOT, RelayPoint.AFTER_CLAIM}
"""Where a relay comes once, unless its connection is cut before."""
BEFORE_DELIVERY = (RelayPoint.BEFORE_SLOT, RelayPoint.AFTER_CLAIM, RelayPoint.RECEIVED, RelayPoint.PRODUCED)
"""Where a relay that starts has delivered nothing: only there an event is the first of its partition."""
_OCCURRENCES = {
    RelayPoint.BEFORE_SLOT: 2,
    RelayPoint.AFTER_CLAIM: 2,
    RelayPoint.IN_TRANSACTION: 2,
    RelayPoint.REPORTED: 3,
    RelayPoint.WRITTEN_DOWN: 3,
    RelayPoint.CONFIRMED: 3,
    RelayPoint.IDLE: 5,
    RelayPoint.DRAINING: 1,
}
"""The last time at which something may happen at a point; elsewhere the tenth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayCell:
    """A point, a fault, and the seed of all that is left to chance."""

    point: RelayPoint
    fault: RelayFault
    seed: int = 0

    def run(self, stack: Stack, outage: BrokerOutage | None = None) -> Result:
        """Have it happen, and count.

        Args:
            outage: Of the stack's broker, where that is the fault.
        """
        with RelayPlay(self, stack, outage) as play:
            return play.run()


class RelayPlay:
    """A cell that runs."""

    def __init__(self, cell: RelayCell, stack: Stack, outage: BrokerOutage | None) -> None:
        self._point, self._fault, self._stack, self._outage = cell.point, cell.fault, stack, outage
        self._random = Random(f"{cell.point} {cell.fault} {cell.seed}")  # noqa: S311 - it is to repeat itself
        self._is_refused = cell.fault is RelayFault.REFUSED
        self._occurrence = 1 if self._is_refused else self._random.randint(1, _OCCURRENCES.get(cell.point, 10))
        if cell.fault is RelayFault.SERVER_KILLED and cell.point in _OPENINGS:
            self._occurrence = 1  # another relay has delivered before, so that nothing shows when this one has opened
        self._cuts = ("database", "broker", "both")[cell.seed % 3]
        self._is_host_lost = cell.seed % 2 == 1
        """Whether the connections of a paused relay are gone at once."""
        number = [*RelayPoint].index(cell.point) + cell.seed
        self._dies_in_outage = cell.fault is RelayFault.BROKER_DOWN and number % 2 == 1
        self._opened = ExitStack()
        self._members: list[Member] = []
        self._struck_at: list[float] = []

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            opened.callback(self._leave)
            self._server = self._own_server(opened) if self._fault is RelayFault.SERVER_KILLED else self._stack.postgres
            self._pipeline = pipeline = Pipeline.on(self._server, self._stack)
            opened.callback(self._clean)
            self._prepare()
            self._line = opened.enter_context(Line(self._server.port))
            self._load = opened.enter_context(OutboxLoad(pipeline, self._random).open())
            self._tail = TopicTail(pipeline)
            opened.callback(self._tail.close)
            self._opened = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    @staticmethod
    def _own_server(opened: ExitStack) -> Postgres:
        folder = opened.enter_context(open_folder())
        with closing(socket.socket()) as found:
            found.bind(("127.0.0.1", 0))
            port = found.getsockname()[1]
        server = make_postgres(folder / "server", port, short_lived=True)
        opened.callback(server.stop)
        server.start()
        return server

    def _prepare(self) -> None:
        """Make the slot, the row and the topics."""
        pipeline, slot = self._pipeline, self._pipeline.spec.database.slot
        with pipeline.connect() as connection:
            connection.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", (slot,))
            declare(connection, pipeline.spec.outbox, PublisherKind.WAL_RELAY, slot)
        # The other topic takes more: what no topic takes, the client may refuse.
        limits = {pipeline.topic: {"max.message.bytes": str(LOW_LIMIT)}} if self._is_refused else {}
        topics = [
            replace(topic, config={**topic.config, **limits.get(topic.name, {})})
            for topic in topics_of(pipeline.spec)
            if topic.name in pipeline.spec.contract.topics
        ]
        Topics({"bootstrap.servers": self._stack.broker.bootstrap_servers}, _LOG).create(topics)
        eventually(lambda: self._stack.broker.ends(pipeline.topic), "the topic")

    def _clean(self) -> None:
        def is_dropped() -> bool:
            with suppress(psycopg.errors.ObjectInUse), self._pipeline.connect() as connection:
                connection.execute("select pg_drop_replication_slot(%s)", (self._pipeline.spec.database.slot,))
                return True
            return False

        eventually(is_dropped, "the slot to be free")
        self._pipeline.delete_topics()

    def _leave(self) -> None:
        if self._outage is not None:
            outage, self._outage = self._outage, None
            outage.leave()

    def run(self) -> Result:
        """Return what came of it."""
        violations, seconds = list[str](), 0.0
        victim = self._member("victim", point=self._point, occurrence=self._occurrence, signal=self._fault.signal)
        has_successor = (
            self._fault.signal is not None
            or self._point is RelayPoint.DRAINING
            or self._dies_in_outage
            or self._is_refused
        )
        successor = self._member("successor") if has_successor else None
        try:
            self._come_to_the_point(victim)
            self._strike(victim)
            began_at = time.monotonic()
            if successor is not None:
                if self._fault.signal is None:
                    violations += victim.end()
                successor.run()
            self._goes_on()
            seconds = time.monotonic() - began_at
            self._load.write_large()
            victim.resume()
            self._goes_on()
            self._load.end()
            wanted = {event.id for event in self._load.committed}
            eventually(lambda: self._holds(wanted), "every event", seconds=_END_SECONDS)
        except AssertionError as error:
            violations += [str(error), *(f"{member.name}: {member.log()}" for member in self._members)]
            victim.resume()
            self._line.cut()
        self._load.end()
        violations += end_all(self._members)
        violations += self._count()
        return Result(events=len(self._load.committed), seconds=seconds, violations=violations)

    def _member(self, name: str, **fields: object) -> Member:
        pipeline = self._pipeline
        orders = RelayOrders(
            member=name,
            spec=Pipeline.text(pipeline.name),
            brokers=self._stack.broker.bootstrap_servers,
            dsn=pipeline.dsn,
            port=self._line.port if fields else None,
            **fields,  # type: ignore[arg-type]
        )
        member = Member(orders)
        self._opened.callback(member.close)
        self._members.append(member)
        return member

    def _come_to_the_point(self, victim: Member) -> None:
        if self._is_refused:
            self._load.write_refused()
        self._load.begin()
        if self._fault is RelayFault.SERVER_KILLED:
            self._deliver_for_long()
        victim.run()
        if self._point is RelayPoint.DRAINING or (self._point in _OPENINGS and self._occurrence > 1):
            eventually(self._has_arrived, "the first message")
        if self._point is RelayPoint.IN_TRANSACTION:
            self._load.write_large()
        if self._point is RelayPoint.DRAINING:
            self._load.write_large()
            victim.stop()
        elif self._point in _OPENINGS and self._occurrence > 1:
            self._struck_at.append(time.time())
            self._line.cut()
        victim.wait_until_there()

    def _deliver_for_long(self) -> None:
        """Have another relay deliver more than may be repeated, and none of it be saved in the slot."""
        writer = self._opened.enter_context(closing(psycopg.connect(self._pipeline.dsn)))
        writer.execute("select pg_current_xact_id()")
        first = self._member("first")
        first.run()

        def has_delivered() -> bool:
            return self._has_arrived() and self._tail.arrived[-1].at > self._tail.arrived[0].at + EARLIEST_SECONDS + 2

        eventually(has_delivered, "what must not be repeated")
        first.stop()
        assert not first.end()

    def _has_arrived(self) -> bool:
        self._tail.read()
        return bool(self._tail.arrived)

    def _strike(self, victim: Member) -> None:  # noqa: C901 - a case for each fault
        self._struck_at.append(time.time())
        match self._fault:
            case RelayFault.KILL:
                pass  # it has killed itself
            case RelayFault.PAUSE:
                if self._is_host_lost:
                    self._line.cut()
            case RelayFault.CUT:
                if self._cuts != "broker":
                    self._line.cut()
                if self._cuts != "database":
                    victim.tell(CUT)
                victim.tell(GO)
            case RelayFault.SILENCE:
                self._line.silence()
                victim.tell(GO)
            case RelayFault.LOCK:
                victim.tell(GO)
                with self._pipeline.connect() as connection, connection.transaction():
                    connection.execute(f"lock table {self._pipeline.spec.outbox.publishers.quoted}".encode())
                    time.sleep(_LOCK_SECONDS)
            case RelayFault.SERVER_KILLED:
                self._server.kill()
                self._server.start()
                victim.tell(GO)
            case RelayFault.BROKER_DOWN:
                self._have_an_outage(victim)
            case RelayFault.REFUSED:
                self._have_it_refused(victim)

    def _have_an_outage(self, victim: Member) -> None:
        outage, self._outage = self._outage, None
        assert outage is not None, "there is no broker to be down"
        outage.arrive()
        victim.tell(GO)
        if self._dies_in_outage:
            outage.wait_for_half()
            victim.kill()
        outage.wait_until_over()

    def _have_it_refused(self, victim: Member) -> None:
        victim.tell(GO)
        victim.wait_until_failed("MessageRefusedError")
        again = self._member("again")
        again.run()
        again.wait_until_failed("MessageRefusedError")
        set_limit(self._stack.broker.bootstrap_servers, self._pipeline.topic, 1_048_588)

    def _goes_on(self) -> None:
        """Wait for an event that is committed from now on."""
        before = len(self._load.committed)

        def is_published() -> bool:
            self._tail.read()
            return any(event.id in self._tail.ids for event in self._load.committed[before:])

        eventually(is_published, "an event that was committed after the fault", seconds=RECOVERY_SECONDS)

    def _holds(self, wanted: set[str]) -> bool:
        self._tail.read()
        return wanted <= self._tail.ids

    def _count(self) -> list[str]:
        """Return what is wrong in outbox and topic, once nothing happens any more."""
        unknown = self._load.unknown()
        assert not unknown, f"the outbox and the writers disagree about {len(unknown)} events"
        eventually(self._tail.read_to_end, "the end of the topic")
        relieved = set[str]()
        if self._fault is RelayFault.PAUSE:
            relieved = {f"victim {self._occurrence if self._point in _OPENINGS else 1}"}
        elif self._is_refused:
            relieved = {each.producer for each in self._tail.arrived if not each.producer.startswith("successor")}
        return list(
            Deliveries(
                committed=self._load.committed,
                arrived=self._tail.arrived,
                struck_at=self._struck_at,
                relieved=relieved,
            ).violations()
        )
