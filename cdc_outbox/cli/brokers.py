"""The brokers, as the commands reach them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from cdc_outbox.cli.context_option import ContextValue
from cdc_outbox.cli.contexts import Context
from cdc_outbox.errors import ConfigError
from cdc_outbox.kafka import clients as kafka_clients
from cdc_outbox.kafka import confluent
from cdc_outbox.text_files.document import read_text_file
from cdc_outbox.text_files.properties_text import read_properties

FC = TypeVar("FC", bound=Callable[..., Any] | click.Command)


def broker_options(*, required: bool = True) -> Callable[[FC], FC]:
    """Return the decorator that adds the options for a command's brokers."""
    servers = click.option(
        "--bootstrap-servers",
        cls=ContextValue,
        entry=Context.bootstrap_servers,
        address="brokers",
        required=required,
        help="The brokers: host:port, separated by commas.",
    )
    settings = click.option(
        "--kafka-settings",
        cls=ContextValue,
        entry=Context.kafka_settings,
        type=click.Path(path_type=Path),
        help="A file of librdkafka settings, for security and timeouts: name=value, one per line.",
    )
    return lambda command: servers(settings(command))


def broker_settings(bootstrap_servers: str, file: Path | None, *, group: str) -> dict[str, Any]:
    """Return librdkafka's settings for what the options say; commands call this before they change anything.

    Raises:
        OutboxError: The Kafka client is not installed.
        ConfigError: The file cannot be read, or holds a setting that would break a promise.
    """
    confluent.require()
    return kafka_clients.consumer_settings(
        bootstrap_servers=bootstrap_servers, group=group, extra={} if file is None else _read(file)
    )


def producer_options(bootstrap_servers: str | None, file: Path | None) -> dict[str, Any]:
    """Return what the options say, for a producer, which refuses what would break a promise.

    Raises:
        OutboxError: The Kafka client is not installed.
        ConfigError: The file cannot be read.
    """
    confluent.require()
    return {**({} if file is None else _read(file)), "bootstrap.servers": bootstrap_servers}


def _read(file: Path) -> dict[str, Any]:
    document = read_properties(read_text_file(file, field="--kafka-settings"), name=str(file))
    if document.findings:
        raise ConfigError(f"{file} is not a valid settings file", field="--kafka-settings", findings=document.findings)
    settings: dict[str, Any] = document.content
    return settings
