from dataclasses import replace

import pytest

from cdc_outbox.connect.facts import DatabaseFacts, PublicationFacts, RoleFacts, SlotFacts, TableFacts, WrittenFacts
from cdc_outbox.connect.preflight import check_database, check_republish
from cdc_outbox.lsn import Lsn
from cdc_outbox.spec import parse_spec
from tests.unit.test_spec import MINIMAL

SPEC = parse_spec(MINIMAL)

COLUMNS = {
    "id": "uuid",
    "aggregatetype": "text",
    "aggregateid": "text",
    "type": "text",
    "payload": "json",
    "sequence": "bigint",
    "source": "text",
    "traceparent": "text",
    "tracestate": "text",
    "created_at": "timestamp without time zone",
}

PUBLICATION = PublicationFacts(publishes_inserts=True, covers_table=True)
GOOD = DatabaseFacts(
    version=180_006,
    wal_level="logical",
    database="orders",
    free_slots=1,
    role=RoleFacts(can_login=True, can_replicate=True),
    table=TableFacts("r", "p", COLUMNS),
    publication=PUBLICATION,
    slot=None,
    written=WrittenFacts(),
)
SLOT = SlotFacts("pgoutput", "orders", reader=0, wal_status="reserved", confirmed=Lsn(1))


def table(**columns: str) -> TableFacts:
    return TableFacts("r", "p", COLUMNS | columns)


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
        (replace(GOOD, role=RoleFacts(can_login=False, can_replicate=True)), "DB202", "orders_connector"),
        (replace(GOOD, role=RoleFacts(can_login=True, can_replicate=False)), "DB202", "orders_connector"),
        (replace(GOOD, table=None), "DB301", "public.outbox"),
        (replace(GOOD, table=TableFacts("r", "u", COLUMNS)), "DB302", "public.outbox"),
        (replace(GOOD, table=TableFacts("r", "p", COLUMNS | {"x": "text"})), "", ""),
        (replace(GOOD, table=table(created_at="timestamp with time zone")), "DB304", "public.outbox.created_at"),
        (replace(GOOD, table=table(payload="bytea")), "DB304", "public.outbox.payload"),
        (replace(GOOD, table=TableFacts("v", "p", COLUMNS)), "DB305", "public.outbox"),
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
        (replace(GOOD, table=TableFacts("p", "p", COLUMNS)), "", ""),
        (replace(GOOD, slot=replace(SLOT, plugin="test_decoding")), "DB501", "orders_outbox"),
        (replace(GOOD, slot=replace(SLOT, database="other")), "DB502", "orders_outbox"),
    ],
)
def test_each_defect_is_one_finding_with_its_place(facts: DatabaseFacts, code: str, path: str) -> None:
    findings = check_database(SPEC, facts)
    assert [(finding.code, finding.place.path) for finding in findings] == ([(code, path)] if code else [])
    assert all(finding.remedy for finding in findings)


def test_a_missing_column_is_named() -> None:
    columns = {name: kind for name, kind in COLUMNS.items() if name != "sequence"}
    [finding] = check_database(SPEC, replace(GOOD, table=TableFacts("r", "p", columns)))
    assert (finding.code, finding.place.path) == ("DB303", "public.outbox.sequence")


def test_a_role_that_the_worker_resolves_is_not_looked_for() -> None:
    spec = parse_spec(MINIMAL.replace("user: orders_connector", "user: ${env:USER}"))
    assert check_database(spec, replace(GOOD, role=None)) == ()


def test_a_database_that_the_worker_resolves_is_not_compared() -> None:
    spec = parse_spec(MINIMAL.replace("name: orders\n  user", "name: ${env:DB}\n  user"))
    assert spec.database.name == "${env:DB}"
    assert check_database(spec, replace(GOOD, slot=SLOT)) == ()


def test_the_remedy_for_a_partitioned_table_is_one_that_helps() -> None:
    partitioned = replace(GOOD, table=TableFacts("p", "p", COLUMNS))
    assert check_database(SPEC, partitioned) == ()
    [finding] = check_database(SPEC, replace(partitioned, publication=replace(PUBLICATION, covers_table=False)))
    assert finding.code == "DB402"
    assert "publish_via_partition_root" in finding.remedy


def test_only_publishing_again_needs_to_read_the_table() -> None:
    blind = replace(GOOD, role=RoleFacts(can_login=True, can_replicate=True, can_select=False))
    assert check_database(SPEC, blind) == ()
    assert [finding.code for finding in check_republish(SPEC, blind)] == ["DB203"]
    assert check_republish(SPEC, GOOD) == check_republish(SPEC, replace(GOOD, role=None)) == ()


def test_a_partitioned_table_is_published_through_its_root() -> None:
    facts = replace(GOOD, table=TableFacts("p", "p", COLUMNS), publication=PublicationFacts(True, False))
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
    as_text = replace(GOOD, table=TableFacts("r", "p", {**COLUMNS, "id": "text"}))
    assert check_database(SPEC, as_text) == ()
    [finding] = check_database(spec, as_text)
    assert (finding.code, finding.remedy) == ("DB304", "It must be uuid.")
