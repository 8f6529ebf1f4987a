"""`cdc-outbox replay` and `cdc-outbox reset` on real servers: what never had effects gets them, and nothing twice."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cdc_outbox.consumer import AsyncConsumer, Consumer, Event, Fate, Limits, Replayed, Retry, Selection
from cdc_outbox.errors import ConfigError, ParkFullError
from cdc_outbox.message import Message
from tests.support.carrying import carry, consume_and_leave, forget_first, make_shop, skip_to_the_end, write
from tests.support.commands import run_command
from tests.support.rig import Pipeline, Shop, eventually, one

QUICK_RETRY = Retry(inline_retry_seconds=0, parked_pause_seconds=0.05)


@pytest.fixture
def shop(pipeline: Pipeline) -> Shop:
    return make_shop(pipeline)


def replay(shop: Shop, consumer: Consumer | None = None, dry_run: bool = False, **selection: Any) -> dict[Fate, int]:  # noqa: FBT001, FBT002
    done = (consumer or shop.consumer()).replay(Selection(**selection), dry_run=dry_run)
    assert done.is_complete
    return dict(done.fates)


def orders(*numbers: int) -> list[tuple[str, int]]:
    return [("1", number) for number in numbers]


def test_what_was_applied_is_skipped(shop: Shop) -> None:
    write(shop.pipeline, 5)
    shop.consume(5)
    assert replay(shop, dry_run=True) == {Fate.DUPLICATE: 5}
    assert replay(shop) == {Fate.DUPLICATE: 5}
    assert shop.effects() == orders(1, 2, 3, 4, 5)


def test_what_an_accident_passed_over_is_applied_in_order_and_a_second_replay_finds_nothing(shop: Shop) -> None:
    write(shop.pipeline, 2)
    consume_and_leave(shop, 2)
    write(shop.pipeline, 700)
    skip_to_the_end(shop)
    assert replay(shop, dry_run=True) == {Fate.DUPLICATE: 2, Fate.APPLIED: 700}
    assert shop.watermark() == 2
    assert replay(shop) == {Fate.DUPLICATE: 2, Fate.APPLIED: 700}
    assert shop.effects() == orders(*range(1, 703))
    assert replay(shop) == {Fate.DUPLICATE: 702}


def test_the_consumer_may_run_meanwhile_and_drains_what_waited(shop: Shop) -> None:
    write(shop.pipeline, 1)
    consume_and_leave(shop, 1)
    write(shop.pipeline, 60)
    skip_to_the_end(shop)
    with shop.running():
        write(shop.pipeline, 20)
        with shop.pipeline.connect() as connection:
            eventually(lambda: one(connection, "select count(*) from inbox_parked") == 20, "what waits for the others")
        assert replay(shop)[Fate.APPLIED] == 60
        eventually(lambda: len(shop.effects()) == 81, "all effects")
    assert shop.effects() == orders(*range(1, 82))


def test_a_consumer_that_runs_on_asyncio_can_be_given_messages_again(shop: Shop) -> None:
    write(shop.pipeline, 3)
    consumer = AsyncConsumer(
        name=shop.name,
        contract=shop.pipeline.spec.contract,
        bootstrap_servers=shop.pipeline.stack.broker.bootstrap_servers,
        connect=lambda: psycopg.AsyncConnection.connect(shop.pipeline.dsn),
    )

    @consumer.on("OrderPlaced")
    async def apply(event: Event, connection: psycopg.AsyncConnection[Any]) -> None:
        statement = "insert into effects (aggregate, sequence) values (%s, %s)"
        await connection.execute(statement, (event.aggregate_id, event.sequence))

    assert asyncio.run(consumer.replay()).fates == {Fate.APPLIED: 3}
    assert shop.effects() == orders(1, 2, 3)


def test_two_replays_and_a_consumer_at_once_apply_each_event_once_and_in_order(shop: Shop) -> None:
    for number in range(4):
        write(shop.pipeline, 150, str(number))

    async def all_at_once() -> list[Replayed]:
        consumers = [shop.consumer() for _ in range(2)]
        return await asyncio.gather(*(asyncio.to_thread(consumer.replay) for consumer in consumers))

    with shop.running():
        done = asyncio.run(all_at_once())
        eventually(lambda: len(shop.effects()) >= 600, "all effects")
    assert all(fates.fates.total() >= 600 for fates in done)
    for number in range(4):
        own = [sequence for aggregate, sequence in shop.effects() if aggregate == str(number)]
        assert own == list(range(1, 151))


def test_each_option_selects(shop: Shop) -> None:
    began_at = datetime.now(UTC)
    write(shop.pipeline, 3, "1")
    write(shop.pipeline, 2, "2")
    assert replay(shop, dry_run=True, aggregate=("order", "2")) == {Fate.APPLIED: 2}
    assert replay(shop, dry_run=True, event_type="OrderPlaced") == {Fate.APPLIED: 5}
    assert replay(shop, dry_run=True, event_type="Nothing") == {}
    assert replay(shop, dry_run=True, topic=shop.pipeline.spec.contract.topic_of("metric")) == {}
    hour = timedelta(hours=1)
    assert replay(shop, dry_run=True, since=began_at - hour, before=began_at + hour) == {Fate.APPLIED: 5}
    assert replay(shop, dry_run=True, since=began_at + hour) == {}
    assert replay(shop, dry_run=True, before=began_at - hour) == {}
    place = next(message.partition for message in shop.pipeline.messages() if message.key == b"1")
    chosen: dict[str, Any] = {"topic": shop.pipeline.topic, "partition": place}
    ours = [message for message in shop.pipeline.messages() if message.partition == place]
    assert replay(shop, dry_run=True, **chosen, first_offset=0, last_offset=1) == {Fate.APPLIED: 2}
    assert sum(replay(shop, dry_run=True, **chosen, first_offset=1, last_offset=99).values()) == len(ours) - 1
    with pytest.raises(ConfigError, match="is none of"):
        replay(shop, topic="another")
    with pytest.raises(ConfigError, match="of which topic"):
        replay(shop, partition=0)


def test_without_its_predecessor_an_event_is_parked_and_a_wider_replay_brings_both(shop: Shop) -> None:
    write(shop.pipeline, 3)
    place = shop.pipeline.messages()[0].partition
    last: dict[str, Any] = {"topic": shop.pipeline.topic, "partition": place, "first_offset": 2, "last_offset": 2}
    assert replay(shop, dry_run=True, **last) == {Fate.PARKED: 1}
    assert replay(shop, **last) == {Fate.PARKED: 1}
    assert replay(shop, dry_run=True) == {Fate.APPLIED: 2, Fate.WAITING: 1}
    assert replay(shop) == {Fate.APPLIED: 2, Fate.WAITING: 1}
    with shop.running():
        eventually(lambda: len(shop.effects()) == 3, "what was parked")
    assert shop.effects() == orders(1, 2, 3)


def test_an_event_whose_handler_fails_is_parked_with_its_successors_and_the_running_consumer_tries_again(
    shop: Shop,
) -> None:
    def failing(*_: object) -> None:
        raise ValueError

    write(shop.pipeline, 1)
    write(shop.pipeline, 1, event_type="Fragile")
    write(shop.pipeline, 2)
    broken = shop.consumer(retry=QUICK_RETRY)
    broken.on("Fragile")(failing)
    assert replay(shop, broken) == {Fate.APPLIED: 1, Fate.PARKED: 3}
    mended = shop.consumer()
    mended.on("Fragile")(lambda _event, _connection: None)
    with shop.running(mended):
        eventually(lambda: shop.watermark() == 4, "the others")
    assert shop.effects() == orders(1, 3, 4)


def test_no_more_is_parked_than_may_be(shop: Shop) -> None:
    carry(shop.pipeline, shop.pipeline.write(5)[1:])
    with pytest.raises(ParkFullError):
        shop.consumer(limits=Limits(max_parked_events=2)).replay()
    with shop.pipeline.connect() as connection:
        assert one(connection, "select count(*) from inbox_parked") <= 2


def test_a_stale_event_that_nobody_knows_is_left_out_and_not_parked_again(shop: Shop) -> None:
    write(shop.pipeline, 2)
    shop.consume(2)
    with shop.pipeline.connect() as connection:
        connection.execute("delete from inbox")
        assert replay(shop) == {Fate.LEFT_OUT: 2}
        connection.execute("insert into inbox_purges values (clock_timestamp())")
        assert replay(shop) == {Fate.DUPLICATE: 2}
        assert one(connection, "select count(*) from inbox_parked") == 0
    assert shop.effects() == orders(1, 2)


def test_what_no_inbox_can_take_is_counted_and_stops_nobody(shop: Shop) -> None:
    shop.pipeline.produce(Message(topic=shop.pipeline.topic, key=b"1", value=b"{}"))
    [first, second] = shop.pipeline.write(2)
    carry(shop.pipeline, [first, replace(first, id="i" * 3000), replace(first, id="i\0"), second])
    with shop.pipeline.connect() as connection:
        carry(shop.pipeline, [replace(first, aggregate_id=name, id="fits") for name in ("a" * 3000, "a\0")])
        assert replay(shop, dry_run=True) == {Fate.UNREADABLE: 5, Fate.APPLIED: 2}
        assert replay(shop) == {Fate.UNREADABLE: 5, Fate.APPLIED: 2}
        assert one(connection, "select count(*) from inbox_parked") == 0


def test_a_rate_bounds_how_many_events_a_second_reach_handlers(shop: Shop) -> None:
    write(shop.pipeline, 12)
    began_at = datetime.now(UTC)
    shop.consumer().replay(rate=10)
    assert (datetime.now(UTC) - began_at).total_seconds() >= 1
    assert len(shop.effects()) == 12


SERVICE = """
import os
import psycopg
from cdc_outbox.consumer import Consumer, SequenceMode, WireContract

consumer = Consumer(
    name=os.environ["NAME"],
    contract=WireContract(aggregates={"order": SequenceMode.GAPLESS}, topic=os.environ["TOPIC"]),
    bootstrap_servers=os.environ["CDC_OUTBOX_BOOTSTRAP_SERVERS"],
    connect=lambda: psycopg.connect(os.environ["CDC_OUTBOX_DSN"]),
)

@consumer.on("OrderPlaced")
def ship(event, connection):
    place = event.aggregate_id, event.sequence
    connection.execute("insert into effects (aggregate, sequence) values (%s, %s)", place)
"""


@pytest.fixture
def env(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    (tmp_path / "service.py").write_text(SERVICE)
    (tmp_path / "orders.yaml").write_text(Pipeline.text(shop.pipeline.name))
    monkeypatch.chdir(tmp_path)
    return {
        "NAME": shop.name,
        "TOPIC": shop.pipeline.topic,
        "CDC_OUTBOX_DSN": shop.pipeline.dsn,
        "CDC_OUTBOX_BOOTSTRAP_SERVERS": shop.pipeline.stack.broker.bootstrap_servers,
    }


def test_the_command_says_what_became_of_the_messages(shop: Shop, env: dict[str, str]) -> None:
    first, *_ = write(shop.pipeline, 3)
    done = run_command("replay", "service:consumer", "--dry-run", env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"3 would be applied, the first is {first}\n"
    done = run_command("replay", "service:consumer", "--aggregate", "order/1", "--rate", "1000", env=env)
    assert (done.returncode, done.stdout) == (0, f"3 applied, the first is {first}\n")
    done = run_command("replay", "service:consumer", "--offsets", "1:5", env=env)
    assert done.returncode == 2
    assert "is not PARTITION:FIRST-LAST" in done.stderr
    done = run_command("replay", "service:consumer", "--topic", shop.pipeline.topic, "--offsets", "99:0-1", env=env)
    assert done.returncode == 2
    assert f"{shop.pipeline.topic} has no partition 99: there are " in done.stderr
    done = run_command("replay", "service:consumer", "--from", "2026-03-01", "--to", "2026-02-01", env=env)
    assert done.returncode == 2
    assert len(shop.effects()) == 3


RESET = ("reset", "orders.yaml", "--aggregate", "order/1")


def test_a_reset_forgets_nothing_unless_it_is_told_that_effects_run_again(shop: Shop, env: dict[str, str]) -> None:
    write(shop.pipeline, 3)
    write(shop.pipeline, 2, "2")
    consume_and_leave(shop, 5)
    done = run_command(*RESET, "--consumer", shop.name, env=env)
    assert done.returncode == 2
    assert done.stdout == "would be forgotten: 3 claims, 1 watermarks, 0 parked events, 0 holes\n"
    assert "--run-effects-again" in done.stderr
    dry = run_command(*RESET, "--consumer", shop.name, "--dry-run", env=env)
    assert (dry.returncode, dry.stdout, dry.stderr) == (0, done.stdout, "")
    unknown = run_command(*RESET, "--consumer", "nobody", "--dry-run", env=env)
    assert unknown.returncode == 2
    assert f"no consumer 'nobody' has used the inbox public.inbox; there are: {shop.name}" in unknown.stderr
    assert replay(shop) == {Fate.DUPLICATE: 5}

    done = run_command(*RESET, "--consumer", shop.name, "--run-effects-again", env=env)
    assert done.returncode == 0
    assert done.stdout == "forgotten: 3 claims, 1 watermarks, 0 parked events, 0 holes\n"
    assert replay(shop) == {Fate.DUPLICATE: 2, Fate.APPLIED: 3}
    assert shop.effects()[5:] == orders(1, 2, 3)
    assert replay(shop) == {Fate.DUPLICATE: 5}


def test_a_reset_of_everything_forgets_what_is_parked_too_for_it_comes_again(shop: Shop, env: dict[str, str]) -> None:
    missing, *others = shop.pipeline.write(3)
    carry(shop.pipeline, others)
    write(shop.pipeline, 2, "2")
    assert replay(shop) == {Fate.PARKED: 2, Fate.APPLIED: 2}
    another = Shop(shop.pipeline)
    assert replay(another) == {Fate.PARKED: 2, Fate.APPLIED: 2}
    done = run_command("reset", "orders.yaml", "--consumer", shop.name, "--all", "--run-effects-again", env=env)
    assert done.stdout == "forgotten: 2 claims, 2 watermarks, 2 parked events, 0 holes\n"
    assert replay(another) == {Fate.WAITING: 2, Fate.DUPLICATE: 2}
    assert missing.sequence == 1
    assert replay(shop) == {Fate.PARKED: 2, Fate.APPLIED: 2}


def test_what_the_topic_holds_no_more_stays_applied_and_the_rest_follows_it(shop: Shop, env: dict[str, str]) -> None:
    write(shop.pipeline, 5)
    consume_and_leave(shop, 5)
    forget_first(shop.pipeline, 3)
    done = run_command(*RESET, "--consumer", shop.name, "--run-effects-again", env=env)
    assert "1 of the watermarks stay where the topic begins" in done.stdout
    assert shop.watermark() == 3
    assert replay(shop) == {Fate.APPLIED: 2}
    assert shop.effects()[5:] == orders(4, 5)


def test_a_reset_refuses_while_the_consumer_runs(shop: Shop, env: dict[str, str]) -> None:
    write(shop.pipeline, 1)
    with shop.running():
        eventually(shop.effects, "an effect")
        done = run_command(*RESET, "--consumer", shop.name, "--run-effects-again", env=env)
    assert done.returncode == 1
    assert f"error: the group {shop.name} has 1 member, nothing was forgotten" in done.stderr
    assert shop.watermark() == 1


def test_a_reset_refuses_to_lose_what_only_the_park_holds(shop: Shop, env: dict[str, str]) -> None:
    _, *others = shop.pipeline.write(3)
    carry(shop.pipeline, others)
    assert replay(shop) == {Fate.PARKED: 2}
    forget_first(shop.pipeline, 1)
    done = run_command(*RESET, "--consumer", shop.name, "--run-effects-again", env=env)
    assert done.returncode == 1
    assert "error: 1 parked events are in no topic any more" in done.stderr
    with psycopg.connect(shop.pipeline.dsn) as connection:
        assert one(connection, "select count(*) from inbox_parked") == 2
