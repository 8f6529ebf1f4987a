"""The limit of a topic's messages, which a test changes."""

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource  # type: ignore[attr-defined]

from tests.support.patience import patience


def set_limit(servers: str, topic: str, limit: int) -> None:
    """Change ``max.message.bytes`` of a topic."""
    entry = ConfigEntry("max.message.bytes", str(limit), incremental_operation=AlterConfigOpType.SET)
    admin = AdminClient({"bootstrap.servers": servers})  # it must outlive its answers
    [altered] = admin.incremental_alter_configs([ConfigResource("topic", topic, incremental_configs=[entry])]).values()
    altered.result(timeout=patience())
