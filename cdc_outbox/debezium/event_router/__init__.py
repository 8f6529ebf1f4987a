"""Debezium's EventRouter as a function of values: options and a typed row go in, a message comes out."""

from cdc_outbox.contract.placements import Placement, PlacementKind
from cdc_outbox.debezium.event_router.java import java_partition
from cdc_outbox.debezium.event_router.record import Change, ConnectRecord
from cdc_outbox.debezium.event_router.router import EventRouter
from cdc_outbox.debezium.event_router.routing import Routing, RoutingConfig
from cdc_outbox.debezium.event_router.smt_options import UpdateBehavior
from cdc_outbox.debezium.event_router.values import ConnectSchema, ConnectStruct, ConnectType, ConnectValue, LogicalName

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
