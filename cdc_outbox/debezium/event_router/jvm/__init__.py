"""Programs that need Java: where they are, and Debezium's own EventRouter as a function."""

from cdc_outbox.debezium.event_router.jvm.jars import NEWEST_PLUGINS, POM, SHORT_LIVED, Jvm, fetch_plugin, find_jvm
from cdc_outbox.debezium.event_router.jvm.real_router import Outcome, RealRouter

__all__ = ["NEWEST_PLUGINS", "POM", "SHORT_LIVED", "Jvm", "Outcome", "RealRouter", "fetch_plugin", "find_jvm"]
