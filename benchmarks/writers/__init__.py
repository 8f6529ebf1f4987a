"""The drivers of the writer's benchmark: each writes a business row and an event by hand, and by the outbox."""

from benchmarks.writers.database import WriterDatabase
from benchmarks.writers.mariadb import MysqlClientWriter, PyMySqlWriter
from benchmarks.writers.postgresql import (
    AsyncpgWriter,
    AsyncSqlAlchemyWriter,
    DjangoWriter,
    Psycopg2Writer,
    PsycopgWriter,
    SqlAlchemyWriter,
)
from benchmarks.writers.sqlite import Sqlite3Writer
from benchmarks.writers.work import LIST, ListWriter, StatementWriter, Writer

WRITERS: dict[str, type[Writer]] = {
    "psycopg": PsycopgWriter,
    "psycopg2": Psycopg2Writer,
    "asyncpg": AsyncpgWriter,
    "sqlalchemy": SqlAlchemyWriter,
    "sqlalchemy-async": AsyncSqlAlchemyWriter,
    "django": DjangoWriter,
    "pymysql": PyMySqlWriter,
    "mysqlclient": MysqlClientWriter,
    "sqlite3": Sqlite3Writer,
}

__all__ = ["LIST", "WRITERS", "ListWriter", "StatementWriter", "Writer", "WriterDatabase"]
