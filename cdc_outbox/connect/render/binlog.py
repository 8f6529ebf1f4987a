"""What the connectors of MariaDB and MySQL are told: who reads the binlog, and of which database."""

from cdc_outbox.connect.render.history import remember
from cdc_outbox.connect.render.names import captured_table, exactly
from cdc_outbox.spec import Spec


def capture(spec: Spec) -> dict[str, str]:
    """Return what says which changes are read, and how."""
    database, table = captured_table(spec)
    return {
        # The server hangs up on one of two readers with the same number.
        "database.server.id": spec.database.server_id,
        "database.include.list": exactly(database),
        "table.include.list": exactly(f"{database}.{table}"),
        **remember(spec),
    }
