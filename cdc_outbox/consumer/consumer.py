"""Consumers: which events they apply, with which handlers, and for how long."""

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import Any, Generic, TypeVar

from cdc_outbox.consumer.delivery import Delivery
from cdc_outbox.consumer.fencing import Ownership
from cdc_outbox.consumer.group import BackgroundPoller, Membership, subscribe
from cdc_outbox.consumer.handlers import BatchHandler, ConnectionT, Handler, HandlerRunner, Handlers, check_event_types
from cdc_outbox.consumer.inbox_tables import checked_name
from cdc_outbox.consumer.item import Outcome
from cdc_outbox.consumer.limits import Limits, refuse_short_horizon
from cdc_outbox.consumer.loop import Loop
from cdc_outbox.consumer.offsets import Offsets, leave
from cdc_outbox.consumer.ordering import orders_of
from cdc_outbox.consumer.pipeline import pipeline_of
from cdc_outbox.consumer.replay import Replay, Replayed
from cdc_outbox.consumer.retries import Retry, RetryTracker
from cdc_outbox.consumer.role_watch import RoleWatch
from cdc_outbox.consumer.session import (
    ConsumerDatabase,
    EffectsDatabase,
    Session,
    driver_of,
    sql_stores,
)
from cdc_outbox.consumer.start_offsets import KafkaPartitions, UnhandledEvents
from cdc_outbox.consumer.stats import ConsumerStats
from cdc_outbox.consumer.topic_reader import Selection, TopicReader
from cdc_outbox.consumer.waits import Blocking, Waits, Yielding
from cdc_outbox.contract.wire import WireContract
from cdc_outbox.databases.drivers import AnyConnection
from cdc_outbox.databases.drivers.immediate import finish
from cdc_outbox.errors import ConfigError
from cdc_outbox.kafka import admin as kafka_admin
from cdc_outbox.kafka import clients as kafka_clients
from cdc_outbox.kafka import confluent
from cdc_outbox.kafka import reading as kafka_reading
from cdc_outbox.kafka.garbage import collecting_seldom
from cdc_outbox.telemetry import GuardedMetrics, HandlerTelemetry, Progress, Telemetry

OpenedT = TypeVar("OpenedT")
"""What ``connect`` returns: a connection, or what is awaited for one."""

_LIBRDKAFKA_LOG = logging.getLogger("cdc_outbox.consumer.consumer.librdkafka")


class _Consumer(Generic[OpenedT, ConnectionT]):
    """What both kinds of consumers have in common: all but what waits."""

    _is_asynchronous = False
    _new_event: Callable[[], Any]

    def __init__(
        self,
        *,
        name: str,
        contract: WireContract,
        kafka: str | Mapping[str, Any],
        database: Callable[[], OpenedT] | EffectsDatabase[OpenedT],
        limits: Limits | None = None,
        retry: Retry | None = None,
        telemetry: Telemetry | None = None,
    ) -> None:
        self.name = checked_name(name, "Consumer.name")
        self._database = database if isinstance(database, EffectsDatabase) else EffectsDatabase(connect=database)
        if not isinstance(contract, WireContract):
            raise ConfigError(
                f"contract must be a WireContract, not {type(contract).__name__}",
                field="Consumer.contract",
                hint='`cdc-outbox contract export SPEC` writes one; load_contract("orders.contract.json") reads it.',
            )
        self.contract = contract
        self.limits = limits or Limits()
        self._stopping = self._new_event()
        self._retry = retry or Retry()
        self._order_of = orders_of(contract).__getitem__
        self._settings = kafka_clients.given_settings(kafka, group=name, extra=self.limits.queue_settings)
        self._handlers = Handlers(asynchronous=self._is_asynchronous)
        self._isolated: set[str] = set()
        """Event types whose events have a transaction each."""
        telemetry = telemetry or Telemetry()
        self.metrics = telemetry.metrics
        self._telemetry = replace(telemetry, metrics=GuardedMetrics(telemetry.metrics))
        self._stats = ConsumerStats(
            name=name, limits=self.limits, metrics=self._telemetry.metrics, handled=lambda: self._handlers.types
        )

    @property
    def outcomes(self) -> Counter[Outcome]:
        """How many events came to which end since this object was made."""
        return self._stats.outcomes

    def progress(self) -> Progress:
        """Return how far it is, at once; from any thread."""
        return self._stats.progress()

    def on(self, *event_types: str, isolated: bool = False) -> Callable[[Handler[ConnectionT]], Handler[ConnectionT]]:
        """Register the handler of event types.

        It is called with the event and the connection, inside the inbox transaction: what it does to the database is
        committed together with the claim. It may run more than once for one event; its effects are committed once.

        It neither commits, rolls back nor closes the connection. psycopg's methods refuse to; where SQL does it, the
        consumer stops with a TransactionEndedError, and the event comes again.

        Args:
            isolated: Whether each event has a transaction of its own, and shares no batch. For handlers that do what
                lasts until the transaction ends, such as ``SET LOCAL``.
        """
        check_event_types(event_types)

        def register(handler: Handler[ConnectionT]) -> Handler[ConnectionT]:
            self._handlers.add(event_types, handler, takes_batch=False)
            self._isolated.update(event_types if isolated else ())
            return handler

        return register

    def on_batch(self, *event_types: str) -> Callable[[BatchHandler[ConnectionT]], BatchHandler[ConnectionT]]:
        """Register a handler that takes a list of events at once, for example to write them with one statement.

        They are in order, and all that come one after the other: an event of a type with another handler ends the list.
        If the handler fails, the same events come again one by one, each in a list of its own.
        """
        check_event_types(event_types)

        def register(handler: BatchHandler[ConnectionT]) -> BatchHandler[ConnectionT]:
            self._handlers.add(event_types, handler, takes_batch=True)
            return handler

        return register

    def _know(self, connection: AnyConnection) -> ConsumerDatabase:
        database, seconds = self._database, self.limits.handler_seconds
        driver = driver_of(connection, asynchronous=self._is_asynchronous)
        stores = sql_stores(table=database.inbox_on(driver.dialect), consumer=self.name, driver=driver)
        roles = RoleWatch(driver, database.before_commit)
        calls = HandlerRunner(
            driver=driver,
            handlers=self._handlers,
            telemetry=HandlerTelemetry(self.name, self._telemetry, self._stats.handler_begins),
            before_commit=roles,
            deadline_seconds=seconds if self._is_asynchronous else None,
            pipeline=pipeline_of(connection) if database.pipeline else None,
            error_texts=self._retry.error_texts,
        )
        delivery = Delivery(stores=stores, driver=driver, calls=calls, order_of=self._order_of, roles=roles)
        return ConsumerDatabase(delivery, idle_seconds=seconds, pipeline=database.pipeline)

    def _check_horizon(self) -> None:
        """Refuse a horizon behind which topics still hold events; a topic that is not there yet holds none."""
        if self.limits.horizon_days is None:
            return
        kept = kafka_admin.find_retentions(self.contract.topics, settings=self._settings, logger=_LIBRDKAFKA_LOG)
        hint = "Delete ids later, also with purge-inbox --horizon, or shorten the retention of the topics."
        refuse_short_horizon(self.limits.horizon_days, kept, field="Limits.horizon_days", hint=hint)

    def _refuse_without_handlers(self) -> None:
        if not self._handlers:
            raise ConfigError(
                f"{self.name} has no handlers, so every event would be skipped without effect",
                field="Consumer.on",
                hint='Register one with @consumer.on("EventType").',
            )

    async def _replay(
        self,
        waits: Waits,
        is_stopping: Callable[[], bool],
        selection: Selection,
        *,
        rate: float | None,
        dry_run: bool,
    ) -> Replayed:
        confluent.require()
        self._refuse_without_handlers()
        async with AsyncExitStack() as stack:
            session = Session(self._database.connect, self._know, isolated=self._isolated)
            stack.push_async_callback(session.close)
            await session.open()
            stack.enter_context(collecting_seldom())
            replay = Replay(
                session,
                stack.enter_context(TopicReader.opened(self._settings)),
                contract=self.contract,
                limits=self.limits,
                retries=RetryTracker(self._retry),
                waits=waits,
                rate=rate,
            )
            return await replay.run(selection, dry_run=dry_run, is_stopping=is_stopping)

    async def _run(self, waits: Waits, is_stopping: Callable[[], bool]) -> None:
        confluent.require()
        self._refuse_without_handlers()
        unhandled = UnhandledEvents(
            handlers=self._handlers,
            contract=self.contract,
            opened=partial(TopicReader.opened, self._settings),
            waits=waits,
            is_stopping=is_stopping,
            alive=self._stats.handler_begins,
        )
        refuse = unhandled.refuse if self.limits.wait_for_handled else None
        session = Session(self._database.connect, self._know, refuse, isolated=self._isolated)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(session.close)
            await session.open()
            stack.enter_context(collecting_seldom())
            is_over = False
            while not is_over:
                await self._run_client(session, waits, is_stopping)
                is_over = is_stopping()

    async def _run_client(self, session: Session, waits: Waits, is_stopping: Callable[[], bool]) -> None:
        """Apply events with one client of the brokers."""
        async with AsyncExitStack() as stack:
            offsets = Offsets(report=lambda is_done: self._stats.offsets_committed(is_done=is_done))
            ownership = Ownership()
            settings = kafka_clients.settings_reporting(self._settings, self._stats.connected)
            settings["on_commit"] = offsets.answered
            client = kafka_clients.make_consumer(settings, _LIBRDKAFKA_LOG, learn=ownership.learn)
            stack.push_async_callback(waits.call, leave, client)
            await waits.call(
                kafka_reading.find_topics, client, self.limits.reach_seconds, settings["bootstrap.servers"]
            )
            await waits.call(self._check_horizon)
            partitions = KafkaPartitions(self._settings, _LIBRDKAFKA_LOG)
            stack.push_async_callback(waits.call, partitions.close)
            poller = BackgroundPoller(
                client, limit_seconds=2 * self.limits.handler_seconds, handler_at=lambda: self._stats.handler_at
            )
            stack.callback(poller.end)
            member = Membership(
                client=client, poller=poller, offsets=offsets, ownership=ownership, partitions=partitions
            )
            loop = Loop(
                member,
                session,
                contract=self.contract,
                limits=self.limits,
                retries=RetryTracker(self._retry),
                stats=self._stats,
                waits=waits,
            )
            if is_stopping():
                return  # librdkafka may hang, and with it the process, where a member that joins leaves at once
            subscribe(member, self.contract.topics, self.limits, self._stats)
            stack.push_async_callback(waits.call, offsets.finish, client)
            stack.callback(poller.end)  # before offsets.finish polls; registered above too, in case of an earlier error
            await loop.run(is_stopping)


class Consumer(_Consumer[ConnectionT, ConnectionT]):
    """Read events, and commit the effects of each in the transaction that claims its id.

    Handlers get the connection that ``database`` opens, and type checkers know its type.

    ::

        consumer = Consumer(
            name="shipping",
            contract=load_contract("orders.contract.json"),
            kafka="localhost:9092",
            database=lambda: psycopg.connect(DSN),
        )

        @consumer.on("OrderPlaced")
        def ship(event: RecordedEvent, connection: psycopg.Connection) -> None:
            connection.execute("insert into shipments …")

        consumer.run()

    Args:
        name: The consumer group, and the consumer's name in the inbox; at most 255 bytes. A new name starts from the
            first event.
        contract: Topics, headers and how events are numbered, from the same spec as the connector.
        kafka: The brokers, such as ``localhost:9092``; or librdkafka settings, including ``bootstrap.servers`` and
            those for security and timeouts. Settings that would break a promise are refused.
        database: A function that opens a connection to the database of the effects, called again after it broke;
            or an :class:`EffectsDatabase`, which also says where the inbox is and what transactions are like.
        limits: Limits for sizes, counts and times, and conditions for the start.
        retry: How events are retried after their handler failed, and what is stored of the error.
        telemetry: Metrics and spans.

    Raises:
        ConfigError: An argument is invalid.
    """

    _new_event = threading.Event
    _stopping: threading.Event

    def stop(self) -> None:
        """Make :meth:`run` return after the current batch; safe in a signal handler or another thread."""
        self._stopping.set()

    def run(self) -> None:
        """Apply events until :meth:`stop` is called.

        After both were reached once, an outage of the database or the brokers is waited out. An event whose handler
        fails is retried, and then parked with the events that depend on it, so that other events continue.

        Raises:
            BrokerUnavailableError, DatabaseUnavailableError: One could not be reached at the start.
            ConfigError: librdkafka refuses a setting, there is no handler, or ids are deleted too soon.
            TransactionEndedError: A handler committed or rolled back. The offset of its event is not committed; the
                event comes again at the next start.
            DatabaseAccessError, TableNotFoundError: The inbox cannot be used.
            TopicReplacedError, OffsetOutOfRangeError: The topics do not continue at the offset where the database's
                effects end.
            OutboxError: The Kafka client is not installed.
        """
        try:
            finish(self._run(Blocking(self._stopping), self._stopping.is_set))
        finally:
            # Cleared at the end and not at the start: a stop that comes before the run, or twice, is meant for it.
            self._stopping.clear()

    def replay(
        self, selection: Selection | None = None, *, rate: float | None = None, dry_run: bool = False
    ) -> Replayed:
        """Deliver messages to this consumer again, in transactions like those of :meth:`run`.

        Applied events are skipped; events that were never applied are applied in order. The consumer itself may run at
        the same time; :meth:`stop` ends the replay early.

        Args:
            selection: The messages; ``None`` for all messages in the topics.
            rate: Maximum number of events per second that reach handlers.
            dry_run: Only report what would happen.

        Raises:
            ConfigError: The selection includes an event of an ``increasing`` type, and leaves out an earlier one of its
                aggregate that the consumer has not read yet.
            ParkFullError: More events would be parked than ``limits`` allow.
            CdcOutboxError: As for :meth:`run`.
        """
        waits, selection = Blocking(self._stopping), selection or Selection()
        try:
            return finish(self._replay(waits, self._stopping.is_set, selection, rate=rate, dry_run=dry_run))
        finally:
            self._stopping.clear()


class AsyncConsumer(_Consumer[Awaitable[ConnectionT], ConnectionT]):
    """A :class:`Consumer` for asyncio; its handlers may be coroutine functions.

    ::

        async def connect():
            return await psycopg.AsyncConnection.connect(DSN)

        consumer = AsyncConsumer(name="shipping", contract=…, kafka="localhost:9092", database=connect)

        @consumer.on("OrderPlaced")
        async def ship(event: RecordedEvent, connection: psycopg.AsyncConnection) -> None:
            await connection.execute("insert into shipments …")

        await consumer.run()

    Arguments as for :class:`Consumer`; the function that opens a connection returns an awaitable.
    """

    _is_asynchronous = True
    _new_event = asyncio.Event
    _stopping: asyncio.Event

    def stop(self) -> None:
        """Make :meth:`run` return after the current batch; call it in the event loop's thread."""
        self._stopping.set()

    async def run(self) -> None:
        """Apply events until :meth:`stop` is called or the task is cancelled; see :meth:`Consumer.run`."""
        try:
            await self._run(Yielding(self._stopping), self._stopping.is_set)
        finally:
            self._stopping.clear()

    async def replay(
        self, selection: Selection | None = None, *, rate: float | None = None, dry_run: bool = False
    ) -> Replayed:
        """Deliver messages to this consumer again; see :meth:`Consumer.replay`."""
        waits, selection = Yielding(self._stopping), selection or Selection()
        try:
            return await self._replay(waits, self._stopping.is_set, selection, rate=rate, dry_run=dry_run)
        finally:
            self._stopping.clear()
