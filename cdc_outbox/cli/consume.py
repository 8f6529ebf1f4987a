"""``cdc-outbox consume``."""

import importlib
import logging
import os
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from cdc_outbox.cli.arguments import consumer_argument
from cdc_outbox.cli.output import ExitCode, say
from cdc_outbox.cli.progress import ProgressLine
from cdc_outbox.cli.running import (
    listen_option,
    listening,
    log_format_option,
    start_log,
    until_signal,
)
from cdc_outbox.consumer import AsyncConsumer, Consumer, Outcome
from cdc_outbox.consumer.stats import LOG as STATS_LOG
from cdc_outbox.errors import ConfigError


@click.command()
@consumer_argument
@click.option("--verbose", "-v", is_flag=True, help="Log in detail; also the traceback of a failing handler.")
@log_format_option
@listen_option("if the consumer uses PrometheusMetrics")
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
    start_log(log_format, logging.DEBUG if verbose else logging.WARNING).addFilter(line)
    if not verbose:
        logging.getLogger(STATS_LOG).setLevel(logging.INFO)
    consumer = load(target)
    metrics: Any = consumer.metrics  # which may be able to show itself, and need not
    try:
        with listening(listen, consumer, metrics if hasattr(metrics, "exposition") else None), line.following(consumer):
            _run(consumer)
    finally:
        if consumer.outcomes or sys.exception() is None:
            say(f"{consumer.name}: {summary(consumer.outcomes)}", err=True)


def summary(outcomes: Mapping[Outcome, int]) -> str:
    """Return how many events had which outcome; parked events may have been applied since."""
    verb = {Outcome.PARKED: "was " if outcomes.get(Outcome.PARKED) == 1 else "were "}
    return ", ".join(f"{events:,} {verb.get(end, '')}{end}" for end, events in sorted(outcomes.items())) or "no events"


def _run(consumer: Consumer | AsyncConsumer) -> None:
    created_at = consumer.progress().started_at

    def stop() -> None:
        if consumer.progress().started_at == created_at:
            os._exit(ExitCode.DONE)  # it has not joined its group: do not wait for a server that does not answer
        consumer.stop()

    until_signal(consumer.run, stop)


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
