"""Compare a database, and the offsets of Connect, with what the connector needs. Pure."""

from cdc_outbox.debezium.preflight.postgresql_rules import check_database, check_outbox, check_republish
from cdc_outbox.debezium.preflight.slot_rules import slot_in_use, slot_older_than_publication

__all__ = [
    "check_database",
    "check_outbox",
    "check_republish",
    "slot_in_use",
    "slot_older_than_publication",
]
