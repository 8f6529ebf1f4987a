"""How long ids are remembered, and what they lie in."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_outbox.consumer import InboxTable, Limits
from cdc_outbox.consumer.limits import in_words, refuse_short_horizon
from cdc_outbox.consumer.ordering import bound_at
from cdc_outbox.databases.facts import PartitionFacts
from cdc_outbox.errors import ConfigError
from cdc_outbox.kafka.admin import retention_seconds
from cdc_outbox.operations.horizon import WEEK, Horizon, Part, missing_parts, parts_of, week_of

DAY = 86_400.0
INBOX = InboxTable()
NOW = datetime(2026, 11, 21, 13, 30, tzinfo=UTC)
MOMENTS = st.datetimes(datetime(2020, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


def test_a_topic_keeps_a_record_for_as_long_as_the_segment_that_it_lies_in() -> None:
    config = {"cleanup.policy": "delete", "retention.ms": "86400000", "segment.ms": "43200000"}
    assert retention_seconds(config) == 1.5 * DAY
    assert retention_seconds(config | {"cleanup.policy": "compact,delete"}) == 1.5 * DAY
    assert retention_seconds(config | {"cleanup.policy": "compact"}) is None
    assert retention_seconds(config | {"retention.ms": "-1"}) is None


@pytest.mark.parametrize(
    ("days", "kept", "words"),
    [
        (14, {"a": 14 * DAY}, ""),
        (30, {}, ""),
        (14, {"a": 14 * DAY, "b": 14.1 * DAY}, "b up to 14.1 days"),
        (10_000, {"b": None}, "b for ever"),
        (1, {f"t{number}": 2 * DAY for number in range(7)}, "t4 up to 2 days, and 2 more topics"),
    ],
)
def test_a_horizon_is_refused_that_a_topic_outlives(days: float, kept: dict[str, float | None], words: str) -> None:
    if not words:
        refuse_short_horizon(days, kept, field="x", hint="y")
        return
    with pytest.raises(ConfigError, match=words):
        refuse_short_horizon(days, kept, field="x", hint="y")


def test_a_horizon_of_no_time_is_refused_at_birth() -> None:
    with pytest.raises(ConfigError, match="horizon_days must be greater than 0") as caught:
        Limits(horizon_days=0)
    assert caught.value.field == "Limits.horizon_days"


@given(MOMENTS, st.floats(0.01, 1000))
def test_no_id_is_forgotten_that_is_younger_than_the_horizon(now: datetime, days: float) -> None:
    horizon = Horizon.at(now, days=days)
    made_before = now - timedelta(days=days)
    assert made_before - WEEK < horizon.made_before <= made_before
    assert horizon.made_before.weekday() == 0
    assert horizon.bound <= bound_at(made_before)


@given(MOMENTS)
def test_weeks_follow_one_another_without_a_gap(now: datetime) -> None:
    parts = list(missing_parts(INBOX, [], now))
    assert parts[0].start <= bound_at(now) < parts[0].end
    assert [part.start for part in parts[1:]] == [part.end for part in parts[:-1]]
    assert list(missing_parts(INBOX, parts, now)) == []
    assert parts[-1].end == bound_at(week_of(now) + 5 * WEEK)


def test_partitions_of_others_make_are_dropped_when_they_are_over_and_never_overlapped() -> None:
    week = week_of(NOW)
    bounds = {
        "inbox_old": f"FOR VALUES FROM (MINVALUE) TO ('{bound_at(week - 6 * WEEK)}')",
        "inbox_rest": "DEFAULT",
        "inbox_wide": f"FOR VALUES FROM ('{bound_at(week)}') TO (MAXVALUE)",
    }
    parts = parts_of(PartitionFacts("public", name, text, may_drop=True) for name, text in bounds.items())
    assert [part.table.name for part in parts] == ["inbox_old", "inbox_wide"]
    assert [part.table.name for part in Horizon.at(NOW, days=30).over(parts)] == ["inbox_old"]
    assert Horizon.at(NOW, days=60).over(parts) == []
    assert list(missing_parts(INBOX, parts, NOW)) == []
    assert Horizon.at(NOW, days=1).over([Part(INBOX.table, "0", bound_at(week))]) != []


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (86_400, "1 day"),
        (2_592_000, "30 days"),
        (3_600, "1 hour"),
        (5_400, "1.5 hours"),
        (90, "1.5 minutes"),
        (0.5, "0.5 seconds"),
    ],
)
def test_a_duration_is_told_in_its_largest_unit(seconds: float, words: str) -> None:
    assert in_words(seconds) == words
