"""The heartbeats of one database, which tell its server from a copy of the whole server.

A copy has the same row, slot, log and tables. Kafka has one chain of heartbeats: that of the server which wrote first
after the copy was made. The other server's database does not have the newest one.
"""

import logging
import math
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

from cdc_outbox.databases.drivers import AnyConnection, Row, TransactionDriver, translated_for_operator
from cdc_outbox.databases.heartbeats import Chain, Heartbeat, read_record
from cdc_outbox.databases.sql import load
from cdc_outbox.databases.table import OutboxTable
from cdc_outbox.errors import DatabaseError, DatabaseUnavailableError
from cdc_outbox.kafka.tail import PartitionTail

_PAUSE_SECONDS = 60.0
_MOST_READ = 5_000
"""More than relays write in the day of which the database keeps its heartbeats."""
_WAITED_TOO_LONG = {"40P01", "55P03", "57014"}
"""The outbox is locked, as while a partition is attached."""

logger = logging.getLogger(__name__)
_CLIENT_LOG = logging.getLogger(f"{__name__}.librdkafka")


class OwnHeartbeats:
    """Writes heartbeats through the outbox, and compares those in Kafka with the database.

    Args:
        topic: Where they are published.
        kafka: librdkafka's settings, ``bootstrap.servers`` among them.
        pipeline: Whose heartbeats they are.
        clock: Monotonic seconds.

    Attributes:
        warning: Why the last one was not written, or not compared; empty if it was.
    """

    def __init__(
        self,
        topic: str,
        kafka: Mapping[str, Any],
        *,
        outbox: OutboxTable,
        pipeline: str,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._topic, self._kafka, self._pipeline, self._clock = topic, kafka, pipeline, clock
        self._outbox, beats = outbox, outbox.heartbeats
        self._names = {
            "heartbeats": beats.quoted,
            "heartbeats_literal": beats.literals()["table_literal"],
            "heartbeat": outbox.heartbeat.quoted,
        }
        self._tail: PartitionTail | None = None
        self._reset()

    def _reset(self) -> None:
        self._chain, self._own, self.warning = Chain(), "", ""
        self._due_at = math.inf

    def find_foreign(self, connection: AnyConnection, driver: TransactionDriver) -> Heartbeat | None:
        """Return the newest heartbeat in Kafka if the database did not write it; otherwise write the next, if due.

        Raises:
            BrokerError: The topic cannot be read.
            DatabaseError: The database does not answer, or the role may not read or write heartbeats.
        """
        if self._tail is None:
            self._tail = PartitionTail(
                self._topic, self._kafka, most=_MOST_READ, group="cdc-outbox relay", logger=_CLIENT_LOG
            )
        for message in self._tail.read():
            record = read_record(message)
            if record is not None:
                self._chain.add(record)
        newest = self._chain.newest
        # Read in Kafka first, so that the database is behind only if it is another one; or if the session that wrote it
        # waits for a standby. If that ended before its lock was looked for, what it wrote is visible now.
        if newest is not None and newest.id != self._own:
            is_known, is_written = self._look_for(connection, driver, newest)
            if not is_known and not is_written and not self._look_for(connection, driver, newest)[0]:
                return newest
            if not is_known and is_written:
                self._warn("a published heartbeat is not visible in the database: its session waits for a standby")
                return None
            self._own, self.warning = newest.id, ""
        if self._clock() >= self._due_at:
            self.write(connection, driver)
        return None

    def write(self, connection: AnyConnection, driver: TransactionDriver) -> None:
        """Write a heartbeat; from then on :meth:`find_foreign` writes one a minute.

        Raises:
            DatabaseUnavailableError: The database does not answer.
        """
        self._due_at = self._clock()
        try:
            self._ask(connection, driver, "write", pipeline=self._pipeline)
        except DatabaseUnavailableError:
            raise
        except DatabaseError as error:  # events are no worse for it
            self._warn(f"heartbeats are not written: {error}")
            if error.sqlstate in _WAITED_TOO_LONG:
                return
        else:
            self.warning = ""
        self._due_at += _PAUSE_SECONDS

    def _warn(self, text: str) -> None:
        logger.log(logging.DEBUG if text == self.warning else logging.WARNING, "%s", text)
        self.warning = text

    def renewed(self) -> "OwnHeartbeats":
        """Return what has read nothing yet."""
        return OwnHeartbeats(self._topic, self._kafka, outbox=self._outbox, pipeline=self._pipeline, clock=self._clock)

    def close(self) -> None:
        """Forget what was read, and close the connection to the brokers."""
        tail, self._tail = self._tail, None
        self._reset()
        if tail is not None:
            tail.close()

    def _look_for(self, connection: AnyConnection, driver: TransactionDriver, beat: Heartbeat) -> Row:
        """Return whether the database knows a heartbeat, and whether another session has written one that it hides."""
        return self._ask(connection, driver, "knows", id=beat.id, number=beat.number)[0]

    def _ask(
        self, connection: AnyConnection, driver: TransactionDriver, statement: str, **parameters: object
    ) -> list[Row]:
        sql = load(driver.dialect, "heartbeats")[statement].render(self._names, driver.style)
        with translated_for_operator():
            return driver.fetch(connection, sql, parameters)
