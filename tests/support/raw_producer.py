"""Records that the Python client cannot produce: librdkafka's C API takes any bytes as a header's name."""

import ctypes
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Self

import confluent_kafka

from tests.support.patience import patience

_PRODUCER = 0
# The tags of rd_kafka_producev: https://github.com/confluentinc/librdkafka/blob/master/src/rdkafka.h
_END, _TOPIC, _PARTITION, _VALUE, _KEY, _FLAGS, _HEADERS = 0, 1, 3, 4, 5, 7, 10
_COPY = 2


class RawProducer:
    """A producer of records whose keys, values and headers, names among them, are any bytes, or none."""

    def __init__(self, servers: str) -> None:
        library, reason = _library(), ctypes.create_string_buffer(512)
        conf = library.rd_kafka_conf_new()
        assert library.rd_kafka_conf_set(conf, b"bootstrap.servers", servers.encode(), reason, len(reason)) == 0, reason
        self._producer = library.rd_kafka_new(_PRODUCER, conf, reason, len(reason))
        assert self._producer, reason.value

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        _library().rd_kafka_destroy(self._producer)

    def produce(
        self,
        topic: str,
        partition: int,
        *,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[bytes, bytes | None]],
    ) -> None:
        """Hand over one record."""
        library = _library()
        added = library.rd_kafka_headers_new(len(headers))
        for name, text in headers:
            assert library.rd_kafka_header_add(added, name, _size(name), text, _size(text)) == 0
        refused = library.rd_kafka_producev(
            ctypes.c_void_p(self._producer),
            *(_TOPIC, ctypes.c_char_p(topic.encode())),
            *(_PARTITION, ctypes.c_int32(partition)),
            *(_VALUE, ctypes.c_char_p(value), _size(value)),
            *(_KEY, ctypes.c_char_p(key), _size(key)),
            *(_FLAGS, _COPY),
            *(_HEADERS, ctypes.c_void_p(added)),
            _END,
        )
        assert refused == 0

    def flush(self) -> None:
        """Wait until the brokers have every record."""
        assert _library().rd_kafka_flush(self._producer, int(patience() * 1000)) == 0


def produce(
    servers: str,
    topic: str,
    partition: int,
    *,
    key: bytes,
    value: bytes,
    headers: Sequence[tuple[bytes, bytes]],
) -> None:
    """Produce one record, and wait until the brokers have it."""
    with RawProducer(servers) as producer:
        producer.produce(topic, partition, key=key, value=value, headers=headers)
        producer.flush()


def _size(text: bytes | None) -> ctypes.c_ssize_t:
    return ctypes.c_ssize_t(len(text or b""))


@cache
def _library() -> ctypes.CDLL:
    [path] = (Path(confluent_kafka.__file__).parents[1] / "confluent_kafka.libs").glob("librdkafka-*")
    library, pointer = ctypes.CDLL(str(path)), ctypes.c_void_p
    for name, result, arguments in (
        ("rd_kafka_conf_new", pointer, []),
        (
            "rd_kafka_conf_set",
            ctypes.c_int,
            [pointer, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t],
        ),
        ("rd_kafka_new", pointer, [ctypes.c_int, pointer, ctypes.c_char_p, ctypes.c_size_t]),
        ("rd_kafka_headers_new", pointer, [ctypes.c_size_t]),
        (
            "rd_kafka_header_add",
            ctypes.c_int,
            [pointer, ctypes.c_char_p, ctypes.c_ssize_t, ctypes.c_char_p, ctypes.c_ssize_t],
        ),
        ("rd_kafka_producev", ctypes.c_int, None),
        ("rd_kafka_flush", ctypes.c_int, [pointer, ctypes.c_int]),
        ("rd_kafka_destroy", None, [pointer]),
    ):
        function = getattr(library, name)
        function.restype = result
        if arguments is not None:
            function.argtypes = arguments
    return library
