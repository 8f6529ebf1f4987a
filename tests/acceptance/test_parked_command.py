"""`cdc-outbox parked`, `baseline` and `purge-inbox` from the shell: what they print, and what they exit with."""

import json
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from cdc_outbox.cli import main
from cdc_outbox.consumer import Consumer, Limits
from cdc_outbox.errors import ConfigError
from cdc_outbox.kafka import admin as kafka_admin
from cdc_outbox.testing import Stack
from tests.support.brokerless_service import CONTRACT, BrokerlessService
from tests.support.commands import run_command
from tests.support.events import make_event
from tests.support.patience import patience
from tests.support.rig import one

DOCS = Path(__file__).parents[2] / "docs" / "consuming.md"
SECRET = {"secret": "hunter2"}
RAISED = "no carrier takes order 1"
"""What the handler's exception says."""


@pytest.fixture(scope="module")
def dsn(outbox_stack: Stack) -> str:
    dsn = outbox_stack.postgres.create_database("parked_command")
    made = run_command("init", "--inbox", "--dsn", dsn)
    assert made.returncode == 0, made.stderr
    assert made.stderr.count("made public.inbox_20") == 5
    with psycopg.connect(dsn) as connection:
        connection.execute("create table effects (number serial, aggregate text, sequence bigint, event_id text)")
    return dsn


@pytest.fixture
def service(dsn: str) -> Iterator[BrokerlessService]:
    yield BrokerlessService(dsn, name="shipping")
    with psycopg.connect(dsn) as connection:
        tables = "effects, inbox, inbox_watermarks, inbox_parked, inbox_holes, inbox_epochs"
        connection.execute(f"truncate {tables} restart identity".encode())


class Shell:
    """The command in this process: starting one costs more than most of these commands do."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys

    def run(self, *arguments: str, code: int = 0, **env: str) -> tuple[str, str]:
        """Return what goes to stdout, and the words that go to stderr."""
        self._monkeypatch.setattr(sys, "argv", ["cdc-outbox", *arguments])
        for name, value in env.items():
            self._monkeypatch.setenv(name, value)
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = self._capsys.readouterr()
        assert (ended.value.code or 0) == code, err
        return out, " ".join(err.split())

    def about(self, service: BrokerlessService, *arguments: str, code: int = 0) -> tuple[str, str]:
        """Run a command about a consumer."""
        return self.run(*arguments, "--consumer", service.name, code=code, CDC_OUTBOX_DSN=service.dsn)


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(monkeypatch, capsys)


def test_what_is_parked_is_listed_shown_and_exported(service: BrokerlessService, shell: Shell, tmp_path: Path) -> None:
    assert shell.about(replace(service, name="nobody"), "parked", "list", code=1)[1].startswith(
        "error: no consumer 'nobody' has used the inbox public.inbox hint: Consumers that have used it: none."
    )
    service.broken = {"1"}
    broken, behind, unreadable = (make_event(sequence, payload=SECRET) for sequence in (1, 2, 3))
    service.deliver(broken, behind, replace(service.message_of(unreadable), value=b"\xff"))
    titles, first, *others = shell.about(service, "parked", "list")[0].splitlines()
    assert titles.split() == [
        "PARKED_ID", "STATE", "REASON", "AGGREGATE", "SEQUENCE", "TYPE", "ATTEMPTS", "PARKED_AT", "TRIED_AT",
        "RETRY_AT", "ERROR",
    ]  # fmt: skip
    assert first.split()[:7] == ["1", "dead", "failed", "order/1", "1", "OrderPlaced", "1"]
    assert RAISED in first
    assert [line.split()[2] for line in others] == ["gap", "unreadable"]
    of_all = shell.run("parked", "list", CDC_OUTBOX_DSN=service.dsn)[0].splitlines()
    assert [line.split()[:2] for line in of_all[:2]] == [["CONSUMER", "PARKED_ID"], [service.name, "1"]]
    assert len(of_all) == 4
    listed, more = shell.about(service, "parked", "list", "--output=json", "--limit=1")
    document = json.loads(listed)
    assert [(row["parked_id"], row["event_id"]) for row in document["events"]] == [(1, broken.id)]
    assert RAISED in document["events"][0]["error"]
    assert (document["kind"], document["more"]) == ("ParkedEvents", 2)
    assert more == "2 more; --limit 3 shows all"
    assert shell.about(service, "parked", "list", "--aggregate", "order/9") == ("", "no such event is parked")

    shown = shell.about(service, "parked", "show", "1")[0]
    assert re.search(r"^header eventType +OrderPlaced$", shown, re.MULTILINE)
    assert re.search(rf"^error +.*{RAISED}", shown, re.MULTILINE)
    assert "None" not in shown
    assert "hunter2" not in listed + shown + first
    shown_too = shell.about(service, "parked", "show", "1", "--payload")[0]
    assert re.search(r'^payload +\{"secret":"hunter2"\}$', shown_too, re.MULTILINE)
    assert "payload" not in json.loads(shell.about(service, "parked", "show", "1", "--output=json")[0])["event"]
    said = shell.about(service, "parked", "show", "9", code=1)[1]
    assert said.startswith("error: no parked event of shipping has the id 9; there are 1, 2, 3 hint: ")

    file = tmp_path / "parked.jsonl"
    assert shell.about(service, "parked", "export", "--file", str(file)) == ("", "3 events")
    exported = [json.loads(line) for line in file.read_text().splitlines()]
    assert [row["payload"] for row in exported] == ['{"secret":"hunter2"}'] * 2 + [{"base64": "/w=="}]
    assert file.stat().st_mode & 0o077 == 0
    assert "already exists" in shell.about(service, "parked", "export", "--file", str(file), code=2)[1]


def test_what_no_consumer_tries_is_listed_with_what_ends_it(service: BrokerlessService, shell: Shell) -> None:
    service.broken = {"1", "2"}
    service.deliver(make_event(1), make_event(1, "2"), make_event(2, "2"))
    shell.about(service, "parked", "retry", "--all")
    assert "not tried" not in shell.about(service, "parked", "list")[1]
    with service.connect() as connection:
        connection.execute("update inbox_parked set retry_at = retry_at - interval '2 minutes'")
    said = shell.about(service, "parked", "list")[1]
    assert (
        "not tried: 2 events due for more than a minute, the first is 1 of events[0] hint: Start the consumer." in said
    )
    [remedy] = re.findall(r"`cdc-outbox (.*?)`", said)
    for _ in range(2):  # what waited behind the second one is not tried either
        shell.run(*shlex.split(remedy), CDC_OUTBOX_DSN=service.dsn)
        with service.connect() as connection:
            connection.execute("update inbox_parked set retry_at = retry_at - interval '2 minutes'")
        said = shell.about(service, "parked", "list")[1]
        remedies = re.findall(r"`cdc-outbox (.*?)`", said)
        if not remedies:
            break
        [remedy] = remedies
    assert said == "nothing is parked"


def test_what_is_decided_is_printed_and_what_cannot_be_is_a_sentence(service: BrokerlessService, shell: Shell) -> None:
    service.broken = {"1"}
    event = make_event(1)
    service.deliver(event, make_event(3), make_event(1, "2"), make_event(1, "2"))
    service.broken = set()
    refused = shell.about(service, "parked", "retry", "1", "3", code=1)[1]
    assert "error: 3 cannot be retried: it is parked as conflict" in refused
    assert "hint: --force conflict applies it anyway." in refused
    said = shell.about(service, "parked", "retry", "--all")
    assert said[0] == "1\n"
    assert "1 event due: the consumer shipping tries it within a second, if it runs" in said[1]
    assert "left: 1 gap; they continue when the missing event arrives" in said[1]
    assert "left: 1 conflict; --force conflict applies them anyway" in said[1]
    assert shell.about(service, "parked", "retry", "--all", "--reason=expired") == ("", "nothing to retry")
    refusals = {
        "gap": "it continues when",
        "unreadable": "a retry reads it",
        "failed": "it is retried without --force",
    }
    for reason, why in refusals.items():
        assert why in shell.about(service, "parked", "retry", "3", f"--force={reason}", code=2)[1]
    refused = shell.about(service, "parked", "retry", "1", "--force=conflict", code=1)[1]
    assert "none of them is parked as conflict: 1 as failed" in refused
    shell.about(service, "parked", "retry", "3", "--force=conflict")
    assert service.effects() == [("2", 1)]
    service.retry_parked()
    assert service.effects() == [("2", 1), ("1", 1), ("2", 1)]
    assert "wait for the missing events" in shell.about(service, "parked", "skip", "2", "--note=x", code=1)[1].lower()
    named = ["baseline", "--aggregate=order/1", "--source=orders.1"]
    expected, summary = shell.about(service, *named, "--dry-run")
    assert expected.splitlines()[1].split() == ["order/1", "orders.1", "1", "2", "2", "1"]
    assert summary == "1 aggregate: 1 sequence would be accepted as missing, 1 event applied next"
    assert shell.about(service, *named, "--note=lost")[0] == expected
    skipped = shell.about(service, "parked", "skip", "2", "--note=not needed")[0]
    assert re.fullmatch(r"2  skipped OrderPlaced \S+ of order/1, order/1 is at 3 now\n", skipped)
    assert (service.watermark(), service.parked_behind(), service.parked()) == (3, 0, [])


def test_all_of_a_reason_are_skipped_and_what_comes_too_early_is_left(service: BrokerlessService, shell: Shell) -> None:
    service.broken = {"1", "3"}
    service.deliver(*(replace(service.message_of(make_event(1)), value=text) for text in (b"a", b"b", b"c")))
    service.deliver(make_event(1), make_event(2), make_event(2, "2"), make_event(1, "3"))
    assert len(service.parked()) == 7
    assert shell.about(service, "parked", "skip", "--all", "--reason=expired", "--note=x") == ("", "nothing to skip")
    skipped, said = shell.about(service, "parked", "skip", "--all", "--reason=unreadable", "--note=legacy")
    assert len(skipped.splitlines()) == 3
    assert said.startswith("The sequence number of an unreadable message is unknown.")
    skipped, said = shell.about(service, "parked", "skip", "--all", "--note=given up")
    assert len(skipped.splitlines()) == 3
    assert re.fullmatch(r"left: 1 event, the first because \d+ is order/2 #2, but #1 has not arrived", said)
    assert (service.watermark(), service.parked_behind(), len(service.parked())) == (2, 0, 1)


@pytest.mark.parametrize(
    "arguments",
    [
        ["parked", "retry"],
        ["parked", "skip", "--note=x"],
        ["parked", "skip", "1", "--all", "--note=x"],
        ["parked", "skip", "1", "--reason=gap", "--note=x"],
        ["parked", "retry", "1", "--all"],
        ["parked", "retry", "1", "--reason=gap"],
        ["parked", "skip", "1"],
        ["parked", "skip", "1", "--note= "],
        ["parked", "retry", "--all", "--reason=failed", "--force=conflict"],
        ["parked", "list", "--aggregate=order"],
        ["parked", "list", "--state=asleep"],
        ["baseline", "--aggregate=order/1"],
        ["baseline", "--source=orders.1"],
    ],
)
def test_what_means_nothing_exits_2(shell: Shell, arguments: list[str]) -> None:
    shell.run(*arguments, "--consumer=shipping", "--dsn=host=127.0.0.1 port=1", code=2)


def test_the_commands_of_the_docs_run_as_they_stand_there(
    service: BrokerlessService, shell: Shell, tmp_path: Path
) -> None:
    service.broken = {"1"}
    service.deliver(make_event(1), make_event(2), make_event(41, "2"))
    section = DOCS.read_text().partition("## The park\n")[2].partition("## Where")[0]
    commands = [line for block in re.findall(r"```sh\n(.*?)```", section, re.DOTALL) for line in block.splitlines()]
    export, *commands = commands
    assert export == 'export CDC_OUTBOX_INBOX_DSN="$SHIPPING_DSN"'
    assert len(commands) == 9
    for command in commands:
        program, *arguments = shlex.split(command.replace(" 17 ", " 1 ").replace("parked.jsonl", f"{tmp_path}/x"))
        assert program == "cdc-outbox"
        shell.run(*arguments, CDC_OUTBOX_INBOX_DSN=service.dsn)
    service.broken = set()
    service.retry_parked()
    assert service.parked() == []


@pytest.fixture(scope="module")
def topics(outbox_stack: Stack) -> dict[str, str]:
    """What a topic keeps → a topic that does."""
    names = {kind: f"{kind}-{uuid4().hex[:8]}" for kind in ("short", "endless")}
    admin = AdminClient({"bootstrap.servers": outbox_stack.broker.bootstrap_servers})
    configs = {"short": {"retention.ms": "86400000", "segment.ms": "86400000"}, "endless": {"retention.ms": "-1"}}
    made = admin.create_topics([NewTopic(names[kind], 1, config=config) for kind, config in configs.items()])
    for future in made.values():
        future.result(timeout=patience())
    return names


def test_ids_are_not_forgotten_before_their_events_are(
    outbox_stack: Stack, dsn: str, topics: dict[str, str], shell: Shell, tmp_path: Path
) -> None:
    env = {"CDC_OUTBOX_DSN": dsn, "CDC_OUTBOX_BOOTSTRAP_SERVERS": outbox_stack.broker.bootstrap_servers}
    spec = tmp_path / "spec.yaml"
    database = "{kind: postgresql, host: h, name: orders, user: connector, password: '${env:PASSWORD}'}"
    aggregates = f"aggregates: {{order: {{}}}}\ntopics: {{name: {topics['short']}}}\n"
    spec.write_text(f"version: 1\nname: orders\ndatabase: {database}\n{aggregates}")
    declaring = tmp_path / "declaring.yaml"
    declaring.write_text(spec.read_text().replace("{name:", "{horizon: 3d, name:"))
    for arguments, code, words in (
        ([str(spec), "--horizon=2d"], 0, ""),
        ([str(declaring), "--horizon=2d"], 2, "shorter than topics.horizon in the spec, 3 days"),
        ([str(declaring), "--horizon=2d", "--accept-shorter-horizon"], 0, ""),
        ([str(declaring), "--horizon=3d"], 0, ""),
        ([str(spec), "--horizon=1.9d"], 2, f"{topics['short']} up to 2 days"),
        (["--consumed-topic", topics["endless"], "--horizon=999d"], 2, f"{topics['endless']} for ever"),
        (["--consumed-topic", topics["endless"], "--horizon=999d", "--accept-shorter-horizon"], 0, ""),
        (["--consumed-topic", "nowhere", "--horizon=999d"], 2, "there is no topic nowhere"),
        (["--horizon=999d"], 2, "without topics, the horizon cannot be compared"),
        (["--horizon=0d"], 2, "--horizon"),
        (["--horizon=1e9"], 2, "--horizon"),
    ):
        assert words in shell.run("purge-inbox", *arguments, "--dry-run", code=code, **env)[1]


def test_ids_are_not_forgotten_before_the_events_of_every_topic_that_the_inbox_serves(
    outbox_stack: Stack, service: BrokerlessService, topics: dict[str, str], shell: Shell
) -> None:
    env = {"CDC_OUTBOX_DSN": service.dsn, "CDC_OUTBOX_BOOTSTRAP_SERVERS": outbox_stack.broker.bootstrap_servers}
    purge = ["purge-inbox", "--consumed-topic", topics["short"], "--horizon=2d", "--dry-run"]

    def refused(*arguments: str) -> str:
        return shell.run(*arguments, code=2, **env)[1]

    service.deliver(make_event(None, aggregate_type="visit", event_id=str(uuid4())))
    with psycopg.connect(service.dsn) as connection:
        connection.execute("update inbox set claimed_at = claimed_at - interval '40 days'")
        connection.execute("delete from inbox_epochs")
    shell.run(*purge, code=0, **env)
    columns = 'consumer, topic, "partition", epoch, unfinished, cluster_id'
    read = f"insert into inbox_epochs ({columns}) values (%s, %s, 0, 1, 0, %s)"  # noqa: S608 - names of ours
    with psycopg.connect(service.dsn, autocommit=True) as connection:
        connection.execute(read.encode(), ("billing", "deleted-since", ""))
        shell.run(*purge, code=0, **env)
        # All that it served is gone from these brokers, or they are not the ones that it was read from.
        assert "without topics, the horizon cannot be compared" in refused(*purge[:1], *purge[3:])
        connection.execute(read.encode(), ("billing", topics["endless"], ""))
        for arguments in (purge, [*purge[:1], *purge[3:]], purge[:-1]):
            assert f"{topics['endless']} for ever" in refused(*arguments)
        assert one(connection, "select count(*) from inbox") == 1
        assert "1 ids without a time" in shell.run(*purge, "--accept-shorter-horizon", code=0, **env)[0]
        connection.execute("delete from inbox_epochs")
        connection.execute(read.encode(), ("billing", topics["short"], "another"))
        assert f"topics of another cluster: {topics['short']}" in refused(*purge)
        connection.execute("delete from inbox_epochs")


def test_the_brokers_are_asked_with_the_settings_of_the_file(
    outbox_stack: Stack, dsn: str, topics: dict[str, str], shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_admin, "_ADMIN_SECONDS", 1.0)
    settings = tmp_path / "kafka.properties"
    settings.write_text("security.protocol=ssl\n")  # the stack's broker speaks no TLS
    servers = outbox_stack.broker.bootstrap_servers
    purge = [
        "purge-inbox",
        "--consumed-topic",
        topics["short"],
        "--horizon=2d",
        "--bootstrap-servers",
        servers,
        "--dry-run",
    ]
    shell.run(*purge, CDC_OUTBOX_DSN=dsn)
    shell.run(*purge, "--kafka-settings", str(settings), code=75)


def test_brokers_that_do_not_answer_are_tried_again_later(
    shell: Shell, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_admin, "_ADMIN_SECONDS", 0.5)
    purge = ["purge-inbox", "--consumed-topic=a", "--horizon=30d", "--bootstrap-servers=127.0.0.1:1"]
    _, said = shell.run(*purge, code=75, CDC_OUTBOX_DSN=dsn)
    assert re.fullmatch(r"error: .* hint: Check that the broker runs .*", said)


def test_a_purge_says_what_it_would_do_and_then_does_it(service: BrokerlessService) -> None:
    service.deliver(make_event(None, aggregate_type="visit", event_id=str(uuid4())))  # an id that tells no time
    with psycopg.connect(service.dsn) as connection:
        connection.execute("update inbox set claimed_at = claimed_at - interval '40 days'")
        connection.execute("create table inbox_old partition of inbox for values from ('00') to ('01')")
    purge = ["purge-inbox", "--horizon=30d", "--accept-shorter-horizon", "--dsn", service.dsn]
    dry = run_command(*purge, "--dry-run")
    *steps, total = dry.stdout.splitlines()
    assert steps == ["drop       public.inbox_old: 0 ids", "delete     1 ids without a time"], dry.stderr
    assert re.fullmatch(r"to delete  1 ids and 0 starts: ids made before \S+Z, or claimed before \S+Z if .*", total)
    done = run_command(*purge)
    *steps, total = done.stdout.splitlines()
    assert steps == ["dropped    public.inbox_old: 0 ids", "deleted    1 ids in public.inbox_rest"], done.stderr
    assert total.startswith("deleted    1 ids and 0 starts: ids made before ")
    assert run_command(*purge).stdout.startswith("deleted    nothing: no ids were made before ")


def test_a_consumer_does_not_start_whose_horizon_its_topics_outlive(
    outbox_stack: Stack, dsn: str, topics: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cdc_outbox.consumer.consumer.subscribe", lambda *_: pytest.fail("it joined its group"))

    def consumer(topic: str) -> Consumer:
        made = Consumer(
            name="shipping",
            contract=replace(CONTRACT, topic=topic),
            kafka={
                "bootstrap.servers": outbox_stack.broker.bootstrap_servers,
                "session.timeout.ms": 2000,
                "heartbeat.interval.ms": 500,
            },
            database=lambda: psycopg.connect(dsn),
            limits=Limits(horizon_days=2),
        )
        made.on("OrderPlaced")(lambda _event, _connection: None)
        made.stop()
        return made

    for topic in (topics["short"], "not-there-yet"):
        consumer(topic).run()
    with pytest.raises(ConfigError, match=f"{topics['endless']} for ever") as caught:
        consumer(topics["endless"]).run()
    assert caught.value.field == "Limits.horizon_days"
