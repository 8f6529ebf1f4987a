"""What follows from a server's replication slots, of values."""

from dataclasses import replace
from typing import Any

import pytest

from cdc_outbox.databases.facts import SlotFacts
from cdc_outbox.databases.lsn import Lsn
from cdc_outbox.databases.slots import ReplicationSlots
from tests.support.database_facts import SLOT

OTHER = replace(SLOT, name="other", restart=Lsn(40), log_end=Lsn(100))


def slots(*found: SlotFacts) -> ReplicationSlots:
    return ReplicationSlots(
        database="orders", log_end=Lsn(100), limit=3, slots={slot.name: slot for slot in (SLOT, *found)}
    )


def test_a_slot_is_found_by_its_name_and_the_rest_may_be_made() -> None:
    assert slots().find(SLOT.name) == SLOT
    assert slots().find("other") is None
    assert slots(OTHER).free == 1


@pytest.mark.parametrize(
    ("change", "is_another", "is_idle"),
    [
        ({}, True, True),
        ({"reader": 7}, True, False),
        ({"is_temporary": True}, True, False),
        ({"wal_status": "lost"}, True, False),
        ({"plugin": ""}, False, False),
        ({"plugin": "test_decoding"}, False, False),
        ({"database": "billing"}, False, False),
    ],
)
def test_others_are_what_a_connector_could_read_and_idle_is_what_keeps_wal_for_none(
    *, change: dict[str, Any], is_another: bool, is_idle: bool
) -> None:
    found = slots(replace(OTHER, **change))
    assert [slot.name for slot in found.others(SLOT.name)] == ["other"] * is_another
    assert found.idle(SLOT.name) == ({"other": 60} if is_idle else {})


@pytest.mark.parametrize(
    ("slot", "unconfirmed", "kept"),
    [
        (OTHER, 99, 60),
        (replace(OTHER, confirmed=None), None, 60),
        (replace(OTHER, confirmed=Lsn(101)), 0, 60),
        (replace(OTHER, restart=None), 99, 0),
        (replace(OTHER, wal_status="lost", restart=None), 99, None),
        (replace(OTHER, wal_status=""), 99, None),
    ],
)
def test_a_slots_lag_is_its_distance_from_the_logs_end(
    slot: SlotFacts, unconfirmed: int | None, kept: int | None
) -> None:
    assert (slot.unconfirmed_bytes, slot.kept_bytes) == (unconfirmed, kept)
