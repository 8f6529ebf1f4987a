"""Ids as the inbox remembers them: those that tell their time sort by it, before all others.

The id of our own events is a UUIDv7, whose first 48 bits are milliseconds since 1970 (RFC 9562, section 5.7): its text
sorts by time, so that the claims of a span of time lie in one partition, and to forget them is to drop it. An id of
another kind would fall into some partition by chance and be forgotten with it. So it is remembered behind a ``~``,
which sorts after every digit, and forgotten by the time at which it was claimed.
"""

import re
from datetime import UTC, datetime, timedelta

_TIMED = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
"""A UUIDv7 as our writer writes it."""
_UNTIMED = "~"
UNTIMED_LAG = timedelta(days=7)
"""How much later than the purge that is noted a claim of an id without a time may be, and be forgotten by it: that one
speaks of whole weeks."""


def key_of(event_id: str) -> str:
    """Return what stands in the inbox for an id."""
    return event_id if _TIMED.fullmatch(event_id) else _UNTIMED + event_id


def time_of(event_id: str) -> datetime | None:
    """Return when an id was made, ``None`` where it does not tell."""
    if not _TIMED.fullmatch(event_id):
        return None
    milliseconds = int(event_id[:8] + event_id[9:13], 16)
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, ValueError, OSError):  # beyond the calendar: later than any horizon
        return None


def bound_at(moment: datetime) -> str:
    """Return the key before which the ids lie that were made before a moment."""
    milliseconds = int(moment.timestamp() * 1000)
    digits = f"{milliseconds:012x}"
    return f"{digits[:8]}-{digits[8:]}-"
