"""``cdc-outbox consume``."""

import importlib
import logging
import signal
import sys
from pathlib import Path

import click

from cdc_outbox.consumer import Consumer
from cdc_outbox.errors import ConfigError


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
    logging.basicConfig(
        level=logging.DEBUG if verbose else logging.WARNING, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    consumer = _load(target)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: consumer.stop())
    try:
        consumer.run()
    finally:
        counts = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(consumer.outcomes.items()))
        click.echo(f"{consumer.name}: {counts or 'no events'}", err=True)


def _load(target: str) -> Consumer:
    module, colon, attribute = target.partition(":")
    if not colon or not module or not attribute:
        raise ConfigError(f"{target!r} is not of the form module:attribute", field="TARGET")
    sys.path.insert(0, str(Path.cwd()))
    try:
        imported = importlib.import_module(module)
    except ModuleNotFoundError as error:
        # Only MODULE itself or a package above it: what it imports in turn is its own affair.
        if not f"{module}.".startswith(f"{error.name}."):
            raise
        raise ConfigError(f"there is no module {module!r} here", field="TARGET") from error
    try:
        found = getattr(imported, attribute)
    except AttributeError as error:
        raise ConfigError(f"the module {module} has no {attribute!r}", field="TARGET") from error
    if not isinstance(found, Consumer):
        raise ConfigError(f"{target} is a {type(found).__name__}, not a Consumer", field="TARGET")
    return found
