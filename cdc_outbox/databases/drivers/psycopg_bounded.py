"""A connection of psycopg that counts as lost when the server is silent."""

from time import monotonic
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen

from cdc_outbox.databases.drivers import Row
from cdc_outbox.databases.drivers.psycopg import connect

T = TypeVar("T")


def connect_bounded(dsn: str, silence_seconds: float, **options: Any) -> psycopg.Connection[Row]:
    """Open a connection as :func:`connect` does, on which no statement waits longer than this for an answer.

    TCP notices a lost host after a quarter of an hour, and never that a proxy forwards nothing any more.
    """
    connection = connect(dsn, **options)
    wait = connection.wait

    def wait_bounded(steps: PQGen[T], *arguments: Any, **others: Any) -> T:
        return wait(_within(steps, silence_seconds), *arguments, **others)

    vars(connection)["wait"] = wait_bounded
    return connection


def _within(steps: PQGen[T], seconds: float) -> PQGen[T]:
    """Yield what psycopg waits for, which returns every tenth of a second without it."""
    deadline = monotonic() + seconds
    try:
        wanted = next(steps)
        while True:
            ready = yield wanted
            if not ready and monotonic() >= deadline:
                raise psycopg.OperationalError(f"the server has not answered for {seconds:g} s")
            wanted = steps.send(ready)
    except StopIteration as ended:
        result: T = ended.value
        return result
