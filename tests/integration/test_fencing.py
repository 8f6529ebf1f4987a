"""Who lost a partition has no effect any more, and who got it does not wait for long."""

import signal
import threading
from dataclasses import replace
from typing import Any

import psutil
import psycopg
import pytest

from cdc_outbox.consumer import Outcome, RecordedEvent
from cdc_outbox.consumer.fencing import TopicPartition
from cdc_outbox.consumer.inbox_tables import InboxTable
from cdc_outbox.consumer.session import sql_stores
from cdc_outbox.databases.drivers.immediate import ImmediateTransactions, finish
from cdc_outbox.databases.drivers.psycopg import Psycopg
from tests.support.events import make_event
from tests.support.patience import patience
from tests.support.rig import Connection, eventually
from tests.support.service import QUICK, Service, apply_effect, effects_of
from tests.support.service_process import running_process
from tests.support.timings import QUICK_LIMITS

HANDLER_SECONDS = 3.0


def take_away(service: Service) -> None:
    """Take the first partition in the database, as another consumer does to which Kafka assigned it."""
    driver = ImmediateTransactions(Psycopg())
    epochs = sql_stores(table=InboxTable(), consumer=service.name, driver=driver).epochs
    with psycopg.connect(service.dsn) as connection:
        finish(epochs.issue(connection, [TopicPartition(service.pipeline.topic, 0)]))


@pytest.mark.parametrize("pipeline", [False, True], ids=["", "in a pipeline"])
def test_a_zombie_in_the_middle_of_its_handler_neither_keeps_its_successor_waiting_nor_has_effects(
    fed_service: Service, *, pipeline: bool
) -> None:
    limits = {"handler_seconds": HANDLER_SECONDS}
    fed_service.send(
        *(make_event(number, event_type="Pauses" if number == 3 else "OrderPlaced") for number in range(1, 6))
    )
    with running_process(fed_service, limits=limits, pipeline=pipeline) as zombie:
        status = psutil.Process(zombie.pid)
        eventually(lambda: status.status() == psutil.STATUS_STOPPED, "the zombie to be paused")
        successor = fed_service.consumer(limits=replace(QUICK_LIMITS, handler_seconds=HANDLER_SECONDS))
        successor.on("Pauses")(apply_effect)
        with fed_service.running(successor):
            # The session lasts two seconds; the transaction of a stopped process would keep its locks for good.
            fed_service.wait_for_effects(*effects_of(5))
            assert status.status() == psutil.STATUS_STOPPED
            zombie.send_signal(signal.SIGCONT)
            fed_service.send(*(make_event(number) for number in range(6, 11)))
            fed_service.wait_for_effects(*effects_of(10))
        assert zombie.poll() is None
        # The last one left the group, so the zombie is the owner again, and goes on where the others ended.
        fed_service.send(make_event(11))
        fed_service.wait_for_effects(*effects_of(11))
    assert fed_service.parked() == []


@pytest.mark.parametrize("moment", ["in the handler", "before the transaction"])
def test_a_partition_that_another_consumer_took_in_the_database_meanwhile_is_given_up_with_all_effects(
    fed_service: Service, moment: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Kafka says here that it is ours still: then the other one was late, and it is taken back."""
    tries: list[str | None] = []
    consumer = fed_service.consumer()

    @consumer.on("Taken")
    def take(event: RecordedEvent, connection: Connection) -> None:
        tries.append(event.id)
        apply_effect(event, connection)
        if moment == "in the handler" and len(tries) == 1:
            take_away(fed_service)

    fed_service.send(make_event(1))
    with fed_service.running(consumer):
        fed_service.wait_for_effects(*effects_of(1))
        if moment == "before the transaction":
            take_away(fed_service)
        fed_service.send(make_event(2, event_type="Taken"), make_event(3))
        fed_service.wait_for_effects(*effects_of(3))
    assert "partition was taken by another consumer" in caplog.text
    assert len(tries) == (2 if moment == "in the handler" else 1)
    assert consumer.outcomes == {Outcome.APPLIED: 3}


def test_the_sessions_of_a_consumer_are_bounded_and_read_what_is_committed(fed_service: Service) -> None:
    seen: list[Any] = []
    dsn = f"{fed_service.dsn} options='-c default_transaction_isolation=serializable'"
    limits = replace(QUICK_LIMITS, handler_seconds=7.5)
    consumer = fed_service.consumer(connect=lambda: psycopg.connect(dsn), limits=limits)

    @consumer.on("Asked")
    def ask(event: RecordedEvent, connection: Connection) -> None:
        for name in ("idle_in_transaction_session_timeout", "transaction_isolation"):
            seen.extend(connection.execute(f"show {name}".encode()).fetchall())
        apply_effect(event, connection)

    fed_service.send(make_event(1, event_type="Asked"))
    fed_service.consume(1, consumer)
    assert seen == [("7500ms",), ("read committed",)]


def test_a_handler_slower_than_the_group_allows_keeps_its_partitions(
    two_partition_service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    """Polling goes on while it runs, so that nobody gets its events, and nothing is applied twice."""
    service, entered, limit = two_partition_service, threading.Event(), 6.0
    settings = QUICK | {"max.poll.interval.ms": int(limit * 1000)}
    slow = service.consumer(kafka_settings=settings)
    tries: list[int | None] = []

    @slow.on("Slow")
    def wait(event: RecordedEvent, connection: Connection) -> None:
        tries.append(event.sequence)
        apply_effect(event, connection)
        entered.set()
        threading.Event().wait(limit * 2)

    service.send(make_event(1, event_type="Slow"), partition=0)
    with service.running(slow):
        assert entered.wait(patience())
        # What comes meanwhile is not lost by the polls in between.
        service.send(*(make_event(number) for number in range(2, 21)), partition=0)
        service.send(*(make_event(number, "other") for number in range(1, 21)), partition=1)
        service.wait_for_effects(*effects_of(20), *effects_of(20, "other"))
    assert tries == [1]
    assert slow.outcomes[Outcome.APPLIED] == 40  # a session that ends on a slow machine adds duplicates
    assert "MAX_POLL_EXCEEDED" not in caplog.text
    assert "maximum poll interval" not in caplog.text.lower()


def test_a_handler_that_hangs_loses_its_partition_and_its_effects_and_its_successor_goes_on(
    fed_service: Service,
) -> None:
    """Polling for it ends some time, and so does the server's patience with its transaction."""
    entered, released, limits = threading.Event(), threading.Event(), replace(QUICK_LIMITS, handler_seconds=1.0)
    settings = {"session.timeout.ms": 2000, "heartbeat.interval.ms": 500, "max.poll.interval.ms": 2000}
    hanging, successor = (fed_service.consumer(kafka_settings=settings, limits=limits) for _ in range(2))
    successor.on("Hangs")(apply_effect)

    @hanging.on("Hangs")
    def hang(event: RecordedEvent, connection: Connection) -> None:
        apply_effect(event, connection)
        entered.set()
        assert released.wait(patience())

    fed_service.send(make_event(1, event_type="Hangs"), make_event(2))
    with fed_service.running(hanging):
        assert entered.wait(patience())
        with fed_service.running(successor):
            fed_service.wait_for_effects(*effects_of(2))
            released.set()
            fed_service.send(make_event(3))
            fed_service.wait_for_effects(*effects_of(3))
        # The last one left the group, so the other is the owner again.
        fed_service.send(make_event(4))
        fed_service.wait_for_effects(*effects_of(4))
    assert fed_service.parked() == []
    assert hanging.outcomes[Outcome.PARKED] == 0


@pytest.mark.parametrize(
    "settings",
    [
        {"partition.assignment.strategy": "range"},
        {"partition.assignment.strategy": "cooperative-sticky"},
        {"group.protocol": "consumer"},
        {"group.instance.id": "static"},
    ],
    ids=["eager", "cooperative", "newer", "static"],
)
def test_consumers_come_and_go_and_effects_are_once_and_in_order(
    two_partition_service: Service, settings: dict[str, Any]
) -> None:
    service = two_partition_service
    quick = {"topic.metadata.refresh.interval.ms": 300, **settings}
    if "group.protocol" not in settings:
        quick |= {"session.timeout.ms": 2000, "heartbeat.interval.ms": 500}

    def member(number: int) -> Any:
        own = {"group.instance.id": f"static-{number}"} if "group.instance.id" in settings else {}
        return service.consumer(kafka_settings=quick | own)

    expected: list[tuple[str, int]] = []

    def send() -> None:
        start = len(expected) // 4 + 1
        for index, aggregate_id in enumerate("abcd"):
            service.send(
                *(make_event(number, aggregate_id) for number in range(start, start + 25)), partition=index % 2
            )
            expected.extend(effects_of(25, aggregate_id, start))

    with service.running(member(1)):
        send()
        eventually(lambda: len(service.effects()) > 10, "the first to begin")
        with service.running(member(2)):
            send()
            service.wait_for_effects(*expected)
            send()
        send()
        service.wait_for_effects(*expected)
    assert service.parked() == []
