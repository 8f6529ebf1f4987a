"""`cdc-outbox consume` as a process: it ends in good order when asked, and loses nothing when killed."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.commands import run_command
from tests.support.rig import Shop, eventually, one

SERVICE = '''
"""A service whose consumer can be told to die at a step."""

import os
import signal

import psycopg

import cdc_outbox.drivers.psycopg
from cdc_outbox.consumer import Consumer, Limits, Retry, SequenceMode, WireContract
from cdc_outbox.drivers.psycopg import Psycopg

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


cdc_outbox.drivers.psycopg.Psycopg = Dying
consumer = Consumer(
    name=NAME,
    contract=WireContract(aggregates={"order": SequenceMode.GAPLESS}, topic=os.environ["TOPIC"]),
    bootstrap_servers=os.environ["CDC_OUTBOX_BOOTSTRAP_SERVERS"],
    connect=lambda: psycopg.connect(os.environ["CDC_OUTBOX_DSN"]),
    kafka_settings={"session.timeout.ms": 2000, "heartbeat.interval.ms": 500},
    limits=Limits(batch_events=1),
    retry=Retry(inline_retry_seconds=0),
)


@consumer.on("OrderPlaced")
def ship(event, connection):
    if os.environ.get("DIE") == f"in-handler:{event.sequence}":
        os.kill(os.getpid(), signal.SIGKILL)
    Dying.handled = event.sequence
    connection.execute(
        "insert into effects (aggregate, sequence, event_id) values (%s, %s, %s)",
        (event.aggregate_id, event.sequence, event.id),
    )


@consumer.on("Poison")
def fail(event, connection):
    raise ValueError("hunter2")


not_a_consumer = 7
'''


@pytest.fixture
def service(tmp_path: Path) -> Path:
    (tmp_path / "service.py").write_text(SERVICE)
    return tmp_path


def environment(shop: Shop, **more: str) -> dict[str, str]:
    pipeline = shop.pipeline
    return {
        "PATH": "/usr/bin:/bin",
        "NAME": shop.name,
        "TOPIC": pipeline.topic,
        "CDC_OUTBOX_DSN": pipeline.dsn,
        "CDC_OUTBOX_BOOTSTRAP_SERVERS": pipeline.stack.broker.bootstrap_servers,
        **more,
    }


@contextmanager
def consuming(service: Path, env: dict[str, str], *options: str) -> "Iterator[subprocess.Popen[str]]":
    command = [f"{sys.prefix}/bin/cdc-outbox", "consume", *options, "service:consumer"]
    process = subprocess.Popen(
        command, cwd=service, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def committed_offset(shop: Shop) -> int:
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": shop.pipeline.stack.broker.bootstrap_servers})
    places = [TopicPartition(shop.pipeline.topic, partition) for partition in range(3)]
    [answer] = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(shop.name, places)]).values()
    return sum(max(place.offset, 0) for place in answer.result().topic_partitions)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_good_order(shop: Shop, service: Path, number: signal.Signals) -> None:
    shop.pipeline.write(5)
    with consuming(service, environment(shop)) as process:
        eventually(lambda: len(shop.effects()) == 5, "five effects")
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (0, "")
    assert err == f"{shop.name}: 5 applied\n"
    assert committed_offset(shop) == 5


@pytest.mark.parametrize(
    ("die", "effects", "duplicates"),
    [("in-handler:4", 3, 0), ("before-commit:4", 3, 0), ("after-commit:4", 4, 1)],
)
def test_a_consumer_that_is_killed_at_a_step_loses_nothing_and_repeats_nothing(
    shop: Shop, service: Path, die: str, effects: int, duplicates: int
) -> None:
    shop.pipeline.write(8)
    eventually(lambda: len(shop.pipeline.messages()) == 8, "eight messages")
    with consuming(service, environment(shop, DIE=die)) as process:
        assert process.wait(timeout=30) == -signal.SIGKILL
    assert len(shop.effects()) == effects
    # The offset lags behind the effects, never the other way round.
    assert committed_offset(shop) <= effects

    with consuming(service, environment(shop)) as process:
        eventually(lambda: len(shop.effects()) >= 8, "eight effects", seconds=60)
        process.terminate()
        _, err = process.communicate(timeout=20)
    assert shop.effects() == [("1", number) for number in range(1, 9)]
    repeated = int(err.partition(" duplicate")[0].rpartition(" ")[2]) if "duplicate" in err else 0
    assert repeated >= duplicates
    assert committed_offset(shop) == 8


@pytest.mark.parametrize("options", [(), ("--verbose",)], ids=["quiet", "verbose"])
def test_a_failing_handler_is_told_with_a_sentence_and_no_payload_and_others_go_on(
    shop: Shop, service: Path, options: tuple[str, ...]
) -> None:
    shop.pipeline.write(2)
    shop.pipeline.write(1, event_type="Poison")
    with consuming(service, environment(shop), *options) as process:
        eventually(lambda: parked(shop) == 1, "what failed")
        shop.pipeline.write(1, "other")
        eventually(lambda: len(shop.effects()) == 3, "three effects")
        process.terminate()
        _, err = process.communicate(timeout=20)
    assert process.returncode == 0
    assert "event is parked" in err
    assert 'reason="the handler of Poison order/1 #3' in err
    assert "raised ValueError at service.py:" in err
    assert f"{shop.name}: 3 applied, 1 parked" in err
    assert ("Traceback" in err) is bool(options)
    assert options or "hunter2" not in err
    assert committed_offset(shop) == 4


def parked(shop: Shop) -> int:
    with shop.pipeline.connect() as connection:
        return int(one(connection, "select count(*) from inbox_parked"))


def run_command_in(folder: Path, *arguments: str, env: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    command = [f"{sys.prefix}/bin/cdc-outbox", *arguments]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("changes", "code", "sentence", "hint"),
    [
        ({"CDC_OUTBOX_BOOTSTRAP_SERVERS": "127.0.0.1:1"}, 75, "(_TRANSPORT)", "Check that the broker runs"),
        ({"CDC_OUTBOX_DSN": "host=127.0.0.1 port=1"}, 75, "Connection refused", "Check that the server runs"),
        ({"CDC_OUTBOX_DSN": "{dsn} password=wrong"}, 1, "password authentication failed", "Check user and password"),
    ],
)
def test_what_is_not_there_is_a_sentence_a_hint_and_an_exit_code(
    shop: Shop, service: Path, changes: dict[str, str], code: int, sentence: str, hint: str
) -> None:
    changed = {name: value.format(dsn=shop.pipeline.dsn) for name, value in changes.items()}
    done = run_command_in(service, "consume", "service:consumer", env=environment(shop) | changed)
    assert done.returncode == code
    assert sentence in done.stderr
    assert f"hint: {hint}" in done.stderr
    assert "Traceback" not in done.stderr
    assert "no events" not in done.stderr
    assert done.stderr.count("FAIL") <= 2  # librdkafka says it twice a second


def test_an_inbox_that_was_not_made_is_named_with_the_command_that_makes_it(shop: Shop, service: Path) -> None:
    with shop.pipeline.connect() as connection:
        connection.execute("drop table inbox")
        assert one(connection, "select to_regclass('inbox') is null")
    shop.pipeline.write(1)
    done = run_command_in(service, "consume", "service:consumer", env=environment(shop))
    assert done.returncode == 1
    assert 'error: relation "public.inbox" does not exist' in done.stderr
    assert "`init --inbox`" in done.stderr


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("service", "'service' is not of the form module:attribute"),
        ("nobody:consumer", "there is no module 'nobody' here"),
        ("service:nobody", "the module service has no 'nobody'"),
        ("service:not_a_consumer", "service:not_a_consumer is a int, not a Consumer"),
    ],
)
def test_a_target_that_is_no_consumer_is_named(shop: Shop, service: Path, target: str, sentence: str) -> None:
    done = run_command_in(service, "consume", target, env=environment(shop))
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
    assert f"error: there is no module '{target.partition(':')[0]}' here" in done.stderr


def test_help_shows_an_example() -> None:
    assert "cdc-outbox consume examples.orders.shipping:consumer" in run_command("consume", "--help").stdout
