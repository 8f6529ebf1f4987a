from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_outbox import ConfigError, OutboxTable
from cdc_outbox.contract.outbox_options import Partitions
from cdc_outbox.event import new_event_id
from cdc_outbox.writer.partitions import first_id, missing_partitions, wanted_partitions

DAILY, MONTHLY = OutboxTable(partitions=Partitions.DAY), OutboxTable(partitions=Partitions.MONTH)
moments = st.datetimes(datetime(1971, 1, 1), datetime(9000, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


def bounds(table: OutboxTable, now: datetime, ahead: int) -> dict[str, str]:
    return {
        partition.table.name: f"FOR VALUES FROM ('{partition.ids.start}') TO ('{partition.ids.end}')"
        for partition in wanted_partitions(table, now, ahead=ahead)
    }


def test_partitions_are_named_after_their_time() -> None:
    now = datetime(2027, 12, 30, 23, 59, tzinfo=UTC)
    assert list(bounds(DAILY, now, 3)) == [
        f"outbox_{day}" for day in ("2027_12_30", "2027_12_31", "2028_01_01", "2028_01_02")
    ]
    assert list(bounds(MONTHLY, now, 2)) == ["outbox_2027_12", "outbox_2028_01", "outbox_2028_02"]
    assert list(wanted_partitions(OutboxTable(), now, ahead=3)) == []


def test_the_day_is_that_of_utc() -> None:
    late = datetime(2027, 1, 1, 1, tzinfo=timezone(timedelta(hours=5)))
    assert list(bounds(MONTHLY, late, 0)) == ["outbox_2026_12"]


@given(moments, st.integers(0, 40), st.sampled_from([DAILY, MONTHLY]))
def test_partitions_follow_each_other_without_holes_and_hold_the_present(
    now: datetime, ahead: int, table: OutboxTable
) -> None:
    partitions = list(wanted_partitions(table, now, ahead=ahead))
    assert len({partition.table for partition in partitions}) == ahead + 1
    assert partitions[0].ids.start <= first_id(now) < partitions[0].ids.end
    for before, after in pairwise(partitions):
        assert before.ids.end == after.ids.start


def test_an_id_of_now_lies_in_the_present_partition() -> None:
    event_id = UUID(new_event_id())
    now = datetime.now(UTC)
    assert any(
        partition.ids.start <= event_id < partition.ids.end
        for partition in wanted_partitions(DAILY, now - timedelta(seconds=5), ahead=1)
    )


def test_what_is_there_is_not_missing() -> None:
    now = datetime(2027, 5, 5, tzinfo=UTC)
    there = bounds(DAILY, now, 2) | {"outbox_rest": "DEFAULT"}
    missing = list(missing_partitions(wanted_partitions(DAILY, now, ahead=3), there))
    assert [(partition.table.name, in_the_way) for partition, in_the_way in missing] == [("outbox_2027_05_08", "")]


def test_a_longer_partition_takes_its_days_and_a_shorter_one_is_in_the_way() -> None:
    now = datetime(2027, 5, 5, tzinfo=UTC)
    assert list(missing_partitions(wanted_partitions(DAILY, now, ahead=3), bounds(MONTHLY, now, 0))) == []
    [(month, in_the_way)] = missing_partitions(wanted_partitions(MONTHLY, now, ahead=0), bounds(DAILY, now, 0))
    assert (month.table.name, in_the_way) == ("outbox_2027_05", "outbox_2027_05_05")


def test_an_adopted_tables_partitions_are_not_ours() -> None:
    with pytest.raises(ConfigError, match="belong to its owner"):
        OutboxTable(adopted=True, partitions=Partitions.DAY)
