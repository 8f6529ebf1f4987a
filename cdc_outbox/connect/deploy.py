"""Make a connector be what its spec says: plan, apply, wait, and undo what did not come up."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.facts import Database, DatabaseFacts
from cdc_outbox.connect.plan import (
    EarlierEvents,
    Plan,
    SlotPlan,
    SlotStep,
    changes_between,
    has_finished_snapshot,
    plan_slot,
    refuse_another_log,
    stored_lsn,
)
from cdc_outbox.connect.preflight import check_database
from cdc_outbox.connect.render import render
from cdc_outbox.connect.wait import Condition, condition_of, wait_until, wait_until_known, wait_until_up
from cdc_outbox.errors import CdcOutboxError, ConfigError, ConnectorInvalidError, UnpublishedEventsError
from cdc_outbox.finding import Finding, errors_in
from cdc_outbox.spec import Spec
from cdc_outbox.sql import load

Report = Callable[[str, str], None]
"""Told of each step as it is done: its name, and what came of it."""

_SNAPSHOT_SECONDS = 3600.0
"""For rows that are published again; a million take about a minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployOptions:
    """How to deploy.

    Args:
        stable_seconds: How long connector and tasks must run on before the deployment counts. Ten, because a
            Debezium task that cannot read its slot says so within a few seconds.
        timeout_seconds: How long they may take to run at all. A rebalance and a slow login fit in.
        earlier: What to do with events that no slot held; without it they stop the deployment.
        undoes: Whether a deployment that did not come up is taken back.
    """

    stable_seconds: float = 10.0
    timeout_seconds: float = 60.0
    earlier: EarlierEvents | None = None
    undoes: bool = True

    def __post_init__(self) -> None:
        if self.stable_seconds < 0 or self.timeout_seconds <= 0:
            raise ConfigError("times must be positive", field="DeployOptions")


class Deployment:
    """One spec on its way to one Connect cluster."""

    def __init__(
        self, spec: Spec, client: ConnectClient, database: Database, options: DeployOptions, report: Report
    ) -> None:
        self._spec = spec
        self._client = client
        self._database = database
        self._options = options
        self._report = report
        self._config = render(spec)
        if options.earlier is EarlierEvents.REPUBLISH and not spec.outbox.mode.keeps_rows:
            raise ConfigError(
                f"an outbox of the mode {spec.outbox.mode} keeps no rows that could be published again",
                field="earlier_events",
                hint="--earlier-events skip leaves out for good what no slot held.",
            )

    def check(self) -> DatabaseFacts:
        """Ask database and Connect whether the connector can work; nothing is changed.

        Raises:
            ConnectorInvalidError: It cannot, with ``findings``.
        """
        facts = self._database.read_facts()
        self._refuse(check_database(self._spec, facts), "the database is not ready")
        self._report("preflight", "the database is ready")
        self._refuse(self._client.validate(self._config), "Connect refuses the configuration")
        self._report("validate", "Connect accepts the configuration")
        return facts

    def plan(self, facts: DatabaseFacts, before: dict[str, str] | None) -> Plan:
        """Compare spec and cluster without changing either.

        Args:
            before: The configuration that runs, ``None`` if the connector does not exist.
        """
        self._refuse_another_log(before)
        slot = None if before is None else self._plan_slot(facts)
        return Plan(before is None, changes_between(before, self._config), slot)

    def dry_run(self) -> Plan:
        """Check everything and return what :meth:`run` would change."""
        return self.plan(self.check(), self._client.find_config(self._spec.name))

    def run(self) -> Plan:
        """Deploy and return what was changed; run again, it changes nothing.

        Raises:
            ConnectorInvalidError, UnpublishedEventsError: Refused; everything is as it was.
            ConnectorFailedError: It did not come up; the configuration was taken back, unless that is off.
        """
        facts = self.check()
        before = self._client.find_config(self._spec.name)
        self._refuse_another_log(before)
        ran = before is not None and self._state() == "RUNNING"
        try:
            if before is None:
                # Stopped at first: offsets of an earlier connector of this name show only once it exists.
                self._client.create_stopped(self._config)
            plan = Plan(before is None, changes_between(before, self._config), self._plan_slot(facts))
            self._report("plan", _summary(plan))
            self._apply(plan)
            self._wait(0 if plan.is_empty else self._options.stable_seconds)
        except BaseException:
            if self._options.undoes:
                self._undo(before, ran=ran)
            raise
        return plan

    def _refuse_another_log(self, before: dict[str, str] | None) -> None:
        if self._options.earlier is not EarlierEvents.SKIP:
            refuse_another_log(before, self._config)

    def _plan_slot(self, facts: DatabaseFacts) -> SlotPlan:
        stored = stored_lsn(self._client.find_offsets(self._spec.name), topic_prefix=self._spec.name)
        written = facts.written
        if stored is None and facts.table and facts.slot and facts.slot.is_unread and written.has_events:
            outside = self._database.count_events_outside_slot(facts.table.columns)
            written = replace(written, rows_outside_slot=outside)
        return plan_slot(self._spec.database.slot, facts.slot, stored, written, self._options.earlier)

    def _apply(self, plan: Plan) -> None:
        slot = plan.slot or SlotPlan(SlotStep.KEEP)
        if slot.needs_stop and not plan.creates:
            self._stop()
        self._apply_slot(slot)
        if slot.republishes:
            self._republish()
        if slot.republishes or (plan.changes and not plan.creates):
            self._client.put_config(self._config)
        self._start()

    def _apply_slot(self, slot: SlotPlan) -> None:
        name = self._spec.database.slot
        if slot.step is SlotStep.RECREATE:
            self._database.drop_slot()
            self._report("slot", f"{name} dropped: its WAL was lost")
        if slot.step is not SlotStep.KEEP:
            self._create_slot()
        if slot.resets_offsets:
            self._client.reset_offsets(self._spec.name)
            self._report("offsets", "reset, because they belong to another slot")

    def _create_slot(self) -> None:
        """Make the slot, and look once more whether somebody began to write before it was there."""
        name = self._spec.database.slot
        self._report("slot", f"{name} created at {self._database.create_slot()}")
        if self._options.earlier is None:
            try:
                plan_slot(name, None, None, self._database.read_written(), None)
            except UnpublishedEventsError:
                self._database.drop_slot()
                self._report("slot", f"{name} dropped again: somebody wrote meanwhile")
                raise

    def _republish(self) -> None:
        """Publish the rows of the table by a snapshot, and leave the connector stopped and without offsets.

        The snapshot alone, not the streaming behind it: streaming shall begin where the slot does. What was
        committed between the two is published twice, and nothing is left out.
        """
        self._client.put_config(self._config | _snapshot(self._spec))
        self._start()
        self._wait(0)
        wait_until(
            lambda: has_finished_snapshot(self._client.find_offsets(self._spec.name), topic_prefix=self._spec.name),
            "the rows of the table to be published",
            timeout_seconds=_SNAPSHOT_SECONDS,
        )
        self._report("republish", "every row of the table was published")
        self._stop()
        self._client.reset_offsets(self._spec.name)

    def _start(self) -> None:
        """Make it run, whatever state it was left in."""
        state = self._state()
        if state in {"STOPPED", "PAUSED"}:
            self._client.resume(self._spec.name)
        if state == "FAILED":
            self._client.restart_failed(self._spec.name)

    def _state(self) -> str:
        """Return what the connector is, FAILED too if a task is, once Connect knows of it."""
        status = wait_until_known(self._client, self._spec.name, timeout_seconds=self._options.timeout_seconds)
        return "FAILED" if condition_of(status) is Condition.FAILED else status.state

    def _stop(self) -> None:
        name = self._spec.name
        self._client.stop(name)
        wait_until(
            lambda: self._client.find_status(name).state == "STOPPED" and not self._is_slot_active(),
            f"{name} to stop",
            timeout_seconds=self._options.timeout_seconds,
        )

    def _is_slot_active(self) -> bool:
        slot = self._database.find_slot()
        return slot is not None and slot.active

    def _wait(self, stable_seconds: float) -> None:
        wait_until_up(
            self._client,
            self._spec.name,
            stable_seconds=stable_seconds,
            timeout_seconds=self._options.timeout_seconds,
            report=lambda text: self._report("wait", text),
        )

    def _undo(self, before: dict[str, str] | None, *, ran: bool) -> None:
        """Take the configuration back. A slot stays: it holds what was written since."""
        name = self._spec.name
        try:
            if before is None:
                if self._client.find_config(name) is not None:
                    self._client.delete(name)
                    self._report("undo", f"connector {name} deleted again")
                return
            if self._client.find_config(name) != before:
                self._client.put_config(before)
                self._report("undo", "the previous configuration is back")
            if ran and self._state() == "STOPPED":
                self._client.resume(name)
                self._report("undo", f"connector {name} resumed")
        except CdcOutboxError as error:
            self._report("undo", f"could not be undone: {error}")

    def _refuse(self, findings: tuple[Finding, ...], message: str) -> None:
        errors = errors_in(findings)
        if errors:
            raise ConnectorInvalidError(f"{self._spec.name}: {message}", findings=errors)


def _snapshot(spec: Spec) -> dict[str, str]:
    """Return the options with which Debezium publishes the rows that are in the table, each aggregate in order."""
    table = str(spec.outbox.table)
    statement = load("postgresql", "preflight")["snapshot"].render(spec.outbox.names())
    return {
        "snapshot.mode": "initial_only",
        "snapshot.select.statement.overrides": table,
        f"snapshot.select.statement.overrides.{table}": statement,
    }


def _summary(plan: Plan) -> str:
    if plan.is_empty:
        return "nothing to change"
    if plan.creates:
        return f"create the connector with {len(plan.changes)} options"
    return f"change {len(plan.changes)} option{'s' * (len(plan.changes) != 1)}"
