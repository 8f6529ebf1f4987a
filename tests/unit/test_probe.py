"""Commands end soon where a server accepts connections and says nothing, and name it."""

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from cdc_outbox.cli import probe
from cdc_outbox.connect.cluster import Cluster
from cdc_outbox.connect.timings import Timings
from cdc_outbox.debezium.render import render
from cdc_outbox.spec import parse_spec
from tests.support.commands import run_command
from tests.support.connect_server import NOBODY, Answer, Asked, answering
from tests.support.patience import patience
from tests.support.specs import MINIMAL
from tests.support.timings import SILENT_TIMINGS


@pytest.fixture
def silent() -> Iterator[str]:
    """Return the address of a server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def spec(tmp_path: Path) -> str:
    path = tmp_path / "orders.yaml"
    path.write_text(MINIMAL)
    return str(path)


@pytest.fixture
def connect() -> Iterator[str]:
    """Return the URL of a Connect that runs the connector."""

    config = render(parse_spec(MINIMAL)) | {"poll.interval.ms": "7"}

    def answer(asked: Asked) -> Answer:
        if asked.path.endswith("/status"):
            return 200, {"connector": {"state": "RUNNING"}, "tasks": [{"id": 0, "state": "RUNNING"}]}
        if asked.path.endswith("/topics"):
            return NOBODY
        if asked.path == "/connectors":
            return 200, ["orders"]
        if asked.path == "/connectors?expand=info":
            return 200, {"orders": {"info": {"config": config}}}
        return 200, {"configs": []} if asked.path.endswith("/validate") else config

    with answering(answer) as (url, _):
        yield url


def ended_in_time(*arguments: str) -> CompletedProcess[str]:
    began = time.monotonic()
    done = run_command(*arguments, timings=SILENT_TIMINGS)
    assert time.monotonic() - began < patience(10)
    assert "hunter2" not in done.stderr
    return done


def test_there_is_time_left_for_those_who_answer() -> None:
    assert Timings().probe_seconds <= 7


@pytest.mark.parametrize("command", [["status"], ["doctor", "SPEC"]], ids=" ".join)
def test_a_silent_connect_is_named(command: list[str], spec: str, silent: str) -> None:
    asked = ["--connect-url", f"http://{silent}", "--bootstrap-servers", silent]
    done = ended_in_time(*(spec if word == "SPEC" else word for word in command), *asked)
    assert f"Kafka Connect at http://{silent} has not answered within 0.5 s" in done.stdout + done.stderr
    assert f"the brokers {silent} have not answered within 0.5 s" in done.stdout + done.stderr
    assert done.returncode == 75


@pytest.mark.parametrize("command", ["status", "doctor"])
@pytest.mark.parametrize(
    ("option", "text"),
    [
        (["--dsn", "postgresql://me:hunter2@{}/orders"], "the database at {} has not answered within 0.5 s"),
        (["--bootstrap-servers", "{}"], "the brokers {} have not answered within 0.5 s"),
    ],
    ids=["database", "brokers"],
)
def test_whoever_is_silent_hides_nobody_else(
    command: str, option: list[str], text: str, spec: str, silent: str, connect: str
) -> None:
    asked = ["--connect-url", connect, *(part.format(silent) for part in option)]
    done = ended_in_time(command, *([spec] if command == "doctor" else []), *asked)
    told = done.stdout + done.stderr
    assert text.format(silent) in told
    assert told.count("not answered") == 1
    assert done.returncode == 75
    assert ("OP204" if command == "doctor" else "1 RUNNING") in told  # what Connect says of the connector


@pytest.mark.parametrize("consumer", [[], ["--consumer", "shipping", "--inbox-dsn", "host=INBOX"]])
def test_verify_names_all_who_are_silent(consumer: list[str], spec: str, silent: str) -> None:
    host, port = silent.split(":")
    options = [part.replace("INBOX", f"{host} port={port}") for part in consumer]
    dsn = f"postgresql://me:hunter2@{silent}/orders"
    done = ended_in_time("verify", spec, "--dsn", dsn, "--bootstrap-servers", silent, *options)
    assert f"the database at {silent} has not answered within 0.5 s" in done.stderr
    assert f"the brokers {silent} have not answered within 0.5 s" in done.stderr
    assert (f"the database at {host} has" in done.stderr) is bool(consumer)
    assert done.returncode == 75


@pytest.mark.parametrize("consumer", [[], ["--consumer", "shipping", "--inbox-dsn", "host=INBOX"]])
def test_prune_names_all_who_are_silent_before_it_waits_for_the_delivery(
    consumer: list[str], spec: str, silent: str
) -> None:
    host, port = silent.split(":")
    options = [part.replace("INBOX", f"{host} port={port}") for part in consumer]
    asked = ["--dsn", f"postgresql://me:hunter2@{silent}/orders", "--bootstrap-servers", silent]
    done = ended_in_time("prune", spec, "--keep=7d", "--connect-url", f"http://{silent}", *asked, *options)
    assert f"Kafka Connect at http://{silent} has not answered within 0.5 s" in done.stderr
    assert f"the database at {silent} has not answered within 0.5 s" in done.stderr
    assert f"the brokers {silent} have not answered within 0.5 s" in done.stderr
    assert (f"the database at {host} has" in done.stderr) is bool(consumer)
    assert done.returncode == 75


@pytest.mark.parametrize("command", [["status"], ["doctor", "SPEC"]], ids=" ".join)
def test_a_connect_that_is_not_there_is_not_waited_for_unless_it_is_said(command: list[str], spec: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        nobody = f"http://127.0.0.1:{listener.getsockname()[1]}"
    words = [spec if word == "SPEC" else word for word in command]
    done = ended_in_time(*words, "--connect-url", nobody)
    assert f"answers at {nobody}" in done.stdout + done.stderr
    assert done.returncode == 75
    began = time.monotonic()
    assert ended_in_time(*words, "--connect-url", nobody, "--connect-patience", "2s").returncode == 75
    assert time.monotonic() - began > 2


def test_a_patience_that_is_given_counts_though_it_is_the_default() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        nobody = f"http://127.0.0.1:{listener.getsockname()[1]}"
    for given, left in ((None, 0), (30.0, 30.0)):
        cluster = probe.probe(cluster=Cluster(urls=(nobody,), patience_seconds=given, timings=SILENT_TIMINGS)).cluster
        assert cluster is not None
        assert cluster.patience == left


@pytest.mark.parametrize("command", [["status"], ["doctor", "SPEC"]], ids=" ".join)
def test_a_worker_that_waits_for_silent_brokers_is_not_waited_for(command: list[str], spec: str, silent: str) -> None:
    over = threading.Event()

    def answer(asked: Asked) -> Answer:
        if asked.path != "/connectors":
            over.wait(patience())
        return 200, ["orders"]

    with answering(answer) as (url, _):
        words = [spec if word == "SPEC" else word for word in command]
        done = ended_in_time(*words, "--connect-url", url, "--bootstrap-servers", silent)
        over.set()
    assert f"the brokers {silent} have not answered within 0.5 s" in done.stdout + done.stderr
    assert done.returncode == 75


@pytest.mark.parametrize("is_asked", [True, False], ids=["with a DSN", "without a DSN"])
def test_a_worker_that_validates_against_a_silent_database_is_not_waited_for(
    spec: str, silent: str, *, is_asked: bool
) -> None:
    over = threading.Event()
    config = render(parse_spec(MINIMAL))

    def answer(asked: Asked) -> Answer:
        if asked.path.endswith("/validate"):
            over.wait(patience())
        if asked.path.endswith("/status"):
            return 200, {"connector": {"state": "RUNNING"}, "tasks": [{"id": 0, "state": "RUNNING"}]}
        if asked.path == "/connectors?expand=info":
            return 200, {"orders": {"info": {"config": config}}}
        return 200, ["orders"] if asked.path == "/connectors" else config

    dsn = ["--dsn", f"postgresql://me:hunter2@{silent}/orders"] if is_asked else []
    with answering(answer) as (url, _):
        done = ended_in_time("doctor", spec, "--connect-url", url, *dsn)
        over.set()
    told = done.stdout + done.stderr
    assert (f"the database at {silent} has not answered within 0.5 s" in told) is is_asked
    assert (f"the worker at {url} accepted a request but did not answer within 0.5 s" in told) is not is_asked
    assert done.returncode == 75


def test_a_worker_that_is_silent_is_left_out(silent: str, connect: str) -> None:
    done = ended_in_time("status", "--connect-url", f"http://{silent},{connect}")
    assert (done.returncode, "1 RUNNING" in done.stdout) == (0, True), done.stderr


@pytest.mark.parametrize("dsns", ["dsns: {billing: dbname=billing}", "dsn: '${env:NOWHERE}'"])
@pytest.mark.parametrize("command", ["status", "doctor"])
def test_a_dsn_that_leads_nowhere_hides_nobody_else(
    command: str, dsns: str, spec: str, connect: str, tmp_path: Path
) -> None:
    contexts = tmp_path / "contexts.yaml"
    contexts.write_text(f"contexts: {{dev: {{{dsns}, connect: {{url: '{connect}'}}}}}}")
    given = [spec] if command == "doctor" else []
    done = run_command(command, *given, "--contexts", contexts, "--context", "dev")
    told = done.stdout + done.stderr
    assert ("no DSN for" if "billing" in dsns else "NOWHERE") in told
    assert ("OP204" if command == "doctor" else "1 RUNNING") in told
