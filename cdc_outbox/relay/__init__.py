"""The relay: an outbox's events to Kafka, without Kafka Connect."""

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
from cdc_outbox.relay.async_relay import AsyncRelay
from cdc_outbox.relay.refusals import RelayRefusal
from cdc_outbox.relay.relay import Relay
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
from cdc_outbox.relay.sinks import Sink
from cdc_outbox.relay.sinks.callable import CallableSink
from cdc_outbox.relay.sinks.json_lines import JsonLinesSink
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
