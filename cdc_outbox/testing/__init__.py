"""For users' tests and ours: the local stack, and what counts in memory."""

from cdc_outbox.testing.memory import MemoryInbox, MemoryMetrics
from cdc_outbox.testing.parts import Broker, Postgres, Worker
from cdc_outbox.testing.stack import Stack, StackConfig

__all__ = ["Broker", "MemoryInbox", "MemoryMetrics", "Postgres", "Stack", "StackConfig", "Worker"]
