"""The publication of an outbox, as ``cdc-outbox init`` finds it, makes it and reports it."""

from contextlib import suppress
from dataclasses import dataclass, replace

from cdc_outbox.contract.outbox_options import OutboxMode
from cdc_outbox.databases.drivers import AnyConnection, TransactionDriver
from cdc_outbox.databases.facts import PublicationFacts
from cdc_outbox.databases.introspection import Catalog
from cdc_outbox.databases.slots import read_slots
from cdc_outbox.debezium.render import render
from cdc_outbox.errors import DatabaseError, OutboxError
from cdc_outbox.operations.recovery import Beating, HeartbeatTable
from cdc_outbox.redaction import enumerated
from cdc_outbox.spec import Spec


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierPublication:
    """A spec's publication before `init`.

    Args:
        found: ``None`` where it did not exist.
        is_younger_than_slot: Whether the outbox and the slot existed, and the publication did not contain the outbox:
            events that were written at that time are not published.
    """

    spec: Spec
    found: PublicationFacts | None
    is_younger_than_slot: bool

    @property
    def lines(self) -> list[str]:
        """The report."""
        name, table = f"publication {self.spec.database.publication}", self.spec.outbox.table
        if self.found is None:
            return [f"{name}: made", *self._warning()]
        others = (*self.found.outboxes, *self.found.tables)
        done = "in place" if self.found.has(self.spec.outbox) else f"{table} added"
        return [f"{name}: {done}{f'; it also publishes {enumerated(others)}' if others else ''}", *self._warning()]

    @property
    def content(self) -> dict[str, object]:
        """The same, for a document."""
        found = self.found
        return {
            "name": self.spec.database.publication,
            "isNew": found is None,
            "isTableAdded": found is None or not found.has(self.spec.outbox),
            "isYoungerThanSlot": self.is_younger_than_slot,
            "alsoPublishes": [] if found is None else [*found.outboxes, *found.tables],
        }

    def _warning(self) -> list[str]:
        if not self.is_younger_than_slot:
            return []
        publication, slot = self.spec.database.publication, self.spec.database.slot
        text = (
            f"warning: the slot {slot} existed already: events that were written while {publication} did not contain "
            f"{self.spec.outbox.table} are not published. Run `cdc-outbox doctor`, and when the connector has caught "
            "up `cdc-outbox verify`, which lists the missing events."
        )
        return [text]

    def refuse_second_outbox(self) -> None:
        """Refuse to add an outbox beside another one: the table's name is likely to be a slip.

        Raises:
            OutboxError: The publication has another outbox, and not this one.
        """
        name, table = self.spec.database.publication, self.spec.outbox.table
        if self.found is not None and self.found.outboxes and not self.found.has(self.spec.outbox):
            raise OutboxError(
                f"the publication {name} belongs to another outbox, {enumerated(self.found.outboxes)}, and does not "
                f"contain {table}; nothing was changed",
                hint="Correct outbox.table if it is misspelt. If it is right, give the pipeline its own "
                "publication (database.publication), or run again with --shared-publication.",
            )

    def again(self, catalog: Catalog) -> "EarlierPublication":
        """Return it as it is now: another `init` may have been faster."""
        return replace(self, found=catalog.find_publication(self.spec.outbox, self.spec.database.publication))


def find_earlier_publication(
    spec: Spec | None, connection: AnyConnection, driver: TransactionDriver
) -> EarlierPublication | None:
    """Return the publication as it is before `init`, ``None`` where none is wanted."""
    if spec is None or not spec.database.publication:
        return None
    catalog, outbox = Catalog(connection, driver), spec.outbox
    found = catalog.find_publication(outbox, spec.database.publication)
    # Messages pass any publication.
    misses = outbox.mode is not OutboxMode.MESSAGE and not (found is not None and found.has(outbox))
    if not misses or not catalog.exists(outbox.table):
        return EarlierPublication(spec=spec, found=found, is_younger_than_slot=False)
    slots = read_slots(connection, driver)
    slot = slots.find(spec.database.slot)
    is_younger = slot is not None and slot.database == slots.database
    return EarlierPublication(spec=spec, found=found, is_younger_than_slot=is_younger)


def mark(before: EarlierPublication | None, connection: AnyConnection, driver: TransactionDriver) -> None:
    """Write a heartbeat if the slot is older than the publication, and the connector has written one.

    Called before and after the publication is made: the first of the two is not published, as no event was at that
    time, and the gap in the topic shows it to every command that reads heartbeats (OP402).
    """
    beating = Beating.of(render(before.spec)) if before is not None and before.is_younger_than_slot else None
    if beating is None:
        return
    table = HeartbeatTable(beating, connection, driver)
    with suppress(DatabaseError):  # the table may lack what `init` is about to make
        if table.read().heartbeats:
            table.write()
