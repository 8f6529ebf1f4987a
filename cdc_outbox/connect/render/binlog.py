"""What the connectors of MariaDB and MySQL are told: who reads the binlog, and where its schema is remembered."""

from cdc_outbox.connect.render.names import captured_table, exactly
from cdc_outbox.spec import Spec

_HISTORY = "schema.history.internal"


def capture(spec: Spec) -> dict[str, str]:
    """Return what says which changes are read, and how."""
    database, table = captured_table(spec)
    return {
        # The server hangs up on one of two readers with the same number.
        "database.server.id": spec.database.server_id,
        "database.include.list": exactly(database),
        "table.include.list": exactly(f"{database}.{table}"),
        # No row is read at the start, so nobody who writes one has to wait.
        "snapshot.locking.mode": "none",
        **_history(spec),
        # Else they get a topic of their own, which no consumer of events reads.
        "include.schema.changes": "false",
    }


def _history(spec: Spec) -> dict[str, str]:
    """Return where the columns are remembered: the binlog has values alone, perhaps older than today's table."""
    return {
        _HISTORY: "io.debezium.storage.kafka.history.KafkaSchemaHistory",
        f"{_HISTORY}.kafka.topic": spec.history.topic,
        f"{_HISTORY}.kafka.bootstrap.servers": spec.history.bootstrap_servers,
        # Every start reads all of it, and other tables' changes are none of the outbox's.
        f"{_HISTORY}.store.only.captured.tables.ddl": "true",
    }
