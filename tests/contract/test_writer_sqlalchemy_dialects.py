"""SQLAlchemy under the writer's contract, on MariaDB and SQLite."""

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from cdc_outbox import NotInTransactionError, Outbox
from cdc_outbox.databases.drivers import find_driver
from cdc_outbox.errors import OutboxError
from cdc_outbox.testing import MariaDb
from tests.contract.writer_contract import PlaceContract, WriterContract
from tests.contract.writer_errors_contract import WriterErrorsContract
from tests.support.mariadb import MariaDbStore, MariaDbWriterContract
from tests.support.sqlalchemy_clients import AsyncSessionClient, ConnectionClient, SessionClient, make_url
from tests.support.sqlite import BUSY_SECONDS, SqliteStore
from tests.support.writer_clients import ORDER, Client, Store


@pytest.fixture(scope="module")
def sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteStore]:
    with closing(SqliteStore(tmp_path_factory.mktemp("sqlalchemy") / "orders.db")) as store:
        yield store


@pytest.fixture(scope="module")
def maria(mariadb: MariaDb) -> Iterator[MariaDbStore]:
    with closing(MariaDbStore.create(mariadb, "writer_sqlalchemy")) as store:
        yield store


class OnMariaDb:
    client_class: Callable[..., Client] = SessionClient
    driver = "mysql+pymysql"

    @pytest.fixture(scope="class")
    @classmethod
    def store(cls, maria: MariaDbStore) -> MariaDbStore:
        return maria

    def open(self, store: MariaDbStore, *, autocommit: bool = False) -> Client:
        url = sqlalchemy.make_url(store.dsn.url())
        return type(self).client_class(url, self.driver, autocommit=autocommit)


class TestSessionOnPyMySql(OnMariaDb, MariaDbWriterContract):
    library = "SQLAlchemy"


class TestConnectionOnMySqlClient(OnMariaDb, PlaceContract):
    client_class = ConnectionClient
    driver = "mariadb+mysqldb"


class OnSqlite:
    has_row_locks = False
    client_class: Callable[..., Client] = SessionClient
    driver = "sqlite"

    @pytest.fixture(scope="class")
    @classmethod
    def store(cls, sqlite: SqliteStore) -> SqliteStore:
        return sqlite

    def open(self, store: Any, *, autocommit: bool = False) -> Client:
        url = sqlalchemy.URL.create(
            "sqlite", database=str(store.path), query={"timeout": str(BUSY_SECONDS), "check_same_thread": "false"}
        )
        return type(self).client_class(url, self.driver, autocommit=autocommit)


class TestSessionOnSqlite3(OnSqlite, WriterErrorsContract, WriterContract):
    pass


class UnknownDriverClient(SessionClient):
    """Its engine is of a driver whose style of parameters is not known here."""

    def make(self, engine: Engine) -> Any:
        engine.dialect.driver = "unknown"
        return super().make(engine)


class TestSessionOnAnUnknownDriver(OnSqlite, WriterErrorsContract, WriterContract):
    client_class = UnknownDriverClient


class TestAsyncSessionOnAiosqlite(OnSqlite, WriterErrorsContract, WriterContract):
    client_class = AsyncSessionClient
    driver = "sqlite+aiosqlite"

    def test_a_transaction_opened_by_name_is_joined(self, store: Store) -> None:
        # No driver here knows aiosqlite's connections, and what cannot be told is refused.
        with closing(self.open(store, autocommit=True)) as client:
            client.begin()
            with pytest.raises(NotInTransactionError):
                client.add()
            client.rollback()


@pytest.mark.parametrize("opens", ["a connection", "its session", "a session"])
def test_an_xa_transaction_that_sqlalchemy_began_is_refused(maria: MariaDbStore, opens: str) -> None:
    maria.reset()
    url = make_url(sqlalchemy.make_url(maria.dsn.url()), "mysql+pymysql")
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
    with closing(engine.connect()) as connection, closing(Session(engine, twophase=True)) as session:
        place: Any = session
        if opens != "a session":
            connection.begin_twophase()
            place = connection if opens == "a connection" else Session(connection)
        adds: list[Callable[[], object]] = [
            lambda: Outbox().add(place, ORDER),
            lambda: Outbox().add_all(place, [ORDER]),
            lambda: Outbox(policy=lambda _: True).add(place, ORDER),
        ]
        for add in adds:
            with pytest.raises(OutboxError, match="published when the XA transaction is prepared") as caught:
                add()
            assert "twophase=True" in caught.value.hint
        # An inbox asks this, and publishes nothing.
        assert find_driver(place).joins_transaction(place)
        place.rollback()
    assert maria.numbers() == []


def test_one_outbox_writes_to_two_databases_by_turns(maria: MariaDbStore, sqlite: SqliteStore) -> None:
    for store in (maria, sqlite):
        store.reset()
    with closing(OnMariaDb().open(maria)) as there, closing(OnSqlite().open(sqlite)) as here:
        outbox = Outbox()
        for place in (there.place, here.place) * 2:
            outbox.add(place, ORDER)
        there.commit()
        here.commit()
    assert maria.numbers() == sqlite.numbers() == [("42", 1), ("42", 2)]
