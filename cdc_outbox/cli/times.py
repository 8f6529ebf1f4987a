"""Times and durations, as every option takes them."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import click

_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)(ms|[smhdw])")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}


class Duration(click.ParamType[float]):
    """A number with its unit, such as ``500ms`` or ``7d``; commands get seconds.

    Args:
        least: The shortest that is taken, as an option takes it.
        most: The longest.
        is_open: Whether it must be longer than ``least``.
    """

    name = "duration"

    def __init__(self, least: str = "0s", most: str | None = None, *, is_open: bool = False) -> None:
        self.least, self.most, self.is_open = least, most, is_open

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ANN401 - click's
        """Return the seconds."""
        if isinstance(value, float):
            return value
        found = _read(value)
        if found is None:
            self.fail(f"{value!r} is not a number with one of the units ms, s, m, h, d and w, such as 30s.", param, ctx)
        least, most = _read(self.least) or 0.0, _read(self.most or "")
        if found < least or (self.is_open and found == least):
            self.fail(f"{value!r} is not {'more than' if self.is_open else 'at least'} {self.least}.", param, ctx)
        if most is not None and found > most:
            self.fail(f"{value!r} is more than {self.most}.", param, ctx)
        return found


class Time(click.ParamType[datetime]):
    """A time in ISO 8601, which is UTC without an offset, or a duration such as ``1h``, which is so long ago."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:  # noqa: ANN401 - click's
        """Return the time, which knows its offset."""
        if isinstance(value, datetime):
            return value
        try:
            ago = _read(value)
            if ago is not None:
                return datetime.now(UTC) - timedelta(seconds=ago)
            read = datetime.fromisoformat(value)
        except (ValueError, OverflowError):
            self.fail(
                f"{value!r} is not a time such as 2026-03-01T14:30:00Z, nor a duration such as 1h for an hour ago.",
                param,
                ctx,
            )
        return read if read.tzinfo is not None else read.replace(tzinfo=UTC)


def _read(text: str) -> float | None:
    parts = _DURATION.fullmatch(text)
    return None if parts is None else float(parts[1]) * _SECONDS[parts[2]]
