"""A deployed connector with its slot: find, start, stop and wait for it."""

import time
from collections.abc import Callable
from contextlib import suppress

from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.plan import Found, Plan
from cdc_outbox.connect.postgresql_database import PostgresqlDatabase
from cdc_outbox.connect.timings import Timings
from cdc_outbox.connect.wait import PASSING, ReadinessProbe, wait_until, wait_until_known, wait_until_up
from cdc_outbox.databases.facts import SlotFacts
from cdc_outbox.debezium.slot_plan import is_read_by_other_tool, stored_offset
from cdc_outbox.errors import ConnectorFailedError

Report = Callable[[str, str], None]
"""Called for each step as it is done, with its name and its result."""


def find_connector(client: ConnectClient, name: str, *, timings: Timings) -> Found | None:
    """Return a connector as it is, ``None`` if there is none; right after it was made, its status is waited for."""
    config = client.find_config(name)
    return None if config is None else Found(config, wait_until_known(client, name, timings=timings))


class DeployedConnector:
    """One connector on one Connect cluster, and the slot it reads.

    Args:
        timings: Its timeout is how long each step may take.
    """

    def __init__(
        self, name: str, client: ConnectClient, database: PostgresqlDatabase, *, timings: Timings, report: Report
    ) -> None:
        self._name = name
        self._client = client
        self._database = database
        self._timings = timings
        self._report = report
        self._former = 0
        self._reader, self._read_since = 0, 0.0

    def expect_another_than(self, process: int) -> None:
        """Take what reads the slot for the connector only if it is another process of the server than this one.

        A task that restarts has another; a process that still reads beside it is not the connector's.
        """
        self._former = process

    def find_stranger(self) -> SlotFacts | None:
        """Return the slot if a process reads it that is not the connector's: that one, or one that is no Debezium."""
        slot = self._database.find_slot()
        return slot if slot is not None and slot.active and self._is_stranger(slot) else None

    def _is_stranger(self, slot: SlotFacts) -> bool:
        return slot.reader == self._former or is_read_by_other_tool(slot)

    def find(self) -> Found | None:
        """Return the connector as it is, ``None`` if there is none."""
        return find_connector(self._client, self._name, timings=self._timings)

    def find_state(self) -> str:
        """Return the connector's state; right after a change Connect does not know it for a moment."""
        return wait_until_known(self._client, self._name, timings=self._timings).state

    def start(self, plan: Plan) -> None:
        """Make it run, as far as it does not by itself."""
        if plan.resumes:
            self._client.resume(self._name)
        if plan.failed:
            self._client.restart(self._name, only_failed=True)

    def stop(self) -> None:
        """Stop it, and wait until it let go of the slot."""
        self._client.stop(self._name)
        wait_until(
            lambda: self._client.glance_at(self._name).state == "STOPPED" and not self._is_slot_active(),
            f"{self._name} to stop",
            timings=self._timings,
        )

    def wait_until_reading(self, *, stable_seconds: float) -> None:
        """Wait until it runs and reads the slot that was planned for, and both have lasted for a while.

        With a stored offset Debezium reads the slot twice: to find its place and, a moment later, to stream.

        Raises:
            ConnectorFailedError: It does not.
        """
        # Debezium makes a slot where it finds none: on another server it would run on one that begins now.
        wait_until_up(
            self._client,
            self._name,
            stable_seconds=stable_seconds,
            timings=self._timings,
            report=self._report_wait,
            read_seconds=self._read_seconds,
        )

    def find_slot_without_strangers(self) -> SlotFacts | None:
        """Return the slot once no process reads it, or as it is after the time."""
        seconds = self._timings.linger_seconds
        self._report("slot", f"another process reads it; waiting up to {seconds:g} s for it to stop")
        with suppress(ConnectorFailedError):
            wait_until(
                lambda: not self._is_slot_active(),
                "the slot to be free",
                timings=self._timings,
                timeout_seconds=seconds,
            )
        return self._database.find_slot()

    def owe_rows(self, republishing: dict[str, str]) -> None:
        """Stop the connector, and record that it owes the rows of the table; :meth:`publish_rows` pays.

        Args:
            republishing: The configuration that is the record.
        """
        self.stop()
        self._client.put_config(republishing)

    def publish_rows(self, topic_prefix: str, config: dict[str, str]) -> None:
        """Let a connector that owes the rows publish them, and leave it stopped, without offsets and with ``config``.

        What was committed between slot and snapshot is published twice, and nothing is left out. A process that is
        killed on the way leaves the connector with the configuration that owes the rows.

        Raises:
            ConnectorFailedError: Its task failed, with the trace, or it took too long.
        """
        # With an offset Debezium would take no snapshot and call it finished.
        self._client.reset_offsets(self._name)
        self._client.resume(self._name)
        self._wait_until_published(topic_prefix)
        self._report("republish", "every row of the table was published")
        self.stop()
        self._client.reset_offsets(self._name)
        self._client.put_config(config)

    def _wait_until_published(self, topic_prefix: str) -> None:
        watch = ReadinessProbe(self._client, self._name, timings=self._timings, report=self._report_wait)
        seconds = self._timings.snapshot_seconds
        deadline = time.monotonic() + seconds
        while not self._is_published(topic_prefix):
            watch.look()
            if time.monotonic() >= deadline:
                raise ConnectorFailedError(f"the rows were not published within {seconds:g} s")
            time.sleep(self._timings.poll_seconds)

    def _is_published(self, topic_prefix: str) -> bool:
        try:
            stored = stored_offset(self._client.find_offsets(self._name), topic_prefix=topic_prefix)
        except PASSING:
            return False
        return stored is not None and not stored.in_snapshot

    def _read_seconds(self) -> float | None:
        """Return for how long the same process has read the slot at each look, ``None`` if it is not read."""
        slot, now = self._database.find_slot(), time.monotonic()
        reader = 0 if slot is None or self._is_stranger(slot) else slot.reader
        if reader != self._reader:
            self._reader, self._read_since = reader, now
        return now - self._read_since if reader else None

    def _is_slot_active(self) -> bool:
        slot = self._database.find_slot()
        return slot is not None and slot.active

    def _report_wait(self, text: str) -> None:
        self._report("wait", text)
