"""How commands print, and how an error becomes an exit code.

Everything passes through `say`, so that no text of others commands a terminal or a CI runner.
"""

import base64
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from secrets import token_hex
from typing import IO, Any

import click

from cdc_outbox.errors import CdcOutboxError, ConfigError
from cdc_outbox.redaction import safe_json, visible, visible_controls, visible_lines, without_commands

API_VERSION = "cdc-outbox/v1"
"""Of the JSON output: keys are added to it, never taken away or given another meaning."""

_SEAL = f"\ue000{token_hex(8)}"
_SEALED = re.compile(f"{_SEAL}([a-z]*);")
"""Stands for colours until a text is printed: no other text has it, and escape sequences in others are escaped."""


def say(text: object, *, err: bool = False, nl: bool = True, script: bool = False, file: IO[Any] | None = None) -> None:
    r"""Print a text; control characters but ``\n`` and ``\t`` are shown escaped.

    Args:
        script: Another program reads it, and it may hold a line that commands a CI runner.
    """
    shown = visible_lines(str(text), visible_controls) if script else without_commands(visible_lines(str(text)))
    coloured = _SEALED.sub(lambda seal: click.style("", fg=seal[1], reset=False) if seal[1] else click.style(""), shown)
    click.echo(coloured, err=err, nl=nl, file=file)  # noqa: TID251 - here alone


def document(kind: str, content: Mapping[str, object], *, indent: int | None = 2) -> str:
    """Return what ``--output json`` prints: one object of :data:`API_VERSION`, which says of what kind it is."""
    return safe_json({"apiVersion": API_VERSION, "kind": kind, **content}, indent=indent)


def paint(text: str, colour: str | None) -> str:
    """Return a text that :func:`say` prints in a colour on a terminal.

    It stays as it is where ``NO_COLOR`` is set, on a terminal that has no colours, and for ``None``.
    """
    if colour is None or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"{_SEAL}{colour};{text}{_SEAL};"


def in_columns(lines: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield lines whose cells stand below each other; the first has the titles."""
    shown = [[visible(cell) or "-" for cell in line] for line in lines]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for line in shown:
        yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()


def bytes_as_json(octets: bytes | None) -> str | dict[str, str] | None:
    """Return the text that bytes are; of those that are none, an object with ``base64`` in it."""
    try:
        return None if octets is None else octets.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(octets or b"").decode()}


ONE_WORD = 'A connection string is one argument: put it in quotation marks, as in --dsn "$ORDERS_DSN".'
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
    """Print the error on stderr, one finding a line, and its hint."""
    trace = getattr(error, "trace", "")
    if trace:
        # Blanks alone are not enough: GitHub's runner also executes a command behind them.
        say("\n".join(f"| {line}" for line in trace.rstrip().splitlines()), err=True)
    for finding in getattr(error, "findings", ()):
        say(str(finding), err=True)
    say(f"{paint('error:', 'red')} {error}", err=True)
    if error.hint:
        say(f"{paint('hint:', 'cyan')} {error.hint}", err=True)


def error_content(error: CdcOutboxError) -> dict[str, Any]:
    """Return an error for a document."""
    return {
        "kind": type(error).__name__,
        "message": str(error),
        "hint": error.hint,
        "retryable": error.retryable,
        "trace": getattr(error, "trace", ""),
        "findings": [str(finding) for finding in getattr(error, "findings", ())],
    }
