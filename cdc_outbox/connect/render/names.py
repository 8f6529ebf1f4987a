"""What Debezium calls the outbox, and the patterns that fit that name alone."""

import re

from cdc_outbox.modes import OutboxMode
from cdc_outbox.spec import Spec


def captured_table(spec: Spec) -> tuple[str, str]:
    """Return what stands before the table's name, the schema or on MariaDB and MySQL the database, and the name."""
    table = spec.outbox.table_in(spec.database.kind.dialect)
    return table.schema or spec.database.name, table.name


def raw_topic(spec: Spec) -> str:
    """Return the topic that an event is for before it is routed; Debezium replaces what Kafka refuses."""
    if spec.outbox.mode is OutboxMode.MESSAGE:
        return f"{spec.name}.message"
    return re.sub(r"[^A-Za-z0-9._-]", "_", ".".join((spec.name, *captured_table(spec))))


def exactly(name: str) -> str:
    """Return a Java regular expression that matches this name only; a comma would start the next of a list."""
    return re.sub(r"([^A-Za-z0-9_])", r"\\\1", name)
