"""Times and durations, as options take them."""

from datetime import UTC, datetime, timedelta

import click
import pytest

from cdc_outbox.cli.times import Duration, Time


def time(text: str) -> datetime:
    return Time().convert(text, None, None)


def seconds(text: str, kind: Duration) -> float:
    return kind.convert(text, None, None)


@pytest.mark.parametrize(
    ("text", "ago"), [("90s", timedelta(seconds=90)), ("1h", timedelta(hours=1)), ("2w", timedelta(weeks=2))]
)
def test_a_duration_is_a_time_so_long_ago(text: str, ago: timedelta) -> None:
    before = datetime.now(UTC)
    assert before - ago <= time(text) <= datetime.now(UTC) - ago


def test_a_time_without_an_offset_is_utc() -> None:
    assert time("2026-03-01T14:30:00") == datetime(2026, 3, 1, 14, 30, tzinfo=UTC)


@pytest.mark.parametrize("text", ["1", "1y", "-1h", "yesterday", "99999999w", "999999w"])
def test_what_is_neither_is_refused_with_both(text: str) -> None:
    with pytest.raises(
        click.BadParameter, match="not a time such as 2026-03-01T14:30:00Z, nor a duration such as 1h for an hour ago"
    ):
        time(text)


@pytest.mark.parametrize(
    ("text", "there"),
    [
        ("0s", 0),
        ("500ms", 0.5),
        ("0.3s", 0.3),
        ("90s", 90),
        ("5m", 300),
        ("12h", 43_200),
        ("7d", 604_800),
        ("2w", 1_209_600),
    ],
)
def test_a_duration_is_a_number_with_its_unit(text: str, there: float) -> None:
    assert seconds(text, Duration()) == pytest.approx(there)


@pytest.mark.parametrize("text", ["0", "60", "1e9", "-1s", "s", "1 s", ".5s", "1y", "7D", "1h30m", "\u0661s"])
def test_a_number_without_a_unit_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a number with one of the units"):
        seconds(text, Duration())


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        (Duration("100ms"), "99ms", "is not at least 100ms"),
        (Duration(is_open=True), "0s", "is not more than 0s"),
        (Duration(most="10000d"), "10001d", "is more than 10000d"),
    ],
)
def test_a_duration_out_of_bounds_is_refused_with_the_bound(kind: Duration, text: str, reason: str) -> None:
    with pytest.raises(click.BadParameter, match=reason):
        seconds(text, kind)
