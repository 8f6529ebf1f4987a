"""`cdc-outbox recover` beside a Connect, a slot and heartbeats that are what a test says."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from subprocess import CompletedProcess
from types import SimpleNamespace
from typing import Any

import pytest

from cdc_outbox.cli import recover
from cdc_outbox.connect.positions import Positions
from cdc_outbox.databases.facts import SlotFacts
from cdc_outbox.databases.heartbeats import Chain, Heartbeat, Stored
from cdc_outbox.databases.lsn import Lsn
from cdc_outbox.databases.publishers import PublisherKind
from cdc_outbox.databases.table import TableName
from cdc_outbox.debezium.render import render
from cdc_outbox.debezium.slot_plan import StoredOffset
from cdc_outbox.operations.recovery import Beating, History
from cdc_outbox.spec import parse_spec
from tests.support import database_facts
from tests.support.commands import run_command
from tests.support.connect_server import Answer, Asked, answering
from tests.support.specs import MINIMAL

BEGIN = datetime(2026, 11, 22, tzinfo=UTC)
OFFSET = Lsn(50_000)
SLOT = replace(database_facts.SLOT, name="orders", reader=7, confirmed=Lsn(40_000), log_end=Lsn(95_000))


def beats(count: int, *, after: Heartbeat | None = None, branch: str = "a") -> list[Heartbeat]:
    """Return heartbeats that follow each other, a minute and 1,000 bytes apart."""
    made = [] if after is None else [after]
    for _ in range(count):
        last = made[-1] if made else None
        number = 1 if last is None else last.number + 1
        at, lsn, previous = BEGIN + timedelta(minutes=number), Lsn(number * 1000), None if last is None else last.id
        made.append(Heartbeat(number=number, id=f"{branch}{number}", previous=previous, at=at, lsn=lsn))
    return made[after is not None :]


@dataclass
class Recovery:
    """One pipeline, as `recover` sees it.

    Args:
        topic: The heartbeats in the topic.
        table: Those in the database.
        stored: The offset that Connect stored.
        asked: What Connect was told to do.
        reaches_connect: Whether the command knows its URL.
        publisher: What the outbox names.
    """

    monkeypatch: pytest.MonkeyPatch
    topic: list[Heartbeat] = field(default_factory=list)
    table: list[Heartbeat] = field(default_factory=list)
    now: datetime = BEGIN
    stored: Lsn | None = OFFSET
    slot: SlotFacts | None = SLOT
    state: str = "RUNNING"
    config: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    reaches_connect: bool = True
    publisher: PublisherKind | None = None

    def run(self, *arguments: str, connector: str | Path = "orders") -> CompletedProcess[str]:
        """Run the command."""
        chain = Chain()
        for each in self.topic:
            chain.add(each)
        topic: Any = SimpleNamespace(read=lambda: chain)
        history = History(Beating("orders", "beats", TableName(schema="public", name="beat")), topic, self._table)
        offset = None if self.stored is None else StoredOffset(self.stored)
        self.monkeypatch.setattr(recover, "history_of", lambda *_: history)
        positions = Positions(config=self.config, slot=self.slot, stored=offset, log_end=Lsn(95_000), database="orders")
        self.monkeypatch.setattr(recover, "find_positions", lambda *_: positions)
        self.monkeypatch.setattr(recover, "connected", lambda *_: nullcontext((None, None)))
        named = SimpleNamespace(find=lambda: self.publisher and SimpleNamespace(kind=self.publisher))
        self.monkeypatch.setattr(recover, "publishers_of", lambda *_: [named])
        with answering(self._answer) as (url, _):
            env = {"CDC_OUTBOX_DSN": "x", "CDC_OUTBOX_BOOTSTRAP_SERVERS": "x"}
            env |= {"CDC_OUTBOX_CONNECT_URL": url} if self.reaches_connect else {}
            return run_command("recover", connector, "--stable-for=0s", *arguments, env=env)

    @contextmanager
    def _table(self) -> Iterator[Any]:
        yield SimpleNamespace(read=lambda runs: Stored(heartbeats=self.table, now=self.now, runs=runs))

    def _answer(self, asked: Asked) -> Answer:
        if asked.method != "GET":
            self.asked.append(str(asked))
            self.state = {"stop": "STOPPED", "resume": "RUNNING"}.get(asked.path.rpartition("/")[2], self.state)
            return 204, ""
        if asked.path.endswith("/status"):
            tasks = [] if self.state == "STOPPED" else [{"id": 0, "state": self.state, "worker_id": "w"}]
            return 200, {"name": "orders", "connector": {"state": self.state, "worker_id": "w"}, "tasks": tasks}
        return 200, ["orders"] if asked.path.endswith("/connectors") else {"name": "orders", **self.config}


@pytest.fixture
def recovery(monkeypatch: pytest.MonkeyPatch) -> Recovery:
    return Recovery(monkeypatch)


def test_a_connector_that_lags_has_lost_nothing(recovery: Recovery) -> None:
    """It starts after a long pause: its heartbeat lies behind a backlog of more than three minutes."""
    recovery.topic = beats(7)
    late = replace(beats(8)[-1], at=BEGIN + timedelta(hours=8), lsn=Lsn(90_000))
    recovery.table, recovery.now = [*recovery.topic, late], late.at + timedelta(minutes=4)
    done = recovery.run()
    assert (done.returncode, "OP405" in done.stdout) == (0, True), done.stderr
    assert "no loss found" in done.stderr
    accepted = recovery.run("--accept", "--output=json")
    assert (accepted.returncode, "nothing to accept" in accepted.stderr) == (0, True)
    document = json.loads(accepted.stdout)
    assert (document["accepted"], document["left"], document["offsetsDeleted"]) == ([], 0, False)
    assert [finding["code"] for finding in document["findings"]] == ["OP405"]
    assert recovery.asked == []


def test_a_loss_beside_which_a_connector_lags_is_told(recovery: Recovery) -> None:
    recovery.topic = beats(30)
    recovery.table = [*beats(20), *beats(20, after=recovery.topic[19], branch="b")]
    recovery.now = recovery.table[-1].at + timedelta(minutes=9)
    done = recovery.run("--output=json")
    assert (done.returncode, "OP401" in done.stderr) == (1, True)
    document = json.loads(done.stdout)
    assert (document["error"]["kind"], document["continuesAt"]) == ("UnpublishedEventsError", None)
    assert "only the rows of the table" in done.stderr
    assert "recover --accept" in done.stderr


def restore(recovery: Recovery) -> None:
    """Let the database go back, with a slot that holds everything that is in no topic."""
    recovery.topic = beats(60)
    recovery.table = [*beats(50), *beats(1, after=recovery.topic[49], branch="b")]
    recovery.now = recovery.table[-1].at


def test_after_an_interruption_it_says_that_the_connector_is_stopped(recovery: Recovery) -> None:
    """It was killed behind the deletion of the offsets, before it let the connector run again."""
    restore(recovery)
    recovery.stored, recovery.state = None, "STOPPED"
    done = recovery.run("--yes")
    assert (done.returncode, "continues at" in done.stdout) == (1, True)
    assert done.stderr.index("cdc-outbox resume orders") < done.stderr.index("recover --accept")


def test_after_an_interruption_without_a_heartbeat_it_says_so_too(recovery: Recovery) -> None:
    recovery.topic = recovery.table = beats(5)
    recovery.now = recovery.table[-1].at
    recovery.stored, recovery.state = None, "STOPPED"
    done = recovery.run("--yes")
    assert (done.returncode, "cdc-outbox resume orders" in done.stderr) == (0, True)
    recovery.state = "RUNNING"
    assert "resume" not in recovery.run("--yes").stderr


@pytest.mark.parametrize("state", ["RUNNING", "STOPPED"])
@pytest.mark.parametrize("stored", [OFFSET, None], ids=["offset", "no offset"])
def test_a_connector_that_owes_rows_does_not_go_on(recovery: Recovery, state: str, stored: Lsn | None) -> None:
    restore(recovery)
    recovery.config = {"snapshot.mode": "initial_only", "snapshot.select.statement.overrides": "public.outbox"}
    recovery.state, recovery.stored = state, stored
    done = recovery.run("--yes")
    assert (done.returncode, "has not published all rows" in done.stderr, "republish" in done.stderr) == (1, True, True)
    assert recovery.asked == []


def test_a_slot_that_holds_everything_is_where_the_connector_goes_on(recovery: Recovery) -> None:
    restore(recovery)
    done = recovery.run("--yes", "--output=json")
    assert (done.returncode, "the position of its slot" in done.stderr) == (1, True)
    document = json.loads(done.stdout)
    assert (document["kind"], document["connector"], document["left"]) == ("Recovery", "orders", 1)
    assert (document["continuesAt"], document["offsetsDeleted"]) == (str(SLOT.confirmed), True)
    assert [finding["code"] for finding in document["findings"]] == ["OP401"]
    steps = ("PUT {}/stop", "DELETE {}/offsets", "PUT {}/resume")
    assert recovery.asked == [step.format("/connectors/orders") for step in steps]


@pytest.mark.parametrize("reaches_connect", [True, False])
def test_of_a_pipeline_without_a_connector_the_heartbeats_are_compared_and_nothing_is_done(
    recovery: Recovery, tmp_path: Path, *, reaches_connect: bool
) -> None:
    spec = tmp_path / "relayed.yaml"
    spec.write_text(MINIMAL.replace("name: orders", "name: relayed"))
    recovery.reaches_connect, recovery.publisher = reaches_connect, PublisherKind.WAL_RELAY
    recovery.topic = recovery.table = beats(5)
    recovery.now = recovery.table[-1].at
    done = recovery.run(connector=spec)
    assert (done.returncode, "the heartbeats have no gap" in done.stderr) == (0, True), done.stderr
    restore(recovery)
    done = recovery.run(connector=spec)
    assert (done.returncode, "OP401" in done.stdout, "recover --accept" in done.stderr) == (1, True, True)
    assert "a relay continues at its slot" in done.stderr
    assert recovery.asked == []


@pytest.mark.parametrize("publisher", [None, PublisherKind.DEBEZIUM])
@pytest.mark.parametrize("reaches_connect", [True, False])
def test_heartbeats_alone_tell_nothing_of_a_pipeline_that_no_relay_publishes(
    recovery: Recovery, tmp_path: Path, *, publisher: PublisherKind | None, reaches_connect: bool
) -> None:
    """Connect's offset may be ahead of the slot, which only Connect knows."""
    spec = tmp_path / "relayed.yaml"
    spec.write_text(MINIMAL.replace("name: orders", "name: relayed"))
    recovery.reaches_connect, recovery.publisher = reaches_connect, publisher
    recovery.topic = recovery.table = beats(5)
    recovery.now = recovery.table[-1].at
    done = recovery.run(connector=spec)
    assert (done.returncode, "no relay publishes relayed" in done.stderr) == (2, True), done.stderr


def test_without_connect_a_name_says_too_little(recovery: Recovery) -> None:
    recovery.reaches_connect = False
    done = recovery.run()
    assert (done.returncode, "recover NAME needs --connect-url" in done.stderr) == (2, True)


def test_a_spec_that_names_another_outbox_is_no_loss_and_is_told(recovery: Recovery, tmp_path: Path) -> None:
    recovery.topic = recovery.table = beats(5)
    recovery.now, recovery.stored = recovery.table[-1].at, None
    recovery.config = render(parse_spec(MINIMAL))
    spec = tmp_path / "orders.yaml"
    spec.write_text(f"{MINIMAL}outbox: {{table: outbux}}\n")
    done = recovery.run("--output=json", connector=spec)
    document = json.loads(done.stdout)
    assert (done.returncode, [finding["code"] for finding in document["findings"]]) == (0, ["OP208"]), done.stderr
    assert (document["left"], "the spec names public.outbux" in done.stderr) == (0, True)
