"""What must be true before a new incarnation begins, after the producer's database was restored or lost commits."""

from collections.abc import Iterator

from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.postgresql_database import PostgresqlDatabase
from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.debezium.slot_plan import EarlierEvents, SlotState, find_hole, stored_offset
from cdc_outbox.errors import ConnectorInvalidError
from cdc_outbox.spec import Spec


def refuse_until_it_rests(spec: Spec, database: PostgresqlDatabase, client: ConnectClient | None) -> None:
    """Refuse a new incarnation while the slot is read, or is not where Connect's offset expects it. PostgreSQL only.

    A connector that resumes at an offset of the lost log skips all events until the new log reaches that offset.

    Args:
        client: ``None`` where Connect is not asked; its offset is unknown then.

    Raises:
        ConnectorInvalidError: The slot is read, or the positions disagree; nothing was changed.
    """
    hint = "Follow the steps above in order."
    slot = database.find_slot()
    if slot is not None and slot.active:
        message = f"the slot {spec.database.slot} is being read; nothing was changed"
        raise ConnectorInvalidError(message, hint=f"Stop the connector first. {hint}")
    if client is None or client.find_config(spec.name) is None:
        return
    stored = stored_offset(client.find_offsets(spec.name), topic_prefix=spec.topic_prefix)
    wal_end, relayed = database.read_slots().log_end, database.publishers.find_relayed(spec.database.slot)
    hole = find_hole(spec.database.slot, SlotState(slot=slot, stored=stored, wal_end=wal_end, relayed=relayed))
    if hole is not None:
        raise ConnectorInvalidError(f"{hole.text} Nothing was changed", hint=hint)


def steps_after_restore(spec: Spec, path: str, *, source: str) -> Iterator[str]:
    """Yield the commands after a restore, in their order, a line each; none where no connector reads the database.

    Args:
        path: Of the spec.
        source: The one that ends.
    """
    for number, step in enumerate(_steps(spec, path, source), 1):
        if number == 1:
            yield "after a restore, a failover that lost commits, or a re-created table, in this order:"
        yield f"  {number}. {step}"


def _steps(spec: Spec, path: str, source: str) -> Iterator[str]:
    if spec.database.kind is DatabaseKind.SQLITE:
        return
    yield f"cdc-outbox stop {path}, before the restored server accepts writes"
    if spec.database.kind is DatabaseKind.POSTGRESQL:
        earlier = EarlierEvents.REPUBLISH if spec.outbox.mode.keeps_rows else EarlierEvents.SKIP
        yield (f"cdc-outbox deploy-connector {path} --earlier-events {earlier}, which makes slot and offset match")
        yield f"cdc-outbox stop {path}"
    else:
        yield (
            f"cdc-outbox preflight {path}: Connect's offset must be in this server's log; otherwise correct the offset"
        )
    yield f"cdc-outbox init {path} --new-incarnation --from-source {source}"
    yield f"cdc-outbox resume {path}"
    if spec.heartbeat_topic is not None:
        yield f"cdc-outbox recover {path} --accept, which records that the loss was examined"
    yield "start the writers"
