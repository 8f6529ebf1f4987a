"""Colour, where somebody looks who wants it; what is no terminal gets none in any case."""

import os

import click


def paint(text: str, colour: str | None) -> str:
    """Return a text in a colour, or as it is: where ``NO_COLOR`` is set, on a terminal that has none, for ``None``."""
    if colour is None or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return click.style(text, fg=colour)
