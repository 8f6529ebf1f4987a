from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from cdc_outbox.databases.facts import (
    ColumnFacts,
    ConnectorRoleFacts,
    DatabaseFacts,
    OpenTransaction,
    PublicationFacts,
    ServerFacts,
    SlotFacts,
    TableFacts,
    WrittenFacts,
)
from cdc_outbox.databases.lsn import Lsn
from cdc_outbox.debezium.preflight import check_database, check_republish
from cdc_outbox.debezium.preflight.slot_rules import check_health, check_hole
from cdc_outbox.debezium.slot_plan import SlotState
from cdc_outbox.finding import Severity
from cdc_outbox.formats.event_format import PayloadType
from cdc_outbox.spec import parse_spec
from tests.support.database_facts import COLUMNS, GOOD, INDEXES, PUBLICATION, SLOT, TABLE
from tests.support.specs import MINIMAL

SPEC = parse_spec(MINIMAL)
WIDER = replace(INDEXES[0], columns=("type", "id"))


def table(**columns: str) -> TableFacts:
    return replace(TABLE, columns=COLUMNS | {name: ColumnFacts(kind) for name, kind in columns.items()})


def column(name: str, **facts: Any) -> DatabaseFacts:
    return replace(GOOD, table=replace(TABLE, columns={**COLUMNS, name: replace(COLUMNS[name], **facts)}))


def test_a_function_for_heartbeats_that_is_missing_or_forbidden_is_an_error() -> None:
    assert [found.code for found in check_database(SPEC, replace(GOOD, has_heartbeat=False))] == ["DB344"]
    assert [found.code for found in check_database(SPEC, replace(GOOD, may_write_heartbeat=False))] == ["DB209"]


def server(**facts: Any) -> DatabaseFacts:
    return replace(GOOD, server=ServerFacts(**facts))


def role(**facts: Any) -> DatabaseFacts:
    return replace(GOOD, role=ConnectorRoleFacts(can_login=True, can_replicate=True, **facts))


def test_a_database_that_is_ready_has_no_findings() -> None:
    assert check_database(SPEC, GOOD) == ()
    assert check_database(SPEC, replace(GOOD, slot=SLOT, free_slots=0)) == ()


@pytest.mark.parametrize(
    ("facts", "code", "path"),
    [
        (replace(GOOD, database="other"), "DB101", "other"),
        (replace(GOOD, wal_level="replica"), "DB102", "wal_level"),
        (replace(GOOD, version=130_020), "DB103", "server_version"),
        (replace(GOOD, free_slots=0), "DB104", "max_replication_slots"),
        (replace(GOOD, role=None), "DB201", "orders_connector"),
        (replace(GOOD, role=ConnectorRoleFacts(can_login=False, can_replicate=True)), "DB202", "orders_connector"),
        (replace(GOOD, role=ConnectorRoleFacts(can_login=True, can_replicate=False)), "DB202", "orders_connector"),
        (replace(GOOD, table=None), "DB301", "public.outbox"),
        (replace(GOOD, table=replace(TABLE, persistence="u")), "DB302", "public.outbox"),
        (replace(GOOD, table=table(x="text")), "", ""),
        (replace(GOOD, table=table(created_at="timestamp with time zone")), "DB304", "public.outbox.created_at"),
        (replace(GOOD, table=table(payload="bytea")), "DB304", "public.outbox.payload"),
        (replace(GOOD, table=replace(TABLE, kind="v")), "DB305", "public.outbox"),
        (replace(GOOD, source="shop.1"), "DB333", "public.outbox_heads.source"),
        (replace(GOOD, source="orders.7"), "", ""),
        (replace(GOOD, publication=None), "DB401", "orders_outbox"),
        (replace(GOOD, publication=replace(PUBLICATION, row_filter="(a > 1)")), "DB404", "orders_outbox"),
        (replace(GOOD, publication=replace(PUBLICATION, columns=("id", "payload"))), "DB405", "orders_outbox"),
        (replace(GOOD, publication=replace(PUBLICATION, columns=(*COLUMNS, "x"))), "", ""),
        (
            replace(GOOD, publication=PublicationFacts(publishes_inserts=True, covers_table=False)),
            "DB402",
            "orders_outbox",
        ),
        (
            replace(GOOD, publication=PublicationFacts(publishes_inserts=False, covers_table=True)),
            "DB403",
            "orders_outbox",
        ),
        (
            replace(GOOD, publication=PublicationFacts(True, True, row_filter="(sequence > 1)")),
            "DB404",
            "orders_outbox",
        ),
        (
            replace(GOOD, publication=PublicationFacts(True, True, columns=[*COLUMNS][:-1])),
            "DB405",
            "orders_outbox",
        ),
        (replace(GOOD, publication=replace(PUBLICATION, outboxes=["public.billing"])), "DB408", "orders_outbox"),
        (replace(GOOD, publication=replace(PUBLICATION, tables=["public.invoices"])), "DB409", "orders_outbox"),
        (replace(GOOD, table=replace(TABLE, kind="p")), "", ""),
        (replace(GOOD, slot=replace(SLOT, plugin="test_decoding")), "DB501", "orders_outbox"),
        (replace(GOOD, slot=replace(SLOT, database="other")), "DB502", "orders_outbox"),
    ],
)
def test_each_defect_is_one_finding_with_its_place(facts: DatabaseFacts, code: str, path: str) -> None:
    findings = check_database(SPEC, facts)
    assert [(finding.code, finding.location.path) for finding in findings] == ([(code, path)] if code else [])
    assert all(finding.remedy for finding in findings)


def test_no_unlogged_table_is_added_to_a_publication_of_all_tables() -> None:
    unlogged, all_tables = replace(TABLE, persistence="u"), PublicationFacts(True, False, carries="all tables")
    found = check_database(SPEC, replace(GOOD, table=unlogged, publication=all_tables))
    assert [finding.code for finding in found] == ["DB302", "DB407"]
    one_table = replace(all_tables, carries="")
    found = check_database(SPEC, replace(GOOD, table=unlogged, publication=one_table))
    assert [finding.code for finding in found] == ["DB302", "DB402"]


def test_of_many_tables_in_a_publication_the_first_are_named() -> None:
    tables = [f"public.t{number}" for number in range(2000)]
    [finding] = check_database(SPEC, replace(GOOD, publication=replace(PUBLICATION, tables=tables)))
    assert finding.message == "the publication also contains public.t0, public.t1, public.t2 and 1,997 more."
    assert finding.severity is Severity.NOTE


def test_messages_are_published_beside_another_outbox_too() -> None:
    spec = parse_spec(f"{MINIMAL}outbox: {{mode: message}}\n")
    shared = replace(GOOD, publication=replace(PUBLICATION, covers_table=False, outboxes=["public.billing"]))
    assert [(finding.code, finding.severity) for finding in check_database(spec, shared)] == [
        ("DB408", Severity.WARNING)
    ]


def test_a_missing_column_is_named() -> None:
    columns = {name: kind for name, kind in COLUMNS.items() if name != "sequence"}
    [finding] = check_database(SPEC, replace(GOOD, table=replace(TABLE, columns=columns)))
    assert (finding.code, finding.location.path) == ("DB303", "public.outbox.sequence")


def test_a_role_that_the_worker_resolves_is_not_looked_for() -> None:
    spec = parse_spec(MINIMAL.replace("user: orders_connector", "user: ${env:USER}"))
    assert check_database(spec, replace(GOOD, role=None)) == ()


def test_a_database_that_the_worker_resolves_is_not_compared() -> None:
    spec = parse_spec(MINIMAL.replace("name: orders\n  user", "name: ${env:DB}\n  user"))
    assert spec.database.name == "${env:DB}"
    assert check_database(spec, replace(GOOD, slot=SLOT)) == ()


def test_the_remedy_for_a_partitioned_table_is_one_that_helps() -> None:
    partitioned = replace(GOOD, table=replace(TABLE, kind="p"))
    assert check_database(SPEC, partitioned) == ()
    [finding] = check_database(SPEC, replace(partitioned, publication=replace(PUBLICATION, covers_table=False)))
    assert finding.code == "DB402"
    assert "publish_via_partition_root" in finding.remedy


def test_only_publishing_again_needs_to_read_the_table() -> None:
    blind = replace(GOOD, role=ConnectorRoleFacts(can_login=True, can_replicate=True, can_select=False))
    assert check_database(SPEC, blind) == ()
    assert [finding.code for finding in check_republish(SPEC, blind)] == ["DB203"]
    assert check_republish(SPEC, GOOD) == check_republish(SPEC, replace(GOOD, role=None)) == ()


def test_a_partitioned_table_is_published_through_its_root() -> None:
    facts = replace(GOOD, table=replace(TABLE, kind="p"), publication=PublicationFacts(True, False))
    [finding] = check_database(SPEC, facts)
    assert finding.code == "DB402"
    assert "publish_via_partition_root = true" in finding.remedy


def test_a_header_that_is_not_published_would_be_left_out_without_a_word() -> None:
    columns = [column for column in COLUMNS if column != "traceparent"]
    [finding] = check_database(SPEC, replace(GOOD, publication=replace(PUBLICATION, columns=columns)))
    assert (finding.code, "the column traceparent." in finding.message) == ("DB405", True)


def test_rows_that_go_are_found_by_an_id_of_the_type_that_it_is() -> None:
    spec = parse_spec(f"{MINIMAL}outbox: {{mode: delete}}\n")
    assert check_database(spec, GOOD) == ()
    as_text = replace(GOOD, table=table(id="text"))
    assert check_database(SPEC, as_text) == ()
    [finding] = check_database(spec, as_text)
    assert (finding.code, "It must be uuid." in finding.message) == ("DB304", True)


LONG = (
    OpenTransaction(name="process 7", since=datetime(2026, 1, 2, tzinfo=UTC)),
    OpenTransaction(name="it's", since=datetime(2026, 1, 2, tzinfo=UTC), is_prepared=True),
)
GENERATED = replace(COLUMNS["created_at"], is_generated=True)


@pytest.mark.parametrize(
    ("facts", "severity", "code", "path"),
    [
        (server(free_senders=0), "error", "DB105", "max_wal_senders"),
        (replace(server(is_standby=True), version=150_018), "error", "DB106", "orders"),
        (server(is_standby=True), "error", "DB107", "orders"),
        (server(sender_timeout_seconds=0), "warning", "DB108", "wal_sender_timeout"),
        (server(encoding="SQL_ASCII"), "warning", "DB109", "orders"),
        (server(slot_plugins=["test_decoding"]), "error", "DB110", "output_plugin_libraries"),
        (server(idle_slot_seconds=3600), "warning", "DB111", "idle_replication_slot_timeout"),
        (server(open_for_long=LONG[:1]), "warning", "DB112", "process 7"),
        (server(open_for_long=LONG[1:]), "warning", "DB112", "it's"),
        (role(can_connect=False), "error", "DB204", "orders_connector"),
        (role(expired=True), "error", "DB205", "orders_connector"),
        (column("created_at", is_generated=True), "error", "DB313", "public.outbox.created_at"),
        (column("id", type="character varying", length=35), "error", "DB314", "public.outbox.id"),
        (column("aggregatetype", length=4), "error", "DB314", "public.outbox.aggregatetype"),
        (column("source", length=7), "error", "DB314", "public.outbox.source"),
        (column("aggregateid", not_null=False), "warning", "DB315", "public.outbox.aggregateid"),
        (
            replace(GOOD, table=replace(TABLE, indexes=[replace(INDEXES[0], columns=("type", "id"))])),
            "warning",
            "DB316",
            "public.outbox",
        ),
        (replace(GOOD, table=replace(TABLE, partition_of="p.all")), "warning", "DB318", "public.outbox"),
        (replace(GOOD, table=replace(TABLE, children=["a", "b"])), "warning", "DB319", "public.outbox"),
        (replace(GOOD, table=replace(TABLE, rules=["mute"])), "error", "DB326", "public.outbox"),
        (replace(GOOD, table=replace(TABLE, triggers=["mute"])), "warning", "DB327", "public.outbox"),
        (column("payload", type="jsonb"), "note", "DB320", "public.outbox.payload"),
        (column("type", type="kind", is_enum=True), "error", "DB304", "public.outbox.type"),
        (column("aggregatetype", type="character"), "error", "DB304", "public.outbox.aggregatetype"),
        (
            replace(GOOD, publication=replace(PUBLICATION, also_publishes=["deletes"])),
            "warning",
            "DB406",
            "orders_outbox",
        ),
        (replace(GOOD, publication=replace(PUBLICATION, carries="all tables")), "warning", "DB407", "orders_outbox"),
        (replace(GOOD, slot=replace(SLOT, is_temporary=True)), "error", "DB508", "orders_outbox"),
        (replace(GOOD, slot=replace(SLOT, is_two_phase=True)), "error", "DB509", "orders_outbox"),
    ],
)
def test_what_works_is_told_apart_from_what_will_hurt(
    facts: DatabaseFacts, severity: str, code: str, path: str
) -> None:
    [finding] = check_database(SPEC, facts)
    assert (str(finding.severity), finding.code, finding.location.path) == (severity, code, path)
    assert finding.remedy


@pytest.mark.parametrize(
    "facts",
    [
        replace(server(free_senders=0), slot=replace(SLOT, reader=7)),
        replace(server(open_for_long=LONG), slot=SLOT),
        server(slot_plugins=["pgoutput"]),
        column("payload", length=10),
        column("id", type="character varying", length=36),
        column("type", type="extra.citext"),
        column("sequence", not_null=False),
        replace(
            GOOD,
            table=replace(TABLE, columns={**COLUMNS, "created_at": GENERATED}),
            publication=replace(PUBLICATION, columns=[*COLUMNS]),
        ),
        replace(GOOD, table=replace(TABLE, refuses_deletes=True)),
    ],
)
def test_what_does_no_harm_is_not_found(facts: DatabaseFacts) -> None:
    assert check_database(SPEC, facts) == ()


def test_rows_that_go_need_something_that_tells_which_row_is_meant() -> None:
    spec = parse_spec(f"{MINIMAL}outbox: {{mode: delete}}\n")
    [finding] = check_database(spec, replace(GOOD, table=replace(TABLE, refuses_deletes=True)))
    assert (finding.code, finding.remedy) == ("DB317", 'alter table "public"."outbox" replica identity full')


def test_a_standbys_copy_of_a_slot_cannot_be_read() -> None:
    facts = replace(server(is_standby=True), slot=replace(SLOT, is_copy=True))
    assert [finding.code for finding in check_database(SPEC, facts)] == ["DB107", "DB516"]
    assert check_database(SPEC, replace(GOOD, slot=replace(SLOT, is_copy=True))) == ()


def test_a_heartbeat_of_ones_own_may_be_one_for_a_standby() -> None:
    spec = parse_spec(f"{MINIMAL}overrides: {{heartbeat.action.query: select 1}}\n")
    assert check_database(spec, server(is_standby=True)) == ()


def test_rows_that_a_policy_hides_would_not_be_published_again() -> None:
    assert [finding.code for finding in check_republish(SPEC, role(sees_all_rows=False))] == ["DB206"]


def test_a_payload_of_bytes_is_one_and_json_is_none() -> None:
    in_bytes = replace(SPEC, outbox=replace(SPEC.outbox, payload_type=PayloadType.BYTES))
    assert check_database(in_bytes, replace(GOOD, table=table(payload="bytea"))) == ()
    [finding] = check_database(in_bytes, GOOD)
    assert (finding.code, finding.location.path) == ("DB304", "public.outbox.payload")
    assert "another table" in finding.remedy


def test_of_a_table_that_somebody_else_made_the_ids_may_be_short() -> None:
    spec = parse_spec(f"{MINIMAL}outbox: {{columns: {{}}}}\n")
    facts = replace(GOOD, table=table(id="character varying"))
    short = {**COLUMNS, "id": ColumnFacts("character varying", 26)}
    assert check_database(spec, facts) == ()
    [finding] = check_database(spec, replace(GOOD, table=replace(TABLE, columns=short)))
    assert (finding.code, finding.severity) == ("DB314", Severity.WARNING)


MB = 1024**2


@pytest.mark.parametrize(
    ("slot", "server", "code", "said"),
    [
        (replace(SLOT, wal_status="lost"), ServerFacts(), "DB505", "the slot is lost: the server removed WAL"),
        (
            replace(SLOT, wal_status="lost", invalidation="idle_timeout"),
            ServerFacts(),
            "DB505",
            "invalidated (idle_timeout)",
        ),
        (replace(SLOT, wal_status="unreserved"), ServerFacts(), "DB506", "at the next checkpoint"),
        (replace(SLOT, safe_bytes=100 * MB), ServerFacts(), "DB506", "after 100 MB more WAL"),
        (replace(SLOT, wal_status="unreserved", safe_bytes=-MB), ServerFacts(), "DB506", "at the next checkpoint"),
        (
            replace(SLOT, restart=Lsn(0)),
            ServerFacts(wal_end=Lsn(1025 * MB)),
            "DB507",
            "1,025 MB of WAL, until the disk",
        ),
        (
            replace(SLOT, restart=Lsn(0), reader=7),
            ServerFacts(wal_end=Lsn(601 * MB), max_slot_wal_bytes=1200 * MB),
            "DB507",
            "invalidated at 1,200 MB; process 7 reads it",
        ),
        (replace(SLOT, outlives_failover=False), ServerFacts(awaits_standbys=True), "DB510", "lost in a failover"),
        (replace(SLOT, outlives_failover=True), ServerFacts(), "DB517", "a standby has not received yet"),
        (SLOT, ServerFacts(idle_slots={"former": 34 * MB}), "DB518", "another slot of this database retains 34 MB"),
        (None, ServerFacts(idle_slots={"former": 34 * MB}), "DB518", "another slot of this database retains 34 MB"),
    ],
)
def test_how_a_slot_is_is_told(slot: SlotFacts | None, server: ServerFacts, code: str, said: str) -> None:
    [finding] = check_health(SPEC, replace(GOOD, slot=slot, server=server))
    assert (finding.code, said in finding.message) == (code, True), finding


def test_a_slot_that_is_read_in_time_is_in_order() -> None:
    near = ServerFacts(wal_end=Lsn(1024 * MB), awaits_standbys=True)
    for slot in (replace(SLOT, restart=Lsn(0), outlives_failover=True), replace(SLOT, safe_bytes=300 * MB), None):
        assert list(check_health(SPEC, replace(GOOD, slot=slot, server=near))) == []


def test_what_is_not_certain_is_a_warning() -> None:
    state = SlotState(slot=SLOT, written=WrittenFacts(rows=2, rows_outside_slot=1))
    for certain, severity in ((True, Severity.ERROR), (False, Severity.WARNING)):
        [finding] = check_hole(SPEC, state, is_certain=certain)
        assert (finding.code, finding.severity) == ("DB511", severity)
        assert "cdc-outbox deploy-connector" in finding.remedy


def test_of_messages_the_heads_are_looked_at() -> None:
    spec = parse_spec(f"{MINIMAL}outbox: {{mode: message}}\n")
    empty = replace(PUBLICATION, covers_table=False, publishes_inserts=False)
    heads = replace(GOOD, table=TableFacts(kind="r", persistence="p", columns={}), publication=empty)
    assert check_database(spec, heads) == ()
    for broken, code in ((None, "DB321"), (TableFacts(kind="r", persistence="u", columns={}), "DB323")):
        assert [finding.code for finding in check_database(spec, replace(heads, table=broken))] == [code]


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (server(open_for_long=LONG[:1]), "process 7 has been open since 2026-01-02"),
        (server(open_for_long=LONG[1:]), "the prepared transaction it's has been prepared since"),
        (server(open_for_long=LONG[1:]), "rollback prepared 'it''s'"),
        (replace(GOOD, role=ConnectorRoleFacts(can_login=False, can_replicate=True)), "lacks LOGIN"),
        (replace(GOOD, role=ConnectorRoleFacts(can_login=True, can_replicate=False)), "lacks REPLICATION"),
        (column("type", type="kind", is_enum=True), "PostgreSQL does not accept the writer's text"),
        (column("type", type="bytea"), "cast(convert_from(\"type\", 'UTF8') as text)"),
        (replace(GOOD, slot=replace(SLOT, plugin="")), "it is a physical slot"),
    ],
)
def test_a_finding_says_what_it_is(facts: DatabaseFacts, said: str) -> None:
    assert any(said in str(finding) for finding in check_database(SPEC, facts))
