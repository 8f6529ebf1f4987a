"""What Oracle's connector alone is told: no payload is left out, and no transaction given up."""

from cdc_outbox.connect.render.history import remember
from cdc_outbox.connect.render.names import captured_table, exactly
from cdc_outbox.spec import Spec


def capture(spec: Spec) -> dict[str, str]:
    """Return what says which changes are read, and how."""
    pluggable = {"database.pdb.name": spec.database.pdb} if spec.database.pdb else {}
    return {
        "database.dbname": spec.database.name,
        **pluggable,
        "table.include.list": exactly(".".join(captured_table(spec))),
        # Without it a payload in a CLOB comes without its value, and becomes a tombstone or an error.
        "lob.enabled": "true",
        **remember(spec),
    }
