from dataclasses import replace
from typing import Any

import pytest

from cdc_outbox.databases.binlog import AccountFacts, BinlogFacts, BinlogPosition, Log
from cdc_outbox.databases.facts import COUNTED_ROWS, ColumnFacts, TableFacts
from cdc_outbox.debezium.preflight.binlog_rules import check_binlog_database, check_buffer, check_stored
from cdc_outbox.debezium.render import render
from cdc_outbox.formats.event_format import PayloadType
from cdc_outbox.spec import parse_spec
from tests.support.database_facts import INDEXES
from tests.support.specs import MINIMAL

MARIADB = MINIMAL.replace("postgresql", "mariadb")
SPEC = parse_spec(MARIADB)
NUMBER = SPEC.database.server_id

TEXT = ColumnFacts(type="varchar", length=249, charset="utf8mb4")
COLUMNS = {
    "id": ColumnFacts(type="char", length=36, charset="ascii"),
    "aggregatetype": TEXT,
    "aggregateid": TEXT,
    "type": TEXT,
    "payload": ColumnFacts(type="longtext", charset="utf8mb4", not_null=False),
    "sequence": ColumnFacts(type="bigint", not_null=False),
    "source": TEXT,
    "created_at": ColumnFacts(type="datetime"),
    "traceparent": ColumnFacts(type="longtext", charset="utf8mb4", not_null=False),
    "tracestate": ColumnFacts(type="longtext", charset="utf8mb4", not_null=False),
}
TABLE = TableFacts(kind="BASE TABLE", settings={"engine": "InnoDB"}, columns=COLUMNS, indexes=INDEXES)
ACCOUNT = AccountFacts(host="%", may=frozenset({"select", "replication slave", "replication client"}))
LOG = Log(on=True, format="ROW", end=BinlogPosition(7, 500, "binlog.000007"), sizes={"binlog.000007": 500})
GOOD = BinlogFacts(
    is_mariadb=True,
    database="orders",
    server_id="1",
    log=LOG,
    row_image="FULL",
    is_compressed=False,
    has_gtids=True,
    keep_seconds=864_000,
    replicas=(),
    accounts=(ACCOUNT,),
    table=TABLE,
)


def facts(**changed: Any) -> BinlogFacts:
    return replace(GOOD, **changed)


def table(**changed: Any) -> BinlogFacts:
    return facts(table=replace(TABLE, **changed))


def column(name: str, **changed: Any) -> BinlogFacts:
    return table(columns={**COLUMNS, name: replace(COLUMNS[name], **changed)})


def test_a_database_that_is_ready_has_no_findings() -> None:
    assert check_binlog_database(SPEC, GOOD) == ()
    assert check_binlog_database(SPEC, facts(replicas=None, accounts=None)) == ()
    assert check_binlog_database(SPEC, facts(keep_seconds=0)) == ()  # for ever


@pytest.mark.parametrize(
    ("found", "severity", "code", "path"),
    [
        (facts(database="other"), "error", "DB101", "other"),
        (facts(log=Log(on=False, format="")), "error", "DB121", "log_bin"),
        (facts(log=replace(LOG, format="STATEMENT")), "error", "DB122", "binlog_format"),
        (facts(row_image="NOBLOB"), "error", "DB123", "binlog_row_image"),
        (facts(log=replace(LOG, only=["shop"])), "error", "DB124", "binlog_do_db"),
        (facts(log=replace(LOG, without=["orders"])), "error", "DB124", "binlog_ignore_db"),
        (facts(server_id=NUMBER), "error", "DB125", NUMBER),
        (facts(replicas=["2", NUMBER]), "error", "DB126", NUMBER),
        (facts(keep_seconds=3 * 86_400 - 1), "warning", "DB127", "binlog_expire_logs_seconds"),
        (facts(has_gtids=False), "note", "DB128", "gtid_strict_mode"),
        (facts(has_gtids=False, is_mariadb=False), "note", "DB128", "gtid_mode"),
        (facts(is_compressed=True), "error", "DB129", "log_bin_compress"),
        (facts(accounts=()), "error", "DB201", "orders_connector"),
        (facts(accounts=[replace(ACCOUNT, is_locked=True)]), "error", "DB207", "orders_connector"),
        (facts(accounts=[replace(ACCOUNT, may=frozenset())]), "error", "DB208", "orders_connector"),
        (
            facts(accounts=[replace(ACCOUNT, may=frozenset(), has_roles=True)]),
            "note",
            "DB602",
            "orders_connector",
        ),
        (facts(table=None), "error", "DB301", "outbox"),
        (table(kind="VIEW"), "error", "DB305", "outbox"),
        (table(settings={"engine": "MEMORY"}, is_transactional=False), "error", "DB361", "outbox"),
        (table(indexes=[replace(INDEXES[0], columns=("type", "id"))]), "warning", "DB316", "outbox"),
        (column("created_at", type="timestamp"), "error", "DB304", "outbox.created_at"),
        (column("id", type="uuid", length=None, charset=""), "error", "DB304", "outbox.id"),
        (column("payload", type="longblob", charset=""), "error", "DB304", "outbox.payload"),
        (column("aggregatetype", length=4), "error", "DB314", "outbox.aggregatetype"),
        (column("source", length=7), "error", "DB314", "outbox.source"),
        (column("id", not_null=False), "warning", "DB315", "outbox.id"),
        (column("payload", charset="latin1"), "warning", "DB362", "outbox.payload"),
        (facts(unseen={"the end": "A RIGHT"}), "note", "DB602", "the end"),
    ],
)
def test_each_defect_is_one_finding_with_its_place(found: BinlogFacts, severity: str, code: str, path: str) -> None:
    [finding] = check_binlog_database(SPEC, found)
    assert (str(finding.severity), finding.code, finding.location.path) == (severity, code, path)
    assert finding.remedy


@pytest.mark.parametrize(
    "found",
    [
        facts(log=replace(LOG, only=["orders", "shop"], without=["shop"])),
        facts(accounts=[replace(ACCOUNT, host="::1", is_locked=True), ACCOUNT]),
        column("type", type="enum", length=1),
        column("payload", type="json", charset=""),
        column("type", charset="latin1"),
    ],
)
def test_what_works_is_not_found(found: BinlogFacts) -> None:
    assert check_binlog_database(SPEC, found) == ()


def test_what_only_the_worker_knows_is_not_compared() -> None:
    spec = parse_spec(
        MARIADB.replace("user: orders_connector", "user: ${env:USER}\n  server_id: ${env:NUMBER}").replace(
            "name: orders\n  user", "name: ${env:DB}\n  user"
        )
    )
    assert check_binlog_database(spec, facts(accounts=(), server_id="2")) == ()


def test_a_payload_of_bytes_is_one() -> None:
    in_bytes = replace(SPEC, outbox=replace(SPEC.outbox, payload_type=PayloadType.BYTES))
    assert check_binlog_database(in_bytes, column("payload", type="longblob", charset="")) == ()
    assert [finding.code for finding in check_binlog_database(in_bytes, GOOD)] == ["DB304"]


def offset(file: str, position: int) -> list[dict[str, Any]]:
    return [{"partition": {"server": "orders"}, "offset": {"file": file, "pos": position}}]


@pytest.mark.parametrize(
    ("offsets", "rows", "code"),
    [
        ([], 0, ""),
        ([], 2, "DB523"),
        ([{"partition": {"server": "another"}, "offset": {"file": "x", "pos": 1}}], 2, "DB523"),
        (offset("binlog.000007", 500), 2, ""),
        (offset("binlog.000006", 4), 2, "DB521"),
        (offset("binlog.000007", 501), 2, "DB522"),
        (offset("", 0), 2, ""),
    ],
)
def test_where_the_connector_would_go_on_is_looked_for(offsets: list[dict[str, Any]], rows: int, code: str) -> None:
    findings = list(check_stored(SPEC, facts(rows=rows), offsets))
    assert [finding.code for finding in findings] == ([code] if code else [])


@pytest.mark.parametrize(
    ("rows", "said"),
    [(1, "contains 1 event;"), (2, "contains 2 events;"), (COUNTED_ROWS, "contains at least 100,000 events;")],
)
def test_earlier_rows_are_counted(rows: int, said: str) -> None:
    [finding] = check_stored(SPEC, facts(rows=rows), [])
    assert said in finding.message


@pytest.mark.parametrize(
    ("gtids", "state", "found"),
    [
        ("0-1-18", "0-1-18", False),
        ("0-1-18", "0-1-9,0-2-30", True),  # restored, and given a server id of its own
        ("0-1-18", "0-1-18,0-2-30", False),  # after a failover
        ("0-1-18,5-1-2", "0-1-18", True),
        ("0-1-18", "", True),
        ("0-1-18", None, False),
        ("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5", "", False),  # MySQL's
        ("", "0-1-18", False),
    ],
)
def test_gtids_that_the_server_never_wrote_are_found(gtids: str, state: str | None, *, found: bool) -> None:
    [entry] = offset("binlog.000007", 4)
    stored = [entry | {"offset": entry["offset"] | {"gtids": gtids}}]
    codes = [finding.code for finding in check_stored(SPEC, facts(gtid_state=state), stored)]
    assert codes == (["DB524"] if found else [])


def test_a_connector_that_was_there_before_its_spec_has_its_offset_under_its_own_prefix() -> None:
    spec = parse_spec(f"{MARIADB}topic_prefix: orders\n".replace("name: orders", "name: adopted", 1))
    assert spec.name == "adopted"
    found = list(check_stored(spec, facts(rows=2), offset("binlog.000006", 4)))
    assert [finding.code for finding in found] == ["DB521"]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({}, "publishes some rolled back transactions"),
        ({"binlog.buffer.size": "0"}, "publishes some rolled back transactions"),
        ({"binlog.buffer.size": "1000"}, "loses the end of long transactions"),
    ],
)
def test_a_connector_without_a_large_buffer_is_found(config: dict[str, str], said: str) -> None:
    [finding] = check_buffer(SPEC, config)
    assert (finding.code, finding.severity, finding.location.path) == ("DB130", "warning", SPEC.name)
    assert said in finding.message
    assert list(check_buffer(parse_spec(MINIMAL.replace("postgresql", "mysql")), config)) == []


def test_the_buffer_that_is_rendered_is_large_enough() -> None:
    assert list(check_buffer(SPEC, render(SPEC))) == []
    assert list(check_buffer(SPEC, {"binlog.buffer.size": "9" * 9_999})) == []


def test_rows_that_are_deleted_at_once_tell_nothing() -> None:
    spec = parse_spec(f"{MARIADB}outbox: {{mode: delete}}\n")
    assert list(check_stored(spec, facts(rows=2), [])) == []


def test_a_log_that_this_role_may_not_see_proves_nothing() -> None:
    unseen = facts(log=replace(LOG, end=None, sizes={}))
    assert list(check_stored(SPEC, unseen, offset("binlog.000006", 4))) == []
