"""What a doctor says of a connector, and what its command exits with where somebody does not answer."""

import sqlite3
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from cdc_outbox.cli import cli
from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.cluster import Cluster
from cdc_outbox.connect.preflight import LOOKS, what_connect_hides
from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.databases.drivers.sqlite3 import Sqlite3
from cdc_outbox.databases.facts import WrittenFacts
from cdc_outbox.databases.migrations import upgrade
from cdc_outbox.databases.table import Dialect, OutboxTable
from cdc_outbox.debezium.preflight.slot_rules import check_hole
from cdc_outbox.debezium.slot_plan import SlotState
from cdc_outbox.finding import Finding
from cdc_outbox.operations.doctor import Doctor
from cdc_outbox.spec import parse_spec
from cdc_outbox.writer.outbox_schema import outbox_component
from tests.support.connect_server import NOBODY, Answer, Asked, answering
from tests.support.database_facts import SLOT
from tests.support.specs import MINIMAL
from tests.support.timings import QUICK_TIMINGS


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
    silent = ["--connect-url", "http://127.0.0.1:1", "--connect-patience", "0"]
    done = CliRunner().invoke(cli, ["doctor", spec, *silent, *dsn], standalone_mode=False)
    assert (done.return_value, "OP101" in done.stdout) == (code, True)


def in_database(monkeypatch: pytest.MonkeyPatch, connection: sqlite3.Connection, *seen: Finding) -> list[Finding]:
    """Return what is said of a database in which that is seen, while Connect does not answer."""
    monkeypatch.setitem(LOOKS, DatabaseKind.POSTGRESQL, lambda *_asked: iter(seen))
    client = ConnectClient(Cluster(urls=("http://127.0.0.1:1",), patience_seconds=0))
    opened: Any = nullcontext((connection, Sqlite3()))
    doctor = Doctor(
        spec=parse_spec(MINIMAL), client=client, database=lambda: opened, brokers=None, timings=QUICK_TIMINGS
    )
    found = list(doctor.look())
    client.close()
    assert [finding.place.document for finding in found if finding.code == "OP101"] == ["connect"]
    return [finding for finding in found if finding.place.document == "database"]


def test_who_did_not_answer_is_not_said_to_be_nobody_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert in_database(monkeypatch, sqlite3.connect(":memory:"), *what_connect_hides("orders", None)) == []


def test_nothing_is_called_lost_that_the_offset_of_a_silent_connect_may_refute(monkeypatch: pytest.MonkeyPatch) -> None:
    state = SlotState(slot=SLOT, written=WrittenFacts(rows=10, rows_outside_slot=10))
    [unknown] = check_hole(parse_spec(MINIMAL), state, is_certain=False)
    [certain] = check_hole(parse_spec(MINIMAL), state, is_certain=True)
    assert in_database(monkeypatch, sqlite3.connect(":memory:"), unknown, certain) == [certain]
    assert "skip" not in unknown.remedy


def test_a_source_of_another_name_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    component = outbox_component(OutboxTable(), first_source="shop.1", dialect=Dialect.SQLITE)
    upgrade(lambda sql: Sqlite3().fetch(connection, sql), component)
    assert [finding.code for finding in in_database(monkeypatch, connection)] == ["DB333"]


def test_what_deploy_connector_does_not_deploy_is_not_given_to_it() -> None:
    with answering(lambda asked: (200, {"configs": []}) if asked.method == "PUT" else NOBODY) as (url, _):
        client = ConnectClient(url)
        spec = parse_spec(MINIMAL.replace("postgresql", "mariadb"))
        doctor = Doctor(spec=spec, client=client, database=None, brokers=None, timings=QUICK_TIMINGS)
        [absent] = [finding for finding in doctor.look() if finding.code == "OP201"]
        client.close()
    assert absent.remedy.startswith("`cdc-outbox render` prints the configuration")


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
        brokers: Any = SimpleNamespace(find=lambda _names: {})
        doctor = Doctor(spec=parse_spec(MINIMAL), client=client, database=None, brokers=brokers, timings=QUICK_TIMINGS)
        found = {finding.place.path: finding.code for finding in doctor.look() if finding.place.document == "topics"}
        client.close()
    assert found["outbox.event.customer"] == code
    assert set(found.values()) <= {code, "OP301"}


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
            doctor = Doctor(spec=parse_spec(MINIMAL), client=client, database=None, brokers=None, timings=QUICK_TIMINGS)
            return {finding.code: finding for finding in doctor.look()}
        finally:
            client.close()


def test_a_connector_that_is_starting_is_not_to_be_resumed() -> None:
    assert "cdc-outbox resume" in findings("PAUSED")["OP203"].remedy
    assert "cdc-outbox resume" not in findings("RUNNING")["OP203"].remedy


@pytest.mark.parametrize(
    ("trace", "reason", "remedy"),
    [
        ("java.net.UnknownHostException: db.x", "finds no host of the name db.x", "database.host"),
        ("java.lang.Boom\n\tat nowhere", "java.lang.Boom", "worker's log"),
        ("", "There is no trace.", "worker's log"),
    ],
)
def test_a_failure_is_told_with_its_reason_and_what_to_do(trace: str, reason: str, remedy: str) -> None:
    failed = findings("RUNNING", ("FAILED", trace))["OP202"]
    assert failed.message.startswith("connector RUNNING, 1 task FAILED. ")
    assert reason in failed.message
    assert "\n" not in failed.message
    assert remedy in failed.remedy
