"""Commits that wait for the disk: without it nothing that is measured would be true of a server in use."""

from contextlib import closing

import psycopg
import pymysql

from cdc_outbox.testing import Stack


def demand_durable(stack: Stack) -> None:
    """Refuse a stack whose PostgreSQL does not wait for the disk.

    Raises:
        RuntimeError: It does not.
    """
    with psycopg.connect(stack.postgres.dsn()) as connection:
        for setting in ("fsync", "synchronous_commit"):
            if connection.execute(f"show {setting}".encode()).fetchone() != ("on",):
                raise RuntimeError(f"a commit does not wait for the disk: {setting} is off")


def make_durable(stack: Stack) -> None:
    """Let MariaDB's commits wait for the disk; the stack's own settings are for tests, which pull no plug."""
    dsn = stack.mariadb.create_database("durable")
    with closing(pymysql.connect(**dsn.parameters())) as connection, connection.cursor() as cursor:
        cursor.execute("set global innodb_flush_log_at_trx_commit = 1")
        cursor.execute("set global sync_binlog = 1")
