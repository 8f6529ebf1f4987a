"""What may go, decided from marks and a delivery; no database is asked."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_outbox.databases.facts import SlotFacts
from cdc_outbox.databases.lsn import Lsn
from cdc_outbox.errors import ConfigError, UnprovenDeliveryError
from cdc_outbox.operations.delivery_proof import Checkpoint, DeliveryProof, decide
from cdc_outbox.operations.prune import PruneOptions
from cdc_outbox.operations.prune_by_slot import delivery_of, ends_at
from tests.support import database_facts

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SLOT = replace(database_facts.SLOT, confirmed=Lsn(7), reader=42, reader_since="1700000000.25")


def mark(position: int, reader: str = "42") -> Checkpoint[int]:
    return Checkpoint(
        position=position, oldest=100 + position, reader=reader, taken_at=NOON + timedelta(minutes=position)
    )


def delivery(confirmed: int, reader: str = "42") -> DeliveryProof[int]:
    return DeliveryProof(kind="slot", name="orders_outbox", confirmed=confirmed, reader=reader)


def test_the_newest_mark_that_was_passed_counts() -> None:
    watermarks = [mark(1), mark(2), mark(3)]
    assert decide(watermarks, delivery(3)).checkpoint == mark(3)
    assert decide(watermarks, delivery(3)).held_back == ""
    verdict = decide(watermarks, delivery(2))
    assert verdict.checkpoint == mark(2)
    assert verdict.held_back == "the slot orders_outbox is at 2, before the checkpoint 3 of 2026-01-01 12:03:00+0000"


def test_a_position_is_passed_when_it_is_reached_and_not_before() -> None:
    assert decide([mark(2)], delivery(2)).checkpoint == mark(2)
    assert decide([mark(2)], delivery(1)).checkpoint is None


def test_nothing_is_proven_while_nobody_reads() -> None:
    verdict = decide([mark(1), mark(1, reader="")], delivery(9, reader=""))
    assert verdict.checkpoint is None
    assert "no process reads the slot orders_outbox" in verdict.held_back


def test_a_mark_of_another_reader_proves_nothing() -> None:
    # The slot may have been dropped and made again between the two, and then it starts behind every mark.
    verdict = decide([mark(1, reader="41"), mark(2, reader="")], delivery(9))
    assert verdict.checkpoint is None
    assert "has changed since the checkpoint" in verdict.held_back
    assert decide([mark(1, reader="41"), mark(2)], delivery(9)).checkpoint == mark(2)
    assert decide([mark(1, reader="41"), mark(2)], delivery(1)).checkpoint is None


readers = st.sampled_from(["", "1", "2"])
watermarks = st.lists(st.builds(mark, st.integers(0, 9), readers))


@given(watermarks, st.integers(0, 9), readers)
def test_only_a_mark_that_its_own_reader_passed_counts(
    watermarks: list[Checkpoint[int]], confirmed: int, reader: str
) -> None:
    verdict = decide(watermarks, delivery(confirmed, reader))
    passed = [mark for mark in watermarks if reader and mark.reader == reader and mark.position <= confirmed]
    assert verdict.checkpoint == (passed[-1] if passed else None)
    assert verdict.checkpoint is not None or verdict.held_back


def test_a_slot_of_the_outbox_proves_as_far_as_it_confirmed() -> None:
    found = delivery_of("orders_outbox", SLOT, database="orders")
    assert found == DeliveryProof(
        kind="slot", name="orders_outbox", confirmed=Lsn(7), reader="42 1700000000.25", read_by="process 42"
    )


@pytest.mark.parametrize(
    ("slot", "words"),
    [
        (None, "does not exist"),
        (replace(SLOT, plugin="test_decoding"), "has the plugin test_decoding"),
        (replace(SLOT, plugin="", database=""), "is a physical slot"),
        (replace(SLOT, database="shipping"), "belongs to the database 'shipping', not to 'orders'"),
        (replace(SLOT, wal_status="lost"), "is lost: WAL that it needs was removed"),
        (replace(SLOT, wal_status="lost", invalidation="idle_timeout"), "is lost (idle_timeout)"),
        (replace(SLOT, confirmed=None), "confirms nothing"),
    ],
)
def test_a_slot_that_can_prove_nothing_is_refused(slot: SlotFacts | None, words: str) -> None:
    with pytest.raises(UnprovenDeliveryError, match="nothing was deleted") as caught:
        delivery_of("orders_outbox", slot, database="orders")
    assert words in str(caught.value)
    assert "deploy-connector" in caught.value.hint


@pytest.mark.parametrize(
    "wrong",
    [
        {"keep_seconds": -1.0},
        {"keep_seconds": float("nan")},
        {"wait_seconds": float("inf")},
        {"max_seconds": -0.1},
        {"batch_rows": 0},
        {"batch_rows": 2**31},
        {"limit_rows": 0},
    ],
)
def test_options_that_mean_nothing_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError) as caught:
        PruneOptions(**wrong)  # type: ignore[arg-type]
    assert caught.value.field == f"PruneOptions.{next(iter(wrong))}"


@pytest.mark.parametrize(
    ("bound", "end"),
    [
        (
            "FOR VALUES FROM (MINVALUE) TO ('01900000-0000-7000-8000-000000000000')",
            datetime(2024, 6, 10, 2, 35, 18, 400_000, tzinfo=UTC),
        ),
        (
            "FOR VALUES FROM ('01800000-0000-0000-0000-000000000000') TO ('01900000-0001-0000-0000-000000000000')",
            datetime(2024, 6, 10, 2, 35, 18, 401_000, tzinfo=UTC),
        ),
        ("FOR VALUES FROM ('01900000-0000-7000-8000-000000000000') TO (MAXVALUE)", None),
        ("FOR VALUES FROM ('2024-01-01') TO ('2024-02-01')", None),
        ("FOR VALUES FROM (MINVALUE) TO ('01900000-0000-4000-8000-000000000000')", None),
        ("DEFAULT", None),
    ],
)
def test_a_partition_ends_at_the_time_of_its_upper_bound(bound: str, end: datetime | None) -> None:
    assert ends_at(bound) == end
