"""Who publishes an outbox, as tests decide it."""

from cdc_outbox.databases.drivers.psycopg import Psycopg
from cdc_outbox.databases.publishers import Publisher, PublisherKind, Publishers
from cdc_outbox.databases.slots import read_slots
from cdc_outbox.databases.table import OutboxTable
from cdc_outbox.writer.outbox_schema import outbox_component
from tests.support.rig import Connection


def publishers_of(connection: Connection, table: OutboxTable) -> Publishers:
    """Return the row of an outbox."""
    return Publishers(connection, Psycopg(), table.publishers)


def create_publishers(connection: Connection, table: OutboxTable) -> None:
    """Create what ``init`` creates for the row, and nothing else of the outbox."""
    for migration in outbox_component(table, first_source="tests.1").migrations:
        for statement in migration.statements:
            if table.publishers.quoted in statement:
                connection.execute(statement.encode())


def declare(connection: Connection, table: OutboxTable, kind: PublisherKind, slot: str) -> Publisher:
    """Write who publishes through a slot from where it is now."""
    publishers, found = publishers_of(connection, table), read_slots(connection, Psycopg()).find(slot)
    confirmed = None if found is None else found.confirmed
    epoch = publishers.declare(kind, slot=slot, confirmed=confirmed, instance="a test", after=publishers.find())
    declared = publishers.find()
    assert declared is not None
    assert declared.epoch == epoch
    return declared
