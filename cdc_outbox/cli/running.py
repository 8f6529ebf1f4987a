"""Commands that run until a signal: how they log, serve ``/health``, and stop."""

import asyncio
import inspect
import logging
import signal
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from functools import partial
from types import FrameType
from typing import Any, NoReturn, TypeVar

import click

from cdc_outbox.errors import ConfigError
from cdc_outbox.monitoring import Exposition, MonitorServer
from cdc_outbox.redaction import safe_json, visible_lines, without_commands
from cdc_outbox.telemetry import Monitored

FC = TypeVar("FC", bound=Callable[..., Any] | click.Command)
_MAX_PORT = 65_535
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
    """Leave out what librdkafka says of connections at each attempt, for the consumer or relay says it once itself.

    Why a login or a certificate is refused only librdkafka tells.
    """
    text = record.getMessage()
    is_attempt = text.startswith("FAIL") or (text.startswith("GETPID") and text.endswith("retrying"))
    return not (record.name.endswith(".librdkafka") and is_attempt) or "SASL" in text or "SSL" in text


def _quoted(text: str) -> str:
    """Return a text that is more than a word as JSON writes it, so that it is seen where it ends."""
    return text if text and text.isprintable() and not set(' "=') & set(text) else safe_json(text)


FORMATS = {"json": JsonLines, "text": TextLines}


def start_log(log_format: str, level: int) -> logging.StreamHandler[Any]:
    """Write log records of this level and above to stderr, and return what writes them.

    Below DEBUG it leaves out what librdkafka says at each attempt.
    """
    log = logging.StreamHandler()
    log.setFormatter(FORMATS[log_format]())
    logging.basicConfig(level=level, handlers=[log])
    if level > logging.DEBUG:
        log.addFilter(is_news)
    return log


def listening(listen: str | None, running: Monitored, metrics: Exposition | None) -> AbstractContextManager[object]:
    """Return a server of ``/health``, and of ``/metrics`` if there are any, while the block lasts.

    Args:
        listen: ``[HOST:]PORT``; ``None`` serves nothing.
    """
    if listen is None:
        return nullcontext()
    host, _, port = listen.rpartition(":")
    if not port.isdecimal() or int(port) > _MAX_PORT:
        raise ConfigError(f"{listen!r} is not of the form host:port", field="--listen")
    return MonitorServer(running, metrics=metrics, host=host or "127.0.0.1", port=int(port))


def interrupt() -> NoReturn:
    """Do what Ctrl-C does by default."""
    raise KeyboardInterrupt


def stop_at_signals(stop: Callable[[], object], *others: signal.Signals) -> None:
    """Have the first of SIGTERM, Ctrl-C and others call a function, and ignore all of them from then on."""

    def handle(first: int, _frame: FrameType | None) -> None:
        for number in numbers:
            # Not SIG_IGN: Python complains of a signal that came before and would be handled after.
            signal.signal(number, lambda _number, _frame: None)
        signal.signal(first, signal.SIG_IGN)  # Python drops handlers while it exits: a repeated signal would kill it
        stop()

    numbers = (signal.SIGTERM, signal.SIGINT, *others)
    for number in numbers:
        signal.signal(number, handle)


def until_signal(run: Callable[[], Any], stop: Callable[[], object]) -> Any:  # noqa: ANN401 - what it returns
    """Call a function, in an event loop if it is a coroutine function, and have signals call another one meanwhile."""
    if not inspect.iscoroutinefunction(run):
        stop_at_signals(stop)
        return run()

    async def in_loop() -> Any:  # noqa: ANN401
        stop_at_signals(partial(asyncio.get_running_loop().call_soon_threadsafe, stop))
        return await run()

    return asyncio.run(in_loop())


log_format_option = click.option(
    "--log-format",
    type=click.Choice(sorted(FORMATS)),
    default="text",
    show_default=True,
    help="The format of log records: a line of text, or a JSON object.",
)


def listen_option(metrics: str) -> Callable[[FC], FC]:
    """Return the option ``--listen``.

    Args:
        metrics: When there are ``/metrics``, for the help.
    """
    return click.option(
        "--listen",
        metavar="[HOST:]PORT",
        help=f"Serve /health and /metrics: the latter {metrics}. HOST defaults to 127.0.0.1.",
    )
