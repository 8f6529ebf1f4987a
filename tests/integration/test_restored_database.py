"""A consumer's database goes back to an older state: what it lost comes again, and nothing twice."""

import asyncio
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cdc_outbox.consumer import AsyncConsumer, RecordedEvent
from cdc_outbox.errors import OffsetOutOfRangeError, TopicReplacedError
from cdc_outbox.testing import Stack
from tests.support.commands import run_command
from tests.support.events import make_event
from tests.support.patience import patience
from tests.support.pipeline import FedPipeline, Pipeline
from tests.support.rig import eventually
from tests.support.service import QUICK, Service, effects_of
from tests.support.threads import Threads


def send_new(service: Service, count: int) -> None:
    """Send the first event of so many new aggregates, whose absence no gap would show."""
    begin = len(service.pipeline.messages())
    service.send(*(make_event(1, str(number)) for number in range(begin, begin + count)))


def ends_of(service: Service) -> dict[int, int]:
    ends = service.pipeline.stack.broker.ends(service.pipeline.topic)
    return {partition: end for partition, end in ends.items() if end}


def consume_all(service: Service) -> None:
    """Run a consumer until each message has its effects, and the group's offsets are behind them."""
    service.consume(len(service.pipeline.messages()))
    eventually(lambda: service.committed_offsets() == ends_of(service), "the offsets to follow")


def assert_each_effect_once(service: Service) -> None:
    assert sorted(int(aggregate) for aggregate, _ in service.effects()) == list(range(len(service.pipeline.messages())))
    assert service.parked() == []


def wait_for_attempts(service: Service, count: int) -> None:
    """Wait until the consumer has missed its database so often: the first time it lost its connection."""

    def attempts() -> int:
        return service.metrics.total("cdc_outbox_consumer_retries_total", reason="DatabaseUnavailableError")

    before = attempts()
    eventually(lambda: attempts() - before >= count, f"{count} attempts")


@pytest.fixture(params=[1, 3], ids=["a partition", "three partitions"])
def service(outbox_stack: Stack, request: pytest.FixtureRequest) -> Iterator[Service]:
    with closing(FedPipeline.make(outbox_stack, partitions=request.param)) as made:
        yield Service(made)


@pytest.mark.parametrize("applied_before", [0, 5])
def test_each_effect_is_there_once_after_a_restore(service: Service, applied_before: int) -> None:
    send_new(service, applied_before)
    consume_all(service)
    service.back_up()
    send_new(service, 20)
    consume_all(service)
    service.restore()
    assert len(service.effects()) == applied_before
    send_new(service, 5)
    consume_all(service)
    assert_each_effect_once(service)


@pytest.mark.parametrize("assignment", ["the same", "an older"])
def test_a_database_that_loses_commits_under_a_consumer_that_runs_gets_them_again(
    fed_service: Service, assignment: str
) -> None:
    service = fed_service
    send_new(service, 5)
    service.consume(5)
    if assignment == "an older":
        service.back_up()
    with service.running():
        if assignment == "the same":  # a standby that replication left behind
            send_new(service, 1)
            eventually(lambda: len(service.effects()) == 6, "the first effect")
            service.back_up()
        send_new(service, 10)
        eventually(lambda: len(service.effects()) == len(service.pipeline.messages()), "all effects")
        service.restore(meanwhile=lambda: wait_for_attempts(service, 3))
        send_new(service, 5)
        eventually(lambda: len(service.effects()) == len(service.pipeline.messages()), "all effects again")
    assert_each_effect_once(service)


def test_a_quiet_partition_of_a_consumer_that_runs_gets_its_lost_effects_again(two_partition_service: Service) -> None:
    service = two_partition_service
    service.send(make_event(1), partition=0)
    service.send(make_event(1, "quiet"), partition=1)
    with service.running():
        service.wait_for_effects(*effects_of(1), *effects_of(1, "quiet"))
        service.back_up()
        service.send(make_event(2, "quiet"), partition=1)
        service.wait_for_effects(*effects_of(1), *effects_of(2, "quiet"))
        service.restore(meanwhile=lambda: wait_for_attempts(service, 3))
        # Nothing is sent to it any more.
        service.wait_for_effects(*effects_of(1), *effects_of(2, "quiet"))
    assert service.parked() == []


def test_a_consumer_on_asyncio_goes_back_too(fed_service: Service) -> None:
    service = fed_service
    send_new(service, 5)
    service.back_up()
    consume_all(service)
    service.restore()
    consumer = AsyncConsumer(
        name=service.name,
        contract=service.pipeline.spec.contract,
        kafka=service.pipeline.stack.broker.bootstrap_servers,
        database=lambda: psycopg.AsyncConnection.connect(service.dsn),
    )

    @consumer.on("OrderPlaced")
    async def apply(event: RecordedEvent, connection: psycopg.AsyncConnection[Any]) -> None:
        await connection.execute("insert into effects (aggregate) values (%s)", (event.aggregate_id,))
        if event.aggregate_id == "4":
            consumer.stop()

    asyncio.run(asyncio.wait_for(consumer.run(), patience()))
    assert_each_effect_once(service)


def test_what_is_parked_comes_back_with_the_rest(fed_service: Service) -> None:
    service = fed_service
    send_new(service, 1)
    service.send(make_event(3, "0"))
    with service.running():
        service.wait_for_parked((3, "waiting", "gap"))
    service.back_up()
    service.send(make_event(2, "0"))
    service.consume(3)
    service.restore()
    service.consume(3)
    assert service.effects() == [("0", 1), ("0", 2), ("0", 3)]
    assert service.parked() == []


def test_a_group_that_somebody_set_back_is_not_set_forward(fed_service: Service) -> None:
    send_new(fed_service, 3)
    consume_all(fed_service)
    fed_service.commit_offsets({0: 1})
    send_new(fed_service, 1)
    consumer = fed_service.consumer()
    with fed_service.running(consumer):
        eventually(lambda: consumer.outcomes.total() == 3, "what was applied and what was not")
    assert_each_effect_once(fed_service)


def replace_topic(service: Service) -> None:
    """Delete the topic of orders, and create it again at once."""
    topic, broker = service.pipeline.topic, service.pipeline.stack.broker
    broker.delete_topics(topic)
    broker.create_topic(topic)
    eventually(lambda: broker.ends(topic) == {0: 0}, "the new topic to be there")


def test_a_topic_that_was_created_anew_stops_the_consumer(fed_service: Service) -> None:
    service = fed_service
    send_new(service, 3)
    consume_all(service)
    replace_topic(service)
    service.send(*(make_event(1, str(number)) for number in range(3, 8)))
    with pytest.raises(TopicReplacedError, match=f"{service.pipeline.topic} is not the topic"):
        service.run_to_its_end()
    assert len(service.effects()) == 3


@pytest.mark.parametrize(
    "kafka_settings", [QUICK, {}, {"group.protocol": "consumer"}], ids=["refreshing often", "default", "newer protocol"]
)
def test_a_running_consumer_applies_nothing_of_a_topic_that_was_created_anew(
    fed_service: Service, kafka_settings: Mapping[str, Any]
) -> None:
    service = fed_service
    send_new(service, 3)
    with Threads() as pool:
        run = pool.submit(service.run_to_its_end, service.consumer(kafka_settings=kafka_settings))
        eventually(lambda: len(service.effects()) == 3, "what the first topic held")
        replace_topic(service)
        # The Kafka client goes on behind the old topic's end.
        service.send(*(make_event(1, str(number)) for number in range(3, 11)))
        with pytest.raises(TopicReplacedError, match=f"{service.pipeline.topic} is not the topic"):
            run.result(patience())
    assert len(service.effects()) == 3


def test_a_topic_that_lost_its_end_stops_the_consumer(fed_service: Service) -> None:
    send_new(fed_service, 3)
    consume_all(fed_service)
    with fed_service.connect() as connection:
        connection.execute("update inbox_epochs set next_offset = 7 where next_offset is not null")
    with pytest.raises(OffsetOutOfRangeError, match="up to offset 7, and the topic ends at 3"):
        fed_service.run_to_its_end()


def test_a_topic_that_lost_what_was_not_applied_stops_the_consumer(fed_service: Service) -> None:
    service = fed_service
    send_new(service, 2)
    consume_all(service)
    service.back_up()
    send_new(service, 5)
    consume_all(service)
    service.restore()
    service.pipeline.delete_first_messages(5)
    with pytest.raises(OffsetOutOfRangeError, match="up to offset 2, and the topic begins at 5"):
        service.run_to_its_end()


PAGE = (Path(__file__).parents[2] / "docs" / "recovery" / "consumer-database.md").read_text()


def run_block(service: Service, start: str, env: dict[str, str]) -> str:
    """Run the commands of the page's block that begins so, for this service, and return what they print."""
    [block] = [found for found in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) if found.lstrip().startswith(start)]
    printed = ""
    for line in block.strip().splitlines():
        name, *arguments = line.replace("--consumer shipping", f"--consumer {service.name}").split()
        assert name == "cdc-outbox"
        done = run_command(*arguments, env=env)
        assert done.returncode == 0, done.stdout + done.stderr
        printed += done.stdout
    return printed


def test_the_runbook_brings_a_consumer_back_whose_topic_lost_messages(
    pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline.create_topics(1)
    service = Service(pipeline)
    (tmp_path / "connectors").mkdir()
    (tmp_path / "connectors" / "orders.yaml").write_text(Pipeline.text(pipeline.name))
    monkeypatch.chdir(tmp_path)
    env = {
        "CDC_OUTBOX_DSN": service.dsn,
        "CDC_OUTBOX_BOOTSTRAP_SERVERS": pipeline.stack.broker.bootstrap_servers,
    }
    first = pipeline.write_and_send(3)
    service.consume_and_commit(3)
    with service.connect() as connection:  # the database lies with the outbox, which is not restored
        connection.execute("create table kept as select * from inbox_epochs")
    lost = pipeline.write_and_send(4)
    service.consume_and_commit(7)
    with service.connect() as connection:
        connection.execute("delete from effects where sequence > 3")
        connection.execute("delete from inbox where event_id <> all(%s)", ([event.id for event in first],))
        connection.execute("update inbox_watermarks set last = 3")
        connection.execute(
            "update inbox_epochs as now set next_offset = kept.next_offset from kept where now.topic = kept.topic"
        )
    pipeline.delete_first_messages(5)
    with pytest.raises(OffsetOutOfRangeError, match="up to offset 3, and the topic begins at 5"):
        service.run_to_its_end()
    pipeline.send(*lost)  # published again
    assert "deleted: the offsets of 1 partition\n" in run_block(service, "cdc-outbox reset", env)
    service.consume(7)
    assert service.effects() == effects_of(7)
    assert service.parked() == []
    run_block(service, "cdc-outbox verify", env)


def test_a_topic_that_was_created_anew_is_read_from_its_beginning_once_that_is_accepted(
    fed_service: Service, tmp_path: Path
) -> None:
    service = fed_service
    send_new(service, 3)
    consume_all(service)
    sent = service.pipeline.messages()
    replace_topic(service)
    service.send(*sent, *(make_event(1, str(number)) for number in range(3, 8)))
    spec = tmp_path / "orders.yaml"
    spec.write_text(FedPipeline.text(service.pipeline.name))
    env = {
        "CDC_OUTBOX_INBOX_DSN": service.dsn,
        "CDC_OUTBOX_BOOTSTRAP_SERVERS": service.pipeline.stack.broker.bootstrap_servers,
    }
    reset = ("reset", str(spec), "--consumer", service.name, "--offsets-only")
    document = json.loads(run_command(*reset, "--dry-run", "--output=json", env=env).stdout)
    assert (document["kind"], document["isDryRun"], document["offsets"]) == ("Reset", True, 1)
    for option, answer in (("--dry-run", "would be deleted"), ("--offsets-only", "deleted")):
        with pytest.raises(TopicReplacedError):
            service.run_to_its_end()
        done = run_command(*reset, option, env=env)
        assert (done.returncode, done.stdout) == (0, f"{answer}: the offsets of 1 partition\n")
    service.consume(8)
    assert_each_effect_once(service)


def test_a_baseline_leaves_the_offsets_and_is_run_again_after_a_restore(fed_service: Service) -> None:
    service = fed_service
    env = {"CDC_OUTBOX_INBOX_DSN": service.dsn}
    baseline = ("baseline", "--consumer", service.name)
    offsets = "select topic, next_offset from inbox_epochs where consumer = %s order by topic"
    service.send(make_event(41), make_event(42))
    with service.running():
        service.wait_for_parked((41, "waiting", "gap"), (42, "waiting", "gap"))
    service.back_up()
    with service.running():
        eventually(lambda: service.committed_offsets() == {0: 2}, "the offsets to follow")
        before = service.rows(offsets, service.name)
        assert run_command(*baseline, env=env).returncode == 0
        service.wait_for_effects(("1", 41), ("1", 42))
        assert service.rows(offsets, service.name) == before
    service.restore()
    service.send(make_event(43))
    with service.running():
        service.wait_for_parked(*((sequence, "waiting", "gap") for sequence in (41, 42, 43)))
        assert service.effects() == []
        assert run_command(*baseline, env=env).returncode == 0
        service.wait_for_effects(("1", 41), ("1", 42), ("1", 43))
    assert service.parked() == []


def test_a_new_consumer_begins_from_now_with_the_last_numbers_of_its_topics(
    fed_service: Service, tmp_path: Path
) -> None:
    service = fed_service
    spec = tmp_path / "orders.yaml"
    spec.write_text(FedPipeline.text(service.pipeline.name))
    env = {
        "CDC_OUTBOX_INBOX_DSN": service.dsn,
        "CDC_OUTBOX_BOOTSTRAP_SERVERS": service.pipeline.stack.broker.bootstrap_servers,
    }
    from_now = ("baseline", str(spec), "--consumer", service.name, "--from-now")
    service.send(make_event(41), make_event(42), make_event(7, "2"))
    would = run_command(*from_now, "--dry-run", env=env)
    counts = "partitions 3, aggregates 2, unreadable 0"
    assert would.stderr == f"{service.name} would begin at the end of its topics: {counts}\n"
    assert service.rows("select count(*) from inbox_epochs") == [(0,)]
    done = json.loads(run_command(*from_now, "--output=json", env=env).stdout)
    assert done["fromNow"] == {"partitions": 3, "aggregates": 2, "unreadable": 0}
    service.send(make_event(43), make_event(8, "2"), make_event(1, "3"), make_event(45))
    with service.running():
        service.wait_for_effects(("1", 43), ("2", 8), ("3", 1))
        service.wait_for_parked((45, "waiting", "gap"))
    again = run_command(*from_now, env=env)
    assert again.returncode == 1
    assert "has begun to read; nothing was changed" in again.stderr


def test_what_a_reset_makes_it_forget_the_consumer_reads_again_when_it_starts(
    fed_service: Service, tmp_path: Path
) -> None:
    service = fed_service
    send_new(service, 3)
    consume_all(service)
    spec = tmp_path / "orders.yaml"
    spec.write_text(FedPipeline.text(service.pipeline.name))
    env = {
        "CDC_OUTBOX_INBOX_DSN": service.dsn,
        "CDC_OUTBOX_BOOTSTRAP_SERVERS": service.pipeline.stack.broker.bootstrap_servers,
    }
    reset = ("reset", str(spec), "--consumer", service.name, "--all", "--run-effects-again")
    assert run_command(*reset, env=env).returncode == 0
    service.consume(6)
    assert sorted(service.effects()) == sorted([*((str(number), 1) for number in range(3))] * 2)
