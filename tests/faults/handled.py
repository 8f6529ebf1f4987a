"""Handlers with dead hosts, handlers that kill their own connection, and listeners that raise; the effects are counted.

`infra/faults consumer --kinds handler` tries each with each driver. The consumers are threads of this process, over a
model of Kafka and real databases.
"""

import asyncio
import socket
import time
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain, zip_longest
from random import Random
from typing import Any
from uuid import uuid4

import psycopg
from sqlalchemy import event as sqlalchemy_event

from cdc_outbox import RecordedEvent
from cdc_outbox.consumer import Limits, Retry
from tests.faults.report import Result, tell_result
from tests.faults.server_deaths import Doomed, DoomedPostgres, started_mariadb, started_postgres
from tests.support.events import make_event
from tests.support.modelled_consumer import ModelledConsumer
from tests.support.patience import patience
from tests.support.rig import eventually, open_folder
from tests.support.threads import Threads

_HEALTHY, _EVENTS = 20, 3
_AT_ONCE = 4
_HEALTHY_SECONDS = 60.0
"""By when the events of aggregates whose handlers do well must be applied, whatever those of others do."""


class Trouble(StrEnum):
    """What the handlers of some aggregates have."""

    DEAD_HOSTS = "dead-hosts"
    """Hosts that refuse connections: one for several aggregates, and others with one each."""
    KILLED_CONNECTION = "killed-connection"
    """Statements that end their own connection."""
    LISTENERS = "listeners"
    """Listeners of SQLAlchemy that raise: before the commit of theirs, and after each commit."""


DRIVERS = {
    Trouble.DEAD_HOSTS: ("psycopg", "asyncpg", "pymysql"),
    Trouble.KILLED_CONNECTION: ("psycopg", "sqlalchemy asyncpg", "pymysql"),
    Trouble.LISTENERS: ("sqlalchemy psycopg", "sqlalchemy asyncpg", "sqlalchemy pymysql"),
}
"""Synchronous and asynchronous ones on PostgreSQL, and one on MariaDB."""


async def _open_stream(port: int) -> None:
    await asyncio.open_connection("127.0.0.1", port)


async def _time_out(_port: int) -> None:
    raise TimeoutError("timed out")


async def _connect(port: int) -> None:
    psycopg.connect(host="127.0.0.1", port=port)


async def _request(port: int) -> None:
    urllib.request.urlopen(f"http://127.0.0.1:{port}/hook", timeout=patience())


@dataclass
class Case:
    """One trouble of one driver's handlers.

    Args:
        seed: Of all that is left to chance.
    """

    trouble: Trouble
    doomed: Doomed
    driver: str
    seed: int
    _ports: dict[str, int] = field(default_factory=dict)

    def run(self) -> Result:
        """Have a consumer handle the events of healthy aggregates among those of others, and count."""
        random = Random(f"{self.trouble} {self.driver} {self.seed}")  # noqa: S311 - it is to repeat itself
        healthy = [f"healthy{number}" for number in range(_HEALTHY)]
        troubled = [f"troubled{number}" for number in range(random.randint(3, 6))]
        self._clients: list[Callable[[int], Any]] = [_time_out, _connect, _request]
        self._users = self.doomed.users[self.driver]
        if self._users.asynchronous:
            self._clients.append(_open_stream)
        with closing(self.doomed.make_ledger(f"h{uuid4().hex[:8]}")) as ledger, ExitStack() as stack:  # type: ignore[type-var]
            bound = [stack.enter_context(socket.socket()) for _ in troubled]
            for each in bound:
                each.bind(("127.0.0.1", 0))  # and nobody listens
            shared = random.random() < 0.5
            self._ports = {name: bound[0 if shared else place].getsockname()[1] for place, name in enumerate(troubled)}
            self._random, self._address = random, ledger.address
            limits = Limits(batch_events=random.randint(1, 20))
            retry = Retry(parked_pause_seconds=1.0, longest_pause_seconds=2.0, max_attempts=1000)
            consumer = ModelledConsumer(self._users, ledger.address, self._handle, limits=limits, retry=retry)
            consumer.send(*self._events(healthy, troubled, random))
            begun_at, seconds, violations = time.monotonic(), 0.0, list[str]()
            with consumer:
                try:
                    wanted, limit = _effects_of(healthy), max(_HEALTHY_SECONDS, patience())
                    eventually(
                        lambda: not consumer.is_alive or self._effects(healthy) == wanted, "the healthy", seconds=limit
                    )
                    seconds = time.monotonic() - begun_at
                    self._ports.clear()
                    eventually(lambda: not consumer.is_alive or self._is_over(troubled), "the others")
                except AssertionError as error:
                    violations.append(str(error))
                if not consumer.is_alive:
                    violations.append(f"it ended: {consumer.error!r}")
            violations += self._violations(healthy, troubled)
        return Result(events=(len(healthy) + len(troubled)) * _EVENTS, seconds=seconds, violations=violations)

    def _events(self, healthy: list[str], troubled: list[str], random: Random) -> list[RecordedEvent]:
        """Return the events of all, the first ones of the troubled aggregates in front."""
        rest = [[make_event(number, name) for number in range(1, _EVENTS + 1)] for name in healthy]
        rest += [[make_event(number, name) for number in range(2, _EVENTS + 1)] for name in troubled]
        random.shuffle(rest)
        behind = [event for event in chain(*zip_longest(*rest)) if event is not None]
        return [*(make_event(1, name) for name in troubled), *behind]

    async def _handle(self, event: RecordedEvent, connection: Any) -> None:
        insert = f"insert into effects (aggregate, sequence) values ('{event.aggregate_id}', {event.sequence})"  # noqa: S608
        await self._users.execute(connection, insert)
        is_troubled = event.aggregate_id in self._ports
        match self.trouble:
            case Trouble.DEAD_HOSTS if is_troubled:
                await self._random.choice(self._clients)(self._ports[event.aggregate_id])
            case Trouble.KILLED_CONNECTION if is_troubled:
                is_postgres = isinstance(self.doomed, DoomedPostgres)
                sql = "select pg_terminate_backend(pg_backend_pid())" if is_postgres else "kill connection_id()"
                await self._users.execute(connection, sql)
            case Trouble.LISTENERS:
                session = getattr(connection, "sync_session", connection)
                if "troubled" not in session.info:
                    sqlalchemy_event.listen(session, "before_commit", _refuse)
                    sqlalchemy_event.listen(session, "after_commit", _fail)
                session.info["troubled"] = is_troubled or session.info.get("troubled", False)

    def _effects(self, names: list[str]) -> list[tuple[str, int]]:
        """Return the effects of these aggregates, each one's in the order in which they came."""
        found = self.doomed.query(self._address, "select aggregate, sequence from effects order by number")
        return sorted(((str(name), int(sequence)) for name, sequence in found if name in names), key=lambda row: row[0])

    def _parked(self) -> list[tuple[str, int]]:
        rows = self.doomed.query(self._address, "select aggregateid, sequence from inbox_parked")
        return sorted((name.decode() if isinstance(name, bytes) else name, int(sequence)) for name, sequence in rows)

    def _is_over(self, troubled: list[str]) -> bool:
        """Return whether all that was in trouble is applied, or where it is dead, parked."""
        if self.trouble is Trouble.KILLED_CONNECTION:
            return self._parked() == _effects_of(troubled)
        return self._effects(troubled) == _effects_of(troubled) and not self._parked()

    def _violations(self, healthy: list[str], troubled: list[str]) -> list[str]:
        """Return what is lost, twice or in another order."""
        found = [
            f"{name} had these effects: {effects}"
            for name in healthy
            if (effects := self._effects([name])) != _effects_of([name])
        ]
        if not self._is_over(troubled):
            found.append(f"of the others are applied {self._effects(troubled)}, and parked {self._parked()}")
        if self.trouble is Trouble.KILLED_CONNECTION and self._effects(troubled):
            found.append("a killed connection left effects")
        return found


def _effects_of(names: list[str]) -> list[tuple[str, int]]:
    return sorted((name, number) for name in names for number in range(1, _EVENTS + 1))


def _refuse(session: Any) -> None:
    if session.info.pop("troubled", False):
        session.info["troubled"] = False
        raise OSError("the broker of the tasks is away")


def _fail(_session: Any) -> None:
    raise OSError("the broker of the tasks is away")


def run(seeds: int) -> list[bool]:
    """Try each trouble with each driver so often; tell of each, and return which were good."""
    with ExitStack() as stack:
        folder = stack.enter_context(open_folder())
        servers = [stack.enter_context(started(folder)) for started in (started_postgres, started_mariadb)]
        cases = [
            Case(trouble, doomed, driver, seed)
            for trouble, drivers in DRIVERS.items()
            for driver in drivers
            for doomed in servers
            if driver in doomed.users
            for seed in range(seeds)
        ]
        pool = stack.enter_context(Threads(_AT_ONCE, seconds=24 * 3600))
        runs = [(case, pool.submit(case.run)) for case in cases]
        return [tell_result(case.driver, case.trouble, case.seed, run.result()) for case, run in runs]
