"""What Debezium calls the outbox, and the patterns that fit that name alone."""

import re

from cdc_outbox.database import DatabaseKind
from cdc_outbox.modes import OutboxMode
from cdc_outbox.spec import Spec
from cdc_outbox.topic import raw_topic_name

_SCHEMAS = {DatabaseKind.POSTGRESQL: "public", DatabaseKind.SQLSERVER: "dbo"}
"""Where a table is that nobody gave a schema."""


def captured_table(spec: Spec) -> tuple[str, str]:
    """Return what stands before the table's name, its schema or its database, and the name."""
    default = _SCHEMAS.get(spec.database.kind, spec.database.name)
    return spec.outbox.schema or default, spec.outbox.name


def raw_topic(spec: Spec) -> str:
    """Return the topic that an event is for before it is routed."""
    if spec.outbox.mode is OutboxMode.MESSAGE:
        return f"{spec.topic_prefix}.message"
    # One connector may read several databases of SQL Server.
    database = [spec.database.name] if spec.database.kind is DatabaseKind.SQLSERVER else []
    return raw_topic_name(spec.topic_prefix, *database, *captured_table(spec))


def exactly(name: str) -> str:
    """Return a Java regular expression that matches this name only; a comma would start the next of a list."""
    return re.sub(r"([^A-Za-z0-9_])", r"\\\1", name)
