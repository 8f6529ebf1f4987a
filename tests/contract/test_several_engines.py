"""SQLAlchemy's sessions of several engines: an event is committed with its row, or refused.

Each engine of a session has a transaction and a commit of its own.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy import Engine, NullPool, create_engine, text, update
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, scoped_session

from cdc_outbox import AsyncOutbox, Outbox
from cdc_outbox.databases.drivers import find_transaction_driver
from cdc_outbox.errors import OutboxError
from cdc_outbox.testing import MariaDb, Stack
from tests.support.mariadb import MariaDbStore
from tests.support.postgresql import PostgresStore
from tests.support.sqlalchemy_clients import make_url
from tests.support.sqlite import SqliteStore
from tests.support.writer_clients import ORDER, Store


class Base(DeclarativeBase):
    pass


class Customer(Base):
    __tablename__ = "customers"
    id: Mapped[int] = mapped_column(primary_key=True)


class Databases:
    """Two databases with an outbox each; rows go to the second one."""

    def __init__(self, main: Store, shop: Store, driver: str, urls: list[Any]) -> None:
        self.stores = main, shop
        self.main, self.shop = (create_engine(make_url(url, driver), poolclass=NullPool) for url in urls)

    def rows(self) -> tuple[int, ...]:
        """Return how many events the first has, how many the second, and how many rows."""
        counted = [len(store.numbers()) for store in self.stores]
        return *counted, len(self.stores[1].query("select id from customers"))


@pytest.fixture(scope="module", params=["postgresql", "mariadb", "sqlite"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Databases]:
    names = ["engines_main", "engines_shop"]
    main: Any
    shop: Any
    if request.param == "postgresql":
        stack: Stack = request.getfixturevalue("outbox_stack")
        main, shop = (PostgresStore.create(stack, name) for name in names)
        found = Databases(main, shop, "psycopg", [main.dsn, shop.dsn])
    elif request.param == "mariadb":
        mariadb: MariaDb = request.getfixturevalue("mariadb")
        main, shop = (MariaDbStore.create(mariadb, name) for name in names)
        found = Databases(main, shop, "mysql+pymysql", [sqlalchemy.make_url(each.dsn.url()) for each in (main, shop)])
    else:
        folder = tmp_path_factory.mktemp("engines")
        main, shop = (SqliteStore(folder / f"{name}.db") for name in names)
        urls = [sqlalchemy.URL.create("sqlite", database=str(each.path)) for each in (main, shop)]
        found = Databases(main, shop, "sqlite", urls)
    with closing(main), closing(shop):
        yield found


@pytest.fixture
def databases(made: Databases) -> Databases:
    for store in made.stores:
        store.reset()
        store.query("delete from customers")
    return made


def with_binds(databases: Databases) -> Session:
    return Session(databases.main, binds={Customer: databases.shop})


def by_flushing(databases: Databases) -> Session:
    class Routing(Session):
        def get_bind(self, *_: Any, bind: Any = None, **__: Any) -> Any:
            return bind or (databases.shop if self._flushing else databases.main)

    return Routing()


def by_mapper(databases: Databases) -> Session:
    class Routing(Session):
        def get_bind(self, mapper: Any = None, *_: Any, bind: Any = None, **__: Any) -> Any:
            return bind or (databases.main if mapper is None else databases.shop)

    return Routing()


SESSIONS = [with_binds, by_flushing, by_mapper]
Step = Callable[[Session], object]


def add(session: Session) -> object:
    return Outbox().add(session, ORDER)


def add_all(session: Session) -> object:
    return Outbox().add_all(session, [ORDER])


def place(session: Session) -> None:
    session.add(Customer(id=1))


def flush(session: Session) -> None:
    session.flush()


def commit(session: Session) -> None:
    session.commit()


ORDERS: list[list[Step]] = [[place, flush, add], [place, add, commit], [add, place, commit], [add_all, place, commit]]


@pytest.mark.parametrize("steps", ORDERS, ids=lambda steps: "_".join(step.__name__ for step in steps))
@pytest.mark.parametrize("make", SESSIONS)
def test_an_event_that_another_commit_would_commit_is_refused(
    databases: Databases, make: Callable[[Databases], Session], steps: list[Step]
) -> None:
    with make(databases) as session:
        with pytest.raises(OutboxError, match="each has a commit of its own") as caught:  # noqa: PT012 - which step raises
            for step in steps:
                step(session)
        assert "session.connection(bind_arguments=" in caught.value.hint
        session.rollback()
    assert databases.rows() == (0, 0, 0)


@pytest.mark.parametrize("make", SESSIONS)
def test_the_connection_of_the_row_is_taken(databases: Databases, make: Callable[[Databases], Session]) -> None:
    for ends in ("rollback", "commit"):
        with make(databases) as session:
            place(session)
            session.flush()
            connection = session.connection(bind_arguments={"bind": databases.shop})
            Outbox().add(connection, ORDER)
            getattr(session, ends)()
    assert databases.rows() == (0, 1, 1)


def test_a_connection_that_the_session_was_told_to_open_is_seen(databases: Databases) -> None:
    with Session(databases.main) as session:
        session.execute(text("select 1"), bind_arguments={"bind": databases.shop})
        with pytest.raises(OutboxError, match="each has a commit of its own"):
            add(session)


def same_binds(engine: Engine) -> Session:
    return Session(engine, binds={Customer: engine})


def same_by_method(engine: Engine) -> Session:
    """Return a session like Flask-SQLAlchemy's for a project with one database."""

    class Routing(Session):
        def get_bind(self, *_: Any, **__: Any) -> Any:
            return engine

    return Routing()


@pytest.mark.parametrize("make", [Session, same_binds, same_by_method])
def test_a_session_that_has_one_engine_after_all_is_taken(
    databases: Databases, make: Callable[[Engine], Session]
) -> None:
    with make(databases.shop) as session:
        for steps in ORDERS:
            for step in steps:
                step(session)
            session.rollback()
            session.execute(update(Customer).values(id=2))
            with session.begin_nested():
                add(session)
            session.commit()
    assert databases.rows()[0] == 0


@pytest.mark.parametrize("make", SESSIONS[:2])
def test_a_consumer_takes_no_session_of_several_engines(
    databases: Databases, make: Callable[[Databases], Session]
) -> None:
    session: Any = scoped_session(lambda: make(databases))  # type: ignore[arg-type]
    with pytest.raises(OutboxError, match="each has a commit of its own"):
        find_transaction_driver(session).begin(session)
    assert not session().in_transaction()


@pytest.mark.parametrize("make", [with_binds, by_flushing])
def test_an_asynchronous_session_is_held_to_the_same(tmp_path: Any, make: Callable[[Any], Session]) -> None:
    with closing(SqliteStore(tmp_path / "main.db")) as main, closing(SqliteStore(tmp_path / "shop.db")) as shop:
        engines = [create_async_engine(f"sqlite+aiosqlite:///{each.path}") for each in (main, shop)]
        databases: Any = type("Async", (), {"main": engines[0].sync_engine, "shop": engines[1].sync_engine})

        async def write() -> None:
            inner = make(databases)
            async with AsyncSession(sync_session_class=lambda **_: inner) as session:  # type: ignore[arg-type]
                session.add(Customer(id=1))
                with pytest.raises(OutboxError, match="each has a commit of its own"):
                    await AsyncOutbox().add(session, ORDER)
                await session.flush()
                connection = await session.connection(bind_arguments={"bind": databases.shop})
                await AsyncOutbox().add(connection, ORDER)
                await session.commit()
            for engine in engines:
                await engine.dispose()

        asyncio.run(write())
        assert (main.numbers(), shop.numbers()) == ([], [("42", 1)])
