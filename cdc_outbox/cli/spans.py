"""Spans of time and moments, as options take them."""

import re
from datetime import UTC, datetime, timedelta

import click

_SPAN = re.compile(r"([0-9]{1,6})([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def seconds(text: str) -> float:
    """Read a number with its unit."""
    parts = _SPAN.fullmatch(text)
    if parts is None:
        raise click.BadParameter(f"{text!r} is not a number with one of the units s, m, h, d and w, such as 7d.")
    return float(parts[1]) * _SECONDS[parts[2]]


def moment(text: str) -> datetime:
    """Read a time in ISO 8601, where one without an offset is UTC, or a span such as ``1h``, which is so long ago."""
    try:
        if _SPAN.fullmatch(text):
            return datetime.now(UTC) - timedelta(seconds=seconds(text))
        read = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise click.BadParameter(f"{text!r} is no time such as 2026-03-01T14:30:00Z, or 1h for an hour ago.") from None
    return read if read.tzinfo is not None else read.replace(tzinfo=UTC)
