"""Each command that acts for an operator records who did what to which events, by one function."""

import ast
import getpass
import inspect
import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import ModuleType

import click
import pytest

from cdc_outbox.cli import cli
from cdc_outbox.cli.options import acting
from cdc_outbox.consumer import InboxTable, inbox_component
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.migrations import upgrade
from cdc_outbox.operations.actions import Operator, record_action
from tests.contract.inbox_contract import CONSUMER, failed, gap, opened_on
from tests.support.commands import run_command
from tests.support.connect_server import Answer, Asked, answering
from tests.support.sqlite import SqliteStore

ROOT = click.Context(cli, **cli.context_settings, info_name="cdc-outbox")
ACTS = {
    "baseline",
    "delete",
    "deploy-connector",
    "init",
    "offsets reset",
    "offsets set",
    "parked retry",
    "parked skip",
    "prune",
    "purge-inbox",
    "recover",
    "relay",
    "replay",
    "reset",
}
"""Commands after which an event is published, applied or known otherwise than without them."""
ACTS_NOT = {
    "adopt",
    "completion",
    "consume",
    "contexts",
    "contexts trust",
    "contract export",
    "doctor",
    "explain",
    "lint",
    "monitor health",
    "new",
    "offsets show",
    "parked export",
    "parked list",
    "parked show",
    "partitions",
    "pause",
    "plan",
    "preflight",
    "render",
    "restart",
    "resume",
    "simulate",
    "spec-schema",
    "stack down",
    "stack env",
    "stack logs",
    "stack restart",
    "stack status",
    "stack up",
    "status",
    "stop",
    "topics create",
    "verify",
    "watch",
}
"""Commands that look, and those that make an event wait and leave it what it is."""


def every_command() -> Iterator[tuple[str, click.Command]]:
    def inside(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
        if not isinstance(command, click.Group) or command.invoke_without_command:
            yield path.strip(), command
        if isinstance(command, click.Group):
            for name in command.list_commands(ROOT):
                inner = command.get_command(ROOT, name)
                assert inner is not None
                yield from inside(inner, f"{path} {name}")

    return inside(cli, "")


def calls_of(module: ModuleType, function: str) -> set[str]:
    """Return the names that a function of a module uses, with those of what it calls there."""
    tree = ast.parse(inspect.getsource(module))
    bodies = {
        node.name: node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
    found, left = set[str](), [function]
    while left:
        body = bodies.get(left.pop())
        names = set() if body is None else {
            node.id if isinstance(node, ast.Name) else node.attr
            for node in ast.walk(body)
            if isinstance(node, ast.Name | ast.Attribute)
        }  # fmt: skip
        left += names - found
        found |= names
    return found


def test_every_command_that_acts_records_it() -> None:
    records = dict[str, bool]()
    for path, command in every_command():
        callback = inspect.unwrap(command.callback) if command.callback is not None else None
        assert callback is not None
        module = inspect.getmodule(callback)
        assert module is not None
        names = calls_of(module, callback.__name__)
        if path == "init":
            names |= calls_of(inspect.getmodule(callback.__globals__["begin"]) or module, "begin")
        records[path] = "record_action" in names
    assert {path for path, does in records.items() if does} == ACTS
    assert {path for path, does in records.items() if not does} == ACTS_NOT


@pytest.fixture
def recorded(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "cdc_outbox.operations.actions")
    return caplog


def test_an_action_says_who_did_what_to_which_events_and_why(recorded: pytest.LogCaptureFixture) -> None:
    record_action(Operator("ana@laptop", "ticket 4711"), "parked skip", "shipping", parked_ids=[17, 18])
    record_action(Operator("ana@laptop"), "replay", "shipping", dry_run=False)
    assert recorded.messages == [
        'parked skip by ana@laptop of shipping {"parked_ids": [17, 18]}: ticket 4711',
        'replay by ana@laptop of shipping {"dry_run": false}',
    ]


def test_who_acts_is_whom_by_names_or_the_user_at_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    assert acting(by="night shift", note="why") == Operator("night shift", "why")
    monkeypatch.setattr(getpass, "getuser", lambda: "ana")
    assert acting().name.startswith("ana@")

    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found: 4711")

    monkeypatch.setattr(getpass, "getuser", nameless)
    assert acting().name.startswith("uid ")


def test_what_operators_do_to_an_inbox_and_an_outbox_is_recorded(
    recorded: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "ana")
    monkeypatch.setattr("socket.gethostname", lambda: "laptop")
    spec = tmp_path / "x.yaml"
    spec.write_text("version: 1\nname: orders\ndatabase: {kind: sqlite}\naggregates: {order: {}}\n")
    with closing(SqliteStore(tmp_path / "x.db")) as store:
        upgrade(store.query, inbox_component(InboxTable.on(Dialect.SQLITE)))
        with opened_on(sqlite3.connect(store.path, isolation_level=None)) as opened:
            opened.claim("1")
            opened.issue()
            for sequence, failure in ((2, failed(None)), (4, gap()), (5, gap())):
                opened.add(sequence, failure)
            opened.commit()
    env = {"CDC_OUTBOX_DSN": f"sqlite:///{tmp_path}/x.db"}
    for command in (
        f"init {spec}",
        f"parked retry 1 --consumer {CONSUMER}",
        f"parked skip 1 --consumer {CONSUMER} --note because",
        f"baseline --consumer {CONSUMER} --aggregate order/a --source orders.1 --dry-run",
        f"baseline --consumer {CONSUMER} --aggregate order/a --source orders.1 --note lost",
        "purge-inbox --horizon 30d --accept-shorter-horizon --dry-run",
        "purge-inbox --horizon 30d --accept-shorter-horizon",
        f"init {spec} --new-incarnation --from-source orders.1",
    ):
        done = run_command(*command.split(), env=env)
        assert done.returncode == 0, done.stderr
    told = [message.partition(" {") for message in recorded.messages]
    assert [what for what, *_ in told] == [
        f"parked retry by ana@laptop of {CONSUMER}",
        f"parked skip by ana@laptop of {CONSUMER}",
        f"baseline by ana@laptop of {CONSUMER}",
        "purge-inbox by ana@laptop of main.inbox",
        "init --new-incarnation by ana@laptop of main.outbox",
    ]
    assert [told[1][2], told[4][2]] == ['"parked_ids": [1]}: because', '"source": "orders.2", "ended": "orders.1"}']
    assert told[2][2].endswith(": lost")


@pytest.mark.parametrize("command", ["offsets reset", "offsets set", "delete"])
def test_what_operators_do_to_a_connector_is_recorded(recorded: pytest.LogCaptureFixture, command: str) -> None:
    states = {"orders": "RUNNING"}
    offsets = [{"partition": {"server": "shop"}, "offset": {"file": "binlog.000001", "pos": 4}}]

    def answer(asked: Asked) -> Answer:
        *_, what = asked.path.partition("?")[0].split("/")
        if asked.method != "GET":
            if asked.method == "DELETE" and what == "orders":
                states.clear()
            states.update(
                {"orders": {"stop": "STOPPED", "resume": "RUNNING"}[what]} if what in {"stop", "resume"} else {}
            )
            return 204, ""
        if what == "connectors":
            return 200, [*states]
        if not states:
            return 404, {"message": "not found"}
        tasks = [] if states["orders"] == "STOPPED" else [{"id": 0, "state": "RUNNING", "worker_id": "w"}]
        config = {"connector.class": "io.debezium.connector.mysql.MySqlConnector", "topic.prefix": "shop"}
        return 200, {
            "status": {"connector": {"state": states["orders"], "worker_id": "w"}, "tasks": tasks},
            "offsets": {"offsets": offsets},
            "topics": {"orders": {"topics": []}},
        }.get(what, config)

    more = {"offsets set": ["--to-offset=binlog.000001:9"], "offsets reset": [], "delete": []}[command]
    quick = [] if command == "delete" else ["--yes", "--stable-for=0s"]
    with answering(answer) as (url, _):
        done = run_command(*command.split(), "orders", *more, *quick, env={"CDC_OUTBOX_CONNECT_URL": url})
    assert done.returncode == 0, done.stderr
    [message] = recorded.messages
    assert message.startswith(f"{command} by ")
    assert "@" in message.partition(" of orders {")[0]
