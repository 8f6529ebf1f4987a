"""How a running consumer goes: its health, its metrics and who may see them.

Nothing foreign is imported here. ``cdc_outbox.monitor.prometheus`` needs the extra ``metrics``, and
``cdc_outbox.monitor.opentelemetry`` the extra ``otel``; they are imported by name.
"""

from cdc_outbox.monitor.health import Health, HealthLimits, HealthStatus, health_of
from cdc_outbox.monitor.server import Exposition, MonitorServer
from cdc_outbox.progress import HasProgress, PausedPartition, Progress

__all__ = [
    "Exposition",
    "HasProgress",
    "Health",
    "HealthLimits",
    "HealthStatus",
    "MonitorServer",
    "PausedPartition",
    "Progress",
    "health_of",
]
