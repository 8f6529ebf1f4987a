"""Connections of PyMySQL to servers of the tests."""

from typing import Any

import pymysql
from pymysql.connections import Connection

from cdc_outbox.testing import MariaDbDsn


def connect_pymysql(dsn: MariaDbDsn, **options: Any) -> "Connection[Any]":
    """Open a connection without TLS: if it might use TLS, PyMySQL reads the system's certificates, in 40 ms."""
    connection: Connection[Any] = pymysql.connect(**dsn.parameters(), ssl_disabled=True, **options)
    return connection
