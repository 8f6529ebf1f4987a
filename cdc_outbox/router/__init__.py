"""Debezium's EventRouter as a function of values: options and a typed row go in, a message comes out."""

from cdc_outbox.router.event_router import EventRouter, Placement
from cdc_outbox.router.partition import java_partition
from cdc_outbox.router.values import ConnectType, ConnectValue, LogicalName

__all__ = ["ConnectType", "ConnectValue", "EventRouter", "LogicalName", "Placement", "java_partition"]
