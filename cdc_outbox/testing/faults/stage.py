"""A consumer without Kafka: its own transactions on a test's database, with tables of its own to remember in."""

import copy
import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import replace
from inspect import isawaitable
from pathlib import Path
from traceback import walk_tb
from typing import Any
from uuid import uuid4

from cdc_outbox.consumer import AsyncConsumer, Consumer
from cdc_outbox.consumer.backlog import Backlog
from cdc_outbox.consumer.fencing import TopicPartition
from cdc_outbox.consumer.handlers import Registered
from cdc_outbox.consumer.inbox_tables import InboxTable, inbox_component
from cdc_outbox.consumer.item import Item, item_of
from cdc_outbox.consumer.limits import ENDLESS
from cdc_outbox.consumer.ordering import Order
from cdc_outbox.consumer.parked_events import Failure, ParkedCount, Reason
from cdc_outbox.consumer.session import ConsumerDatabase, Session
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.drivers import AnyConnection
from cdc_outbox.databases.sql import load
from cdc_outbox.errors import (
    CdcOutboxError,
    ConfigError,
    ConsumerError,
    PartitionLostError,
    TransactionAbortedError,
    TransactionConflictError,
    TransactionEndedError,
)
from cdc_outbox.event import RecordedEvent
from cdc_outbox.telemetry import NoSpans, Telemetry
from cdc_outbox.testing.faults.probe import CrashError, Probe, ProbedBeforeCommit
from cdc_outbox.testing.faults.scenarios import FaultKind

_MAX_TRIES = 5
"""How often a delivery is repeated that is worth it: a struck one needs one more."""

_LOCATION = re.compile(r" at \S+:\d+(?:: .*)?$")
"""What an error says of where it was raised; that is the probe, seen from the consumer."""

AnyConsumer = Consumer | AsyncConsumer
OnConnection = Callable[[Any], Any]


class Stage:
    """A test's database, as handlers and onlookers see it.

    Args:
        connect: Opens a connection to it, or returns something to await that does.
        effects: Returns the rows that handlers made.
        reset: Takes them away.
    """

    def __init__(
        self, consumer: AnyConsumer, connect: Callable[[], Any], effects: OnConnection, reset: OnConnection
    ) -> None:
        self.connect = connect
        self._consumer = consumer
        self._effects, self._reset = effects, reset
        self._connection: AnyConnection = None
        self._database: ConsumerDatabase
        self.table: InboxTable
        self.probe: Probe

    @property
    def handlers(self) -> Mapping[str, Registered]:
        """The consumer's own, by event type."""
        return self._consumer._handlers._by_type  # noqa: SLF001 - no other caller

    def order_of(self, aggregate_type: str) -> Order:
        """Return what the events of an aggregate type promise."""
        return self._consumer._order_of(aggregate_type)  # noqa: SLF001

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Connect, and keep an inbox of its own until the end of the block."""
        opened = self.connect()
        connection = await opened if isawaitable(opened) else opened
        try:
            self._database = self._consumer._know(connection)  # noqa: SLF001
            await self._database.prepare(connection)
            self._connection = connection
            wanted = self._consumer._database.inbox_on(self._dialect)  # noqa: SLF001
            self.table = replace(wanted, name=f"inbox_of_a_test_{uuid4().hex[:12]}")
            self._texts = load(self._dialect, "faults")
            self.probe = Probe({kind: self._texts[kind].text for kind in FaultKind if kind in self._texts})
            await self._make_inbox()
            try:
                yield
            finally:
                await self._drop_inbox()
        finally:
            with suppress(Exception):
                closed = connection.close()
                if isawaitable(closed):
                    await closed

    @asynccontextmanager
    async def playing(self, name: str) -> AsyncIterator["Play"]:
        """Have a consumer that remembers nothing, on a database that was reset."""
        async with self._transaction():
            await _awaited(self._reset(self._connection))
        play = Play(self, self._rehearsing(name))
        try:
            await play.own()
            yield play
        finally:
            await play.close()

    def has(self, connection: object) -> bool:
        """Return whether it looks on through this connection."""
        return connection is self._connection

    async def see(self) -> list[object]:
        """Return the effects that are committed by now."""
        async with self._transaction():
            if "be_brief" in self._texts:
                await self._database.driver.fetch(self._connection, self._texts["be_brief"].text)
            return list(await _awaited(self._effects(self._connection)))

    def _rehearsing(self, name: str) -> AnyConsumer:
        """Return the consumer as it is, but for what it remembers, and with the probe before its handlers."""
        rehearsing = copy.copy(self._consumer)
        rehearsing.name = name
        rehearsing._telemetry = Telemetry(spans=NoSpans())  # noqa: SLF001
        rehearsing._handlers = self.probe.wrapped(self.handlers)  # noqa: SLF001
        database = rehearsing._database  # noqa: SLF001
        before_commit = ProbedBeforeCommit(database.before_commit, self.probe)
        rehearsing._database = replace(database, inbox=self.table, before_commit=before_commit)  # noqa: SLF001
        return rehearsing

    @property
    def _dialect(self) -> Dialect:
        return self._database.driver.dialect

    async def _make_inbox(self) -> None:
        await self._change_tables(sql for step in inbox_component(self.table).migrations for sql in step.statements)

    async def _drop_inbox(self) -> None:
        drop = self._texts["drop_table"]
        await self._change_tables(drop.render({"table": table.quoted}) for table in reversed(self.table.tables))

    async def _change_tables(self, statements: Iterable[str]) -> None:
        async with self._transaction() if self._dialect.features.undoes_ddl else nullcontext():
            for statement in statements:
                await self._database.driver.fetch(self._connection, statement)

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[None]:
        driver = self._database.driver
        await driver.begin(self._connection)
        try:
            yield
            await driver.commit(self._connection)
        except BaseException:
            await driver.rollback(self._connection)
            raise


class Play:
    """One consumer in one scenario."""

    def __init__(self, stage: Stage, consumer: AnyConsumer) -> None:
        self._stage = stage
        self._consumer = consumer
        self._session = Session(stage.connect, self._know, isolated=consumer._isolated)  # noqa: SLF001
        self._held: Mapping[TopicPartition, int] = {}
        self._tries: dict[str, int] = {}
        self._errors: dict[str, str] = {}
        self.wait_for_owner: Callable[[], object] = lambda: None
        """Waits until the consumer that took the partitions is done with them."""

    async def deliver(self, batch: Sequence[RecordedEvent]) -> None:
        """Apply events as the consumer does: again what is worth it, one by one what failed, aside what fails alone.

        Raises:
            UnsafeError: A handler ended its transaction, swallowed an SQL error, or does not come to an end.
        """
        await self._apply([self._item(event, offset) for offset, event in enumerate(batch)])

    async def own(self) -> None:
        """Take every partition."""
        partitions = [TopicPartition(topic, 0) for topic in self._consumer.contract.topics]
        self._held = {tp: assignment.epoch for tp, assignment in (await self._session.issue(partitions)).items()}

    async def drain(self, events: int) -> str | None:
        """Apply parked events as they become due; return what stays parked in the end."""
        counts: list[ParkedCount] | None = None
        for _ in range(2 * events):
            due, counts = await self._session.find_due(self._held, events)
            if not due:
                break
            await self._apply([item_of(row.message, self._consumer.contract, row) for row in due])
        if not counts:
            return None
        parked = ", ".join(f"{count.events} parked as {count.reason}" for count in counts)
        return "; ".join([f"some events are not applied: {parked}", *sorted(set(self._errors.values()))])

    async def usurp(self, events: Sequence[RecordedEvent], issued: Callable[[], None]) -> None:
        """Be another consumer that is given the partitions and applies the same events."""
        try:
            await self.own()
            issued()
            await self.deliver(events)
        finally:
            await self.close()

    def successor(self) -> "Play":
        """Return another consumer of the same group."""
        return Play(self._stage, self._consumer)

    async def close(self) -> None:
        """Close the connection."""
        await self._session.close()

    def _know(self, connection: AnyConnection) -> ConsumerDatabase:
        if self._stage.has(connection):
            raise ConfigError(
                "connect() returned the same connection twice; another connection is needed to observe the database",
                field="connect",
                hint="It must open a new connection for each call; with Django: connections.create_connection(alias).",
            )
        self._stage.probe.watch(connection)
        return self._consumer._know(connection)  # noqa: SLF001

    def _item(self, event: RecordedEvent, offset: int) -> Item:
        message = replace(self._consumer.contract.message_of(event), partition=0, offset=offset)
        item = item_of(message, self._consumer.contract)
        if item.failure is not None:
            raise ConfigError(f"{event} cannot be read by the consumer: {item.failure.error}", field="events")
        return item

    async def _apply(self, items: Sequence[Item]) -> None:
        backlog, queue = Backlog(len(items), isolated=self._session.isolated), deque[Sequence[Item]]()
        backlog.size.succeeded(len(items))
        backlog.put(items)
        while backlog:
            queue.append(backlog.take())
        while queue:
            batch = queue.popleft()
            try:
                await self._session.apply(batch, self._held, ENDLESS)
            except CrashError:  # the transaction is undone, as the server does it for who is dead
                queue.appendleft(batch)
            except CdcOutboxError as error:
                queue.extendleft(reversed(await self._failed(batch, error)))

    async def _failed(self, batch: Sequence[Item], error: CdcOutboxError) -> Sequence[Sequence[Item]]:
        """Return what is delivered next in the place of events that failed."""
        match error:
            case TransactionEndedError() | TransactionAbortedError():
                raise UnsafeError(error, _remedy(error)) from error
            case PartitionLostError():
                self.wait_for_owner()
                await self.own()
            case _ if error.retryable:
                if not isinstance(error, TransactionConflictError):
                    await self._session.close()
            case ConsumerError() if len(batch) > 1:
                return [[item] for item in batch]
            case ConsumerError():
                return [[self._judged(batch[0], error)]]
            case _:
                raise error
        key = batch[0].event_id
        self._tries[key] = self._tries.get(key, 0) + 1
        if self._tries[key] > _MAX_TRIES:
            raise UnsafeError(error, "Retries must end: check what the handler waits for.")
        return [batch]

    def _judged(self, item: Item, error: ConsumerError) -> Item:
        """Return an event as it is tried again, at once the first time, and out of the park after that."""
        if item.failure is not None:
            raise error
        self._errors[item.event_id] = _why(error)
        tries = self._tries[item.event_id] = self._tries.get(item.event_id, 0) + 1
        if tries == 1:
            return item
        seconds = 0.0 if tries <= _MAX_TRIES else None
        return item.failing(Failure(reason=Reason.FAILED, error=_why(error), attempts=tries, retry_seconds=seconds))


class UnsafeError(Exception):
    """An error that ends its scenario."""

    def __init__(self, error: BaseException, remedy: str) -> None:
        super().__init__(_why(error))
        self.remedy = remedy


def _why(error: BaseException) -> str:
    """Return what happened, with the place in the user's own code, and the message: a test may see it."""
    cause = error.__cause__
    if cause is None:
        return str(error)
    return f"{_LOCATION.sub(_location(cause), str(error))} ({cause})"


def _location(error: BaseException) -> str:
    for frame, line in walk_tb(error.__traceback__):
        if not frame.f_globals.get("__name__", "").startswith("cdc_outbox."):
            return f" at {Path(frame.f_code.co_filename).name}:{line}"
    return ""


def _remedy(error: CdcOutboxError) -> str:
    if isinstance(error, TransactionEndedError):
        return "Do not commit, roll back or close the connection in a handler; the consumer does that."
    return (
        "Do not catch errors of the database. If one is expected, run the statement in its own block, with psycopg "
        "`with connection.transaction():`."
    )


async def _awaited(value: object) -> Any:  # noqa: ANN401
    return await value if isawaitable(value) else value
