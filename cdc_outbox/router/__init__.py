"""Debezium's EventRouter as a function of values: options and a typed row go in, a message comes out."""

from cdc_outbox.router.event_router import EventRouter
from cdc_outbox.router.options import Placement, PlacementKind, UpdateBehavior
from cdc_outbox.router.partition import java_partition
from cdc_outbox.router.record import Change, ConnectRecord
from cdc_outbox.router.routing import Routing, RoutingConfig
from cdc_outbox.router.values import ConnectSchema, ConnectStruct, ConnectType, ConnectValue, LogicalName

__all__ = [
    "Change",
    "ConnectRecord",
    "ConnectSchema",
    "ConnectStruct",
    "ConnectType",
    "ConnectValue",
    "EventRouter",
    "LogicalName",
    "Placement",
    "PlacementKind",
    "Routing",
    "RoutingConfig",
    "UpdateBehavior",
    "java_partition",
]
