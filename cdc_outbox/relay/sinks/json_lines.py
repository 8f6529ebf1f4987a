"""A sink that writes each message as a line of JSON."""

import base64
import json
from io import TextIOBase
from typing import IO, Any

from cdc_outbox.message import Message
from cdc_outbox.relay.sinks.callable import CallableSink


class JsonLinesSink(CallableSink):
    """Writes a JSON object a line, flushed: topic, key, value, headers, partition and timestamp_ms.

    Bytes are texts, or objects such as ``{"base64": "AP8="}`` where they are not UTF-8.
    """

    def __init__(self, stream: IO[str] | TextIOBase) -> None:
        super().__init__(self._write)
        self._stream = stream

    def _write(self, message: Message) -> None:
        line = {
            "topic": message.topic,
            "key": _text(message.key),
            "value": _text(message.value),
            "headers": [[name, _text(value)] for name, value in message.headers],
            "partition": message.partition,
            "timestamp_ms": message.timestamp_ms,
        }
        # Escaped: a terminal obeys control characters.
        self._stream.write(json.dumps(line) + "\n")
        self._stream.flush()


def _text(value: bytes | None) -> Any:  # noqa: ANN401 - JSON
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}
