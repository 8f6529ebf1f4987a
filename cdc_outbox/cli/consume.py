"""``cdc-outbox consume``."""

import importlib
import logging
import signal
import sys
import traceback
from pathlib import Path

import click

from cdc_outbox.consumer import Consumer
from cdc_outbox.errors import ConfigError, HandlerError


@click.command(short_help="Run a consumer until it is told to stop.")
@click.argument("target", metavar="MODULE:ATTRIBUTE")
@click.option("--verbose", "-v", is_flag=True, help="Log what happens, with the traceback of a failing handler.")
def consume(target: str, *, verbose: bool) -> None:
    """Import a Consumer and run it until SIGTERM or Ctrl-C; the event at hand is finished first.

    MODULE is looked for in the current folder too.

    \b
    Example:
      cdc-outbox consume examples.orders.shipping:consumer
    """
    log = logging.StreamHandler()
    log.setFormatter(Fields())
    logging.basicConfig(level=logging.DEBUG if verbose else logging.WARNING, handlers=[log])
    consumer = load(target)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: consumer.stop())
    try:
        consumer.run()
    except HandlerError as error:
        error.hint = error.hint or "Run it with --verbose to see the traceback."
        raise
    finally:
        counts = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(consumer.outcomes.items()))
        if counts or sys.exception() is None:
            click.echo(f"{consumer.name}: {counts or 'no events'}", err=True)


class Fields(logging.Formatter):
    """One line a record: the constant message, and behind it the fields that it was logged with."""

    _STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """Return the line without the traceback."""
        fields = [f"{name}={value}" for name, value in vars(record).items() if name not in self._STANDARD]
        return " ".join([super().formatMessage(record), *fields])


def load(target: str) -> Consumer:
    """Import a consumer.

    Raises:
        ConfigError: There is none, or its module fails at its import.
    """
    module, colon, attribute = target.partition(":")
    if not colon or not module or not attribute:
        raise ConfigError(f"{target!r} is not of the form module:attribute", field="TARGET")
    sys.path.insert(0, str(Path.cwd()))
    try:
        imported = importlib.import_module(module)
    except ModuleNotFoundError as error:
        # Only MODULE itself or a package above it: what it imports in turn is its own affair.
        if not f"{module}.".startswith(f"{error.name}."):
            raise _failed(module, error) from error
        raise ConfigError(f"there is no module {module!r} here", field="TARGET") from error
    except Exception as error:
        raise _failed(module, error) from error
    try:
        found = getattr(imported, attribute)
    except AttributeError as error:
        raise ConfigError(f"the module {module} has no {attribute!r}", field="TARGET") from error
    if not isinstance(found, Consumer):
        raise ConfigError(f"{target} is a {type(found).__name__}, not a Consumer", field="TARGET")
    return found


def _failed(module: str, error: Exception) -> ConfigError:
    """Return the error of a module that raised at its import, with the innermost line of the user's own."""
    logging.getLogger(__name__).debug("the module failed at its import", exc_info=error)
    here = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(str(Path.cwd()))]
    place = f"{Path(here[-1].filename).name}:{here[-1].lineno}: " if here else ""
    return ConfigError(
        f"the module {module} cannot be imported: {place}{type(error).__name__}: {error}",
        field="TARGET",
        hint="Is every variable set that it reads? --verbose shows the traceback.",
    )
