"""Database servers that die at random moments under consumers of every driver; afterwards the effects are counted.

`infra/faults consumer --kinds server` has 200 deaths. The consumers are threads of this process, over a model of Kafka.
"""

import os
import re
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from enum import StrEnum
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Any, Self

import psutil
import psycopg
from pymysql.err import MySQLError

from cdc_outbox import RecordedEvent
from cdc_outbox.consumer import Limits
from cdc_outbox.testing import MariaDb, Postgres
from cdc_outbox.testing.mariadb import make_mariadb
from cdc_outbox.testing.postgres import make_postgres
from tests.contract.consumer_contract import Ledger, MariaDbLedger, PostgresLedger
from tests.faults.report import Result, tell, tell_result
from tests.support.driver_users import MARIADB_USERS, POSTGRES_USERS, Users
from tests.support.events import make_event
from tests.support.modelled_consumer import ModelledConsumer
from tests.support.patience import patience
from tests.support.pymysql_connections import connect_pymysql
from tests.support.rig import eventually, open_folder
from tests.support.service import PATIENT
from tests.support.threads import Threads

_AGGREGATES = "abcdef"
_EVENTS = 8
"""Of each aggregate, at each death."""
_SLOW_SECONDS = 0.005
"""How long what takes a moment elsewhere is stretched, so that some of the deaths come in it."""
_OF_A_SESSION = re.compile(r" c\d+ 127")
"""What the process of a session is called: after its database, and before its client's address."""
_SLOW_COMMIT = f"""
create function wait_a_little() returns trigger language plpgsql as $$
    begin perform pg_sleep({_SLOW_SECONDS}); return null; end $$;
create constraint trigger slow_commit after insert on effects initially deferred
    for each row when (new.sequence % 5 = 4) execute function wait_a_little();
"""


class Death(StrEnum):
    KILL = "kill"
    """Of all its processes, with SIGKILL."""
    BACKEND = "backend"
    """Of one session's process, with SIGKILL; PostgreSQL then ends all others, and recovers by itself."""
    IMMEDIATE = "immediate"
    """PostgreSQL's immediate shutdown."""
    TERM = "term"
    SHUTDOWN = "shutdown"
    """By a statement."""


class Doomed:
    """A database server of its own, with a database for each consumer."""

    name: str
    deaths: tuple[Death, ...]
    users: Mapping[str, Users]
    sleep: str
    """The function that takes a number of seconds."""

    def __init__(self, server: Postgres | MariaDb) -> None:
        self.server = server

    def make_ledger(self, name: str) -> Ledger:
        """Create a database with an inbox and a table of effects."""
        raise NotImplementedError

    def query(self, address: Any, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows, on a connection of its own: the others died."""
        raise NotImplementedError

    def strike(self, death: Death, random: Random) -> None:
        """Let it die."""
        pid = self.server.pid
        assert pid is not None
        match death:
            case Death.KILL:
                self.server.kill()
            case Death.IMMEDIATE:
                os.kill(pid, signal.SIGQUIT)
            case Death.TERM:
                os.kill(pid, signal.SIGTERM)
            case Death.BACKEND:
                eventually(lambda: self.kill_session(random), "a session")
            case Death.SHUTDOWN:
                self.shut_down()

    def heal(self, death: Death) -> None:
        """Start it again, unless it does so by itself."""
        if death is not Death.BACKEND:
            self.server.reap()
            eventually(lambda: not self.server.is_running, "the server to end")
            self.server.start()
        eventually(self.server.answers, "the server to answer")

    def kill_session(self, random: Random) -> bool:
        """Kill the process of a session, and return whether there was one."""
        raise NotImplementedError

    def shut_down(self) -> None:
        """Shut it down by a statement."""
        raise NotImplementedError


class DoomedPostgres(Doomed):
    name = "postgresql"
    deaths = (Death.KILL, Death.BACKEND, Death.IMMEDIATE)
    users = POSTGRES_USERS
    sleep = "pg_sleep"

    def make_ledger(self, name: str) -> Ledger:
        assert isinstance(self.server, Postgres)
        ledger = PostgresLedger(self.server.create_database(name))
        ledger.query(_SLOW_COMMIT)
        return ledger

    def query(self, address: str, sql: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(address) as connection:
            return connection.execute(sql.encode()).fetchall()

    def kill_session(self, random: Random) -> bool:
        with suppress(psutil.Error):  # it ended by itself
            children = psutil.Process(self.server.pid).children()
            sessions = [child for child in children if _OF_A_SESSION.search(" ".join(child.cmdline()))]
            if sessions:
                random.choice(sessions).kill()
                return True
        return False


class DoomedMariaDb(Doomed):
    name = "mariadb"
    deaths = (Death.KILL, Death.TERM, Death.SHUTDOWN)
    users = MARIADB_USERS
    sleep = "sleep"

    def make_ledger(self, name: str) -> Ledger:
        assert isinstance(self.server, MariaDb)
        return MariaDbLedger(self.server.create_database(name))

    def query(self, address: Any, sql: str) -> list[tuple[Any, ...]]:
        with closing(connect_pymysql(address)) as connection, connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def shut_down(self) -> None:
        assert isinstance(self.server, MariaDb)
        with suppress(MySQLError), closing(connect_pymysql(self.server.dsn())) as connection:
            connection.query("shutdown")


@contextmanager
def started_postgres(folder: Path) -> Iterator[DoomedPostgres]:
    """Start a PostgreSQL server that outlives its death: what a killed process has half written is written anew."""
    server = make_postgres(folder / "postgres", _free_port(), short_lived=True)
    with (server.folder / "postgresql.conf").open("a") as settings:
        settings.write("full_page_writes = on\n")
    server.start()
    try:
        yield DoomedPostgres(server)
    finally:
        server.stop()


@contextmanager
def started_mariadb(folder: Path) -> Iterator[DoomedMariaDb]:
    """Start a MariaDB server."""
    server = make_mariadb(folder / "mariadb", _free_port())
    server.start()
    try:
        yield DoomedMariaDb(server)
    finally:
        server.stop()


def _free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        port: int = listening.getsockname()[1]
        return port


def _slowly(row: Iterable[object]) -> Iterator[str]:
    """Yield the line of a row for COPY in two parts, the second a little later."""
    yield "\t".join(map(str, row))
    threading.Event().wait(_SLOW_SECONDS)
    yield "\n"


class Victim:
    """A consumer whose server dies, and what it was given."""

    def __init__(self, doomed: Doomed, driver: str, database: str, random: Random) -> None:
        self.driver, self._doomed, self._users = driver, doomed, doomed.users[driver]
        with closing(doomed.make_ledger(database)) as ledger:  # type: ignore[type-var]
            self._address = ledger.address
        limits = Limits(batch_events=random.randint(1, 20))
        self.consumer = ModelledConsumer(self._users, self._address, self._handle, limits=limits, retry=PATIENT)
        self._sent = 0
        self._left = 0
        self.is_there = threading.Event()
        """Set when the handler was called as often as :meth:`send` says."""

    def send(self, calls: int) -> None:
        """Give it events, and have it tell when its handler was called so often."""
        self.is_there.clear()
        self._left = calls
        first, self._sent = self._sent + 1, self._sent + _EVENTS
        numbers = range(first, self._sent + 1)
        self.consumer.send(*(make_event(number, aggregate) for number in numbers for aggregate in _AGGREGATES))

    def violations(self) -> list[str]:
        """Return what is wrong with its effects, or with itself."""
        found = [] if self.consumer.is_alive else [f"it ended: {self.consumer.error!r}"]
        rows = self._doomed.query(self._address, "select aggregate, sequence from effects order by number")
        for aggregate in _AGGREGATES:
            effects = [sequence for name, sequence in rows if name == aggregate]
            if effects != list(range(1, self._sent + 1)):
                found.append(f"{self._sent} events of {aggregate} had these effects: {effects}")
        parked = self._doomed.query(self._address, "select error from inbox_parked")
        return [f"{self.driver}: {text}" for text in [*found, *(f"parked: {row[0]}" for row in parked)]]

    async def _handle(self, event: RecordedEvent, connection: Any) -> None:
        self._left -= 1
        if self._left == 0:
            self.is_there.set()
        execute, row = self._users.execute, (event.aggregate_id, event.sequence)
        insert = f"insert into effects (aggregate, sequence) values {row}"  # noqa: S608 - values of ours
        match (event.sequence or 0) % 5:
            case 0:
                await execute(connection, insert)
                await execute(connection, f"select {self._doomed.sleep}({_SLOW_SECONDS})")
            case 1 if self._users.copies:
                await self._users.copy(connection, "effects", ("aggregate", "sequence"), _slowly(row))
            case 2:
                for statement in ("savepoint s", insert, "release savepoint s"):
                    await execute(connection, statement)
            case 3:
                await execute(connection, f"select length('{'x' * 500_000}')")
                await execute(connection, insert)
            case _:
                await execute(connection, insert)


class Deaths:
    """Consumers of all drivers of one server, which dies again and again.

    Args:
        seed: Of all that is left to chance, but for what threads and servers do at the same time.
    """

    def __init__(self, doomed: Doomed, seed: int) -> None:
        self.doomed, self.random = doomed, Random(f"{doomed.name} {seed}")  # noqa: S311 - it is to repeat itself
        self.seen: Counter[tuple[str, Death]] = Counter()
        """How often each driver's consumer saw each death."""

    def __enter__(self) -> Self:
        self._opened = ExitStack()
        self._victims = [
            Victim(self.doomed, driver, f"c{number}", self.random) for number, driver in enumerate(self.doomed.users)
        ]
        for victim in self._victims:
            self._opened.enter_context(victim.consumer)
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def die(self, death: Death) -> Result:
        """Let the server die once while all of them work, and count."""
        calls = self.random.randint(1, _EVENTS * len(_AGGREGATES))
        first = self.random.choice(self._victims)
        for victim in self._victims:
            victim.send(calls)
        first.is_there.wait(patience())
        threading.Event().wait(self.random.uniform(0, 2 * _SLOW_SECONDS))
        begun_at, violations = time.monotonic(), list[str]()
        self.doomed.strike(death, self.random)
        self.doomed.heal(death)
        with suppress(AssertionError):  # what is missing is told of
            eventually(self._are_done, "everything to be applied")
        seconds = time.monotonic() - begun_at
        self.seen.update((victim.driver, death) for victim in self._victims)
        for victim in list(self._victims):
            if found := victim.violations():
                violations += found
                self._victims.remove(victim)
        return Result(events=len(self._victims) * _EVENTS * len(_AGGREGATES), seconds=seconds, violations=violations)

    def _are_done(self) -> bool:
        return all(victim.consumer.has_done_everything or not victim.consumer.is_alive for victim in self._victims)


def die_often(deaths: Deaths, count: int, seed: int) -> list[bool]:
    """Let a server die so often, in each of its ways equally often; tell of each, and return which were good."""
    ways = [death for _, death in zip(range(count), cycle(deaths.doomed.deaths), strict=False)]
    deaths.random.shuffle(ways)
    return [tell_result(deaths.doomed.name, death, seed, deaths.die(death)) for death in ways]


def run(count: int, seed: int) -> list[bool]:
    """Let both servers die, half of the times each; tell of each time, and return which were good."""
    with ExitStack() as stack:
        folder = stack.enter_context(open_folder())
        servers = [stack.enter_context(started(folder)) for started in (started_postgres, started_mariadb)]
        all_deaths = [stack.enter_context(Deaths(doomed, seed)) for doomed in servers]
        pool = stack.enter_context(Threads(seconds=24 * 3600))
        runs = [pool.submit(die_often, deaths, count // 2, seed) for deaths in all_deaths]
        good = [is_good for run in runs for is_good in run.result()]
        for deaths in all_deaths:
            for (driver, death), times in sorted(deaths.seen.items()):
                tell(f"{deaths.doomed.name:<12}{driver:<26}{death:<12}{times:>4}")
        return good
