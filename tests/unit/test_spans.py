"""Spans of time and moments, as options take them."""

from datetime import UTC, datetime, timedelta

import click
import pytest

from cdc_outbox.cli.options import moment


@pytest.mark.parametrize(
    ("text", "ago"), [("90s", timedelta(seconds=90)), ("1h", timedelta(hours=1)), ("2w", timedelta(weeks=2))]
)
def test_a_span_is_a_moment_so_long_ago(text: str, ago: timedelta) -> None:
    before = datetime.now(UTC)
    assert before - ago <= moment(text) <= datetime.now(UTC) - ago


def test_a_time_without_an_offset_is_utc() -> None:
    assert moment("2026-03-01T14:30:00") == datetime(2026, 3, 1, 14, 30, tzinfo=UTC)


@pytest.mark.parametrize("text", ["1", "1y", "-1h", "yesterday", "99999999w", "999999w"])
def test_what_is_neither_is_refused_with_both(text: str) -> None:
    with pytest.raises(click.BadParameter, match="no time such as 2026-03-01T14:30:00Z, or 1h for an hour ago"):
        moment(text)
