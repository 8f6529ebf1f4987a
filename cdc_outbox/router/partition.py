"""The partition that Java's default partitioner chooses for a key."""

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
