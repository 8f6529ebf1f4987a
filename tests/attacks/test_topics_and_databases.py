"""What stands in a topic or in a database is shown, parked or refused; nothing obeys it."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from psycopg.sql import SQL, Identifier, Literal

from cdc_outbox.message import Message
from tests.support.attacks import SECRET, assert_harmless, hostile_text
from tests.support.commands import run_command
from tests.support.events import make_event
from tests.support.pipeline import Pipeline
from tests.support.rig import eventually
from tests.support.service import Service


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "executed"


@pytest.fixture
def text(marker: Path) -> str:
    return hostile_text(marker)


@pytest.fixture
def service(pipeline: Pipeline) -> Service:
    """A consuming service behind an outbox without a connector."""
    pipeline.create_topics()
    return Service(pipeline)


@pytest.fixture
def spec(pipeline: Pipeline, tmp_path: Path) -> Path:
    spec = tmp_path / "pipeline.yaml"
    spec.write_text(pipeline.text(pipeline.name))
    return spec


@pytest.fixture(autouse=True)
def nothing_is_executed(service: Service, marker: Path) -> Iterator[None]:
    yield
    assert not marker.exists()
    assert service.one("select to_regclass('effects') is not null")


def run(service: Service, *arguments: str | Path) -> str:
    """Run a command that has secrets within reach; return its output."""
    environment = service.pipeline.stack.environment()
    done = run_command(
        *arguments,
        env={**environment, "CDC_OUTBOX_DSN": service.dsn, "CDC_OUTBOX_INBOX_DSN": service.dsn, "GITHUB_TOKEN": SECRET},
    )
    assert done.returncode in {0, 1, 2, 3}, done.stderr
    assert_harmless(done.stdout + done.stderr)
    return done.stdout


def hostile_messages(service: Service, text: str) -> list[Message]:
    """Return messages with a hostile text in each place in turn."""
    contract = service.pipeline.spec.contract

    def plain() -> Message:
        return contract.message_of(make_event(1, "7"))

    def with_header(name: str) -> Message:
        message = plain()
        return replace(
            message, headers=tuple((each, text.encode() if each == name else of) for each, of in message.headers)
        )

    events = [
        make_event(1, text),
        make_event(1, "2", event_type=text),
        make_event(1, "3", event_id=text[:200]),
        make_event(1, "4", source=text),
        make_event(1, "5", payload={text: [text]}),
    ]
    return [
        *map(contract.message_of, events),
        *(with_header(name) for name, _ in plain().headers),
        replace(plain(), headers=(*plain().headers, (text, text.encode()))),
        replace(plain(), key=text.encode()),
        *(replace(plain(), value=value) for value in (text.encode(), b"[" * 100_000, b"1" * 100_000)),
    ]


def test_messages_are_parked_or_applied_and_shown(service: Service, spec: Path, text: str, tmp_path: Path) -> None:
    sent = service.send(*hostile_messages(service, text), partition=0)
    service.pipeline.send_raw(replace(sent[0], partition=0), (b"\xff\x1b[2J", text.encode()))
    service.send(make_event(1, "well"), partition=0)
    with service.running():
        eventually(lambda: ("well", 1) in service.effects(), "the event behind them")
    assert len(service.parked()) >= 8
    consumer = f"--consumer={service.name}"
    for output in ([], ["--output", "json"]):
        run(service, "parked", "list", consumer, *output)
        for parked_id in service.parked_by_id():
            run(service, "parked", "show", str(parked_id), consumer, "--payload", *output)
    exported = tmp_path / "parked.jsonl"
    run(service, "parked", "export", consumer, "--file", exported)
    assert all(json.loads(line) for line in exported.read_text().splitlines())
    run(service, "verify", spec, consumer, "--settle", "0s")
    run(service, "verify", spec, consumer, "--settle", "0s", "--output", "json")
    run(service, "parked", "retry", consumer, "--all")


def plant(connection: psycopg.Connection[tuple[object, ...]], text: str) -> None:
    """Put hostile rows into the outbox, and hostile names beside it."""
    row = "insert into outbox (id, aggregatetype, aggregateid, type, payload, source) values ({}, {}, {}, {}, {}, {})"
    values = ["7e577e57-0000-7000-8000-000000000001", text, text, text, json.dumps({text: text}), text]
    connection.execute(SQL(row).format(*map(Literal, values)))
    name = Identifier(text.encode()[:60].decode())
    connection.execute(SQL("create publication {} for table outbox").format(name))
    connection.execute(SQL("create index {} on outbox (type)").format(name))
    connection.execute(SQL("alter table outbox add constraint {} check (true)").format(name))
    connection.execute(
        SQL("create function {}() returns trigger language plpgsql as 'begin return new; end'").format(name)
    )
    connection.execute(
        SQL("create trigger {} before insert on outbox for each row execute function {}()").format(name, name)
    )


def test_rows_and_names_of_a_database_are_shown(service: Service, spec: Path, text: str) -> None:
    with service.connect() as connection:
        plant(connection, text)
    assert "\\x1b]0;owned" in run(service, "simulate", spec, "--from-table")
    commands: list[list[str | Path]] = [
        ["simulate", spec, "--from-table", "--output", "json"],
        ["init", spec, "--check"],
        ["preflight", spec],
        ["preflight", spec, "--output", "json"],
        ["plan", spec],
        ["doctor", spec],
        ["verify", spec, "--settle", "0s"],
        ["prune", spec, "--keep", "0s", "--dry-run"],
        ["status"],
    ]
    for command in commands:
        run(service, *command)
    with service.connect() as connection:
        connection.execute(SQL("alter table outbox add column {} text").format(Identifier("a\x1b[2Jb")))
    for command in commands:
        run(service, *command)
