"""What every connector is told that has to remember how the tables were when a change was written."""

from cdc_outbox.spec import Spec

_HISTORY = "schema.history.internal"


def remember(spec: Spec) -> dict[str, str]:
    """Return where that is kept, and how little of it: the log has values alone, perhaps older than today's table."""
    return {
        _HISTORY: "io.debezium.storage.kafka.history.KafkaSchemaHistory",
        f"{_HISTORY}.kafka.topic": spec.history.topic,
        f"{_HISTORY}.kafka.bootstrap.servers": spec.history.bootstrap_servers,
        # Every start reads all of it, and other tables' changes are none of the outbox's.
        f"{_HISTORY}.store.only.captured.tables.ddl": "true",
        # Else they get a topic of their own, which no consumer of events reads.
        "include.schema.changes": "false",
        # The first start looks at the columns and reads no row, so nobody who writes one has to wait.
        "snapshot.locking.mode": "none",
    }
