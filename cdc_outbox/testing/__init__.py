"""For users' tests and the project's own: the local stack, and what counts in memory."""

from cdc_outbox.errors import ConfigError, OutboxError, StackError
from cdc_outbox.testing.broker import Broker
from cdc_outbox.testing.events import OutboxEvents, assert_event, recorded_events
from cdc_outbox.testing.faults import FaultReport, HandlerFaults
from cdc_outbox.testing.mariadb import MariaDb, MariaDbDsn
from cdc_outbox.testing.memory_inbox import MemoryDatabase
from cdc_outbox.testing.memory_outbox import AsyncMemoryOutbox, MemoryOutbox
from cdc_outbox.testing.memory_telemetry import MemoryMetrics, MemorySpan, MemorySpans
from cdc_outbox.testing.postgres import Postgres
from cdc_outbox.testing.stack import Stack, StackConfig
from cdc_outbox.testing.worker import Worker

__all__ = [
    "AsyncMemoryOutbox",
    "Broker",
    "ConfigError",
    "FaultReport",
    "HandlerFaults",
    "MariaDb",
    "MariaDbDsn",
    "MemoryDatabase",
    "MemoryMetrics",
    "MemoryOutbox",
    "MemorySpan",
    "MemorySpans",
    "OutboxError",
    "OutboxEvents",
    "Postgres",
    "Stack",
    "StackConfig",
    "StackError",
    "Worker",
    "assert_event",
    "recorded_events",
]
