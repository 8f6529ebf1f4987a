"""Who publishes a connector's outbox, and what its commands refuse while a relay does."""

from collections.abc import Iterator, Mapping

from cdc_outbox.connect.deployed_connector import Report
from cdc_outbox.databases.drivers import AnyConnection, TransactionDriver
from cdc_outbox.databases.lsn import Lsn
from cdc_outbox.databases.publishers import PublisherKind, Publishers
from cdc_outbox.databases.table import OutboxTable, TableName
from cdc_outbox.debezium.config import listed, slot_of
from cdc_outbox.debezium.java_regex import literal
from cdc_outbox.errors import ConnectorInvalidError, DatabaseAccessError
from cdc_outbox.spec import Spec


def captured_tables(config: Mapping[str, str]) -> Iterator[TableName]:
    """Yield the tables that a connector of PostgreSQL captures, as far as the patterns are literal names."""
    for pattern in listed(config.get("table.include.list", "")):
        schema, dot, name = (literal(pattern) or "").partition(".")
        if dot and "." not in name:
            yield TableName(schema=schema, name=name)


def publishers_of(connection: AnyConnection, driver: TransactionDriver, config: Mapping[str, str]) -> list[Publishers]:
    """Return what says who publishes the tables that a connector captures."""
    outboxes = [OutboxTable(schema=table.schema, name=table.name) for table in captured_tables(config)]
    return [Publishers(connection, driver, outbox.publishers) for outbox in outboxes]


def find_relayed(connection: AnyConnection, driver: TransactionDriver, config: Mapping[str, str]) -> Lsn | None:
    """Return up to where relays published what a connector's slot held, ``None`` if that is not known."""
    found = (each.find_relayed(slot_of(config)) for each in publishers_of(connection, driver, config))
    return next((position for position in found if position is not None), None)


def refuse_while_relayed(name: str, publishers: Publishers) -> None:
    """Refuse to let a connector publish what a relay publishes.

    Args:
        name: The connector's.

    Raises:
        ConnectorInvalidError: A relay does; nothing was changed.
    """
    publisher = publishers.find()
    if publisher is not None and publisher.kind.is_relay:
        table = publishers.table.quoted
        handover = f"update {table} set publisher = 'debezium', epoch = epoch + 1"  # noqa: S608 - a quoted name, shown
        raise ConnectorInvalidError(
            f"a relay publishes the outbox of {name}: a connector would publish its events a second time",
            hint=f"To hand the outbox over to Debezium, stop the relay, then run: {handover}",
        )


def declare_debezium(spec: Spec, publishers: Publishers, report: Report) -> int | None:
    """Write that Debezium publishes the outbox, before it can, unless that is written.

    Returns:
        The new epoch; ``None`` if nothing was written.

    Raises:
        ConnectorInvalidError: A relay was declared since that was checked.
    """
    before, slot = publishers.find(), spec.database.slot
    if not publishers.exists() or (before is not None and (before.kind.is_relay or before.slot == slot)):
        refuse_while_relayed(spec.name, publishers)
        return None
    try:
        epoch = publishers.declare(PublisherKind.DEBEZIUM, slot=slot, confirmed=None, instance=spec.name, after=before)
    except DatabaseAccessError as error:  # without the row no relay starts either
        report("publisher", f"{spec.outbox.publishers} does not name Debezium: {error}")
        return None
    if epoch is None:
        refuse_while_relayed(spec.name, publishers)
    return epoch


def forget_debezium(spec: Spec, publishers: Publishers) -> None:
    """Forget that Debezium publishes the outbox, once its slot is dropped: the next publisher may be a relay."""
    found = publishers.find()
    if found is not None and not found.kind.is_relay and found.slot == spec.database.slot:
        publishers.forget(found.epoch)
