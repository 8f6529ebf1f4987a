"""``cdc-outbox consume``, and how its log records are written."""

import asyncio
import importlib
import logging
import signal
import sys
import traceback
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from cdc_outbox.cli.arguments import consumer_argument
from cdc_outbox.cli.output import say
from cdc_outbox.cli.progress import ProgressLine
from cdc_outbox.consumer import AsyncConsumer, Consumer, Outcome
from cdc_outbox.consumer.stats import LOG as STATS_LOG
from cdc_outbox.errors import ConfigError
from cdc_outbox.monitoring import MonitorServer
from cdc_outbox.redaction import safe_json, visible_lines, without_commands

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


_MAX_PORT = 65_535


@click.command()
@consumer_argument
@click.option("--verbose", "-v", is_flag=True, help="Log in detail, with the traceback of a failing handler.")
@click.option(
    "--log-format",
    type=click.Choice(sorted(FORMATS)),
    default="text",
    show_default=True,
    help="The format of log records: a line of text, or a JSON object.",
)
@click.option(
    "--listen",
    metavar="[HOST:]PORT",
    help="Serve /health and, if the consumer uses PrometheusMetrics, /metrics. HOST defaults to 127.0.0.1.",
)
def consume(target: str, *, verbose: bool, log_format: str, listen: str | None) -> None:
    """Run a consumer until SIGTERM or Ctrl-C.

    Before it stops, the consumer finishes its current batch. An AsyncConsumer runs in its own event loop. The log shows
    what the consumer reads, when it waits and when it continues; on a terminal, a line shows the progress of a long
    catch-up.

    \b
    Examples:
      cdc-outbox consume examples.orders.shipping:consumer
      cdc-outbox consume examples.orders.shipping:consumer --listen 0.0.0.0:8080
    """
    line = ProgressLine(sys.stderr)
    log = logging.StreamHandler()
    log.setFormatter(FORMATS[log_format]())
    log.addFilter(line)
    logging.basicConfig(level=logging.DEBUG if verbose else logging.WARNING, handlers=[log])
    if not verbose:
        log.addFilter(is_news)
        logging.getLogger(STATS_LOG).setLevel(logging.INFO)
    consumer = load(target)
    try:
        with _listening(listen, consumer), line.following(consumer):
            _run(consumer)
    finally:
        if consumer.outcomes or sys.exception() is None:
            say(f"{consumer.name}: {summary(consumer.outcomes)}", err=True)


def summary(outcomes: Mapping[Outcome, int]) -> str:
    """Return how many events had which outcome; parked events may have been applied since."""
    verb = {Outcome.PARKED: "was " if outcomes.get(Outcome.PARKED) == 1 else "were "}
    return ", ".join(f"{events:,} {verb.get(end, '')}{end}" for end, events in sorted(outcomes.items())) or "no events"


def _run(consumer: Consumer | AsyncConsumer) -> None:
    if isinstance(consumer, Consumer):
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda _number, _frame: consumer.stop())
        consumer.run()
        return

    async def run() -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, consumer.stop)
        await consumer.run()

    asyncio.run(run())


def _listening(listen: str | None, consumer: Consumer | AsyncConsumer) -> AbstractContextManager[object]:
    if listen is None:
        return nullcontext()
    host, _, port = listen.rpartition(":")
    if not port.isdecimal() or int(port) > _MAX_PORT:
        raise ConfigError(f"{listen!r} is not of the form host:port", field="--listen")
    metrics: Any = consumer.metrics  # which may be able to show itself, and need not
    shown = metrics if hasattr(metrics, "exposition") else None
    return MonitorServer(consumer, metrics=shown, host=host or "127.0.0.1", port=int(port))


def load(target: str) -> Consumer | AsyncConsumer:
    """Import a consumer.

    Raises:
        ConfigError: There is none, or its module fails at its import.
    """
    module, colon, attribute = target.partition(":")
    if not colon or not module or not attribute:
        raise ConfigError(
            f"{target!r} is not of the form module:attribute",
            field="TARGET",
            hint="For example orders.shipping:consumer.",
        )
    sys.path.insert(0, str(Path.cwd()))
    try:
        imported = importlib.import_module(module)
    except ModuleNotFoundError as error:
        # Only MODULE itself or a package above it: what it imports in turn is its own affair.
        if not f"{module}.".startswith(f"{error.name}."):
            raise _failed(module, error) from error
        raise ConfigError(
            f"there is no module {module!r} in the current folder or on Python's path",
            field="TARGET",
            hint="Run the command in the folder that contains the module, or install its package.",
        ) from error
    except Exception as error:
        raise _failed(module, error) from error
    try:
        found = getattr(imported, attribute)
    except AttributeError as error:
        raise ConfigError(f"the module {module} has no attribute {attribute!r}", field="TARGET") from error
    if not isinstance(found, Consumer | AsyncConsumer):
        raise ConfigError(
            f"{target} must be a Consumer or an AsyncConsumer, not {type(found).__name__}", field="TARGET"
        )
    return found


def _failed(module: str, error: Exception) -> ConfigError:
    """Return the error of a module that raised at its import, with the innermost line of the user's own."""
    logging.getLogger(__name__).debug("module import failed", exc_info=error)
    here = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(str(Path.cwd()))]
    location, reason = f"{Path(here[-1].filename).name}:{here[-1].lineno}: " if here else "", str(error)
    if isinstance(error, SyntaxError) and error.filename:  # in a file that never ran
        location, reason = f"{Path(error.filename).name}:{error.lineno}: ", error.msg
    remedy = "Check that every variable that it reads is set" if isinstance(error, KeyError) else "Correct the module"
    return ConfigError(
        f"the module {module} cannot be imported: {location}{type(error).__name__}: {reason}",
        field="TARGET",
        hint=f"{remedy}; --verbose shows the traceback.",
    )
