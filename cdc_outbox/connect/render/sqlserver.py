"""What SQL Server's connector alone is told: the one database that it reads."""

from cdc_outbox.connect.render.history import remember
from cdc_outbox.connect.render.names import captured_table, exactly
from cdc_outbox.spec import Spec


def capture(spec: Spec) -> dict[str, str]:
    """Return what says which changes are read, and how."""
    return {
        "database.names": spec.database.name,
        "table.include.list": exactly(".".join(captured_table(spec))),
        **remember(spec),
    }
