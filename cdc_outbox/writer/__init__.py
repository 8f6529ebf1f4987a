"""The writing side: events into the outbox, inside the caller's own transaction."""

from cdc_outbox.writer.outbox import AsyncOutbox, Outbox

__all__ = ["AsyncOutbox", "Outbox"]
