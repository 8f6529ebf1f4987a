"""How log records are written: the constant message, and the fields that it was logged with."""

import logging
from collections.abc import Mapping
from datetime import UTC, datetime

from cdc_outbox.safe_text import safe_json, visible_lines, without_commands

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def fields_of(record: logging.LogRecord) -> Mapping[str, object]:
    """Return what a record was logged with beside its message."""
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}


class TextLines(logging.Formatter):
    """One line a record: the constant message, and behind it the fields that it was logged with."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, and those of a traceback."""
        return without_commands(visible_lines(super().format(record)))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """Return the line without the traceback."""
        fields = [f"{name}={_quoted(str(value))}" for name, value in fields_of(record).items()]
        return " ".join([super().formatMessage(record), *fields])


class JsonLines(logging.Formatter):
    """One object a line, with what :class:`TextLines` shows as its members; times are in UTC."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        members: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **fields_of(record),
        }
        if record.exc_info:
            members["traceback"] = self.formatException(record.exc_info)
        return safe_json(members, default=str)


def is_news(record: logging.LogRecord) -> bool:
    """Leave out what librdkafka says of connections at each attempt, for the consumer says it once itself.

    Why a login or a certificate is refused only librdkafka tells.
    """
    text = record.getMessage()
    return not (record.name.endswith(".librdkafka") and text.startswith("FAIL")) or "SASL" in text or "SSL" in text


def _quoted(text: str) -> str:
    """Return a text that is more than a word as JSON writes it, so that it is seen where it ends."""
    return text if text and text.isprintable() and not set(' "=') & set(text) else safe_json(text)


FORMATS = {"json": JsonLines, "text": TextLines}
