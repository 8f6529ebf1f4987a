"""The writing side: events into the outbox, inside the caller's own transaction."""

from cdc_outbox.writer.collection import Collection
from cdc_outbox.writer.outbox import AsyncOutbox, Outbox, PublicationPolicy
from cdc_outbox.writer.whole_transaction import execute_with_events

__all__ = ["AsyncOutbox", "Collection", "Outbox", "PublicationPolicy", "execute_with_events"]
