"""The few habits of Java that options and payloads meet: strings, exceptions, partitions of keys."""

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
    """Return what Java throws where its code does not check for null."""
    return RoutingError(message, exception="NullPointerException")


def conversion_exception(message: str) -> RoutingError:
    """Return what a converter throws."""
    return RoutingError(message, exception="DataException", stage="convert")


def split(text: str, separator: str) -> list[str]:
    """Split as ``String.split`` does: empty parts at the end are dropped, but for a text without a separator."""
    parts = text.split(separator)
    if len(parts) > 1:
        while parts and not parts[-1]:
            parts.pop()
    return parts


def encode(text: str) -> bytes:
    """Encode as ``String.getBytes`` does: half a surrogate pair becomes a question mark."""
    return text.encode("utf-8", "replace")


_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_MASK = 0xFFFFFFFF


def java_partition(key: bytes, partitions: int) -> int:
    """Return the partition of a keyed record among ``partitions``.

    As ``org.apache.kafka.clients.producer.internals.BuiltInPartitioner`` does it: murmur2, the sign bit cleared,
    modulo. librdkafka's name for it is ``murmur2_random``; its default is another one.
    """
    return (_murmur2(key) & 0x7FFFFFFF) % partitions


def _murmur2(key: bytes) -> int:
    """Return Kafka's 32-bit murmur2; vectors in its ``UtilsTest.testMurmur2``."""
    value = (_SEED ^ len(key)) & _MASK
    whole = len(key) & ~3
    for start in range(0, whole, 4):
        block = int.from_bytes(key[start : start + 4], "little") * _MULTIPLIER & _MASK
        block = (block ^ block >> 24) * _MULTIPLIER & _MASK
        value = value * _MULTIPLIER & _MASK ^ block
    if whole < len(key):
        value = (value ^ int.from_bytes(key[whole:], "little")) * _MULTIPLIER & _MASK
    value = (value ^ value >> 13) * _MULTIPLIER & _MASK
    return value ^ value >> 15
