"""The end of a connector: what goes in which order, and what stays."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.deployed_connector import Report, find_connector
from cdc_outbox.connect.lifecycle import ConnectorControl, adding_hint, delete_and_wait
from cdc_outbox.connect.postgresql_database import PostgresqlDatabase
from cdc_outbox.connect.publishing import forget_debezium
from cdc_outbox.connect.spec_checks import refuse
from cdc_outbox.connect.timings import Timings
from cdc_outbox.connect.wait import wait_until
from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.databases.drivers.sqlstate import UNDEFINED_OBJECT
from cdc_outbox.databases.facts import SlotFacts
from cdc_outbox.debezium.config import kind_of, slot_of
from cdc_outbox.debezium.connector_offsets import confirmed_lsn, last_lsn, own_offset
from cdc_outbox.debezium.preflight.findings import another_database
from cdc_outbox.debezium.render import render
from cdc_outbox.errors import ConfigError, ConnectError, ConnectorInvalidError, DatabaseError
from cdc_outbox.spec import Spec


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftovers:
    """The parts of a connector that remain."""

    slot: bool = True
    offsets: bool = True


class Stay(NamedTuple):
    """Something of a connector that is still there.

    Args:
        what: ``slot``, for example.
        text: What stands behind "stays:".
    """

    what: str
    names: tuple[str, ...]
    text: str


def retire(spec: Spec, client: ConnectClient, *, timings: Timings, report: Report) -> Leftovers:
    """Stop and delete a connector; its offsets and its slot stay.

    Raises:
        ConnectorInvalidError: A connector of the name reads another slot, so it is another pipeline's.
    """
    config = client.find_config(spec.name)
    if config is not None:
        _refuse_another_slot(spec, config)
        _stop(client, spec.name, timings=timings, report=report)
        _delete(client, spec.name, timings=timings, report=report)
    return Leftovers()


def purge(
    spec: Spec,
    client: ConnectClient,
    database: PostgresqlDatabase,
    *,
    timings: Timings,
    report: Report,
    agree: Callable[[int | None], None],
) -> Leftovers:
    """Stop and delete a connector with its offsets and its slot; run again, it does the rest.

    The offsets go before the slot: without the slot they would keep the next connector of this name from starting,
    and the slot without them only means that its events come again.

    Args:
        agree: Called with the number of events in the slot that were not published, if there are any, and with ``None``
            where the slot cannot be looked into; what it raises ends the purge, and the connector runs again if it did.

    Raises:
        ConnectorInvalidError: A connector of the name reads another slot, so it is another pipeline's; or this is
            another database than the spec's.
        ConfigError: The slot belongs to another database.
        DatabaseAccessError: The role may not drop the slot.
        ConnectorFailedError: Another process reads the slot.
        CdcOutboxError: A step failed; ``hint`` says what is left.
    """
    name, slot = spec.name, spec.database.slot
    found = find_connector(client, name, timings=timings)
    if found is not None:
        _refuse_another_slot(spec, found.config)
    held = _find_usable_slot(spec, database)
    if found is None or (held is not None and not found.may_read(held)):
        _wait_until_free(spec, database, timings=timings)
    with adding_hint("Nothing was deleted."):
        if found is None:
            # Connect shows the offsets of a name, and forgets them, only while a connector has it.
            client.create_stopped(render(spec))
            try:
                _agree(spec, client, database, agree, timings=timings)
            except BaseException:
                left = f"{name}, created to read its offsets, is left stopped; run `cdc-outbox delete {name}`."
                with adding_hint(left):
                    delete_and_wait(client, name, timings=timings)
                raise
        else:
            control = ConnectorControl(client, name, timings=timings, report=lambda text: report("stop", text))
            with control.halted_unless_refused():
                _agree(spec, client, database, agree, timings=timings)
    again = "Run the command again to complete the purge."
    with adding_hint(f"The connector {name} is stopped; its offsets may be deleted. {again}"):
        client.reset_offsets(name)
    report("offsets", "forgotten")
    with adding_hint(f"The offsets are deleted; the connector {name} and the slot {slot} are left. {again}"):
        _delete(client, name, timings=timings, report=report)
    with adding_hint(f"The connector {name} and its offsets are deleted; the slot {slot} is left. {again}"):
        _drop_slot(spec, database, timings=timings, report=report)
    forget_debezium(spec, database.publishers)
    return Leftovers(slot=False, offsets=False)


def _find_usable_slot(spec: Spec, database: PostgresqlDatabase) -> SlotFacts | None:
    """Return the slot; refuse one that this connection cannot drop, as far as that shows before it is free."""
    slots = database.read_slots()
    refuse(spec, tuple(another_database(slots.database, spec.database.name)), "the DSN leads to another database")
    slot = slots.find(spec.database.slot)
    if slot is None:
        return None
    if slot.database != slots.database:
        raise ConfigError(
            f"the slot {slot.name} belongs to the database {slot.database!r}, and the DSN leads to {slots.database!r}",
            field="--dsn",
            hint="Correct the DSN, or database.slot in the spec.",
        )
    database.check_may_read_slot()
    return slot


def _agree(
    spec: Spec,
    client: ConnectClient,
    database: PostgresqlDatabase,
    agree: Callable[[int | None], None],
    *,
    timings: Timings,
) -> None:
    _wait_until_free(spec, database, timings=timings)
    slot = database.find_slot()
    if slot is None or not slot.is_unread:
        return
    offset = own_offset(client.find_offsets(spec.name), topic_prefix=spec.topic_prefix) or {}
    events: int | None = None
    try:
        events = database.count_undelivered(confirmed_lsn(offset), last_lsn(offset))
    except DatabaseError as error:
        if error.sqlstate != UNDEFINED_OBJECT:  # the publication is gone, or younger than the slot
            raise
    if events != 0:
        agree(events)


def retire_unspecified(name: str, client: ConnectClient, *, timings: Timings, report: Report) -> tuple[Stay, ...]:
    """Stop and delete a connector that no spec describes, and return what is still there."""
    config = client.find_config(name) or {}
    topics: list[str] = []
    with suppress(ConnectError):  # workers may take no notes of them
        topics = client.find_topics(name)
    _stop(client, name, timings=timings, report=report)
    _delete(client, name, timings=timings, report=report)
    return tuple(_unspecified_stays(name, config, topics))


def what_stays(spec: Spec, remains: Leftovers) -> Iterator[Stay]:
    """Yield what is still there."""
    postgresql = spec.database.kind is DatabaseKind.POSTGRESQL
    if remains.offsets:
        yield _offsets_stay(spec.name)
    if remains.slot and postgresql:
        yield _slot_stays(spec.database.slot)
    if postgresql:
        yield _publication_stays(spec.database.publication)
    table = str(spec.outbox.table)
    yield Stay("table", (table,), f"the table {table} and its related tables")
    yield _topics_stay(spec.contract.topics)


def _unspecified_stays(name: str, config: Mapping[str, str], topics: Sequence[str]) -> Iterator[Stay]:
    yield _offsets_stay(name)
    if kind_of(config) is DatabaseKind.POSTGRESQL:
        yield _slot_stays(slot_of(config))
        yield _publication_stays(config.get("publication.name", "dbz_publication"))
    if topics:
        yield _topics_stay(topics)


def _offsets_stay(name: str) -> Stay:
    return Stay("offsets", (name,), f"the offsets that Connect keeps under {name}")


def _slot_stays(slot: str) -> Stay:
    return Stay("slot", (slot,), f"the slot {slot}, which keeps WAL until it is dropped")


def _publication_stays(name: str) -> Stay:
    return Stay("publication", (name,), f"the publication {name}")


def _topics_stay(names: Sequence[str]) -> Stay:
    return Stay("topics", tuple(names), f"the topics {', '.join(names)}")


def _stop(client: ConnectClient, name: str, *, timings: Timings, report: Report) -> None:
    ConnectorControl(client, name, timings=timings, report=lambda text: report("stop", text)).stop()


def _delete(client: ConnectClient, name: str, *, timings: Timings, report: Report) -> None:
    delete_and_wait(client, name, timings=timings)
    report("connector", f"{name} deleted")


def _refuse_another_slot(spec: Spec, config: Mapping[str, str]) -> None:
    if spec.database.kind is not DatabaseKind.POSTGRESQL:
        return
    slot = slot_of(config) if kind_of(config) is DatabaseKind.POSTGRESQL else None
    if slot != spec.database.slot:
        raise ConnectorInvalidError(
            f"the connector {spec.name} reads {f'the slot {slot}' if slot else 'no slot'}, not {spec.database.slot}",
            hint="Correct the spec, so that it describes this connector.",
        )


def _drop_slot(spec: Spec, database: PostgresqlDatabase, *, timings: Timings, report: Report) -> None:
    _wait_until_free(spec, database, timings=timings)
    if database.find_slot() is not None:
        database.drop_slot()
        report("slot", f"{spec.database.slot} dropped")


def _wait_until_free(spec: Spec, database: PostgresqlDatabase, *, timings: Timings) -> None:
    def is_free() -> bool:
        slot = database.find_slot()
        return slot is None or not slot.active

    wait_until(
        is_free,
        f"the slot {spec.database.slot} to be free",
        timings=timings,
        hint="Another process reads it; pg_stat_replication shows which one.",
    )
