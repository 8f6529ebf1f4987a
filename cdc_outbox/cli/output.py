"""How commands print: everything passes through `say`, so that no text of others commands a terminal or a CI runner."""

import os
import re
from collections.abc import Mapping
from secrets import token_hex
from typing import IO, Any

import click

from cdc_outbox.safe_text import safe_json, visible_controls, visible_lines, without_commands

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
