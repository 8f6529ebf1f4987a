"""The consuming side: Kafka → effects, once and in order."""

from cdc_outbox.consumer.consumer import AsyncConsumer, Consumer
from cdc_outbox.consumer.handlers import BatchHandler, BeforeCommit, Handler
from cdc_outbox.consumer.inbox import AsyncInbox, Inbox
from cdc_outbox.consumer.inbox_tables import InboxTable, inbox_component
from cdc_outbox.consumer.item import Outcome
from cdc_outbox.consumer.limits import Limits
from cdc_outbox.consumer.ordering import Aggregate, Order, Verdict
from cdc_outbox.consumer.replay import Fate, Replayed
from cdc_outbox.consumer.retries import Retry
from cdc_outbox.consumer.session import EffectsDatabase
from cdc_outbox.consumer.topic_reader import Selection
from cdc_outbox.contract.contract_file import load_contract
from cdc_outbox.contract.wire import WireContract
from cdc_outbox.errors import (
    BrokerError,
    BrokerUnavailableError,
    CdcOutboxError,
    ConfigError,
    ConsumerError,
    DatabaseAccessError,
    DatabaseError,
    DatabaseUnavailableError,
    HandlerError,
    InboxError,
    MessageError,
    NoHandlerError,
    NotInTransactionError,
    OffsetOutOfRangeError,
    OrderingError,
    OutboxError,
    ParkFullError,
    PartitionLostError,
    SequenceConflictError,
    SequenceGapError,
    TableNotFoundError,
    TopicReplacedError,
    TransactionAbortedError,
    TransactionConflictError,
    TransactionEndedError,
    TransactionTimeoutError,
    WatermarkMovedError,
)
from cdc_outbox.event import KafkaRecord, RecordedEvent, SequenceMode
from cdc_outbox.formats.attributes import HeaderNames
from cdc_outbox.formats.event_format import PayloadType
from cdc_outbox.formats.foreign import ForeignOutbox
from cdc_outbox.telemetry import Telemetry

__all__ = [
    "Aggregate",
    "AsyncConsumer",
    "AsyncInbox",
    "BatchHandler",
    "BeforeCommit",
    "BrokerError",
    "BrokerUnavailableError",
    "CdcOutboxError",
    "ConfigError",
    "Consumer",
    "ConsumerError",
    "DatabaseAccessError",
    "DatabaseError",
    "DatabaseUnavailableError",
    "EffectsDatabase",
    "Fate",
    "ForeignOutbox",
    "Handler",
    "HandlerError",
    "HeaderNames",
    "Inbox",
    "InboxError",
    "InboxTable",
    "KafkaRecord",
    "Limits",
    "MessageError",
    "NoHandlerError",
    "NotInTransactionError",
    "OffsetOutOfRangeError",
    "Order",
    "OrderingError",
    "OutboxError",
    "Outcome",
    "ParkFullError",
    "PartitionLostError",
    "PayloadType",
    "RecordedEvent",
    "Replayed",
    "Retry",
    "Selection",
    "SequenceConflictError",
    "SequenceGapError",
    "SequenceMode",
    "TableNotFoundError",
    "Telemetry",
    "TopicReplacedError",
    "TransactionAbortedError",
    "TransactionConflictError",
    "TransactionEndedError",
    "TransactionTimeoutError",
    "Verdict",
    "WatermarkMovedError",
    "WireContract",
    "inbox_component",
    "load_contract",
]
