"""A relay before it starts: the database is checked, the relay is named the publisher, and its slot is created."""

from collections.abc import Callable
from dataclasses import replace

from cdc_outbox.connect.postgresql_database import PostgresqlDatabase
from cdc_outbox.connect.spec_checks import refuse
from cdc_outbox.databases.drivers import AnyConnection, TransactionDriver
from cdc_outbox.databases.facts import DatabaseFacts, SlotFacts, WrittenFacts
from cdc_outbox.databases.lsn import Lsn
from cdc_outbox.databases.publishers import Publisher, PublisherKind
from cdc_outbox.debezium.preflight import check_database
from cdc_outbox.debezium.slot_plan import EarlierEvents, SlotState, SlotStep, plan_slot
from cdc_outbox.errors import DatabaseAccessError, DatabaseError, UnpublishedEventsError
from cdc_outbox.relay.ownership import require_publisher
from cdc_outbox.relay.relay_errors import NotThePublisherError, SlotNotFoundError
from cdc_outbox.spec import Spec

_ALREADY_THERE = "42710"
_GONE = (
    "Run `cdc-outbox verify SPEC` to list the events that were not published. `cdc-outbox relay SPEC --earlier-events "
    "skip` creates the slot again, and never publishes them."
)
_EARLIER = (
    "`cdc-outbox relay SPEC --earlier-events skip` never publishes them. To publish the rows that are still in the "
    "table, deploy the connector once: `cdc-outbox deploy-connector SPEC --earlier-events republish`."
)


class RelaySlot:
    """The slot of one spec, through a connection in autocommit mode of the relay's role or of an administrator's.

    Args:
        skips_earlier: Whether events that no slot holds may stay unpublished.
        takes_over: Whether the relay publishes from the position of the slot after another publisher.
        report: Receives each step.
    """

    def __init__(
        self,
        spec: Spec,
        connection: AnyConnection,
        driver: TransactionDriver,
        *,
        skips_earlier: bool,
        takes_over: bool = False,
        report: Callable[[str], None],
    ) -> None:
        # The relay logs in as the DSN says; the spec's own role is the connector's.
        [(user,)] = driver.fetch(connection, "select cast(current_user as text)")
        self._spec = replace(spec, database=replace(spec.database, user=user))
        self._database = PostgresqlDatabase(connection, driver, self._spec)
        self._earlier = EarlierEvents.SKIP if skips_earlier else None
        self._takes_over = takes_over
        self._report = report

    def prepare(self, *, timeout_seconds: float) -> None:
        """Check the database, and before the first start create the slot and name the relay the publisher.

        A slot that exists is left as it is, and one that another relay reads is waited for by this one.

        Args:
            timeout_seconds: How long to wait for transactions that were open before the slot.

        Raises:
            ConnectorInvalidError: The database is not ready, with ``findings``.
            NotThePublisherError: Another publisher publishes the outbox, or reads the slot.
            SlotNotFoundError: A relay has read the slot before, and it was not decided to skip what it held.
            UnpublishedEventsError: Events were written before there was a slot, and it was not decided to skip them.
            DatabaseError: The role may not look or create the slot, or a transaction stays open.
        """
        # Another instance that reads the slot has then checked that no earlier event is missing.
        self._database.take_turn(timeout_seconds=timeout_seconds)
        facts = self._database.read_surroundings()
        refuse(self._spec, check_database(self._spec, facts), "the database is not ready")
        slot, name, publisher = facts.slot, self._spec.database.slot, self._database.publishers.find()
        if slot is None or (slot.wal_status == "lost" and self._earlier is not None):
            if publisher is not None and publisher.confirmed is not None and self._earlier is None:
                if not self._takes_over:
                    require_publisher(publisher, name)
                raise SlotNotFoundError(f"the slot {name} does not exist", slot=name, hint=_GONE)
            epoch = self._declare(publisher, None)
            try:
                start = self._create(facts, timeout_seconds)
                if epoch is not None and start is not None:
                    # A slot that is created again before the relay's first start must be noticed too.
                    self._database.publishers.confirm(epoch, start)
            except BaseException:
                self._database.publishers.forget(epoch)
                raise
        elif self._takes_over:
            if slot.active:
                raise NotThePublisherError(
                    f"process {slot.reader} of the server reads the slot {name}; nothing was changed",
                    hint="Stop the process first: another relay, or the task of a connector, which must be deleted.",
                )
            self._declare(publisher, slot.confirmed)
        elif (named := require_publisher(publisher, name)).confirmed is None:
            self._finish(named, facts, timeout_seconds)

    def _finish(self, named: Publisher, facts: DatabaseFacts, timeout_seconds: float) -> None:
        """Check a slot whose creation came to no end: its process was killed before it had checked and confirmed."""
        self._database.await_older(timeout_seconds=timeout_seconds)
        try:
            if self._earlier is None:
                self._refuse_earlier(facts)
        except UnpublishedEventsError:
            self._database.publishers.forget(named.epoch)
            raise
        if facts.slot is not None and facts.slot.confirmed is not None:
            self._database.publishers.confirm(named.epoch, facts.slot.confirmed)

    def _declare(self, before: Publisher | None, confirmed: Lsn | None) -> int | None:
        """Name the relay the publisher, and return the epoch; ``None`` if another instance was faster."""
        publishers, name = self._database.publishers, self._spec.database.slot
        if before is not None and not self._takes_over:
            require_publisher(before, name)
        epoch = publishers.declare(
            PublisherKind.WAL_RELAY, slot=name, confirmed=confirmed, instance=self._spec.name, after=before
        )
        if epoch is None:
            require_publisher(publishers.find(), name)
        return epoch

    def _create(self, facts: DatabaseFacts, timeout_seconds: float) -> Lsn | None:
        """Create the slot, and return its position; ``None`` if another instance was faster."""
        name = self._spec.database.slot
        step = self._plan(facts.slot, self._written())
        if step is SlotStep.RECREATE:
            self._database.drop_slot()
            self._report(f"dropped the slot {name}: its WAL was lost")
        self._report(f"creating the slot {name} once the transactions that are open now have ended")
        try:
            start = self._database.create_slot(timeout_seconds=timeout_seconds)
        except DatabaseError as error:
            if error.sqlstate == _ALREADY_THERE:
                return None
            raise
        self._report(f"created the slot {name} at {start}")
        if self._earlier is None:
            self._refuse_earlier(facts)
        return start

    def _refuse_earlier(self, facts: DatabaseFacts) -> None:
        """Drop the slot again if a writer started before it existed."""
        made, written = self._database.find_slot(), self._written()
        if made is None or not made.is_unread or not written.has_events:
            return
        outside = self._database.count_events_outside_slot(facts.published)
        try:
            self._plan(made, replace(written, rows_outside_slot=outside))
        except UnpublishedEventsError:
            self._database.drop_slot()
            self._report(f"dropped the slot {made.name} again: a row was written in the meantime")
            raise

    def _written(self) -> WrittenFacts:
        try:
            return self._database.read_written()
        except DatabaseAccessError as error:
            error.hint = (
                "Only a role that reads outbox and heads sees whether earlier events would be left out. Run "
                "`cdc-outbox relay SPEC --create-slot` once with the DSN of an administrator, then start the relay."
            )
            raise

    def _plan(self, slot: SlotFacts | None, written: WrittenFacts) -> SlotStep:
        try:
            return plan_slot(self._spec.database.slot, SlotState(slot=slot, written=written), self._earlier).step
        except UnpublishedEventsError as error:
            error.hint = _EARLIER
            raise
