"""The consuming side: Kafka → effects, once and in order."""

from cdc_outbox.consumer.calls import BeforeCommit
from cdc_outbox.consumer.consumer import AsyncConsumer, Consumer
from cdc_outbox.consumer.delivery import Outcome
from cdc_outbox.consumer.handlers import BatchHandler, Handler
from cdc_outbox.consumer.limits import Limits
from cdc_outbox.consumer.ordering import Aggregate, Order, Verdict
from cdc_outbox.consumer.plain import AsyncInbox, Inbox
from cdc_outbox.consumer.replay import Fate, Replayed
from cdc_outbox.consumer.retry import Retry
from cdc_outbox.consumer.schema import inbox_component
from cdc_outbox.consumer.selection import Selection
from cdc_outbox.consumer.table import InboxTable
from cdc_outbox.contract_file import load_contract
from cdc_outbox.errors import (
    CdcOutboxError,
    ConfigError,
    ConsumerError,
    DatabaseError,
    HandlerError,
    InboxError,
    MessageError,
    NoHandlerError,
    OffsetOutOfRangeError,
    OrderingError,
    ParkFullError,
    PartitionLostError,
    SequenceConflictError,
    SequenceGapError,
    TopicReplacedError,
    TransactionAbortedError,
    TransactionEndedError,
    WatermarkMovedError,
)
from cdc_outbox.event import Event, SequenceMode
from cdc_outbox.foreign import ForeignOutbox
from cdc_outbox.modes import PayloadType
from cdc_outbox.wire import HeaderNames, WireContract

__all__ = [
    "Aggregate",
    "AsyncConsumer",
    "AsyncInbox",
    "BatchHandler",
    "BeforeCommit",
    "CdcOutboxError",
    "ConfigError",
    "Consumer",
    "ConsumerError",
    "DatabaseError",
    "Event",
    "Fate",
    "ForeignOutbox",
    "Handler",
    "HandlerError",
    "HeaderNames",
    "Inbox",
    "InboxError",
    "InboxTable",
    "Limits",
    "MessageError",
    "NoHandlerError",
    "OffsetOutOfRangeError",
    "Order",
    "OrderingError",
    "Outcome",
    "ParkFullError",
    "PartitionLostError",
    "PayloadType",
    "Replayed",
    "Retry",
    "Selection",
    "SequenceConflictError",
    "SequenceGapError",
    "SequenceMode",
    "TopicReplacedError",
    "TransactionAbortedError",
    "TransactionEndedError",
    "Verdict",
    "WatermarkMovedError",
    "WireContract",
    "inbox_component",
    "load_contract",
]
