"""One point, one fault: a consumer comes to the point, something happens to it, and the effects are counted."""

import time
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Any, Self

from psycopg.conninfo import make_conninfo

from tests.faults.commander import CUT, GO
from tests.faults.ledger import POISONED, Ground, Ledger
from tests.faults.line import Line
from tests.faults.member import Member, end_all
from tests.faults.points import Point
from tests.faults.program import Orders
from tests.faults.report import Result
from tests.support.patience import patience
from tests.support.rig import eventually

SETTINGS = {"session.timeout.ms": 1000, "heartbeat.interval.ms": 250, "topic.metadata.refresh.interval.ms": 300}
END_SECONDS = 90.0
"""By when every event must have ended. A process that died in the midst has its successor go event by event, each noted
before it begins: on a machine that has other things to do a second each."""


class Fault(StrEnum):
    KILL = "kill"
    PAUSE = "pause"
    """Past the group's session timeout, until a successor has gone on."""
    NAP = "nap"
    """Past the group's session timeout, and awake while its transaction is still open."""
    DATABASE_RESET = "database-reset"
    BROKER_RESET = "broker-reset"

    @property
    def has_successor(self) -> bool:
        return self in {Fault.KILL, Fault.PAUSE, Fault.NAP}


_AGGREGATES = "abcdef"
_ROUNDS = 8
_OCCURRENCES = {
    Point.IN_HANDLER: 30, Point.OFFSET_COMMIT: 1, Point.ON_REVOKE: 1, Point.PARKING: 1, Point.AFTER_PARKING: 1
}  # fmt: skip
"""The last time at which a process can be told to stop at a point; elsewhere the fourth."""
_HANDLER_SECONDS = {Fault.PAUSE: 1.0, Fault.NAP: 60.0}
"""Elsewhere ten."""
_OFFSETS_STORED = {Point.BEFORE_COMMIT, Point.COMMIT_NOT_DONE}
"""Where the victim's transaction holds the rows of its partitions: a successor owns them when it has ended."""
_WAITS = "select 1 from pg_stat_activity where application_name = %s and wait_event_type = 'Lock'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A point, a fault, and the seed of all that is left to chance; with odd ones the consumers are asynchronous."""

    point: Point
    fault: Fault
    seed: int = 0

    def run(self, ground: Ground) -> Result:
        """Have it happen, and count."""
        name = f"{self.point}-{self.fault}-{self.seed}"
        with Ledger(ground, name).open() as ledger, _Play(self, ledger) as play:
            return play.run()


class _Play:
    """A cell that runs."""

    def __init__(self, cell: Cell, ledger: Ledger) -> None:
        self._point, self._fault, self._ledger = cell.point, cell.fault, ledger
        self._random = Random(f"{cell.point} {cell.seed}")  # noqa: S311 - it is to repeat itself
        self._asynchronous = cell.seed % 2 == 1
        self._batch_events = self._random.randint(3, 12)
        self._opened = ExitStack()
        self._members: list[Member] = []

    def __enter__(self) -> Self:
        self._line = self._opened.enter_context(Line(self._ledger.ground.stack.postgres.port))
        occurrence = self._random.randint(1, _OCCURRENCES.get(self._point, 4))
        self._victim = self._member("victim", point=self._point, occurrence=occurrence, port=self._line.port)
        self._successor = self._member("successor")
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def run(self) -> Result:
        ledger, violations = self._ledger, []
        begun_at = time.monotonic()
        seconds = 0.0
        try:
            self._come_to_the_point()
            before, begun_at = ledger.last(), time.monotonic()
            self._strike()
            eventually(lambda: self._goes_on(before), "every aggregate to go on")
            seconds = time.monotonic() - begun_at
            self._wake()
            eventually(ledger.is_done, "every event's end", seconds=END_SECONDS)
        except AssertionError as error:
            violations += [str(error), *(f"{member.name}: {member.log()}" for member in self._members)]
            self._wake()
        violations += end_all(self._members)
        violations += ledger.violations()
        return Result(events=len(ledger.good) + len(ledger.bad), seconds=seconds, violations=violations)

    def _member(self, name: str, **fields: Any) -> Member:
        orders = Orders(
            consumer=self._ledger.name,
            member=name,
            topic=self._ledger.name,
            brokers=self._ledger.ground.stack.broker.bootstrap_servers,
            dsn=make_conninfo(self._ledger.ground.dsn, application_name=self._session_of(name)),
            batch_events=self._batch_events,
            handler_seconds=_HANDLER_SECONDS.get(self._fault, 10.0),
            settings=SETTINGS,
            asynchronous=self._asynchronous,
            **fields,
        )
        member = Member(orders)
        self._opened.callback(member.close)
        self._members.append(member)
        return member

    def _come_to_the_point(self) -> None:
        poisonous = self._random.randrange(_ROUNDS)
        for round_ in range(_ROUNDS):
            self._produce(poison=round_ == poisonous)
        self._ledger.flush()
        self._victim.run()
        if self._point is Point.ON_REVOKE:
            eventually(self._ledger.applied, "the first effect")
            self._successor.run()
        self._victim.wait_until_there()
        for _ in range(_ROUNDS):
            self._produce()
        self._ledger.flush()

    def _produce(self, *, poison: bool = False) -> None:
        self._ledger.produce(_AGGREGATES)
        self._ledger.produce([POISONED], poison=poison)

    def _goes_on(self, before: int) -> bool:
        """Tell whether those go on who are to: while one sleeps in its transaction, the successor and nobody else."""
        member = "successor" if self._fault in {Fault.KILL, Fault.PAUSE} else None
        return self._ledger.gone_on(before, member) >= set(_AGGREGATES)

    def _strike(self) -> None:
        way = {Point.COMMIT_NOT_DONE: "up", Point.COMMIT_DONE: "down"}.get(self._point)
        if way is not None:
            self._line.hold(way)
            self._victim.tell(GO)
            assert self._line.is_held.wait(patience()), "nobody commits"
        epochs = self._ledger.epochs()
        match self._fault:
            case Fault.KILL:
                self._victim.kill()
                self._line.cut()
            case Fault.PAUSE | Fault.NAP:
                self._victim.pause()
            case Fault.DATABASE_RESET:
                self._line.cut()
            case Fault.BROKER_RESET:
                self._victim.tell(CUT)
                self._line.release()
        if way is None and self._fault is not Fault.KILL:
            self._victim.tell(GO)
        if self._fault.has_successor and self._point is not Point.ON_REVOKE:
            self._successor.run()
        if self._fault is Fault.NAP:
            if self._point in _OFFSETS_STORED:
                eventually(self._waits, "the successor to wait for the victim's transaction")
            else:
                eventually(
                    lambda: all(epoch > epochs[partition] for partition, epoch in self._ledger.epochs().items()),
                    "the successor to own everything",
                )
            self._wake()

    def _waits(self) -> bool:
        """Tell whether the successor's session waits for a lock."""
        return bool(self._ledger.connection.execute(_WAITS, (self._session_of("successor"),)).fetchall())

    def _session_of(self, member: str) -> str:
        return f"{self._ledger.name} {member}"

    def _wake(self) -> None:
        self._line.release()
        self._victim.resume()
