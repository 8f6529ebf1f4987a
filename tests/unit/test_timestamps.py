"""Times as headers say them, whatever the precision of their column."""

from datetime import UTC, datetime

import pytest

from cdc_outbox.formats.timestamps import from_header, to_microseconds

MOMENT = datetime(2026, 11, 12, 10, 0, 0, 123_456, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("1794477600123", MOMENT.replace(microsecond=123_000)),
        ("1794477600123456", MOMENT),
        ("1794477600123456700", MOMENT),
        ("2026-11-12T10:00:00.123456Z", MOMENT),
        ("2026-11-12T12:00:00.123456+02:00", MOMENT),
        ("2026-11-12T10:00:00.123456", MOMENT),
        ("-1", datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)),
    ],
)
def test_a_time_is_read_in_each_of_the_units(text: str, moment: datetime) -> None:
    assert from_header(text) == moment


@pytest.mark.parametrize("text", ["", "Sunday", "9" * 20, "1e9", "\u0661", "1 794 477 600 123"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - of two makes
        from_header(text)


def test_a_number_outside_the_calendar_is_refused() -> None:
    with pytest.raises(ValueError, match="calendar"):
        from_header("-" + "9" * 17)


def test_a_time_is_written_as_a_number_of_microseconds() -> None:
    assert to_microseconds(MOMENT) == 1_794_477_600_123_456
