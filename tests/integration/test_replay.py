"""`cdc-outbox replay` and `cdc-outbox reset` on real servers: what never had effects gets them, and nothing twice."""

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cdc_outbox.consumer import AsyncConsumer, Consumer, Fate, Limits, RecordedEvent, Replayed, Retry, Selection
from cdc_outbox.errors import ConfigError, ParkFullError
from cdc_outbox.message import Message
from tests.support.commands import run_command
from tests.support.events import make_event
from tests.support.pipeline import Pipeline
from tests.support.rig import eventually
from tests.support.service import Service, effects_of

QUICK_RETRY = Retry(inline_retry_seconds=0, parked_pause_seconds=0.05)


@pytest.fixture
def service(pipeline: Pipeline) -> Service:
    """A consuming service behind an outbox without a connector."""
    pipeline.create_topics()
    return Service(pipeline)


def replay(
    service: Service, consumer: Consumer | None = None, *, dry_run: bool = False, **selection: Any
) -> dict[Fate, int]:
    done = (consumer or service.consumer()).replay(Selection(**selection), dry_run=dry_run)
    assert done.is_complete
    return dict(done.fates)


def test_what_was_applied_is_skipped(service: Service) -> None:
    service.pipeline.write_and_send(5)
    service.consume(5)
    assert replay(service, dry_run=True) == {Fate.DUPLICATE: 5}
    assert replay(service) == {Fate.DUPLICATE: 5}
    assert service.effects() == effects_of(5)


def test_what_an_accident_passed_over_is_applied_in_order_and_a_second_replay_finds_nothing(service: Service) -> None:
    service.pipeline.write_and_send(2)
    service.consume_and_commit(2)
    service.pipeline.write_and_send(700)
    service.skip_to_the_end()
    assert replay(service, dry_run=True) == {Fate.DUPLICATE: 2, Fate.APPLIED: 700}
    assert service.watermark() == 2
    assert replay(service) == {Fate.DUPLICATE: 2, Fate.APPLIED: 700}
    assert service.effects() == effects_of(702)
    assert replay(service) == {Fate.DUPLICATE: 702}


def test_the_consumer_may_run_meanwhile_and_drains_what_waited(service: Service) -> None:
    service.pipeline.write_and_send(1)
    service.consume_and_commit(1)
    service.pipeline.write_and_send(60)
    service.skip_to_the_end()
    with service.running():
        service.pipeline.write_and_send(20)
        eventually(lambda: len(service.parked()) == 20, "what waits for the others")
        assert replay(service)[Fate.APPLIED] == 60
        eventually(lambda: len(service.effects()) == 81, "all effects")
    assert service.effects() == effects_of(81)


def test_a_consumer_that_runs_on_asyncio_can_be_given_messages_again(service: Service) -> None:
    service.pipeline.write_and_send(3)
    consumer = AsyncConsumer(
        name=service.name,
        contract=service.pipeline.spec.contract,
        kafka=service.pipeline.stack.broker.bootstrap_servers,
        database=lambda: psycopg.AsyncConnection.connect(service.dsn),
    )

    @consumer.on("OrderPlaced")
    async def apply(event: RecordedEvent, connection: psycopg.AsyncConnection[Any]) -> None:
        statement = "insert into effects (aggregate, sequence) values (%s, %s)"
        await connection.execute(statement, (event.aggregate_id, event.sequence))

    assert asyncio.run(consumer.replay()).fates == {Fate.APPLIED: 3}
    assert service.effects() == effects_of(3)


def test_two_replays_and_a_consumer_at_once_apply_each_event_once_and_in_order(service: Service) -> None:
    for number in range(4):
        service.pipeline.write_and_send(150, str(number))

    async def all_at_once() -> list[Replayed]:
        consumers = [service.consumer() for _ in range(2)]
        return await asyncio.gather(*(asyncio.to_thread(consumer.replay) for consumer in consumers))

    with service.running():
        done = asyncio.run(all_at_once())
        eventually(lambda: len(service.effects()) >= 600, "all effects")
    assert all(fates.fates.total() >= 600 for fates in done)
    for number in range(4):
        own = [sequence for aggregate, sequence in service.effects() if aggregate == str(number)]
        assert own == list(range(1, 151))


def test_each_option_selects(service: Service) -> None:
    began_at = datetime.now(UTC)
    service.pipeline.write_and_send(3, "1")
    service.pipeline.write_and_send(2, "2")
    assert replay(service, dry_run=True, aggregate=("order", "2")) == {Fate.APPLIED: 2}
    assert replay(service, dry_run=True, event_type="OrderPlaced") == {Fate.APPLIED: 5}
    assert replay(service, dry_run=True, event_type="Nothing") == {}
    assert replay(service, dry_run=True, topic=service.pipeline.spec.contract.topic_of("metric")) == {}
    hour = timedelta(hours=1)
    assert replay(service, dry_run=True, since=began_at - hour, before=began_at + hour) == {Fate.APPLIED: 5}
    assert replay(service, dry_run=True, since=began_at + hour) == {}
    assert replay(service, dry_run=True, before=began_at - hour) == {}
    partition = next(message.partition for message in service.pipeline.messages() if message.key == b"1")
    chosen: dict[str, Any] = {"topic": service.pipeline.topic, "partition": partition}
    ours = [message for message in service.pipeline.messages() if message.partition == partition]
    assert replay(service, dry_run=True, **chosen, first_offset=0, last_offset=1) == {Fate.APPLIED: 2}
    assert sum(replay(service, dry_run=True, **chosen, first_offset=1, last_offset=99).values()) == len(ours) - 1
    with pytest.raises(ConfigError, match="is none of"):
        replay(service, topic="another")
    with pytest.raises(ConfigError, match="a partition needs a topic"):
        replay(service, partition=0)


def test_without_its_predecessor_an_event_is_parked_and_a_wider_replay_brings_both(service: Service) -> None:
    service.pipeline.write_and_send(3)
    partition = service.pipeline.messages()[0].partition
    last: dict[str, Any] = {
        "topic": service.pipeline.topic,
        "partition": partition,
        "first_offset": 2,
        "last_offset": 2,
    }
    assert replay(service, dry_run=True, **last) == {Fate.PARKED: 1}
    assert replay(service, **last) == {Fate.PARKED: 1}
    assert replay(service, dry_run=True) == {Fate.APPLIED: 2, Fate.WAITING: 1}
    assert replay(service) == {Fate.APPLIED: 2, Fate.WAITING: 1}
    with service.running():
        eventually(lambda: len(service.effects()) == 3, "what was parked")
    assert service.effects() == effects_of(3)


def test_an_event_whose_handler_fails_is_parked_with_its_successors_and_the_running_consumer_tries_again(
    service: Service,
) -> None:
    def failing(*_: object) -> None:
        raise ValueError

    service.pipeline.write_and_send(1)
    service.pipeline.write_and_send(1, event_type="Fragile")
    service.pipeline.write_and_send(2)
    broken = service.consumer(retry=QUICK_RETRY)
    broken.on("Fragile")(failing)
    assert replay(service, broken) == {Fate.APPLIED: 1, Fate.PARKED: 3}
    fixed = service.consumer()
    fixed.on("Fragile")(lambda _event, _connection: None)
    with service.running(fixed):
        eventually(lambda: service.watermark() == 4, "the others")
    assert service.effects() == [("1", 1), ("1", 3), ("1", 4)]


@pytest.mark.parametrize("limits", [Limits(max_parked_events=2), Limits(max_parked_bytes=2)], ids=["events", "bytes"])
def test_no_more_is_parked_than_may_be(service: Service, limits: Limits) -> None:
    service.send(*service.pipeline.write(5)[1:])
    with pytest.raises(ParkFullError):
        service.consumer(limits=limits).replay()
    assert len(service.parked()) <= 2


def test_a_stale_event_that_nobody_knows_is_left_out_and_not_parked_again(service: Service) -> None:
    service.pipeline.write_and_send(2)
    service.consume(2)
    with service.connect() as connection:
        connection.execute("delete from inbox")
        assert replay(service) == {Fate.LEFT_OUT: 2}
        connection.execute("insert into inbox_purges values (%s, clock_timestamp())", (service.name,))
        assert replay(service) == {Fate.DUPLICATE: 2}
    assert service.parked() == []
    assert service.effects() == effects_of(2)


def test_what_no_inbox_can_take_is_counted_and_stops_nobody(service: Service) -> None:
    service.send(Message(topic=service.pipeline.topic, key=b"1", value=b"{}"))
    [first, second] = service.pipeline.write(2)
    service.send(first, replace(first, id="i" * 3000), replace(first, id="i\0"), second)
    service.send(*(replace(first, aggregate_id=name, id="fits") for name in ("a" * 3000, "a\0")))
    assert replay(service, dry_run=True) == {Fate.UNREADABLE: 5, Fate.APPLIED: 2}
    assert replay(service) == {Fate.UNREADABLE: 5, Fate.APPLIED: 2}
    assert service.parked() == []


def invoices() -> list[RecordedEvent]:
    """Return events of one aggregate whose numbers have gaps, of two types in turn."""
    kinds = ("InvoiceOpened", "OrderPlaced", "InvoiceOpened", "OrderPlaced")
    return [
        make_event(10 * number, aggregate_type="invoice", event_type=kind) for number, kind in enumerate(kinds, start=1)
    ]


@pytest.mark.parametrize("part", [{"event_type": "OrderPlaced"}, {"partition": 0, "first_offset": 1}])
def test_a_part_of_an_increasing_type_is_refused_ahead_of_the_consumer(
    fed_service: Service, part: dict[str, Any]
) -> None:
    chosen = {"topic": fed_service.pipeline.spec.contract.topic_of("invoice"), **part}
    sent = invoices()
    fed_service.send(*sent)
    for dry_run in (True, False):
        with pytest.raises(ConfigError, match="an earlier event of invoice/1 is not, and the consumer has not read"):
            replay(fed_service, dry_run=dry_run, **chosen)
    assert fed_service.effects() == []
    # What the refusal advises: the consumer reads everything, and then there is nothing to pass over.
    with fed_service.running() as consumer:
        eventually(lambda: consumer.outcomes.total() == len(sent), "the consumer to read all")
    assert replay(fed_service, **chosen).keys() == {Fate.DUPLICATE}
    assert fed_service.parked() == []


def test_a_part_that_passes_nothing_over_is_replayed_ahead_of_the_consumer(fed_service: Service) -> None:
    fed_service.send(*invoices())
    topic = fed_service.pipeline.spec.contract.topic_of("invoice")
    assert replay(fed_service, topic=topic, partition=0, last_offset=1) == {Fate.APPLIED: 2}
    assert replay(fed_service, aggregate=("invoice", "1")) == {Fate.DUPLICATE: 2, Fate.APPLIED: 2}
    assert [sequence for _, sequence in fed_service.effects()] == [20, 40]


def test_a_rate_bounds_how_many_events_a_second_reach_handlers(service: Service) -> None:
    service.pipeline.write_and_send(12)
    began_at = datetime.now(UTC)
    service.consumer().replay(rate=10)
    assert (datetime.now(UTC) - began_at).total_seconds() >= 1
    assert len(service.effects()) == 12


SERVICE = """
import os
import psycopg
from cdc_outbox.consumer import Consumer, SequenceMode, WireContract

consumer = Consumer(
    name=os.environ["NAME"],
    contract=WireContract(aggregates={"order": SequenceMode.GAPLESS}, topic=os.environ["TOPIC"]),
    kafka=os.environ["CDC_OUTBOX_BOOTSTRAP_SERVERS"],
    database=lambda: psycopg.connect(os.environ["CDC_OUTBOX_DSN"]),
)

@consumer.on("OrderPlaced")
def ship(event, connection):
    place = event.aggregate_id, event.sequence
    connection.execute("insert into effects (aggregate, sequence) values (%s, %s)", place)
"""


@pytest.fixture
def env(service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    (tmp_path / "service.py").write_text(SERVICE)
    (tmp_path / "orders.yaml").write_text(Pipeline.text(service.pipeline.name))
    monkeypatch.chdir(tmp_path)
    return {
        "NAME": service.name,
        "TOPIC": service.pipeline.topic,
        "CDC_OUTBOX_DSN": service.dsn,
        "CDC_OUTBOX_BOOTSTRAP_SERVERS": service.pipeline.stack.broker.bootstrap_servers,
    }


def test_the_command_says_what_became_of_the_messages(service: Service, env: dict[str, str]) -> None:
    first, *_ = service.pipeline.write_and_send(3)
    done = run_command("replay", "service:consumer", "--dry-run", env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"3 would be applied, the first is {first}\n"
    done = run_command("replay", "service:consumer", "--aggregate", "order/1", "--rate", "1000", env=env)
    assert (done.returncode, done.stdout) == (0, f"3 applied, the first is {first}\n")
    done = run_command("replay", "service:consumer", "--output=json", env=env)
    document = json.loads(done.stdout)
    said, hint = done.stderr.splitlines()
    assert said == f"3 duplicates, skipped, the first is {first}"
    assert hint.startswith("hint: Their effects run again only after `cdc-outbox reset SPEC --consumer ")
    assert (document["kind"], document["isDryRun"], document["isComplete"]) == ("Replay", False, True)
    assert [each for each in document["fates"] if each["messages"]] == [
        {"fate": "duplicate", "messages": 3, "first": str(first)}
    ]
    done = run_command("replay", "service:consumer", "--event-type", "OrderPlacd", env=env)
    assert (done.returncode, done.stdout) == (0, "no message is selected\n")
    assert done.stderr == "hint: The topics hold OrderPlaced. Did you mean 'OrderPlaced'?\n"
    done = run_command("replay", "service:consumer", "--offsets", "1:5", env=env)
    assert done.returncode == 2
    assert "is not PARTITION:FIRST-LAST" in done.stderr
    done = run_command("replay", "service:consumer", "--topic", service.pipeline.topic, "--offsets", "99:0-1", env=env)
    assert done.returncode == 2
    assert f"{service.pipeline.topic} has no partition 99: it has " in done.stderr
    done = run_command("replay", "service:consumer", "--from", "2026-03-01", "--to", "2026-02-01", env=env)
    assert done.returncode == 2
    assert len(service.effects()) == 3


RESET = ("reset", "orders.yaml", "--aggregate", "order/1")


def test_a_reset_forgets_nothing_unless_it_is_told_that_effects_run_again(
    service: Service, env: dict[str, str]
) -> None:
    service.pipeline.write_and_send(3)
    service.pipeline.write_and_send(2, "2")
    service.consume_and_commit(5)
    done = run_command(*RESET, "--consumer", service.name, env=env)
    assert done.returncode == 2
    assert done.stdout == "would be deleted: 3 claims, 1 watermark, 0 parked events, 0 gaps\n"
    assert "--run-effects-again" in done.stderr
    dry = run_command(*RESET, "--consumer", service.name, "--dry-run", env=env)
    assert (dry.returncode, dry.stdout, dry.stderr) == (0, done.stdout, "")
    unknown = run_command(*RESET, "--consumer", "nobody", "--dry-run", env=env)
    assert unknown.returncode == 1
    assert "no consumer 'nobody' has used the inbox public.inbox\n" in unknown.stderr
    assert f"Consumers that have used it: {service.name}.\n" in unknown.stderr
    assert replay(service) == {Fate.DUPLICATE: 5}

    done = run_command(*RESET, "--consumer", service.name, "--run-effects-again", env=env)
    assert done.returncode == 0
    assert done.stdout == "deleted: 3 claims, 1 watermark, 0 parked events, 0 gaps\n"
    assert replay(service) == {Fate.DUPLICATE: 2, Fate.APPLIED: 3}
    assert service.effects()[5:] == effects_of(3)
    assert replay(service) == {Fate.DUPLICATE: 5}


def test_a_reset_of_everything_forgets_what_is_parked_too_for_it_comes_again(
    service: Service, env: dict[str, str]
) -> None:
    missing, *others = service.pipeline.write(3)
    service.send(*others)
    service.pipeline.write_and_send(2, "2")
    assert replay(service) == {Fate.PARKED: 2, Fate.APPLIED: 2}
    another = Service(service.pipeline)
    assert replay(another) == {Fate.PARKED: 2, Fate.APPLIED: 2}
    done = run_command("reset", "orders.yaml", "--consumer", service.name, "--all", "--run-effects-again", env=env)
    assert done.stdout == "deleted: 2 claims, 2 watermarks, 2 parked events, 0 gaps\n"
    assert replay(another) == {Fate.WAITING: 2, Fate.DUPLICATE: 2}
    assert missing.sequence == 1
    assert replay(service) == {Fate.PARKED: 2, Fate.APPLIED: 2}


def test_what_the_topic_holds_no_more_stays_applied_and_the_rest_follows_it(
    service: Service, env: dict[str, str]
) -> None:
    service.pipeline.write_and_send(5)
    service.consume_and_commit(5)
    service.pipeline.delete_first_messages(3)
    done = run_command(*RESET, "--consumer", service.name, "--run-effects-again", env=env)
    assert "kept at the beginning of the topic, because earlier events are no longer in it: 1 watermark" in done.stdout
    assert service.watermark() == 3
    assert replay(service) == {Fate.APPLIED: 2}
    assert service.effects()[5:] == effects_of(2, start=4)


def test_a_reset_refuses_while_the_consumer_runs(service: Service, env: dict[str, str]) -> None:
    service.pipeline.write_and_send(1)
    with service.running():
        eventually(service.effects, "an effect")
        done = run_command(*RESET, "--consumer", service.name, "--run-effects-again", env=env)
    assert done.returncode == 1
    assert f"error: the group {service.name} has 1 member; nothing was deleted" in done.stderr
    assert service.watermark() == 1


def test_a_reset_refuses_to_lose_what_only_the_park_holds(service: Service, env: dict[str, str]) -> None:
    _, *others = service.pipeline.write(3)
    service.send(*others)
    assert replay(service) == {Fate.PARKED: 2}
    service.pipeline.delete_first_messages(1)
    done = run_command(*RESET, "--consumer", service.name, "--run-effects-again", env=env)
    assert done.returncode == 1
    assert "error: no topic still has 1 parked event" in done.stderr
    assert len(service.parked()) == 2
