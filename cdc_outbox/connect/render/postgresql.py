"""What PostgreSQL's connector alone is told: slot, publication, and which logical messages are events."""

from cdc_outbox.connect.lint.config import DECODER
from cdc_outbox.connect.render.names import captured_table, exactly
from cdc_outbox.modes import OutboxMode
from cdc_outbox.spec import Spec
from cdc_outbox.table import literal

HEARTBEAT_PREFIX = "cdc-outbox.heartbeat"
"""The prefix of the logical messages that keep the slot moving while the outbox is idle."""


def capture(spec: Spec) -> dict[str, str]:
    """Return what says which changes are read, and how."""
    database = spec.database
    return {
        "database.dbname": database.name,
        "plugin.name": "pgoutput",
        "slot.name": database.slot,
        # Debezium's other strategies move the slot or pass over what lies between it and the offset, and so take away
        # what could still be published after a restore. Where the two do not fit, this one fails or leaves both alone.
        "offset.mismatch.strategy": "no_validation",
        "publication.name": database.publication,
        "publication.autocreate.mode": "disabled",
        # Also without a table: no list means every table, and Debezium would read the columns of them all.
        "table.include.list": exactly(".".join(captured_table(spec))),
        "heartbeat.action.query": _heartbeat(spec),
        **_messages(spec),
    }


def _heartbeat(spec: Spec) -> str:
    """Return the statement that the connector runs every few seconds: it moves the slot while the outbox is idle."""
    if spec.heartbeat_topic is None:
        # A logical message needs no table, and is kept off the topics again.
        return f"select pg_catalog.pg_logical_emit_message(false, '{HEARTBEAT_PREFIX}', '')"
    # With the types of both arguments: another function of its name could fit fewer, or unknown ones, better.
    return f"select {spec.outbox.heartbeat.quoted}(cast({literal(spec.name)} as text), interval '1 minute')"


def decoding(spec: Spec, *, predicate: str) -> dict[str, str]:
    """Return the options of what makes a logical message look like an inserted row; none where events are rows."""
    if spec.outbox.mode is not OutboxMode.MESSAGE:
        return {}
    return {
        "type": DECODER,
        # Without this a null has no field at all, and the router fails on a tombstone or an event without a number.
        "fields.null.include": "true",
        "predicate": predicate,
    }


def _messages(spec: Spec) -> dict[str, str]:
    """Return which logical messages become records: this outbox's, or none."""
    if spec.outbox.mode is not OutboxMode.MESSAGE:
        return {"message.prefix.exclude.list": ".*"}
    # Debezium ignores case, and two outboxes may differ in nothing else.
    included = "(?-i)" + exactly(spec.outbox.message_prefix)
    return {"message.prefix.include.list": included, "binary.handling.mode": "bytes"}
