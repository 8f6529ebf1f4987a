"""A handler needs something that is away: for one event that is its failure, for several aggregates alike an outage."""

import threading
from collections import Counter
from collections.abc import Callable

import psycopg
import pytest

from cdc_outbox.consumer import Consumer, RecordedEvent, Retry
from tests.support.events import make_event
from tests.support.rig import Connection, eventually
from tests.support.service import PATIENT, Service, apply_effect, effects_of

UNREACHABLE = "host=127.0.0.1 port=1 dbname=reports connect_timeout=2"
STUBBORN = Retry(inline_retry_seconds=0, parked_pause_seconds=0.05, longest_pause_seconds=0.05, max_attempts=10)
"""What fails is given up within about a second, were it tried again all the time."""
ALL_AGGREGATES = [str(number) for number in range(40)]


def ask_second_database(_event: RecordedEvent, _connection: Connection) -> None:
    """Connect to a database that refuses connections."""
    psycopg.connect(UNREACHABLE).close()


def want_locked_row(_event: RecordedEvent, connection: Connection) -> None:
    """Wait for a row that another transaction holds, as long as a lock may be waited for."""
    connection.execute("set local lock_timeout = '20ms'")
    connection.execute("select * from settings for update")


@pytest.mark.parametrize("handler", [ask_second_database, want_locked_row])
def test_one_event_whose_handler_is_refused_is_parked_and_the_other_partitions_go_on(
    two_partition_service: Service, handler: Callable[[RecordedEvent, Connection], None]
) -> None:
    service = two_partition_service
    consumer = service.consumer(retry=PATIENT)
    consumer.on("Reported")(handler)
    with service.connect() as connection:
        connection.execute("create table settings as select 1 as id")
    service.send(make_event(1, "poison", event_type="Reported"), make_event(2, "poison"), partition=0)
    service.send(*(make_event(1, f"a{number}") for number in range(10)), partition=0)
    service.send(*(make_event(1, f"b{number}") for number in range(10)), partition=1)
    with psycopg.connect(service.dsn) as other, service.running(consumer):
        other.execute("select * from settings for update")
        service.wait_for_effects(*((f"{name}{number}", 1) for name in "ab" for number in range(10)))
        service.wait_for_parked((1, "waiting", "failed"), (2, "waiting", "gap"))
        assert consumer.progress().outage == ""


class SecondDatabase:
    """What a handler of each event connects to: it is away until it is told to come back."""

    def __init__(self, service: Service) -> None:
        self._dsn = service.dsn
        self.is_away = threading.Event()
        self.refused: Counter[str] = Counter()
        """How often events were refused, by aggregate."""

    def report(self, event: RecordedEvent, connection: Connection) -> None:
        """Apply the effect, and ask the second database."""
        apply_effect(event, connection)
        if self.is_away.is_set():
            self.refused[event.aggregate_id] += 1
            psycopg.connect(UNREACHABLE).close()
        psycopg.connect(self._dsn).close()


def reporting(service: Service, second: SecondDatabase) -> Consumer:
    """Return a consumer whose handler asks the second database."""
    consumer = service.consumer(retry=STUBBORN)
    consumer.on("Reported")(second.report)
    return consumer


def test_a_second_database_that_is_away_leaves_no_dead_event(fed_service: Service) -> None:
    second = SecondDatabase(fed_service)
    second.is_away.set()
    fed_service.send(
        *(make_event(number, name, event_type="Reported") for number in (1, 2, 3) for name in ALL_AGGREGATES)
    )
    consumer = reporting(fed_service, second)
    with fed_service.running(consumer):
        eventually(lambda: "127.0.0.1" in consumer.progress().outage, "the consumer to know what it waits for")
        eventually(lambda: len(second.refused) >= 9, "other events to be tried too")
        assert [state for _, state, _ in fed_service.parked()].count("waiting") <= 6, "each that was tried is parked"
        assert all(state == "waiting" for _, state, _ in fed_service.parked())
        assert fed_service.effects() == []
        second.is_away.clear()
        fed_service.wait_for_effects(*(effect for name in ALL_AGGREGATES for effect in effects_of(3, name)))
        eventually(lambda: fed_service.parked() == [], "the park to be empty")
        eventually(lambda: consumer.progress().outage == "", "the outage to be over")


def test_an_outage_that_begins_in_the_middle_of_the_stream_leaves_no_dead_event(fed_service: Service) -> None:
    second = SecondDatabase(fed_service)
    consumer = reporting(fed_service, second)
    with fed_service.running(consumer):
        fed_service.send(*(make_event(1, name, event_type="Reported") for name in ALL_AGGREGATES))
        fed_service.wait_for_effects(*((name, 1) for name in ALL_AGGREGATES))
        second.is_away.set()
        fed_service.send(*(make_event(2, name, event_type="Reported") for name in ALL_AGGREGATES))
        eventually(lambda: consumer.progress().outage, "the outage to be known")
        second.is_away.clear()
        fed_service.wait_for_effects(*(effect for name in ALL_AGGREGATES for effect in effects_of(2, name)))
        eventually(lambda: fed_service.parked() == [], "the park to be empty")
