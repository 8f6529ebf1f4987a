"""What a preflight makes of a database's and Connect's answers; neither is there."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest

from cdc_outbox.connect import preflight
from cdc_outbox.connect.client import ConnectorStatus
from cdc_outbox.connect.plan import Found
from cdc_outbox.connect.preflight import Connected, look_at_postgresql
from cdc_outbox.databases.facts import ColumnFacts, DatabaseFacts, WrittenFacts
from cdc_outbox.databases.lsn import Lsn
from cdc_outbox.databases.slots import ReplicationSlots
from cdc_outbox.spec import Spec, parse_spec
from tests.support.database_facts import COLUMNS, GOOD, PUBLICATION, SLOT, TABLE
from tests.support.specs import MINIMAL

FACTS = replace(GOOD, slot=replace(SLOT, confirmed=Lsn(100)), written=WrittenFacts(rows=2))


class TellingDatabase:
    """A database that answers, and asks for the column that events are known by."""

    def __init__(self, facts: DatabaseFacts) -> None:
        self._facts = facts
        self.publishers = Mock(find_relayed=Mock(return_value=None))

    def refuse_changes(self) -> None:
        """Change nothing anyway."""

    def read_surroundings(self) -> DatabaseFacts:
        return self._facts

    def read_written(self) -> WrittenFacts:
        return self._facts.written

    def read_slots(self) -> ReplicationSlots:
        return ReplicationSlots(database="orders", log_end=Lsn(1000), limit=1, slots={})

    def count_events_outside_slot(self, columns: Sequence[str]) -> int:
        return list(columns).index("id")


def codes(monkeypatch: pytest.MonkeyPatch, spec: Spec, facts: DatabaseFacts, connected: Connected | None) -> list[str]:
    monkeypatch.setattr(preflight, "PostgresqlDatabase", lambda *_: TellingDatabase(facts))
    nothing: Any = None
    return [found.code for found in look_at_postgresql(spec, nothing, nothing, lambda: connected)]


def test_a_connector_that_was_there_before_its_spec_has_its_offset_under_its_own_prefix(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spec = parse_spec(f"{MINIMAL}topic_prefix: app\n")
    offsets = [{"partition": {"server": "app"}, "offset": {"lsn": 50}}]
    connected = Connected(
        connector=Found({"slot.name": spec.database.slot}, ConnectorStatus("RUNNING", ())), offsets=offsets
    )
    assert codes(monkeypatch, spec, FACTS, connected) == ["DB513"]


def test_nobody_looks_for_events_in_a_slot_by_a_column_that_is_not_published(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = parse_spec(MINIMAL)
    without = [name for name in COLUMNS if name != "id"]
    left_out = replace(FACTS, publication=replace(PUBLICATION, columns=without))
    assert codes(monkeypatch, spec, left_out, None) == ["DB405", "DB601"]
    missing = replace(FACTS, table=replace(TABLE, columns={name: COLUMNS[name] for name in without}))
    assert codes(monkeypatch, spec, missing, None) == ["DB303", "DB601"]


def test_columns_that_the_server_computes_are_not_among_those_of_the_slot() -> None:
    columns = {"computed": ColumnFacts("text", is_generated=True), **COLUMNS}
    facts = replace(FACTS, table=replace(TABLE, columns=columns))
    assert list(facts.published) == [*COLUMNS]
    assert replace(facts, publication=replace(PUBLICATION, columns=["computed", "id"])).published == ["computed", "id"]


def test_of_a_connector_that_does_not_exist_it_is_said_when_its_offsets_can_be_seen() -> None:
    [finding] = preflight.what_connect_hides("orders", Connected(connector=None, offsets=[]))
    assert finding.message == (
        "the connector orders does not exist yet: Connect does not show the offsets that an earlier connector of this "
        "name may have left."
    )
