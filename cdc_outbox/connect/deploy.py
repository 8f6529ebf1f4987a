"""Deploy a connector from its spec: plan, apply, wait, and roll back what does not run."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.deployed_connector import DeployedConnector, Report
from cdc_outbox.connect.neighbours import Neighbour, find_neighbours
from cdc_outbox.connect.plan import Found, Plan, make_plan
from cdc_outbox.connect.postgresql_database import PostgresqlDatabase
from cdc_outbox.connect.publishing import declare_debezium, refuse_while_relayed
from cdc_outbox.connect.rollback import Rollback
from cdc_outbox.connect.spec_checks import another_outbox, refuse, refuse_unfit, refuse_what_connect_refuses
from cdc_outbox.connect.timings import Timings
from cdc_outbox.connect.wait import wait_until
from cdc_outbox.connect.workers import CONFLICT
from cdc_outbox.databases.drivers.sqlstate import UNDEFINED_OBJECT
from cdc_outbox.databases.facts import DatabaseFacts, SlotFacts, WrittenFacts
from cdc_outbox.debezium.preflight import check_database, check_republish, slot_in_use, slot_older_than_publication
from cdc_outbox.debezium.render import origins_of, render, render_republishing
from cdc_outbox.debezium.slot_plan import (
    EarlierEvents,
    SlotPlan,
    SlotState,
    SlotStep,
    plan_slot,
    reads_another_log,
    refuse_another_log,
    stored_offset,
)
from cdc_outbox.errors import (
    CdcOutboxError,
    ConfigError,
    ConnectError,
    ConnectorFailedError,
    ConnectorInvalidError,
    DangerousChangeError,
    DatabaseError,
    UnpublishedEventsError,
)
from cdc_outbox.finding import Finding, errors_in
from cdc_outbox.spec import Spec


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployOptions:
    """How to deploy.

    Args:
        stable_seconds: How long connector and tasks must run on before the deployment counts. Ten, because a
            Debezium task that cannot read its slot says so within a few seconds.
        earlier: What to do with events that no slot held; without it they stop the deployment.
        undoes: Whether a failed deployment is rolled back.
        replaces: Whether a running connector may be changed so that events come twice, go elsewhere or lose their
            order.
        timings: How long everything else is waited for.
    """

    stable_seconds: float = 10.0
    earlier: EarlierEvents | None = None
    undoes: bool = True
    replaces: bool = False
    timings: Timings = field(default_factory=Timings)

    def __post_init__(self) -> None:
        if self.stable_seconds < 0:
            raise ConfigError("stable_seconds must not be negative", field="DeployOptions.stable_seconds")


class Deployment:
    """One spec on its way to one Connect cluster.

    Args:
        canary: Proves, once the connector runs, that an event arrives, and says what it saw; an error of its is one of
            the deployment's.
        refuse_history: Raises a ``CdcOutboxError`` if the database went back to an older state.
    """

    def __init__(
        self,
        spec: Spec,
        client: ConnectClient,
        database: PostgresqlDatabase,
        options: DeployOptions,
        report: Report,
        *,
        canary: Callable[[], str] | None = None,
        refuse_history: Callable[[], None] = lambda: None,
    ) -> None:
        self._spec = spec
        self._canary = canary
        self._refuse_history = refuse_history
        self._client = client
        self._database = database
        self._options = options
        self._report = report
        self._config = render(spec)
        if options.earlier is EarlierEvents.REPUBLISH and not spec.outbox.mode.keeps_rows:
            raise ConfigError(
                f"an outbox in the mode {spec.outbox.mode} keeps no rows to publish again",
                field="earlier_events",
                hint="--earlier-events skip leaves out for good every event that no slot held.",
            )
        self._reader = DeployedConnector(spec.name, client, database, timings=options.timings, report=report)

    def check(self) -> DatabaseFacts:
        """Ask database and Connect whether the connector can work; nothing is changed.

        Raises:
            ConnectorInvalidError: It cannot, with ``findings``.
        """
        refuse_unfit(self._spec)
        refuse_while_relayed(self._spec.name, self._database.publishers)
        facts = self._database.read_facts()
        findings = check_database(self._spec, facts)
        if facts.table is None:
            findings = (*self._find_another_outbox(), *findings)
        refuse(self._spec, findings, "the database is not ready")
        self._report("preflight", "the database is ready")
        self._client.refuse_ill_worker()
        self._client.refuse_kept()
        self._refuse_history()
        refuse_what_connect_refuses(self._spec, self._config, self._client)
        self._report("validate", "Connect accepts the configuration")
        return facts

    def _plan(self, found: Found | None, slot: SlotPlan | None) -> Plan:
        return make_plan(found, self._config, slot, origins=origins_of(self._spec))

    def _find_another_outbox(self) -> tuple[Finding, ...]:
        """Return that the connector reads another outbox than one that does not exist; none if it is to read that."""
        if self._options.replaces:
            return ()
        with suppress(ConnectError):  # the missing table is reported all the same
            return tuple(another_outbox(self._spec, self._client.find_config(self._spec.name)))
        return ()

    def dry_run(self) -> Plan:
        """Check everything and return what :meth:`run` would change.

        Raises:
            ConnectorInvalidError, UnpublishedEventsError: It would be refused.
        """
        facts, found = self.check(), self._reader.find()
        neighbours = self._find_neighbours(found)
        if found is None:
            return self._foresee(facts)
        self._refuse_another_log(found)
        self._refuse_dangers(self._plan(found, None))
        plan = self._plan(found, self._plan_slot(facts, found))
        return self._checked(facts, replace(plan, neighbours=neighbours))

    def run(self) -> Plan:
        """Deploy and return what was changed; run again, it changes nothing.

        Raises:
            ConnectorInvalidError, UnpublishedEventsError: Refused; everything is as it was.
            ConnectorFailedError: It does not run; the configuration was rolled back, unless ``undoes`` is off.
        """
        facts, found = self.check(), self._reader.find()
        self._find_neighbours(found)
        self._refuse_another_log(found)
        self._refuse_dangers(self._plan(found, None))
        undo = Rollback(
            client=self._client,
            reader=self._reader,
            report=self._report,
            spec=self._spec,
            wanted=self._config,
            before=found,
            timings=self._options.timings,
        )
        epoch: int | None = None
        try:
            if found is None:
                self._foresee(facts)
                self._report("plan", str(self._plan(None, None)))
                self._create(undo)
            plan = self._checked(facts, self._plan(found, self._plan_slot(facts, found)))
            self._report_plan(plan)
            epoch = declare_debezium(self._spec, self._database.publishers, self._report)
            plan = self._apply(plan, facts, undo)
            self._wait(stable_seconds=0 if plan.is_settled else self._options.stable_seconds)
            if self._canary is not None:
                self._report("canary", self._canary())
        except BaseException as error:
            # A refusal leaves everything as it was, also where a failed deployment is not rolled back.
            if self._options.undoes or isinstance(error, ConnectorInvalidError | UnpublishedEventsError):
                undo.take_back(why="interrupted" if isinstance(error, KeyboardInterrupt) else "")
                with suppress(CdcOutboxError):
                    self._database.publishers.forget(epoch)
            raise
        # Not rolled back: another client wants the configuration that runs.
        self._refuse_overwritten(self._config if undo.created or undo.changed or found is None else found.config)
        return plan

    def _report_plan(self, plan: Plan) -> None:
        """Report the plan; leave out that a connector is created, reported before, and its changes, all additions."""
        rest = replace(plan, creates=False, changes=()) if plan.creates else plan
        if plan.creates and rest.is_empty:
            return
        self._report("plan", str(rest))
        for change in rest.changes:
            self._report("plan", change.line)

    def _refuse_overwritten(self, ours: Mapping[str, str]) -> None:
        """Refuse to call deployed what another deployment has replaced while this one waited."""
        name, timings = self._spec.name, self._options.timings
        try:
            wait_until(
                lambda: self._client.find_config(name) == ours,
                name,
                timings=timings,
                timeout_seconds=timings.stale_seconds,
            )
        except ConnectorFailedError as error:
            raise ConnectorFailedError(
                f"another process changed {name} while this deployment waited",
                hint="Make sure that only one process deploys, then run again; `cdc-outbox plan` shows the "
                "differences from this spec.",
            ) from error

    def _wait(self, *, stable_seconds: float) -> None:
        """Wait until it reads; where Connect does not know why it does not, the database may."""
        try:
            self._reader.wait_until_reading(stable_seconds=stable_seconds)
        except ConnectorFailedError as error:
            found = () if error.trace else errors_in(self._find_reasons())
            if not found:
                raise
            raise ConnectorFailedError(f"{error}: {found[0].message}", hint=found[0].remedy) from error

    def _find_reasons(self) -> tuple[Finding, ...]:
        stranger = self._reader.find_stranger()
        found = check_database(self._spec, self._database.read_facts())
        return found if stranger is None else (slot_in_use(stranger), *found)

    def _create(self, undo: Rollback) -> None:
        """Make the connector, stopped at first: offsets of an earlier one of its name show only once it exists."""
        undo.creating = True  # set first: an interrupt between the request and its answer leaves a connector
        try:
            self._client.create_stopped(self._config)
        except ConnectError as error:
            undo.creating = error.retryable  # else it was refused, or is another client's
            raise
        undo.created = True

    def _change(self, undo: Rollback) -> None:
        undo.changed = True
        try:
            self._client.put_config(self._config)
        except ConnectError as error:
            # A refused change was not made; after an error of the worker's it may have been made, or may still be.
            undo.changed = error.retryable and error.status != CONFLICT
            raise

    def _refuse_dangers(self, plan: Plan) -> None:
        if plan.dangers and not self._options.replaces:
            changes = " ".join(f"{change.line}. {change.effect.text}" for change in plan.dangers if change.effect)
            raise DangerousChangeError(f"{self._spec.name} runs, and the change would harm consumers. {changes}")

    def _find_neighbours(self, found: Found | None) -> tuple[Neighbour, ...]:
        """Return the other connectors that publish the table, and refuse to create one beside them.

        Raises:
            ConnectorInvalidError: The connector does not exist yet: every event would be published twice.
        """
        neighbours = find_neighbours(self._spec, self._client)
        if found is None:
            refuse(self._spec, tuple(each.finding for each in neighbours), "another connector publishes the table")
        for each in neighbours:
            self._report("warning", each.finding.message)
        return neighbours

    def _refuse_another_log(self, found: Found | None) -> None:
        if self._options.earlier is not EarlierEvents.SKIP:
            refuse_another_log(None if found is None else found.config, self._config)

    def _foresee(self, facts: DatabaseFacts) -> Plan:
        """Return what is certain before there is a connector: without a slot, offsets only make it worse."""
        slot, planned = self._refuse_strangers(facts, None), None
        if slot is None or slot.wal_status == "lost":
            state = SlotState(slot=slot, written=facts.written)
            planned = plan_slot(self._spec.database.slot, state, self._options.earlier)
        return self._checked(facts, self._plan(None, planned))

    def _plan_slot(self, facts: DatabaseFacts, found: Found | None) -> SlotPlan:
        slot = self._refuse_strangers(facts, found)
        stored = stored_offset(self._client.find_offsets(self._spec.name), topic_prefix=self._spec.topic_prefix)
        wal_end = self._database.read_slots().log_end
        state = SlotState(
            slot=slot,
            stored=stored,
            wal_end=wal_end,
            written=self._look_into_slot(facts, slot) if stored is None else facts.written,
            republishing=found is not None and found.is_republishing,
            relayed=self._database.publishers.find_relayed(self._spec.database.slot),
        )
        plan = plan_slot(self._spec.database.slot, state, self._options.earlier)
        skips = self._options.earlier is EarlierEvents.SKIP and plan.is_empty
        if skips and found is not None and not reads_another_log(found.config, self._config):
            raise ConfigError(
                f"the slot {self._spec.database.slot} holds every event that {self._spec.name} has not published, so "
                "no event can be skipped",
                field="earlier_events",
                hint="Deploy without --earlier-events. `cdc-outbox offsets set` skips events that the slot holds.",
            )
        return plan

    def _refuse_strangers(self, facts: DatabaseFacts, found: Found | None) -> SlotFacts | None:
        """Return the slot, which no client reads but the connector itself."""

        def is_strange(slot: SlotFacts | None) -> bool:
            return slot is not None and slot.active and (found is None or not found.may_read(slot))

        if not is_strange(facts.slot):
            return facts.slot
        slot = self._reader.find_slot_without_strangers()
        if slot is not None and is_strange(slot):
            refuse(self._spec, (slot_in_use(slot),), "the slot is not free")
        return slot

    def _look_into_slot(self, facts: DatabaseFacts, slot: SlotFacts | None) -> WrittenFacts:
        """Return what was written, and how much of it an unread slot does not hold."""
        written = facts.written
        if slot is None or not slot.is_unread or not written.has_events or facts.table is None:
            return written
        try:
            outside = self._database.count_events_outside_slot(facts.published)
        except DatabaseError as error:
            if error.sqlstate == UNDEFINED_OBJECT:
                refuse(self._spec, (slot_older_than_publication(self._spec),), "the slot cannot be read")
            raise
        return replace(written, rows_outside_slot=outside)

    def _checked(self, facts: DatabaseFacts, plan: Plan) -> Plan:
        if plan.slot is not None and plan.slot.republishes:
            facts = replace(facts, written=replace(facts.written, forgotten=self._database.count_forgotten()))
            refuse(self._spec, check_republish(self._spec, facts), "the rows of the table cannot be published again")
        return plan

    def _apply(self, plan: Plan, facts: DatabaseFacts, undo: Rollback) -> Plan:
        """Apply the plan, and return it as applied: a writer may have started while the slot was created."""
        slot = plan.slot or SlotPlan(SlotStep.KEEP)
        if plan.needs_stop and not plan.creates:
            self._reader.stop()
        republishing = render_republishing(self._spec)
        if slot.republishes:
            # Before the slot is touched: from then on the connector must not run as it did.
            undo.owes_rows = undo.changed = True
            self._reader.owe_rows(republishing)
        slot = self._apply_slot(slot, facts)
        plan = self._checked(facts, replace(plan, slot=slot))
        if slot.republishes:
            if not undo.owes_rows:
                undo.owes_rows = undo.changed = True
                self._reader.owe_rows(republishing)
            self._reader.publish_rows(self._spec.topic_prefix, self._config)
            undo.owes_rows = False
        elif plan.changes and not plan.creates:
            self._change(undo)
            if facts.slot is not None:
                self._reader.expect_another_than(facts.slot.reader)
        self._reader.start(plan)
        return plan

    def _apply_slot(self, slot: SlotPlan, facts: DatabaseFacts) -> SlotPlan:
        if slot.step is SlotStep.RECREATE:
            self._database.drop_slot()
            self._report("slot", f"{self._spec.database.slot} dropped: its WAL was lost")
        if slot.step is not SlotStep.KEEP:
            slot = self._create_slot(slot, facts)
        if slot.resets_offsets:
            self._client.reset_offsets(self._spec.name)
            self._report("offsets", "reset, because they do not match the slot")
        return slot

    def _create_slot(self, slot: SlotPlan, facts: DatabaseFacts) -> SlotPlan:
        """Create the slot, and check again whether a writer started before it existed."""
        name, earlier = self._spec.database.slot, self._options.earlier
        self._report("slot", f"creating {name} once the transactions that are open now have ended")
        start = self._database.create_slot(timeout_seconds=self._options.timings.timeout_seconds)
        self._report("slot", f"{name} created at {start}")
        if slot.republishes or earlier is EarlierEvents.SKIP:
            return slot
        made, again = self._database.find_slot(), replace(facts, written=self._database.read_written())
        try:
            found = plan_slot(name, SlotState(slot=made, written=self._look_into_slot(again, made)), earlier)
        except UnpublishedEventsError:
            self._database.drop_slot()
            self._report("slot", f"{name} dropped again: a row was written in the meantime")
            raise
        return replace(slot, republishes=found.republishes)
