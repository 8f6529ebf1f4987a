"""The consumer with each driver that its handlers may be given, over a real topic."""

import asyncio
import logging
from typing import Any

import pytest

from cdc_outbox import RecordedEvent
from cdc_outbox.consumer import AsyncConsumer
from tests.contract.consumer_contract import ConsumerContract, OnMariaDb, OnPostgres, OnSqlite, Service
from tests.contract.listener_contract import ListeningConsumerContract
from tests.support.driver_users import MARIADB_USERS, POSTGRES_USERS, SQLITE_USERS
from tests.support.events import make_event
from tests.support.patience import patience
from tests.support.rig import eventually


class TestPsycopg(ConsumerContract, OnPostgres):
    users = POSTGRES_USERS["psycopg"]


class CancelledConsumers(ConsumerContract):
    """Those whose task can be cancelled."""

    def test_a_cancelled_task_leaves_whole_transactions_and_its_group(self, service: Service) -> None:
        async def run() -> int:
            reached, ticks = asyncio.Event(), 0

            async def apply(event: RecordedEvent, connection: Any) -> None:
                await service.apply_effect(event, connection)
                if event.sequence == 3:
                    reached.set()
                    await asyncio.Event().wait()

            async def tick() -> None:
                nonlocal ticks
                while True:
                    ticks += 1
                    await asyncio.sleep(0.01)

            ticking = asyncio.create_task(tick())
            consumer = service.consumer({"OrderPlaced": apply}, kafka_settings={})
            assert isinstance(consumer, AsyncConsumer)
            consuming = asyncio.create_task(consumer.run())
            await asyncio.wait_for(reached.wait(), patience())
            consuming.cancel()
            with pytest.raises(asyncio.CancelledError):
                await consuming
            ticking.cancel()
            return ticks

        service.send(*(make_event(number, "a") for number in range(1, 6)))
        assert asyncio.run(run()) > 10, "nothing else went on while it polled"
        half = service.ledger.applied().get("a", [])
        assert half in ([], [1], [1, 2])
        # Had it not left, its partition would stay its own for the session's timeout, which is 45 s by default.
        with service.running(service.consumer({"OrderPlaced": service.apply_effect}, kafka_settings={})):
            eventually(lambda: len(service.ledger.applied().get("a", [])) == 5, "all five")
        assert service.ledger.applied() == {"a": [1, 2, 3, 4, 5]}


class TestAsyncPsycopg(CancelledConsumers, OnPostgres):
    users = POSTGRES_USERS["psycopg async"]


class TestPsycopg2(ConsumerContract, OnPostgres):
    users = POSTGRES_USERS["psycopg2"]


class TestAsyncpg(CancelledConsumers, OnPostgres):
    users = POSTGRES_USERS["asyncpg"]


class TestSession(ListeningConsumerContract, ConsumerContract, OnPostgres):
    users = POSTGRES_USERS["sqlalchemy psycopg"]


class TestAsyncSession(ListeningConsumerContract, CancelledConsumers, OnPostgres):
    users = POSTGRES_USERS["sqlalchemy asyncpg"]


class TestDjango(ConsumerContract, OnPostgres):
    users = POSTGRES_USERS["django"]

    def test_each_callback_that_raises_is_logged_with_its_event(
        self, service: Service, caplog: pytest.LogCaptureFixture
    ) -> None:
        def fail() -> None:
            raise LookupError

        async def apply(event: RecordedEvent, connection: Any) -> None:
            await service.apply_effect(event, connection)
            connection.on_commit(fail)

        service.send(*(make_event(1, aggregate) for aggregate in ("a", "b", "c")))
        with caplog.at_level(logging.ERROR, "cdc_outbox"), service.running(service.consumer({"OrderPlaced": apply})):
            eventually(lambda: len(service.ledger.applied()) == len(caplog.records) == 3, "all three")
        events = [vars(record)["events"].partition(" #")[0] for record in caplog.records]
        assert sorted(events) == [f"OrderPlaced order/{aggregate}" for aggregate in "abc"]


class TestPyMySql(ConsumerContract, OnMariaDb):
    users = MARIADB_USERS["pymysql"]


class TestSessionOnPyMySql(ListeningConsumerContract, ConsumerContract, OnMariaDb):
    users = MARIADB_USERS["sqlalchemy pymysql"]


class TestDjangoOnMariaDb(ConsumerContract, OnMariaDb):
    users = MARIADB_USERS["django"]


class TestSqlite3(ConsumerContract, OnSqlite):
    users = SQLITE_USERS["sqlite3"]


class TestSessionOnSqlite(ConsumerContract, OnSqlite):
    users = SQLITE_USERS["sqlalchemy"]


class TestAsyncSessionOnSqlite(ConsumerContract, OnSqlite):
    users = SQLITE_USERS["sqlalchemy async"]


class TestDjangoOnSqlite(ConsumerContract, OnSqlite):
    users = SQLITE_USERS["django"]
