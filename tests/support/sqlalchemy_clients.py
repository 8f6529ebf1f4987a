"""Sessions and connections of SQLAlchemy's, opened and driven as their users do it."""

from pathlib import Path
from typing import Any

import sqlmodel
import sqlmodel.ext.asyncio.session
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import URL, Engine, NullPool, create_engine, text
from sqlalchemy import make_url as parse_url
from sqlalchemy.ext.asyncio import (
    AsyncEngine,
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from cdc_outbox.testing import MariaDbDsn
from tests.support.writer_clients import AsyncClient, Client


def make_url(dsn: str | URL, driver: str) -> URL:
    if isinstance(dsn, URL):
        # Otherwise PyMySQL reads the system's certificates for each connection, which takes 40 ms.
        query = {"ssl_disabled": "true"} if driver.endswith("pymysql") else {}
        return dsn.set(drivername=driver).update_query_dict(query)
    parts = conninfo_to_dict(dsn)
    return URL.create(
        f"postgresql+{driver}",
        username=str(parts["user"]),
        password=str(parts["password"]),
        host=str(parts["host"]),
        port=int(str(parts["port"])),
        database=str(parts["dbname"]),
    )


PLAIN: Any = {"stream_results": False, "yield_per": None}


def engine_options(*, autocommit: bool) -> dict[str, Any]:
    # Streaming is what users may have asked for, and a statement that writes cannot be streamed.
    streamed = {"stream_results": True, "yield_per": 10}
    level = {"isolation_level": "AUTOCOMMIT"} if autocommit else {}
    return {"poolclass": NullPool, "execution_options": streamed} | level


class SessionClient(Client):
    """Ends by statement what it began by statement: under AUTOCOMMIT the session has nothing to commit."""

    def __init__(self, dsn: str | URL, driver: str, *, autocommit: bool) -> None:
        self.place = self.make(create_engine(make_url(dsn, driver), **engine_options(autocommit=autocommit)))
        self.by_name = False

    def make(self, engine: Engine) -> Any:
        return Session(engine)

    def execute(self, sql: str) -> object:
        return self.place.execute(text(sql), execution_options=PLAIN)

    def begin(self) -> object:
        self.by_name = True
        return self.execute("begin")

    def commit(self) -> object:
        return self.execute("commit") if self.by_name else self.place.commit()

    def rollback(self) -> object:
        return self.execute("rollback") if self.by_name else self.place.rollback()

    def close(self) -> None:
        self.place.close()


class ConnectionClient(SessionClient):
    def make(self, engine: Engine) -> Any:
        return engine.connect()


class ScopedSessionClient(SessionClient):
    def make(self, engine: Engine) -> Any:
        return scoped_session(sessionmaker(engine), scopefunc=lambda: 1)  # one, whichever thread asks

    def close(self) -> None:
        self.place.remove()


class OwnSession(sqlmodel.Session):
    """A user's own, of a class that is SQLModel's, which is SQLAlchemy's."""


class SqlModelClient(SessionClient):
    def make(self, engine: Engine) -> Any:
        return OwnSession(engine)

    def execute(self, sql: str) -> object:
        return self.place.connection().exec_driver_sql(sql, execution_options=PLAIN)


class AsyncSessionClient(AsyncClient):
    def __init__(self, dsn: str | URL, driver: str, *, autocommit: bool) -> None:
        super().__init__()
        options = engine_options(autocommit=autocommit)
        self.place = self.run(self.make(create_async_engine(make_url(dsn, driver), **options)))
        self.by_name = False

    async def make(self, engine: AsyncEngine) -> Any:
        return AsyncSession(engine)

    def execute(self, sql: str) -> object:
        return self.run(self.place.execute(text(sql), execution_options=PLAIN))

    def begin(self) -> object:
        self.by_name = True
        return self.execute("begin")

    def commit(self) -> object:
        return self.execute("commit") if self.by_name else self.run(self.place.commit())

    def rollback(self) -> object:
        return self.execute("rollback") if self.by_name else self.run(self.place.rollback())

    def close(self) -> object:
        self.run(self.place.close())
        return super().close()


class AsyncConnectionClient(AsyncSessionClient):
    async def make(self, engine: AsyncEngine) -> Any:
        return await engine.connect()


class AsyncScopedSessionClient(AsyncSessionClient):
    async def make(self, engine: AsyncEngine) -> Any:
        return async_scoped_session(async_sessionmaker(engine), scopefunc=lambda: 1)

    def close(self) -> object:
        self.run(self.place.remove())
        return AsyncClient.close(self)


class AsyncSqlModelClient(AsyncSessionClient):
    async def make(self, engine: AsyncEngine) -> Any:
        return sqlmodel.ext.asyncio.session.AsyncSession(engine)

    def execute(self, sql: str) -> object:
        return self.run(
            self.place.run_sync(lambda session: session.connection().exec_driver_sql(sql, execution_options=PLAIN))
        )


def url_of(dsn: str | MariaDbDsn | Path, driver: str) -> str | URL:
    match dsn:
        case str():
            return make_url(dsn, driver)
        case MariaDbDsn():
            return make_url(parse_url(dsn.url()), f"mysql+{driver}")
        case _:
            return f"sqlite+{driver}:///{dsn}"
