"""Pause, stop, resume or restart a connector, and wait for it."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from cdc_outbox.connect.client import ConnectClient, ConnectorStatus
from cdc_outbox.connect.plan import Found
from cdc_outbox.connect.positions import Positions
from cdc_outbox.connect.timings import Timings
from cdc_outbox.connect.wait import wait_until, wait_until_known, wait_until_up
from cdc_outbox.debezium.preflight import slot_in_use
from cdc_outbox.debezium.render import owes_rows
from cdc_outbox.errors import CdcOutboxError, ConnectorInvalidError, UnpublishedEventsError

OWED = "publishing the rows of its table again was interrupted"
"""The reason for a finding about an unfinished republication."""
PAY = (
    "`cdc-outbox deploy-connector --earlier-events republish` publishes them; with --earlier-events skip, rows that "
    "are missing in the topics are never published."
)
"""The remedy."""

FindPositions = Callable[[ConnectClient, Mapping[str, str]], Positions | None]
"""Returns the slot and the offset of a connector, given its configuration; ``None`` if they are not compared."""


class ConnectorControl:
    """Pause, stop, resume and restart one connector.

    Args:
        timings: Its timeout is how long each step may take.
        report: Called with each step.
    """

    def __init__(self, client: ConnectClient, name: str, *, timings: Timings, report: Callable[[str], None]) -> None:
        self._client = client
        self._name = name
        self._timings = timings
        self._report = report

    def pause(self) -> None:
        """Let it read nothing, and keep its tasks; its slot keeps WAL meanwhile."""
        self._client.pause(self._name)
        self._wait("PAUSED", lambda status: all(task.state == "PAUSED" for task in status.tasks))

    def stop(self) -> None:
        """Let it give up its tasks, and with them the slot; what it has read is noted before."""
        self._client.stop(self._name)
        self._wait("STOPPED", lambda status: not status.tasks)

    def resume(self, *, stable_seconds: float, find_positions: FindPositions = lambda _client, _config: None) -> None:
        """Let it run, and wait until it does.

        Args:
            find_positions: By default nothing is compared.

        Raises:
            ConnectorInvalidError: It owes the rows of its table, or another process reads its slot.
            UnpublishedEventsError: It would leave out events, and its next offset would hide which.
        """
        config = self._client.find_config(self._name) or {}
        if owes_rows(config):
            raise ConnectorInvalidError(f"{self._name} has not published all rows: {OWED}", hint=PAY)
        found = Found(config, wait_until_known(self._client, self._name, timings=self._timings))
        positions = self._await_free_slot(found, find_positions)
        hole = None if positions is None else positions.find_hole()
        if hole is not None:
            raise UnpublishedEventsError(hole.text, hint=hole.hint)
        self._client.resume(self._name)
        self._wait_until_up(stable_seconds)

    def _await_free_slot(self, found: Found, find_positions: FindPositions) -> Positions | None:
        """Return where slot and offset are once no other process reads the slot.

        Raises:
            ConnectorInvalidError: One still does: Connect would call the connector running, and it would read nothing.
        """
        deadline = time.monotonic() + self._timings.linger_seconds
        while True:
            positions = find_positions(self._client, found.config)
            slot = None if positions is None else positions.slot
            if slot is None or not slot.active or found.may_read(slot):
                return positions
            if time.monotonic() >= deadline:
                finding = slot_in_use(slot)
                raise ConnectorInvalidError(f"{self._name}: {finding.message}", hint=finding.remedy)
            time.sleep(self._timings.poll_seconds)

    def restart(self, *, only_failed: bool, stable_seconds: float) -> None:
        """Begin again with the connector and its tasks, or with those that failed, and wait until all run.

        Raises:
            ConnectorInvalidError: It is paused or stopped, and a restart would not change that.
        """
        status = wait_until_known(self._client, self._name, timings=self._timings)
        if status.is_halted:
            raise ConnectorInvalidError(
                f"{self._name} is {status.state}; a restart does not change that",
                hint="If it was not paused or stopped on purpose, run `cdc-outbox resume`.",
            )
        self._client.restart(self._name, only_failed=only_failed)
        self._wait_until_up(stable_seconds)

    @contextmanager
    def stopped(self, *, stable_seconds: float) -> Iterator[None]:
        """Keep it stopped for the length of the block, and let it do afterwards what it did before, in any case."""
        status = wait_until_known(self._client, self._name, timings=self._timings)
        with self.halted_unless_refused():
            yield
        self._go_back(status.state)
        if not status.is_halted:
            self._wait_until_up(stable_seconds)

    @contextmanager
    def halted_unless_refused(self) -> Iterator[None]:
        """Stop it before the block, and let it do what it did before only if the block raises."""
        status = wait_until_known(self._client, self._name, timings=self._timings)
        try:
            self.stop()
            yield
        except BaseException:
            with adding_hint(f"{self._name} is stopped; run `cdc-outbox resume {self._name}`."):
                self._go_back(status.state)
            if status.state != "STOPPED":
                self._report(f"{self._name} was {'paused again' if status.state == 'PAUSED' else 'resumed'}")
            raise

    def _go_back(self, state: str) -> None:
        match state:
            case "STOPPED":
                return
            case "PAUSED":
                self._client.pause(self._name)
            case _:
                self._client.resume(self._name)

    def _wait_until_up(self, stable_seconds: float) -> None:
        wait_until_up(
            self._client,
            self._name,
            stable_seconds=stable_seconds,
            timings=self._timings,
            report=self._report,
        )

    def _wait(self, state: str, holds: Callable[[ConnectorStatus], bool]) -> None:
        def is_so() -> bool:
            status = self._client.glance_at(self._name)
            return status.state == state and holds(status)

        wait_until(is_so, f"{self._name} to be {state}", timings=self._timings)
        self._report(f"{self._name} is {state}")


@contextmanager
def adding_hint(text: str) -> Iterator[None]:
    """Add to the hint of an error what it leaves, and the next command."""
    try:
        yield
    except CdcOutboxError as error:
        error.hint = f"{error.hint} {text}".strip()
        raise


def delete_and_wait(client: ConnectClient, name: str, *, timings: Timings) -> None:
    """Delete a connector, and wait until Connect knows it no more.

    Raises:
        ConnectorFailedError: It is still there after that time.
    """
    client.delete(name)
    wait_until(lambda: client.find_config(name) is None, f"{name} to be gone", timings=timings)
