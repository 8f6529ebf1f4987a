"""How an error becomes an exit code and what is said about it."""

from enum import IntEnum

from cdc_outbox.cli.output import paint, say
from cdc_outbox.errors import CdcOutboxError, ConfigError

ONE_WORD = 'A connection string is one word: put it in quotation marks, as in --dsn "$ORDERS_DSN".'
"""What to do where a shell has taken a connection string apart."""


class ExitCode(IntEnum):
    """What the command's end means."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    DIFFERENCES = 3
    RETRY = 75
    INTERRUPTED = 130


def exit_code_of(error: CdcOutboxError) -> ExitCode:
    """Return the code for an error."""
    if error.retryable:
        return ExitCode.RETRY
    return ExitCode.USAGE if isinstance(error, ConfigError) else ExitCode.FAILED


def complain(error: CdcOutboxError) -> None:
    """Say what is wrong, one finding a line, and what can be done."""
    trace = getattr(error, "trace", "")
    if trace:
        # Not by blanks alone: what is behind them is a command to GitHub's runner, too.
        say("\n".join(f"| {line}" for line in trace.rstrip().splitlines()), err=True)
    for finding in getattr(error, "findings", ()):
        say(str(finding), err=True)
    say(f"{paint('error:', 'red')} {error}", err=True)
    if error.hint:
        say(f"{paint('hint:', 'cyan')} {error.hint}", err=True)
