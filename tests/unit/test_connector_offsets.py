"""What it means that a connector goes on elsewhere, of values."""

from dataclasses import replace
from typing import Any

import pytest

from cdc_outbox.databases.binlog import BinlogPosition
from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.databases.facts import SlotFacts
from cdc_outbox.databases.lsn import Lsn
from cdc_outbox.debezium.connector_offsets import ConnectorPosition, assess_reset, assess_set, position_in, read_offset
from cdc_outbox.errors import ConfigError, ConnectorInvalidError
from tests.support.database_facts import SLOT


def standing(
    kind: DatabaseKind, offset: dict[str, Any] | None, slot: SlotFacts | None = None, **config: str
) -> ConnectorPosition:
    stored = [] if offset is None else [{"partition": {"server": "orders"}, "offset": offset}]
    settings = {"connector.class": kind.connector_class, "topic.prefix": "orders", "snapshot.mode": "no_data"} | config
    return ConnectorPosition(config=settings, offsets=stored, slot=slot, is_asked=kind is DatabaseKind.POSTGRESQL)


def slot(confirmed: int) -> SlotFacts:
    return replace(SLOT, confirmed=Lsn(confirmed), log_end=Lsn(1000))


@pytest.mark.parametrize(
    ("target", "skips", "text"),
    [
        (500, False, "as without the change"),
        (400, False, "published again"),
        (501, True, "never published (1 bytes of the log)"),
    ],
)
def test_a_place_of_postgresql_is_compared_with_slot_and_offset(target: int, skips: bool, text: str) -> None:  # noqa: FBT001 - a table of cases
    move = assess_set(standing(DatabaseKind.POSTGRESQL, {"lsn": 500}, slot(400)), {"lsn": target})
    assert (move.skips, text in move.text) == (skips, True)


@pytest.mark.parametrize("target", [399, 1001])
def test_a_place_that_the_slot_gave_away_or_the_log_has_not_reached_is_refused(target: int) -> None:
    with pytest.raises(ConnectorInvalidError):
        assess_set(standing(DatabaseKind.POSTGRESQL, {"lsn": 500}, slot(400)), {"lsn": target})


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        ("PostgresConnector", DatabaseKind.POSTGRESQL),
        ("Postgres", DatabaseKind.POSTGRESQL),
        ("MySql", DatabaseKind.MYSQL),
        ("Connector", None),
        ("", None),
    ],
)
def test_a_connector_is_known_by_each_name_that_connect_takes(written: str, kind: DatabaseKind | None) -> None:
    assert ConnectorPosition(config={"connector.class": written}, offsets=()).kind is kind


def test_an_offset_without_a_slot_is_refused() -> None:
    with pytest.raises(ConnectorInvalidError, match="the slot does not exist"):
        assess_set(standing(DatabaseKind.POSTGRESQL, {"lsn": 500}), {"lsn": 500})


@pytest.mark.parametrize(
    ("target", "skips"), [("bin.000002:4", False), ("bin.000002:90", False), ("bin.000003:4", True)]
)
def test_places_in_a_binlog_are_compared_in_log_order(target: str, skips: bool) -> None:  # noqa: FBT001 - a table of cases
    here = standing(DatabaseKind.MYSQL, {"file": "bin.000002", "pos": 90, "gtids": "0-1-7"})
    wanted = read_offset(target, here.kind)
    assert "gtids" not in wanted
    assert assess_set(here, wanted).skips is skips
    assert here.entry(wanted) == {"partition": {"server": "orders"}, "offset": wanted}


def test_mariadb_takes_no_place_without_gtids() -> None:
    here = standing(DatabaseKind.MARIADB, {"file": "bin.000002", "pos": 90, "gtids": "0-1-7"})
    with pytest.raises(ConfigError):
        read_offset("bin.000002:4", here.kind)
    with pytest.raises(ConnectorInvalidError, match="gtids"):
        assess_set(here, read_offset('{"file": "bin.000002", "pos": 4}', here.kind))


def test_what_cannot_be_compared_counts_as_left_out() -> None:
    here = standing(DatabaseKind.ORACLE, {"scn": "1"})
    assert assess_set(here, read_offset('{"scn": "2"}', here.kind)).skips
    with pytest.raises(ConfigError):
        read_offset("2", here.kind)
    with pytest.raises(ConfigError):
        read_offset("{", here.kind)
    with pytest.raises(ConnectorInvalidError):
        standing(DatabaseKind.ORACLE, None).entry({"scn": "2"})


def test_a_reset_leaves_nothing_out_only_where_a_slot_stands() -> None:
    move = assess_reset(standing(DatabaseKind.POSTGRESQL, {"lsn": 500}, slot(400)))
    assert (move.skips, "published again" in move.text) == (False, True)
    assert not assess_reset(standing(DatabaseKind.POSTGRESQL, None, slot(400))).skips
    assert assess_reset(standing(DatabaseKind.POSTGRESQL, {"lsn": 500})).skips
    assert assess_reset(standing(DatabaseKind.MARIADB, {"file": "bin.000002", "pos": 90})).skips
    rows = assess_reset(standing(DatabaseKind.POSTGRESQL, None, slot(400), **{"snapshot.mode": "initial"}))
    assert "every row of the table is published again" in rows.text


def test_a_slot_that_is_ahead_of_the_offset_hides_no_hole() -> None:
    """It was made again, or moved by hand: what it gave away nobody has read."""
    here = standing(DatabaseKind.POSTGRESQL, {"lsn": 500}, slot(600))
    for move in (assess_reset(here), assess_set(here, {"lsn": 600})):
        assert (move.skips, "between 0/1F4 and 0/258" in move.text) == (True, True)


def test_what_relays_published_is_no_hole() -> None:
    here = standing(DatabaseKind.POSTGRESQL, {"lsn": 500}, slot(600))
    for relayed in (600, 700):
        position = replace(here, relayed=Lsn(relayed))
        assert not assess_reset(position).skips
        assert not assess_set(position, {"lsn": 600}).skips
    assert assess_reset(replace(here, relayed=Lsn(599))).skips


def test_a_place_is_read_from_what_a_connector_stores() -> None:
    assert position_in({"lsn": 27413444, "lsn_commit": 1}) == Lsn(27413444)
    assert position_in({"file": "bin.000002", "pos": "90"}) == BinlogPosition.of("bin.000002", 90)
    assert position_in({"scn": "1"}) is None
