"""The drivers of MariaDB."""

from typing import ClassVar

import MySQLdb
import pymysql

from benchmarks.writers.database import WriterDatabase
from benchmarks.writers.dbapi import CursorWriter
from cdc_outbox.databases.dialects import Dialect


class PyMySqlWriter(CursorWriter):
    """PyMySQL."""

    dialect: ClassVar = Dialect.MYSQL
    bounds: ClassVar = (1.15, 1.4)

    def __init__(self, database: WriterDatabase) -> None:
        self.connection = pymysql.connect(**database.server.parameters())


class MysqlClientWriter(CursorWriter):
    """mysqlclient."""

    dialect: ClassVar = Dialect.MYSQL
    bounds: ClassVar = (1.15, 1.4)

    def __init__(self, database: WriterDatabase) -> None:
        self.connection = MySQLdb.connect(**database.server.parameters())
