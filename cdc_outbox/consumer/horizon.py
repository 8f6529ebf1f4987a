"""How long ids are remembered, held against how long their events can come again. Pure."""

from collections.abc import Mapping

from cdc_outbox.errors import ConfigError

DAY_SECONDS = 86_400
_NAMED = 5
"""Topics that an error lists."""


def refuse_short_horizon(days: float, kept_seconds: Mapping[str, float | None], *, field: str, hint: str) -> None:
    """Refuse to forget ids whose events a topic may still hold: read again, they would be nothing but unknown.

    Args:
        days: After how many ids may be forgotten.
        kept_seconds: How long each topic may keep a record, ``None`` for ever.

    Raises:
        ConfigError: A topic keeps its records for longer.
    """
    longer = {
        topic: seconds
        for topic, seconds in sorted(kept_seconds.items())
        if seconds is None or seconds > days * DAY_SECONDS
    }
    if longer:
        named = [f"{topic} {_days(seconds)}" for topic, seconds in list(longer.items())[:_NAMED]]
        more = f", and {len(longer) - _NAMED:,} topics more" if len(longer) > _NAMED else ""
        raise ConfigError(
            f"a horizon of {days:g} days is shorter than events are kept (retention.ms and segment.ms): "
            f"{', '.join(named)}{more}",
            field=field,
            hint=hint,
        )


def _days(seconds: float | None) -> str:
    if seconds is None:
        return "for ever"
    return f"up to {seconds / DAY_SECONDS:,.3g} days"
