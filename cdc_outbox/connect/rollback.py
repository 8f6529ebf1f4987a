"""What a deployment did so far, and the way back."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.deployed_connector import DeployedConnector, Report
from cdc_outbox.connect.plan import Found
from cdc_outbox.connect.timings import Timings
from cdc_outbox.connect.wait import Condition, condition_of, wait_until
from cdc_outbox.debezium.render import owing_rows, render_republishing
from cdc_outbox.errors import CdcOutboxError, ConnectError
from cdc_outbox.spec import Spec


@dataclass(kw_only=True)
class Rollback:
    """Take back what this deployment did, and only that. A slot stays: it holds what was written since.

    Args:
        spec: The spec that is deployed.
        wanted: The configuration that the deployment gives.
        before: The connector as it was, ``None`` if there was none.
    """

    client: ConnectClient
    reader: DeployedConnector
    report: Report
    spec: Spec
    wanted: Mapping[str, str]
    before: Found | None
    timings: Timings
    creating: bool = field(default=False, init=False)
    """This deployment requested the connector and has no answer: it may exist, and be this deployment's."""
    created: bool = field(default=False, init=False)
    """This deployment created the connector; one that another deployment created is not deleted."""
    changed: bool = field(default=False, init=False)
    """This deployment gave it another configuration."""
    owes_rows: bool = field(default=False, init=False)
    """Rows that must be published again are not, or not all of them."""

    @property
    def name(self) -> str:
        """The connector's name."""
        return self.spec.name

    def take_back(self, *, why: str = "") -> None:
        """Do it; an error is reported and not raised, for the first one says more.

        Args:
            why: The reason to report first, where no error gives it.
        """
        if why and (self.creating or self.changed or self.owes_rows):
            self.report("undo", why)
        try:
            if self._is_overwritten():
                self.report("undo", f"another process changed {self.name} in the meantime; it is left unchanged")
                return
            if self.owes_rows:
                self._forget_snapshot()
            if self.owes_rows and self.before is None:
                self.report(
                    "undo", f"connector {self.name} stays stopped and has rows left to publish: deploy it again"
                )
            elif self.created or (self.creating and self._appears()):
                self.client.delete(self.name)
                self.report("undo", f"connector {self.name}, created by this deployment, was deleted")
            if self.before is not None:
                self._restore(self.before)
        except CdcOutboxError as error:
            self.report("undo", f"could not be undone: {error}")
            self.report("undo", f"check {self.name}, or run the command again when the cause has passed")

    def _is_overwritten(self) -> bool:
        """Return whether another deployment has replaced what this one gave, so that there is nothing to take back."""
        if self.owes_rows or not (self.created or self.changed):
            return False
        known = [self.wanted, *([] if self.before is None else [self.before.config])]
        now = self.client.find_config(self.name)
        return now is not None and now not in known

    def _appears(self) -> bool:
        """Return whether what was asked for comes into being after all, as it was asked for."""
        with suppress(ConnectError):
            wait_until(
                lambda: self.client.find_config(self.name) is not None,
                self.name,
                timings=self.timings,
                timeout_seconds=self.timings.late_seconds,
            )
        return self.client.find_config(self.name) == self.wanted

    def _forget_snapshot(self) -> None:
        # The offset of a snapshot that was cut off would let the next connector of this name begin behind it.
        self.reader.owe_rows(render_republishing(self.spec))
        self.client.reset_offsets(self.name)
        self.report("undo", "offsets reset, because some rows were not published")

    def _restore(self, before: Found) -> None:
        if self.changed:
            # Running it as it was would leave the rows out, so it keeps the record that it owes them.
            self._put_back(owing_rows(before.config, self.spec) if self.owes_rows else dict(before.config))
            self.report("undo", "the previous configuration was restored")
        if self.owes_rows:
            self.report("undo", f"connector {self.name} stays stopped and has rows left to publish: deploy it again")
            return
        now, then = self.reader.find_state(), before.status.state
        if then == "STOPPED" and now != then:
            self.client.stop(self.name)
            self.report("undo", f"connector {self.name} stopped again")
        elif then == "PAUSED" and now != then:
            self.client.pause(self.name)
            self.report("undo", f"connector {self.name} paused again")
        elif now == "STOPPED" and now != then:
            self.client.resume(self.name)
            self.report("undo", f"connector {self.name} resumed")
        if self.changed and condition_of(before.status) is Condition.UP:
            self._wait_until_it_runs_again()

    def _put_back(self, config: dict[str, str]) -> None:
        try:
            self.client.put_config(config)
        except ConnectError as error:
            # It may have been taken all the same, or the other one never: what counts is what Connect has.
            if not error.retryable or self.client.find_config(self.name) != config:
                raise

    def _wait_until_it_runs_again(self) -> None:
        try:
            self.reader.wait_until_reading(stable_seconds=self.timings.restored_seconds)
        except ConnectError as error:
            self.report(
                "undo",
                f"the previous configuration does not run either: {str(error).rstrip('.')}. {error.hint}".rstrip(),
            )
        else:
            self.report("undo", f"connector {self.name} runs again as before")
