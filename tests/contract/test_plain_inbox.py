"""The inbox in the loop and the transactions of a service's own, with each kind of driver."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any, ClassVar

import asyncpg
import psycopg
import pytest

from cdc_outbox.consumer import AsyncInbox, Inbox, RecordedEvent, SequenceMode, Verdict, WireContract
from cdc_outbox.errors import (
    CdcOutboxError,
    ConfigError,
    ConsumerError,
    SequenceConflictError,
    SequenceGapError,
    TableNotFoundError,
    TransactionEndedError,
)
from cdc_outbox.event import new_event_id
from tests.contract.consumer_contract import OnMariaDb, OnPostgres, OnSqlite
from tests.support.driver_clients import asyncpg_options
from tests.support.events import make_event
from tests.support.pymysql_connections import connect_pymysql

OPTIONS: dict[str, Any] = {
    "name": "shipping",
    "contract": WireContract(
        aggregates={"order": SequenceMode.GAPLESS, "own": SequenceMode.INCREASING}, by_watermark=("own",)
    ),
}


class Client:
    """A service's own connection: what it executes, and its transactions."""

    def __init__(self, connection: Any, begin: str = "begin") -> None:
        self.connection, self._begin = connection, begin
        self.inbox = Inbox(**OPTIONS)

    def execute(self, sql: str) -> None:
        with closing(self.connection.cursor()) as cursor:
            cursor.execute(sql)

    def apply(self, event: RecordedEvent, meanwhile: str = "") -> Verdict:
        """Apply an event in a transaction, and execute something else before the block's end."""
        self.execute(self._begin)
        try:
            with self.inbox.receiving(self.connection, event) as verdict:
                if verdict is Verdict.NEXT:
                    self.execute(effect_of(event))
                for statement in filter(None, meanwhile.split(";")):
                    self.execute(statement)
        except BaseException:
            self.connection.rollback()
            raise
        self.connection.commit()
        return verdict

    def close(self) -> None:
        self.connection.close()


class AsyncClient(Client):
    """The same, waiting on a loop of its own."""

    def __init__(self, runner: asyncio.Runner, connection: Any) -> None:
        self.connection, self._runner = connection, runner
        self.asynchronous = AsyncInbox(**OPTIONS)

    def apply(self, event: RecordedEvent, meanwhile: str = "") -> Verdict:
        return self._runner.run(self._apply(event, meanwhile))

    async def _apply(self, event: RecordedEvent, meanwhile: str) -> Verdict:
        await self.connection.execute("begin")
        try:
            async with self.asynchronous.receiving(self.connection, event) as verdict:
                if verdict is Verdict.NEXT:
                    await self.connection.execute(effect_of(event))
                for statement in filter(None, meanwhile.split(";")):
                    await self.connection.execute(statement)
        except BaseException:
            await self.connection.execute("rollback")
            raise
        await self.connection.execute("commit")
        return verdict

    def close(self) -> None:
        self._runner.run(self.connection.close())
        self._runner.close()


def effect_of(event: RecordedEvent) -> str:
    return f"insert into effects (aggregate, sequence) values ('{event.aggregate_id}', {event.sequence})"  # noqa: S608


class PlainContract:
    """Subclasses say how a connection is opened."""

    AGAIN: ClassVar[str] = "commit and chain"
    """What commits and begins anew."""

    def open(self, address: Any) -> Client:
        raise NotImplementedError

    @pytest.fixture
    def client(self, ledger: Any) -> Iterator[Client]:
        with closing(self.open(ledger.address)) as client:
            yield client

    def test_an_event_has_its_effect_once_and_in_order(self, client: Client, ledger: Any) -> None:
        first, second, third = (make_event(number, "a") for number in (1, 2, 3))
        assert [client.apply(event) for event in (first, first)] == [Verdict.NEXT, Verdict.DUPLICATE]
        with pytest.raises(SequenceGapError) as caught:
            client.apply(third)
        assert (caught.value.expected, caught.value.actual) == (2, 3)
        assert [client.apply(event) for event in (second, third, second)] == [*[Verdict.NEXT] * 2, Verdict.DUPLICATE]
        with pytest.raises(SequenceConflictError):
            client.apply(replace(second, id=new_event_id()))
        assert ledger.applied() == {"a": [1, 2, 3]}

    def test_what_fails_in_the_block_leaves_no_claim(self, client: Client, ledger: Any) -> None:
        event = make_event(1, "a")
        with pytest.raises(Exception, match="nowhere") as caught:
            client.apply(event, "insert into nowhere values (1)")
        assert not isinstance(caught.value, CdcOutboxError)  # what the block raises is the service's own
        assert client.apply(event) is Verdict.NEXT
        assert ledger.applied() == {"a": [1]}

    def test_what_the_inbox_executes_raises_our_errors(self, client: Client, ledger: Any) -> None:
        event = make_event(1, "a")
        ledger.query("alter table inbox_watermarks rename to hidden")
        try:
            with pytest.raises(TableNotFoundError, match="inbox_watermarks") as missing:
                client.apply(event)
        finally:
            ledger.query("alter table hidden rename to inbox_watermarks")
        assert "init --inbox" in missing.value.hint
        assert not isinstance(missing.value.__cause__, CdcOutboxError | None)
        assert client.apply(event) is Verdict.NEXT

    @pytest.mark.parametrize("aggregate_type", ["order", "own"])
    def test_a_block_that_ends_its_transaction_and_begins_another_is_noticed(
        self, client: Client, aggregate_type: str
    ) -> None:
        with pytest.raises(TransactionEndedError):
            client.apply(make_event(1, "a", aggregate_type=aggregate_type), self.AGAIN)

    def test_a_source_that_never_goes_back_is_remembered_by_its_number_alone(self, client: Client, ledger: Any) -> None:
        first, second = (make_event(number, "a", aggregate_type="own") for number in (4, 9))
        verdicts = [client.apply(event) for event in (first, second, first)]
        assert verdicts == [Verdict.NEXT, Verdict.NEXT, Verdict.DUPLICATE]
        assert ledger.query("select count(*) from inbox") == [(0,)]

    def test_what_waits_for_a_parked_event_is_told(self, client: Client, ledger: Any) -> None:
        client.apply(make_event(1, "a", aggregate_type="own"))
        ledger.query("update inbox_watermarks set parked = 1")
        with pytest.raises(ConsumerError, match="waits for a parked event of its aggregate"):
            client.apply(make_event(7, "a", aggregate_type="own"))


class TestPsycopg(PlainContract, OnPostgres):
    def open(self, address: Any) -> Client:
        return Client(psycopg.connect(address, autocommit=True))


class TestAsyncpg(PlainContract, OnPostgres):
    def open(self, address: Any) -> Client:
        runner = asyncio.Runner()
        return AsyncClient(runner, runner.run(asyncpg.connect(**asyncpg_options(address))))


class TestPyMySql(PlainContract, OnMariaDb):
    def open(self, address: Any) -> Client:
        init = "set session transaction isolation level read committed"
        return Client(connect_pymysql(address, init_command=init))

    def test_another_level_is_refused(self, client: Client) -> None:
        client.execute("set session transaction isolation level repeatable read")
        with pytest.raises(ConfigError, match="the inbox needs READ COMMITTED"):
            client.apply(make_event(1, "a"))


class TestSqlite3(PlainContract, OnSqlite):
    AGAIN = "commit;begin"

    def open(self, address: Any) -> Client:
        return Client(sqlite3.connect(address))


class TestSqlite3ThatBeginsByItself(TestSqlite3):
    AGAIN = "commit;insert into effects (aggregate, sequence) values ('stray', 1)"

    def open(self, address: Any) -> Client:
        return Client(sqlite3.connect(address), begin="select 1")
