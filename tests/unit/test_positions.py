"""A connector's slot beside its stored offset, of any connector on PostgreSQL."""

from dataclasses import replace

import pytest

from cdc_outbox.connect.positions import Positions
from cdc_outbox.databases.lsn import Lsn
from cdc_outbox.debezium.slot_plan import StoredOffset
from tests.support import database_facts

SLOT = replace(database_facts.SLOT, name="s", confirmed=Lsn(100), log_end=Lsn(400))
FITTING = Positions(
    config={"name": "orders", "slot.name": "s", "database.dbname": "orders", "snapshot.mode": "no_data"},
    slot=SLOT,
    stored=StoredOffset(Lsn(100)),
    log_end=Lsn(500),
    database="orders",
)
OWING = {"snapshot.mode": "initial_only", "snapshot.select.statement.overrides": "public.outbox"}
IN_SNAPSHOT = StoredOffset(Lsn(100), in_snapshot=True)


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (FITTING, None),
        (replace(FITTING, slot=None), "DB512"),
        (replace(FITTING, slot=None, config={**FITTING.config, "database.dbname": "${env:NAME}"}), "DB512"),
        (replace(FITTING, slot=None, stored=None), None),
        (replace(FITTING, slot=None, stored=None, rows=2), "DB511"),
        (replace(FITTING, slot=replace(SLOT, wal_status="lost"), stored=None, rows=2), "DB511"),
        (replace(FITTING, slot=replace(SLOT, wal_status="lost")), "DB512"),
        (replace(FITTING, slot=replace(SLOT, confirmed=Lsn(101))), "DB513"),
        (replace(FITTING, slot=replace(SLOT, confirmed=Lsn(101), reader=7)), None),
        (replace(FITTING, stored=StoredOffset(Lsn(501))), "DB514"),
        (replace(FITTING, stored=StoredOffset(Lsn(450))), None),
        (replace(FITTING, config={**FITTING.config, **OWING}), "DB515"),
        (replace(FITTING, stored=IN_SNAPSHOT), "DB515"),
    ],
)
def test_what_a_connector_would_leave_out_is_a_hole(found: Positions, code: str | None) -> None:
    hole = found.find_hole()
    assert (None if hole is None else hole.code) == code


def test_a_slot_that_is_missing_in_another_database_is_no_hole() -> None:
    """One DSN is given, and connectors of several databases are looked at."""
    assert replace(FITTING, slot=None, database="billing").find_hole() is None


@pytest.mark.parametrize("mode", [{}, {"snapshot.mode": "initial"}, {"snapshot.mode": "always"}])
def test_a_snapshot_that_is_taken_again_is_no_hole(mode: dict[str, str]) -> None:
    config = {name: value for name, value in FITTING.config.items() if name != "snapshot.mode"}
    assert replace(FITTING, config={**config, **mode}, stored=IN_SNAPSHOT).find_hole() is None
