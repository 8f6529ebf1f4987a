"""How a running consumer or relay goes: its health, its metrics and who may see them.

Nothing foreign is imported here. ``cdc_outbox.monitoring.prometheus`` needs the extra ``metrics``, and
``cdc_outbox.monitoring.opentelemetry`` the extra ``otel``; they are imported by name.
"""

from cdc_outbox.errors import ConfigError
from cdc_outbox.monitoring.health import Health, HealthLimits, HealthStatus, health_of
from cdc_outbox.monitoring.server import Exposition, MonitorServer
from cdc_outbox.telemetry import HasProgress, Monitored, PausedPartition, Progress, RelayProgress, RelayState

__all__ = [
    "ConfigError",
    "Exposition",
    "HasProgress",
    "Health",
    "HealthLimits",
    "HealthStatus",
    "MonitorServer",
    "Monitored",
    "PausedPartition",
    "Progress",
    "RelayProgress",
    "RelayState",
    "health_of",
]
