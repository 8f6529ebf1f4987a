"""What a stored offset proves about a binlog, decided from values."""

from dataclasses import replace

import pytest

from cdc_outbox.connect.client import ConnectorStatus, TaskStatus
from cdc_outbox.databases.binlog import BinlogPosition, Log, read_log
from cdc_outbox.databases.drivers.mysql import connect
from cdc_outbox.errors import ConfigError, UnprovenDeliveryError
from cdc_outbox.operations.delivery_proof import captures, log_end, stored_position
from cdc_outbox.operations.prune_by_offset import state_of


def position(file: str, offset: int) -> BinlogPosition:
    found = BinlogPosition.of(file, offset)
    assert found is not None
    return found


END = position("binlog.000003", 900)
LOG = Log(on=True, format="ROW", end=END, sizes={"binlog.000002": 500, "binlog.000003": 900})


def test_positions_compare_in_the_order_of_the_log() -> None:
    ordered = [position("b.000009", 4), position("b.000010", 4), position("b.999999", 9), position("b.1000000", 4)]
    assert ordered == sorted(ordered)
    assert position("b.000009", 900) < position("b.000010", 4)
    assert position("b.000009", 4) <= position("b.000009", 4)
    assert str(position("mysql-bin.000009", 4)) == "mysql-bin.000009:4"


@pytest.mark.parametrize("file", ["", "binlog", "binlog.1", "binlog.index", "binlog-000001.ibb", ".000001"])
def test_what_is_no_binlog_has_no_position(file: str) -> None:
    assert BinlogPosition.of(file, 4) is None


def offsets(**offset: object) -> list[dict[str, object]]:
    stored = {"other": {"file": "binlog.000003", "pos": 1}, "orders": offset or None}
    return [{"partition": {"server": server}, "offset": found} for server, found in stored.items()]


def test_what_a_connector_stored_lies_in_the_log() -> None:
    for file, pos in (("binlog.000002", 500), ("binlog.000003", 4), ("binlog.000003", 900)):
        stored = stored_position("orders", offsets(file=file, pos=pos), topic_prefix="orders", log=LOG)
        assert stored == position(file, pos)


@pytest.mark.parametrize(
    ("offset", "words"),
    [
        ({}, "has stored no offset"),
        ({"lsn": 7}, "has stored no binlog position"),
        ({"file": "binlog.000003", "pos": 4, "snapshot": "INITIAL"}, "is publishing the rows of the table"),
        ({"file": "binlog.000001", "pos": 4}, "is at binlog.000001:4, but the server has no such file"),
        ({"file": "binlog.000002", "pos": 501}, "is at binlog.000002:501, but that file ends at 500"),
        ({"file": "binlog.000003", "pos": 901}, "is at binlog.000003:901, but that file ends at 900"),
    ],
)
def test_an_offset_that_can_prove_nothing_is_refused(offset: dict[str, object], words: str) -> None:
    with pytest.raises(UnprovenDeliveryError, match="nothing was deleted") as caught:
        stored_position("orders", offsets(**offset), topic_prefix="orders", log=LOG)
    assert str(caught.value).startswith(f"the connector orders {words}")
    assert caught.value.hint


def test_another_prefix_has_offsets_of_its_own() -> None:
    with pytest.raises(UnprovenDeliveryError, match="has stored no offset"):
        stored_position("orders", offsets(file="binlog.000003", pos=4), topic_prefix="before", log=LOG)


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (replace(LOG, on=False), "is off"),
        (replace(LOG, end=None), "is off"),
        (replace(LOG, format="MIXED"), "has the format MIXED"),
        (replace(LOG, only=["shipping"]), "leaves out the database 'orders'"),
        (replace(LOG, without=["orders"]), "leaves out the database 'orders'"),
    ],
)
def test_a_log_that_may_lack_events_is_refused(log: Log, words: str) -> None:
    with pytest.raises(UnprovenDeliveryError, match=f"the server's binlog {words}"):
        log_end(log, database="orders")


def test_a_log_ends_where_it_ends() -> None:
    for log in (LOG, replace(LOG, only=["orders"]), replace(LOG, without=["shipping"])):
        assert log_end(log, database="orders") == END


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        ("", True),
        (r"orders\.outbox", True),
        (r"shipping\.outbox, Orders\.Outbox", True),
        (r"orders\..*", True),
        (r"orders\.outbox_heads", False),
        (r"shipping\.outbox", False),
        (r"a\,b\.outbox,orders\.outbox", True),
        ("(?<java>orders).outbox", True),
        ("(?<java>shipping).outbox", False),
        ("[a-z&&[^s]]rders.outbox", True),  # what cannot be read here refuses nobody
    ],
)
def test_a_connector_reads_the_tables_of_its_list(patterns: str, *, expected: bool) -> None:
    assert captures("orders.outbox", {"table.include.list": patterns}) is expected


@pytest.mark.parametrize(
    ("connector", "tasks", "state"),
    [
        ("RUNNING", ["RUNNING"], "RUNNING"),
        ("PAUSED", ["PAUSED"], "PAUSED"),
        ("RUNNING", ["PAUSED"], "PAUSED"),
        ("RUNNING", [], "UNASSIGNED"),
        ("RUNNING", ["FAILED"], "FAILED"),
        ("STOPPED", [], "STOPPED"),
        ("STOPPED", ["RUNNING"], "STOPPED"),
    ],
)
def test_a_connector_is_in_the_state_of_its_worst_part(connector: str, tasks: list[str], state: str) -> None:
    assert state_of(ConnectorStatus(connector, tuple(TaskStatus(0, task) for task in tasks))) == state


@pytest.mark.parametrize(
    ("version", "statement"),
    [
        ("10.11.6-MariaDB-0+deb12u1-log", "master_status"),
        ("12.1.2-MariaDB", "master_status"),
        ("8.0.44", "master_status"),
        ("8.4.3", "log_status"),
        ("9.5.0", "log_status"),
    ],
)
def test_the_end_of_the_log_is_asked_for_as_the_server_knows_it(version: str, statement: str) -> None:
    asked: list[str] = []
    assert read_log(asked.append, version, "ROW") == Log(on=True, format="ROW"), "of which nothing is told"
    assert asked == [statement, "files"]


@pytest.mark.parametrize("dsn", ["mysql://", "mysql:///orders", "mysql://u:secret/x@host:3306/orders", "mysql://h:x/o"])
def test_a_dsn_that_cannot_be_read_is_refused_and_not_quoted(dsn: str) -> None:
    with pytest.raises(ConfigError, match="the DSN cannot be read") as caught:
        connect(dsn)
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None
