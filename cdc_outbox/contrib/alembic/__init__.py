"""Alembic: the outbox as a part of a service's own migrations.

To be imported by ``env.py``, which makes the operations known to Alembic, and autogenerate to the outbox.
"""

from cdc_outbox.contrib.alembic import autogenerate as _autogenerate  # noqa: F401 - registers itself
from cdc_outbox.contrib.alembic.operations import (
    CreateOutboxOp,
    CreateOutboxPublicationOp,
    DropOutboxOp,
    DropOutboxPublicationOp,
    UpgradeOutboxOp,
)
from cdc_outbox.contrib.alembic.outbox_table import make_outbox_table
from cdc_outbox.errors import ConfigError, OutboxError

__all__ = [
    "ConfigError",
    "CreateOutboxOp",
    "CreateOutboxPublicationOp",
    "DropOutboxOp",
    "DropOutboxPublicationOp",
    "OutboxError",
    "UpgradeOutboxOp",
    "make_outbox_table",
]
