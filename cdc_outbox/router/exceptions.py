"""Which Java exceptions the EventRouter and the converters throw, by the name that a :class:`RoutingError` carries."""

from collections.abc import Mapping
from types import MappingProxyType

from cdc_outbox.errors import RoutingError

JAVA_EXCEPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "ClassCastException": "java.lang.ClassCastException",
        "ConfigException": "org.apache.kafka.common.config.ConfigException",
        "ConnectException": "org.apache.kafka.connect.errors.ConnectException",
        "DataException": "org.apache.kafka.connect.errors.DataException",
        "IllegalArgumentException": "java.lang.IllegalArgumentException",
        "IllegalStateException": "java.lang.IllegalStateException",
        "IndexOutOfBoundsException": "java.lang.IndexOutOfBoundsException",
        "NullPointerException": "java.lang.NullPointerException",
        "SchemaBuilderException": "org.apache.kafka.connect.errors.SchemaBuilderException",
    }
)
"""Short name → class. The differential test compares by it, and fails on a class that is not here."""


def config_exception(message: str) -> RoutingError:
    """Return what a component's ``configure()`` throws: the task fails before its first record."""
    return RoutingError(message, exception="ConfigException", stage="configure")


def data_exception(message: str) -> RoutingError:
    """Return what Connect throws about a value that does not fit its schema."""
    return RoutingError(message, exception="DataException")


def connect_exception(message: str) -> RoutingError:
    """Return what the EventRouter throws about a column that it does not find or take."""
    return RoutingError(message, exception="ConnectException")


def null_pointer_exception(message: str) -> RoutingError:
    """Return what Java throws where nobody looked."""
    return RoutingError(message, exception="NullPointerException")


def conversion_exception(message: str) -> RoutingError:
    """Return what a converter throws."""
    return RoutingError(message, exception="DataException", stage="convert")
