"""A database server dies under a consumer, or a handler loses or blocks its own connection: whose fault that is."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing, suppress
from pathlib import Path
from random import Random
from typing import Any, cast
from uuid import uuid4

import psycopg
import pytest

from cdc_outbox import RecordedEvent
from cdc_outbox.consumer import Retry
from cdc_outbox.databases.drivers import TransactionState
from cdc_outbox.databases.drivers import psycopg as psycopg_driver
from cdc_outbox.databases.drivers import psycopg2 as psycopg2_driver
from tests.faults.handled import DRIVERS, Case, Trouble
from tests.faults.server_deaths import Deaths, Doomed, started_mariadb, started_postgres
from tests.support.driver_clients import AsyncClient, Client, start_copy
from tests.support.driver_users import MARIADB_USERS, POSTGRES_USERS
from tests.support.events import make_event
from tests.support.modelled_consumer import ModelledConsumer
from tests.support.patience import patience
from tests.support.rig import eventually, open_folder
from tests.support.service import PATIENT

SEED = 1
USERS = [*(("postgres", driver) for driver in POSTGRES_USERS), *(("mariadb", driver) for driver in MARIADB_USERS)]
_ERRORS = "select state, attempts, error from inbox_parked"


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with open_folder() as folder:
        yield folder


@pytest.fixture(scope="module")
def postgres(folder: Path) -> Iterator[Doomed]:
    with started_postgres(folder) as doomed:
        yield doomed


@pytest.fixture(scope="module")
def mariadb(folder: Path) -> Iterator[Doomed]:
    with started_mariadb(folder) as doomed:
        yield doomed


@pytest.fixture
def doomed(request: pytest.FixtureRequest) -> Any:
    """Return the server of a parameter."""
    return request.getfixturevalue(request.param)


class Service:
    """A consumer of one driver, with its database and three events.

    Args:
        special: What the handler does at the event of the aggregate ``special``, after its effect.
    """

    def __init__(
        self,
        doomed: Doomed,
        driver: str,
        special: Callable[["Service", Any], Coroutine[Any, Any, object]],
        retry: Retry = PATIENT,
    ) -> None:
        self._doomed, self.users, self._special = doomed, doomed.users[driver], special
        with closing(cast("Any", doomed.make_ledger(f"s{uuid4().hex[:8]}"))) as ledger:
            self._address = ledger.address
        self.calls: Counter[str] = Counter()
        """How often the handler was called, by aggregate."""
        self.consumer = ModelledConsumer(self.users, self._address, self._handle, retry=retry)
        self.consumer.send(*(make_event(1, aggregate) for aggregate in ("before", "special", "after")))

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Return rows of its database, on another connection."""
        return self._doomed.query(self._address, sql)

    def run(self) -> None:
        """Run the consumer until all its events are done with; it may not end by itself."""
        with self.consumer:
            self.finish()

    def finish(self) -> None:
        """Wait until all events are done with."""
        eventually(lambda: self.consumer.has_done_everything or not self.consumer.is_alive, "everything to be done")
        assert self.consumer.error is None, repr(self.consumer.error)

    def effects(self) -> list[str]:
        return sorted(str(aggregate) for (aggregate,) in self.query("select aggregate from effects"))

    async def _handle(self, event: RecordedEvent, connection: Any) -> None:
        self.calls[event.aggregate_id] += 1
        insert = f"insert into effects (aggregate, sequence) values ('{event.aggregate_id}', 1)"  # noqa: S608
        await self.users.execute(connection, insert)
        if event.aggregate_id == "special":
            await self._special(self, connection)


@pytest.mark.parametrize("doomed", ["postgres", "mariadb"], indirect=True)
def test_consumers_of_every_driver_outlive_a_server_that_dies(doomed: Doomed) -> None:
    """`infra/faults consumer --kinds server` has 200 deaths."""
    with Deaths(doomed, SEED) as deaths:
        violations = [violation for death in doomed.deaths[1:] for violation in deaths.die(death).violations]
    assert not violations, f"seed {SEED}:\n" + "\n".join(violations)


@pytest.mark.parametrize(("trouble", "driver"), [(each, name) for each, names in DRIVERS.items() for name in names])
def test_healthy_aggregates_go_on_beside_handlers_in_trouble(
    trouble: Trouble, driver: str, request: pytest.FixtureRequest
) -> None:
    """`infra/faults consumer --kinds handler` has more seeds."""
    doomed = request.getfixturevalue("postgres" if driver in POSTGRES_USERS else "mariadb")
    assert not Case(trouble, doomed, driver, SEED).run().violations


async def leave_open(service: Service, connection: Any, what: str) -> object:
    """Leave something open for as long as what is returned is kept."""
    raw: Any = await service.users.raw(connection)
    match what:
        case "copy":
            opened = raw.cursor().copy("copy effects from stdin")
        case "pipeline":
            opened = raw.pipeline()
        case "stream":
            opened = raw.cursor().stream("select generate_series(1, 100000)")
            return opened, next(opened)
        case "task":
            opened = asyncio.create_task(connection.execute("select pg_sleep(1)"))
            opened.add_done_callback(lambda task: task.cancelled() or task.exception())
            await asyncio.sleep(0)
            return opened
        case _:
            with suppress(psycopg.ProgrammingError):
                raw.execute("copy effects from stdin")
            return None
    await opened.__aenter__() if service.users.asynchronous else opened.__enter__()
    return opened


@pytest.mark.parametrize("driver", ["psycopg", "psycopg async", "sqlalchemy psycopg", "django"])
def test_a_socket_whose_end_the_driver_sees_before_libpq_does_is_an_outage(postgres: Doomed, driver: str) -> None:
    async def break_once(service: Service, connection: Any) -> None:
        if service.calls["special"] == 1:
            [(session,)] = await service.users.execute(connection, "select pg_backend_pid()")
            (await service.users.raw(connection)).pgconn.send_query(b"select pg_sleep(60)")
            service.query(f"select pg_terminate_backend({session}, 5000)")
            raise psycopg.OperationalError("connection socket closed")

    service = Service(postgres, driver, break_once)
    service.run()
    assert (service.effects(), service.query(_ERRORS)) == (["after", "before", "special"], [])


@pytest.mark.parametrize(
    ("driver", "what"),
    [
        ("psycopg", "copy"),
        ("psycopg", "stream"),
        ("psycopg", "pipeline"),
        ("psycopg", "refused copy"),
        ("psycopg async", "copy"),
        ("psycopg async", "pipeline"),
        ("sqlalchemy psycopg", "copy"),
        ("sqlalchemy psycopg async", "copy"),
        ("django", "copy"),
        ("asyncpg", "task"),
    ],
)
@pytest.mark.parametrize("raises", [False, True])
def test_a_handler_that_leaves_its_connection_busy_is_parked_and_the_others_go_on(
    postgres: Doomed, driver: str, what: str, *, raises: bool
) -> None:
    async def leave(service: Service, connection: Any) -> None:
        kept.append(await leave_open(service, connection, what))
        if raises:
            raise LookupError("no such order")

    kept: list[object] = []
    service = Service(postgres, driver, leave)
    service.run()
    [(state, attempts, error)] = service.query(_ERRORS)
    assert (service.effects(), state, attempts) == (["after", "before"], "waiting", 1)
    assert ("no such order" in error) is raises
    if what != "task":  # of which asyncpg shows nothing
        assert "left a statement, a COPY, a stream or a pipeline open" in error


@pytest.mark.parametrize(("doomed", "driver"), USERS, indirect=["doomed"])
def test_a_handler_that_kills_its_own_connection_is_parked_and_the_others_go_on(doomed: Doomed, driver: str) -> None:
    async def kill(service: Service, connection: Any) -> None:
        is_postgres = doomed.users is POSTGRES_USERS
        sql = "select pg_terminate_backend(pg_backend_pid())" if is_postgres else "kill connection_id()"
        await service.users.execute(connection, sql)

    service = Service(doomed, driver, kill)
    service.run()
    [(state, attempts, error)] = service.query(_ERRORS)
    assert (service.effects(), state, attempts) == (["after", "before"], "dead", 1)
    assert service.query("select reason from inbox_parked") == [("crashed",)]
    assert "the connection broke again in the handler of OrderPlaced order/special #1" in error
    assert service.calls["special"] <= 5, "a few kills are enough"


@pytest.mark.parametrize("driver", ["sqlalchemy asyncpg", "sqlalchemy psycopg async", "sqlalchemy psycopg"])
def test_a_handler_that_swallows_the_loss_of_its_connection_is_parked_too(postgres: Doomed, driver: str) -> None:
    async def give_up(service: Service, connection: Any) -> None:
        if not service.users.asynchronous:
            connection.connection().invalidate()
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(0.05):
                await service.users.execute(connection, "select pg_sleep(5)")  # SQLAlchemy closes the connection

    service = Service(postgres, driver, give_up)
    service.run()
    assert service.effects() == ["after", "before"]
    assert [(state, attempts) for state, attempts, _ in service.query(_ERRORS)] == [("dead", 1)]


async def await_cancelled(service: Service, _connection: Any) -> None:
    """Await a task of the handler's own that something else cancelled, or raise what such a task raised elsewhere."""
    if not service.users.asynchronous:
        raise asyncio.CancelledError
    inner = asyncio.create_task(asyncio.sleep(60))
    asyncio.get_running_loop().call_soon(inner.cancel)
    await inner


@pytest.mark.parametrize(
    ("doomed", "driver"),
    [("postgres", "psycopg"), ("postgres", "psycopg pipeline"), ("postgres", "psycopg async"), ("mariadb", "pymysql")],
    indirect=["doomed"],
)
def test_a_handler_whose_own_task_is_cancelled_is_parked_and_the_others_go_on(doomed: Doomed, driver: str) -> None:
    service = Service(doomed, driver, await_cancelled)
    service.run()
    [(state, attempts, error)] = service.query(_ERRORS)
    assert (service.effects(), state, attempts) == (["after", "before"], "waiting", 1)
    assert "raised CancelledError" in error


@pytest.mark.parametrize(("doomed", "driver"), [("postgres", "psycopg"), ("mariadb", "pymysql")], indirect=["doomed"])
def test_a_server_that_dies_each_time_that_an_event_is_handled_parks_nothing(doomed: Doomed, driver: str) -> None:
    # At the first one it is in a batch, and after the second it would be alone.
    deaths, is_handled, death = 3, threading.Event(), doomed.deaths[-1]

    async def wait(service: Service, connection: Any) -> None:
        if service.calls["special"] <= deaths:
            is_handled.set()
            await service.users.execute(connection, f"select {doomed.sleep}(60)")

    service = Service(doomed, driver, wait)
    with service.consumer:
        for _ in range(deaths):
            assert is_handled.wait(patience())
            is_handled.clear()
            known = service.consumer.connections
            doomed.strike(death, Random(SEED))  # noqa: S311
            eventually(lambda known=known: service.consumer.connections > known, "a connection to be tried")  # type: ignore[misc]
            doomed.heal(death)
        service.finish()
    assert (service.effects(), service.query(_ERRORS)) == (["after", "before", "special"], [])
    assert service.calls["special"] == deaths + 1


@pytest.mark.parametrize("driver", ["psycopg", "psycopg async", "psycopg2"])
def test_a_server_that_is_silent_has_lost_a_busy_connection(
    postgres: Doomed, driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (psycopg_driver, psycopg2_driver):
        monkeypatch.setattr(module, "ANSWER_SECONDS", 0.2)
    users, dsn = postgres.users[driver], cast("Any", postgres.server).dsn()
    with asyncio.Runner() as runner:
        connection = runner.run(users.connect(dsn)) if users.asynchronous else users.connect(dsn)
        client = AsyncClient(runner, connection) if users.asynchronous else Client(connection)
        client.begin()
        client.fetch("create temporary table t (a int)")
        copy = start_copy(client)
        postgres.server.pause()
        try:
            assert client.state() is TransactionState.UNKNOWN
            assert client.resolved() is TransactionState.LOST
        finally:
            postgres.server.resume()
        client.hang_up()
        del copy
