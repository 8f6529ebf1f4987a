"""The consuming side: Kafka → effects, once and in order."""

from cdc_outbox.consumer.consumer import Consumer
from cdc_outbox.consumer.delivery import Handler, Outcome
from cdc_outbox.consumer.inbox import Claims, Inbox, SqlInbox
from cdc_outbox.consumer.ordering import Aggregate, Move, Verdict
from cdc_outbox.consumer.schema import inbox_component
from cdc_outbox.consumer.table import InboxTable
from cdc_outbox.event import Event, SequenceMode
from cdc_outbox.modes import PayloadType
from cdc_outbox.wire import HeaderNames, WireContract

__all__ = [
    "Aggregate",
    "Claims",
    "Consumer",
    "Event",
    "Handler",
    "HeaderNames",
    "Inbox",
    "InboxTable",
    "Move",
    "Outcome",
    "PayloadType",
    "SequenceMode",
    "SqlInbox",
    "Verdict",
    "WireContract",
    "inbox_component",
]
