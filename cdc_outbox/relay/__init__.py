"""The relay: an outbox's events to Kafka, without Kafka Connect."""

from cdc_outbox.debezium.relay_refusals import RelayRefusal
from cdc_outbox.errors import (
    BrokerError,
    BrokerUnavailableError,
    CdcOutboxError,
    ConfigError,
    DatabaseAccessError,
    DatabaseError,
    DatabaseUnavailableError,
    DecodeError,
    RoutingError,
)
from cdc_outbox.message import Message
from cdc_outbox.relay.relay import AsyncRelay, Relay
from cdc_outbox.relay.relay_errors import (
    DeliveryError,
    MessageRefusedError,
    NotThePublisherError,
    PublicationNotFoundError,
    RelayError,
    RelayRefusedError,
    ServerChangedError,
    SlotError,
    SlotInUseError,
    SlotLostError,
    SlotMovedError,
    SlotNotFoundError,
)
from cdc_outbox.relay.sinks import CallableSink, JsonLinesSink, Sink
from cdc_outbox.relay.wal_relay import make_relay

__all__ = [
    "AsyncRelay",
    "BrokerError",
    "BrokerUnavailableError",
    "CallableSink",
    "CdcOutboxError",
    "ConfigError",
    "DatabaseAccessError",
    "DatabaseError",
    "DatabaseUnavailableError",
    "DecodeError",
    "DeliveryError",
    "JsonLinesSink",
    "Message",
    "MessageRefusedError",
    "NotThePublisherError",
    "PublicationNotFoundError",
    "Relay",
    "RelayError",
    "RelayRefusal",
    "RelayRefusedError",
    "RoutingError",
    "ServerChangedError",
    "Sink",
    "SlotError",
    "SlotInUseError",
    "SlotLostError",
    "SlotMovedError",
    "SlotNotFoundError",
    "make_relay",
]
