"""What a doctor says of a connector, and what its command exits with where somebody does not answer."""

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from cdc_outbox.cli import cli
from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.cluster import Cluster, ManagedBy
from cdc_outbox.connect.preflight import LOOKS, AskConnect, Look, Looked, what_connect_hides
from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.drivers.sqlite3 import Sqlite3
from cdc_outbox.databases.facts import SlotFacts, WrittenFacts
from cdc_outbox.databases.migrations import upgrade
from cdc_outbox.debezium.preflight.slot_rules import check_hole, slot_in_use
from cdc_outbox.debezium.render import render, render_republishing, topics_of
from cdc_outbox.debezium.slot_plan import Hole, SlotState
from cdc_outbox.errors import ConnectError
from cdc_outbox.finding import Finding, Severity
from cdc_outbox.operations import doctor
from cdc_outbox.operations.doctor import Doctor, Systems
from cdc_outbox.spec import parse_spec
from cdc_outbox.writer.outbox_schema import outbox_components
from tests.support.connect_server import NOBODY, Answer, Asked, answering
from tests.support.database_facts import SLOT
from tests.support.specs import MINIMAL
from tests.support.timings import QUICK_TIMINGS

SPEC = parse_spec(MINIMAL)


@pytest.fixture
def spec(tmp_path: Path) -> str:
    path = tmp_path / "spec.yaml"
    path.write_text(MINIMAL)
    return str(path)


@pytest.mark.parametrize(
    ("dsn", "code"),
    [
        ([], 75),
        (["--dsn", "postgresql://me@127.0.0.1:1/orders?connect_timeout=1"], 75),
        (["--dsn", "nobody://knows"], 1),
    ],
)
def test_only_a_silence_that_passes_is_tried_again_later(spec: str, dsn: list[str], code: int) -> None:
    silent = ["--connect-url", "http://127.0.0.1:1", "--connect-patience", "0s"]
    done = CliRunner().invoke(cli, ["doctor", spec, *silent, *dsn], standalone_mode=False)
    assert (done.return_value, "OP101" in done.stdout) == (code, True)


@pytest.fixture(autouse=True)
def _publisher(monkeypatch: pytest.MonkeyPatch) -> None:
    """The databases of these tests are SQLite's, and have no publisher."""
    monkeypatch.setattr(Doctor, "_names_relay", lambda *_: False)


def tables(*, source: str = "orders.1") -> sqlite3.Connection:
    """Return a database with an outbox that writes under this source."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    outbox = SPEC.outbox
    for component in outbox_components(outbox, first_source=source, dialect=Dialect.SQLITE):
        upgrade(lambda sql: Sqlite3().fetch(connection, sql), component)
    return connection


def in_database(monkeypatch: pytest.MonkeyPatch, connection: sqlite3.Connection, *seen: Finding) -> list[Finding]:
    """Return what is said of a database in which that is seen, while Connect does not answer."""
    monkeypatch.setitem(LOOKS, DatabaseKind.POSTGRESQL, lambda *_asked: iter(seen))
    client = ConnectClient(Cluster(urls=("http://127.0.0.1:1",), patience_seconds=0))
    opened: Any = nullcontext((connection, Sqlite3()))
    systems = Systems(connect=client, database=lambda: opened)
    found = Doctor(SPEC, systems, timings=QUICK_TIMINGS).look()
    client.close()
    assert [finding.location.document for finding in found if finding.code == "OP101"] == ["connect"]
    return [finding for finding in found if finding.location.document == "database"]


def test_who_did_not_answer_is_not_said_to_be_nobody_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert in_database(monkeypatch, tables(), *what_connect_hides("orders", None)) == []


def test_nothing_is_called_lost_that_the_offset_of_a_silent_connect_may_refute(monkeypatch: pytest.MonkeyPatch) -> None:
    state = SlotState(slot=SLOT, written=WrittenFacts(rows=10, rows_outside_slot=10))
    [unknown] = check_hole(SPEC, state, is_certain=False)
    [certain] = check_hole(SPEC, state, is_certain=True)
    assert in_database(monkeypatch, tables(), unknown, certain) == [certain]
    assert "skip" not in unknown.remedy


def test_a_source_of_another_name_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [finding.code for finding in in_database(monkeypatch, tables(source="shop.1"))] == ["DB333"]


def test_a_database_is_compared_with_what_init_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = tables()
    connection.execute("alter table outbox add column note text not null default ''")
    assert in_database(monkeypatch, connection) == []
    connection.execute("drop table outbox_heads")
    assert [finding.code for finding in in_database(monkeypatch, connection)] == ["DB321"]


def test_what_deploy_connector_does_not_deploy_is_not_given_to_it() -> None:
    with answering(lambda asked: (200, {"configs": []}) if asked.method == "PUT" else NOBODY) as (url, _):
        client = ConnectClient(url)
        spec = parse_spec(MINIMAL.replace("postgresql", "mariadb"))
        found = Doctor(spec, Systems(connect=client), timings=QUICK_TIMINGS).look()
        [absent] = [finding for finding in found if finding.code == "OP201"]
        client.close()
    assert absent.remedy.startswith("Print the configuration with `cdc-outbox render`")


@pytest.mark.parametrize(("written", "code"), [(["outbox.event.customer"], "OP303"), ([], "OP301"), (None, "OP301")])
def test_a_topic_that_was_deleted_is_told_from_one_that_is_still_to_come(written: list[str] | None, code: str) -> None:
    def answer(asked: Asked) -> Answer:
        if asked.path.endswith("/topics"):
            return NOBODY if written is None else (200, {"orders": {"topics": written}})
        if asked.path.endswith("/status"):
            return 200, {"connector": {"state": "RUNNING"}, "tasks": [{"id": 0, "state": "RUNNING"}]}
        return 200, {"configs": []} if asked.path.endswith("/validate") else {"name": "orders"}

    with answering(answer) as (url, _):
        client = ConnectClient(url)
        brokers: Any = SimpleNamespace(find=lambda _names: {}, count_brokers=lambda: 3)
        systems = Systems(connect=client, brokers=brokers)
        diagnosis = Doctor(SPEC, systems, timings=QUICK_TIMINGS).look()
        found = {finding.location.path: finding.code for finding in diagnosis if finding.location.document == "topics"}
        client.close()
    assert found["outbox.event.customer"] == code
    assert set(found.values()) <= {code, "OP301"}


def test_a_topic_that_can_lose_acknowledged_messages_is_a_warning() -> None:
    wanted = {topic.name: replace(topic, replication_factor=1) for topic in topics_of(SPEC)}
    brokers: Any = SimpleNamespace(find=lambda _names: wanted, count_brokers=lambda: 3)
    with answering(lambda asked: {"name": "orders"} if asked.path.endswith("/config") else NOBODY) as (url, _):
        client = ConnectClient(Cluster(urls=(url,), patience_seconds=0))  # it has no status, which is not waited for
        diagnosis = Doctor(SPEC, Systems(connect=client, brokers=brokers), timings=QUICK_TIMINGS).look()
        client.close()
    found = [finding for finding in diagnosis if finding.code == "OP304"]
    assert {finding.location.path for finding in found} == wanted.keys()
    assert {finding.severity for finding in found} == {Severity.WARNING}


def findings(state: str, *tasks: tuple[str, str]) -> dict[str, Finding]:
    """Return what is said of a connector of this state with such tasks: each one's state, and its trace."""

    def answer(asked: Asked) -> Answer:
        if asked.path.endswith("/status"):
            told = [{"id": number, "state": task, "trace": trace} for number, (task, trace) in enumerate(tasks)]
            return 200, {"connector": {"state": state}, "tasks": told}
        if asked.path.endswith("/topics"):
            return NOBODY
        return 200, {"configs": []} if asked.path.endswith("/validate") else {"name": "orders"}

    with answering(answer) as (url, _):
        client = ConnectClient(url)
        try:
            found = Doctor(SPEC, Systems(connect=client), timings=QUICK_TIMINGS).look()
            return {finding.code: finding for finding in found}
        finally:
            client.close()


def test_a_connector_that_is_starting_is_not_to_be_resumed() -> None:
    assert "cdc-outbox resume" in findings("PAUSED")["OP203"].remedy
    assert "cdc-outbox resume" not in findings("RUNNING")["OP203"].remedy


@pytest.mark.parametrize(
    ("trace", "reason", "remedy"),
    [
        ("java.net.UnknownHostException: db.x", "cannot resolve the host name db.x", "database.host"),
        ("java.lang.Boom\n\tat nowhere", "java.lang.Boom", "worker's log"),
        ("", "Connect returned no stack trace.", "worker's log"),
    ],
)
def test_a_failure_is_told_with_its_reason_and_what_to_do(trace: str, reason: str, remedy: str) -> None:
    failed = findings("RUNNING", ("FAILED", trace))["OP202"]
    assert failed.message.startswith("connector RUNNING, 1 task FAILED. ")
    assert reason in failed.message
    assert "\n" not in failed.message
    assert remedy in failed.remedy


RUNS = render(SPEC)
ILL: Answer = (503, {"status": "unhealthy", "message": "Worker was unable to handle this request and may be unhealthy"})


@contextmanager
def running(config: dict[str, str] = RUNS, *, health: Answer = (200, {"status": "healthy"})) -> Iterator[Any]:
    """Give a client of a worker that runs the connector with this configuration, and the list of what was asked."""

    def answer(asked: Asked) -> Answer:
        path = asked.path.removeprefix("/connectors/orders")
        if asked.path == "/health":
            return health
        if path == "/status":
            return 200, {"connector": {"state": "RUNNING"}, "tasks": [{"id": 0, "state": "RUNNING"}]}
        answers: dict[str, object] = {
            "/config": config,
            "/offsets": {"offsets": []},
            "/topics": {"orders": {"topics": []}},
        }
        other: dict[str, Any] = (
            {"configs": []} if path.endswith("/validate") else {"orders": {"info": {"config": config}}}
        )
        return 200, answers.get(path, other)

    with answering(answer) as (url, log):
        client = ConnectClient(Cluster(urls=(url,), patience_seconds=0))
        yield client, log
        client.close()


def look_at(slot: SlotFacts) -> Look:
    """Return a look into a database that has this slot, and nothing that is wrong."""

    def look(_spec: object, _connection: object, _driver: object, ask: AskConnect) -> Looked:
        assert ask() is not None
        yield from ()
        return slot

    return look


def diagnosed(client: ConnectClient | None) -> list[Finding]:
    opened: Any = nullcontext((tables(), Sqlite3()))
    return Doctor(SPEC, Systems(connect=client, database=lambda: opened), timings=QUICK_TIMINGS).look()


@pytest.mark.parametrize(("reader", "codes"), [(0, ["OP206"]), (7, [])])
def test_a_slot_without_a_reader_is_told_of_a_connector_that_runs(
    monkeypatch: pytest.MonkeyPatch, reader: int, codes: list[str]
) -> None:
    monkeypatch.setitem(LOOKS, DatabaseKind.POSTGRESQL, look_at(replace(SLOT, reader=reader)))
    with running() as (client, _):
        assert [each.code for each in diagnosed(client) if each.severity is Severity.ERROR] == codes


def test_a_hole_of_the_slot_that_the_connector_reads_is_told_though_the_spec_names_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hole = Hole("DB513", "the slot old is ahead of Connect's offset.", "Publish the rows again.")
    monkeypatch.setitem(LOOKS, DatabaseKind.POSTGRESQL, look_at(SLOT))
    monkeypatch.setattr(doctor, "find_positions", lambda *_: SimpleNamespace(find_hole=lambda: hole))
    with running(RUNS | {"slot.name": "old"}) as (client, _):
        found = {each.code: each for each in diagnosed(client) if each.severity is Severity.ERROR}
    assert found.keys() == {"OP205", "DB513"}
    assert str(found["DB513"].location) == "database old"


def test_a_connect_that_falls_silent_meanwhile_hides_nothing_of_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    def fall_silent(*_asked: object) -> Any:
        raise ConnectError("the worker is gone")

    connection = tables()
    connection.execute("drop table outbox_heads")
    opened: Any = nullcontext((connection, Sqlite3()))
    monkeypatch.setitem(LOOKS, DatabaseKind.POSTGRESQL, look_at(SLOT))
    monkeypatch.setattr(doctor, "find_positions", fall_silent)
    with running(RUNS | {"slot.name": "old"}) as (client, _):
        systems = Systems(connect=client, database=lambda: opened)
        found = Doctor(SPEC, systems, timings=QUICK_TIMINGS).look()
    assert [each.code for each in found if each.severity is Severity.ERROR] == ["OP101", "OP205", "DB321"]


def test_connect_is_asked_each_thing_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LOOKS, DatabaseKind.POSTGRESQL, look_at(replace(SLOT, reader=7)))
    with running() as (client, log):
        diagnosed(client)
        assert max(Counter(map(str, log)).values()) == 1


def test_a_worker_that_says_that_it_cannot_work_hides_nothing_else() -> None:
    with running(RUNS | {"poll.interval.ms": "77"}, health=ILL) as (client, _):
        found = Doctor(SPEC, Systems(connect=client), timings=QUICK_TIMINGS).look()
    assert [each.code for each in found if each.severity is not Severity.NOTE] == ["OP101", "OP204"]


def test_rows_that_a_connector_owes_are_told_without_a_database_and_not_as_changed_options() -> None:
    with running(render_republishing(SPEC)) as (client, _):
        found = Doctor(SPEC, Systems(connect=client), timings=QUICK_TIMINGS).look()
    assert [each.code for each in found if each.severity is not Severity.NOTE] == ["DB515"]


def test_connectors_that_an_operator_keeps_are_a_note() -> None:
    with running() as (client, _):
        client.cluster = replace(client.cluster, managed_by=ManagedBy.STRIMZI)
        [kept] = [
            each for each in Doctor(SPEC, Systems(connect=client), timings=QUICK_TIMINGS).look() if each.code == "OP209"
        ]
    assert (kept.severity, "--target strimzi" in kept.remedy) == (Severity.NOTE, True)


def test_without_any_address_each_system_is_named_once_and_the_spec_is_linted() -> None:
    linted = parse_spec(f"{MINIMAL}overrides: {{max.queue.size: '2048'}}\n")
    found = Doctor(linted, Systems(), timings=QUICK_TIMINGS).look()
    assert found[0].code == "CC108"
    assert [str(each.location) for each in found if each.code == "OP102"] == [
        "connect orders",
        "database orders",
        "topics orders",
    ]


def test_a_spec_that_cannot_be_rendered_is_found_and_its_connector_is_looked_at_all_the_same() -> None:
    refused = parse_spec(f"{MINIMAL}overrides: {{plugin.name: wal2json}}\n")
    with running() as (client, _):
        found = Doctor(refused, Systems(connect=client), timings=QUICK_TIMINGS).look()
    assert [each.code for each in found if each.severity is Severity.ERROR] == ["SP106"]


def test_of_a_database_that_no_connector_reads_the_tables_are_compared() -> None:
    spec = parse_spec(MINIMAL.split("database:")[0] + "database: {kind: sqlite}\naggregates: {customer: {}}\n")
    connection = tables()
    connection.execute("drop table outbox_heads")
    opened: Any = nullcontext((connection, Sqlite3()))
    found = Doctor(spec, Systems(database=lambda: opened), timings=QUICK_TIMINGS).look()
    assert [each.code for each in found] == ["DB321", "OP102", "SP108"]


def test_a_relay_is_a_note_and_neither_connector_nor_heartbeats_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    def look(*_asked: object) -> Looked:
        yield slot_in_use(slot)
        return slot

    slot = replace(SLOT, reader=7, reader_name="cdc-outbox relay orders")
    brokers: Any = SimpleNamespace(find=lambda _names: {}, count_brokers=lambda: 1)
    monkeypatch.setitem(LOOKS, DatabaseKind.POSTGRESQL, look)
    for is_down, code in ((False, "OP210"), (True, "OP211")):
        if is_down:
            slot = replace(slot, reader=0, reader_name="")
        monkeypatch.setattr(Doctor, "_names_relay", lambda *_, is_down=is_down: is_down)
        opened: Any = nullcontext((tables(), Sqlite3()))
        systems = Systems(database=lambda opened=opened: opened, brokers=brokers)  # type: ignore[misc]
        found = Doctor(SPEC, systems, timings=QUICK_TIMINGS).look()
        assert {(each.code, each.location.path) for each in found} == {
            ("OP102", "orders"),
            (code, SPEC.database.slot),
            ("OP301", "outbox.event.customer"),
        }
