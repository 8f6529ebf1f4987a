"""Times as Debezium writes them: whole numbers since 1970, in UTC."""

import re
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND, _MICROSECOND = timedelta(milliseconds=1), timedelta(microseconds=1)
_NUMBER = re.compile(r"-?[0-9]{1,19}")
_MILLISECOND_DIGITS, _MICROSECOND_DIGITS = 14, 17
"""The most digits of a number of milliseconds and of microseconds: up to the year 5138."""
_USUAL_DIGITS = 16
"""The digits of a number of microseconds from 2001 to 2286."""
_NANOSECONDS_PER_MICROSECOND = 1_000


def from_header(text: str) -> datetime:
    """Return the time that a header says: a number since 1970, or ISO 8601 (UTC where it names no zone).

    The unit of a number follows from the precision of its column, which no reader knows: Debezium sends milliseconds
    for up to 3 digits of a second, microseconds for up to 6, else nanoseconds. For times after 1973 the length of the
    number tells them apart.

    Raises:
        ValueError: It is no time, or lies outside the calendar.
    """
    if len(text) == _USUAL_DIGITS and text.isdecimal() and text.isascii():  # nearly every header
        return _EPOCH + timedelta(microseconds=int(text))
    if not _NUMBER.fullmatch(text):
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    number, digits = int(text), len(text.lstrip("-"))
    try:
        if digits <= _MILLISECOND_DIGITS:
            return _EPOCH + number * _MILLISECOND
        if digits <= _MICROSECOND_DIGITS:
            return _EPOCH + number * _MICROSECOND
        return _EPOCH + number // _NANOSECONDS_PER_MICROSECOND * _MICROSECOND
    except OverflowError as error:
        raise ValueError("the time is outside the calendar") from error


def from_milliseconds(number: int) -> datetime:
    """Return the time that a record's timestamp says.

    Raises:
        OverflowError: It lies outside the calendar.
    """
    return _EPOCH + number * _MILLISECOND


def to_milliseconds(moment: datetime) -> int:
    """Return the milliseconds since 1970, cut towards 1970 as Java's division does it."""
    elapsed = moment - _EPOCH
    whole = abs(elapsed) // _MILLISECOND
    return -whole if elapsed < timedelta() else whole


def to_microseconds(moment: datetime) -> int:
    """Return the microseconds since 1970."""
    return (moment - _EPOCH) // _MICROSECOND
