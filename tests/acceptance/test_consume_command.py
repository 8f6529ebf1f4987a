"""`cdc-outbox consume` as a process: it ends in good order when asked, and loses nothing when killed."""

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.commands import run_command
from tests.support.patience import patience
from tests.support.pipeline import Pipeline
from tests.support.rig import eventually, one
from tests.support.service import Service, effects_of

SERVICE = '''
"""A service whose consumer can be told to die at a step."""

import os
import signal

import psycopg

import cdc_outbox.databases.drivers.psycopg
from cdc_outbox.consumer import AsyncConsumer, Consumer, Limits, Retry, SequenceMode, WireContract
from cdc_outbox.databases.drivers.psycopg import Psycopg

NAME = os.environ["NAME"]


class Dying(Psycopg):
    """A driver that kills its process right before or after the server committed an event's effects."""

    handled = None

    def commit(self, connection):
        when, _, number = os.environ.get("DIE", "").partition(":")
        last = number == str(Dying.handled)
        if last and when == "before-commit":
            os.kill(os.getpid(), signal.SIGKILL)
        super().commit(connection)
        if last and when == "after-commit":
            os.kill(os.getpid(), signal.SIGKILL)


cdc_outbox.databases.drivers.psycopg.Psycopg = Dying
SETTINGS = dict(
    name=NAME,
    contract=WireContract(aggregates={"order": SequenceMode.GAPLESS}, topic=os.environ["TOPIC"]),
    kafka={
        "bootstrap.servers": os.environ["CDC_OUTBOX_BOOTSTRAP_SERVERS"],
        "session.timeout.ms": 2000,
        "heartbeat.interval.ms": 500,
    },
    limits=Limits(batch_events=1),
    retry=Retry(inline_retry_seconds=0),
)
INSERT = "insert into effects (aggregate, sequence, event_id) values (%s, %s, %s)"
consumer = Consumer(**SETTINGS, database=lambda: psycopg.connect(os.environ["CDC_OUTBOX_DSN"]))


async def connect():
    return await psycopg.AsyncConnection.connect(os.environ["CDC_OUTBOX_DSN"])


asynchronous = AsyncConsumer(**SETTINGS, database=connect)


@asynchronous.on("OrderPlaced")
async def ship_soon(event, connection):
    await connection.execute(INSERT, (event.aggregate_id, event.sequence, event.id))


@consumer.on("OrderPlaced")
def ship(event, connection):
    if os.environ.get("DIE") == f"in-handler:{event.sequence}":
        os.kill(os.getpid(), signal.SIGKILL)
    Dying.handled = event.sequence
    connection.execute(INSERT, (event.aggregate_id, event.sequence, event.id))


@consumer.on("Poison")
def fail(event, connection):
    raise ValueError("hunter2")


not_a_consumer = 7
'''


@pytest.fixture
def service(pipeline: Pipeline) -> Service:
    """A consuming service whose events the test sends; no connector has to start."""
    pipeline.create_topics()
    return Service(pipeline)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "service.py").write_text(SERVICE)
    return tmp_path


def environment(service: Service, **more: str) -> dict[str, str]:
    pipeline = service.pipeline
    return {
        "PATH": "/usr/bin:/bin",
        "NAME": service.name,
        "TOPIC": pipeline.topic,
        "CDC_OUTBOX_DSN": pipeline.dsn,
        "CDC_OUTBOX_BOOTSTRAP_SERVERS": pipeline.stack.broker.bootstrap_servers,
        **more,
    }


@contextmanager
def consuming(
    folder: Path, env: dict[str, str], *options: str, target: str = "service:consumer", command: str = "consume"
) -> "Iterator[subprocess.Popen[str]]":
    arguments = [f"{sys.prefix}/bin/cdc-outbox", command, *options, target]
    process = subprocess.Popen(
        arguments,
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_good_order(service: Service, folder: Path, number: signal.Signals) -> None:
    service.pipeline.write_and_send(5)
    with consuming(folder, environment(service)) as process:
        eventually(lambda: len(service.effects()) == 5, "five effects")
        process.send_signal(number)
        out, err = process.communicate(timeout=patience())
    assert (process.returncode, out) == (0, "")
    *log, summary = err.splitlines()
    assert summary == f"{service.name}: 5 applied"
    assert [line.partition(" cdc_outbox.consumer.stats ")[2] for line in log][:2] == [
        f"joining the group consumer={service.name}",
        f"reads consumer={service.name} partitions=3 topics={service.pipeline.topic}",
    ]
    assert service.committed_offset() == 5


@pytest.mark.parametrize("target", ["service:consumer", "service:asynchronous"])
def test_signals_that_are_repeated_until_it_has_ended_do_not_kill_it(
    service: Service, folder: Path, target: str
) -> None:
    service.pipeline.write_and_send(5)
    with consuming(folder, environment(service), target=target) as process:
        eventually(lambda: len(service.effects()) == 5, "five effects")
        while process.poll() is None:
            process.terminate()
        _, err = process.communicate()
    assert process.returncode == 0
    assert err.endswith(f"{service.name}: 5 applied\n")
    assert service.committed_offset() == 5


@pytest.mark.parametrize("target", ["service:consumer", "service:asynchronous"])
def test_a_signal_ends_a_replay_in_good_order(service: Service, folder: Path, target: str) -> None:
    service.pipeline.write_and_send(100)
    with consuming(folder, environment(service), "--rate=1", target=target, command="replay") as process:
        eventually(service.effects, "the first effect")
        process.terminate()
        out, err = process.communicate(timeout=patience())
    assert process.returncode == 130
    assert f"{len(service.effects())} applied" in out
    assert f"{service.name}: stopped before the end" in err


def test_a_signal_ends_it_while_brokers_do_not_answer(service: Service, folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60)
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with consuming(folder, environment(service, CDC_OUTBOX_BOOTSTRAP_SERVERS=address)) as process:
            connected, _ = silent.accept()
            with connected:
                process.terminate()
                assert process.communicate(timeout=patience()) == ("", "")
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("die", "effects", "duplicates"),
    [("in-handler:4", 3, 0), ("before-commit:4", 3, 0), ("after-commit:4", 4, 1)],
)
def test_a_consumer_that_is_killed_at_a_step_loses_nothing_and_repeats_nothing(
    service: Service, folder: Path, die: str, effects: int, duplicates: int
) -> None:
    service.pipeline.write_and_send(8)
    eventually(lambda: len(service.pipeline.messages()) == 8, "eight messages")
    with consuming(folder, environment(service, DIE=die)) as process:
        assert process.wait(timeout=patience()) == -signal.SIGKILL
    assert len(service.effects()) == effects
    # The offset lags behind the effects, never the other way round.
    assert service.committed_offset() <= effects

    with consuming(folder, environment(service)) as process:
        eventually(lambda: len(service.effects()) >= 8, "eight effects", seconds=60)
        process.terminate()
        _, err = process.communicate(timeout=patience())
    assert service.effects() == effects_of(8)
    repeated = int(err.partition(" duplicate")[0].rpartition(" ")[2]) if "duplicate" in err else 0
    assert repeated >= duplicates
    assert service.committed_offset() == 8


@pytest.mark.parametrize("options", [(), ("--verbose",)], ids=["quiet", "verbose"])
def test_a_failing_handler_is_told_with_what_it_raised_and_others_go_on(
    service: Service, folder: Path, options: tuple[str, ...]
) -> None:
    service.pipeline.write_and_send(2)
    service.pipeline.write_and_send(1, event_type="Poison")
    with consuming(folder, environment(service), *options) as process:
        eventually(lambda: len(service.parked()) == 1, "what failed")
        service.pipeline.write_and_send(1, "other")
        eventually(lambda: len(service.effects()) == 3, "three effects")
        process.terminate()
        _, err = process.communicate(timeout=patience())
    assert process.returncode == 0
    assert "event is parked" in err
    assert 'reason="the handler of Poison order/1 #3' in err
    assert re.search(r"raised ValueError at service.py:\d+: hunter2\"", err)
    assert f"{service.name}: 3 applied, 1 was parked" in err
    assert ("Traceback" in err) is bool(options)
    assert service.committed_offset() == 4


def run_command_in(folder: Path, *arguments: str, env: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    command = [f"{sys.prefix}/bin/cdc-outbox", *arguments]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=patience(), check=False)


@pytest.mark.parametrize(
    ("changes", "code", "sentence", "hint"),
    [
        ({"CDC_OUTBOX_BOOTSTRAP_SERVERS": "127.0.0.1:1"}, 75, ":1 do not answer", "Check that the broker runs"),
        ({"CDC_OUTBOX_DSN": "host=127.0.0.1 port=1"}, 75, "Connection refused", "Check that the server runs"),
        ({"CDC_OUTBOX_DSN": "{dsn} password=wrong"}, 1, "password authentication failed", "Check user and password"),
    ],
)
def test_what_is_not_there_is_a_sentence_a_hint_and_an_exit_code(
    service: Service, folder: Path, changes: dict[str, str], code: int, sentence: str, hint: str
) -> None:
    changed = {name: value.format(dsn=service.dsn) for name, value in changes.items()}
    done = run_command_in(folder, "consume", "service:consumer", env=environment(service) | changed)
    assert done.returncode == code
    assert sentence in done.stderr
    assert f"hint: {hint}" in done.stderr
    assert "Traceback" not in done.stderr
    assert "no events" not in done.stderr
    assert "rdkafka#" not in done.stderr  # which says it twice a second


def test_an_inbox_that_was_not_made_is_named_with_the_command_that_makes_it(service: Service, folder: Path) -> None:
    with service.connect() as connection:
        connection.execute("drop table inbox, inbox_watermarks, inbox_parked, inbox_holes, inbox_epochs")
        assert one(connection, "select to_regclass('inbox') is null")
    service.pipeline.write_and_send(1)
    done = run_command_in(folder, "consume", "service:consumer", env=environment(service))
    assert done.returncode == 1
    assert re.search(r'error: relation "public.inbox\w*" does not exist', done.stderr)
    assert "hint: Create the inbox with `cdc-outbox init --inbox --dsn …`" in done.stderr


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("service", "'service' is not of the form module:attribute"),
        ("nobody:consumer", "there is no module 'nobody' in the current folder"),
        ("service:nobody", "the module service has no attribute 'nobody'"),
        ("service:not_a_consumer", "service:not_a_consumer must be a Consumer or an AsyncConsumer, not int"),
    ],
)
def test_a_target_that_is_no_consumer_is_named(service: Service, folder: Path, target: str, sentence: str) -> None:
    done = run_command_in(folder, "consume", target, env=environment(service))
    assert (done.returncode, f"error: {sentence}" in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize(
    ("name", "code", "line", "error"),
    [
        ("broken", "import os\nos.nothing_of_that_name", 2, "AttributeError: module 'os' has no attribute"),
        ("orders_worker", "import orders_", 1, "ModuleNotFoundError: No module named 'orders_'"),
        ("unset", "import os\n\nos.environ['SHIPPING_DSN']", 3, "KeyError: 'SHIPPING_DSN'"),
    ],
)
def test_a_module_that_fails_at_its_import_shows_its_own_error(
    name: str, code: str, line: int, error: str, tmp_path: Path
) -> None:
    (tmp_path / f"{name}.py").write_text(code)
    done = run_command_in(tmp_path, "consume", f"{name}:consumer", env={"PATH": "/usr/bin:/bin"})
    assert done.returncode == 2
    assert f"error: the module {name} cannot be imported: {name}.py:{line}: {error}" in done.stderr
    assert "Traceback" not in done.stderr
    verbose = run_command_in(tmp_path, "consume", "--verbose", f"{name}:consumer", env={"PATH": "/usr/bin:/bin"})
    assert "Traceback" in verbose.stderr


@pytest.mark.parametrize("target", ["orders.nobody:consumer", "nobody.worker:consumer", "orders.a.b:consumer"])
def test_a_module_that_is_missing_in_a_package_is_named(target: str, tmp_path: Path) -> None:
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders" / "a.py").touch()
    done = run_command_in(tmp_path, "consume", target, env={"PATH": "/usr/bin:/bin"})
    assert done.returncode == 2
    assert (
        f"error: there is no module '{target.partition(':')[0]}' in the current folder or on Python's path"
        in done.stderr
    )


def test_help_shows_an_example() -> None:
    assert "cdc-outbox consume examples.orders.shipping:consumer" in run_command("consume", "--help").stdout
