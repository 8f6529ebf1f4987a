"""Consumers: what is applied, with what, and for how long."""

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from cdc_outbox.consumer.delivery import Outcome
from cdc_outbox.consumer.fencing import Ownership
from cdc_outbox.consumer.group import BackgroundPoller, subscribe
from cdc_outbox.consumer.handlers import BatchHandler, BeforeCommit, ConnectionT, Handler, Handlers
from cdc_outbox.consumer.inbox_tables import InboxTable, checked_name
from cdc_outbox.consumer.limits import Limits, refuse_short_horizon
from cdc_outbox.consumer.loop import Loop
from cdc_outbox.consumer.offsets import Offsets, leave
from cdc_outbox.consumer.ordering import Order, orders_of
from cdc_outbox.consumer.replay import Replay, Replayed
from cdc_outbox.consumer.retries import Retry, RetryTracker
from cdc_outbox.consumer.session import ConsumerDatabase, Session
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
from cdc_outbox.telemetry import GuardedMetrics, Metrics, NoMetrics, OpenTelemetrySpans, Progress, Spans

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
        bootstrap_servers: str,
        connect: Callable[[], OpenedT],
        inbox: InboxTable | None = None,
        kafka_settings: Mapping[str, Any] = MappingProxyType({}),
        limits: Limits | None = None,
        retry: Retry | None = None,
        pipeline: bool = False,
        before_commit: BeforeCommit | None = None,
        metrics: Metrics | None = None,
        spans: Spans | None = None,
        horizon_days: float | None = None,
        error_texts: bool = True,
        wait_for_handled: bool = True,
    ) -> None:
        self.name = checked_name(name, "Consumer.name")
        if not callable(connect):
            hint = "Pass a function that opens a connection: connect=lambda: psycopg.connect(DSN)."
            raise ConfigError("connect is called whenever a connection is needed", field="Consumer.connect", hint=hint)
        if not isinstance(contract, WireContract):
            raise ConfigError(
                f"a contract is a WireContract, not {type(contract).__name__}",
                field="Consumer.contract",
                hint='`cdc-outbox contract export SPEC` writes one: load_contract("orders.contract.json").',
            )
        self.contract = contract
        self.limits = limits or Limits()
        self._stopping = self._new_event()
        self._connect = connect
        self._inbox_table = inbox
        self._retry = retry or Retry()
        self._pipeline, self._before_commit, self._error_texts = pipeline, before_commit, error_texts
        self._orders = orders_of(contract)
        if horizon_days is not None and horizon_days <= 0:
            raise ConfigError("ids are kept for longer than no time", field="Consumer.horizon_days")
        self._horizon_days, self._wait_for_handled = horizon_days, wait_for_handled
        self._settings = kafka_clients.consumer_settings(
            bootstrap_servers=bootstrap_servers, group=name, extra={**self.limits.queue_settings, **kafka_settings}
        )
        self._handlers = Handlers(asynchronous=self._is_asynchronous)
        self.metrics = metrics or NoMetrics()
        self._metrics: Metrics = GuardedMetrics(self.metrics)
        self._spans = spans or OpenTelemetrySpans()
        self._watch = ConsumerStats(
            name=name, limits=self.limits, metrics=self._metrics, handled=lambda: self._handlers.types
        )

    @property
    def outcomes(self) -> Counter[Outcome]:
        """How many events came to which end since this object was made."""
        return self._watch.outcomes

    def progress(self) -> Progress:
        """Return how far it is, at once; from any thread."""
        return self._watch.progress()

    def on(self, *event_types: str) -> Callable[[Handler[ConnectionT]], Handler[ConnectionT]]:
        """Register the handler of event types.

        It is called with the event and the connection, inside the inbox transaction: what it does to the database is
        committed together with the claim. It may run more than once for one event; its effects are committed once.

        It neither commits, rolls back nor closes the connection. psycopg's methods refuse to; where SQL does it, the
        consumer stops with a TransactionEndedError, and the event comes again.
        """

        def register(handler: Handler[ConnectionT]) -> Handler[ConnectionT]:
            self._handlers.add(event_types, handler, takes_batch=False)
            return handler

        return register

    def on_batch(self, *event_types: str) -> Callable[[BatchHandler[ConnectionT]], BatchHandler[ConnectionT]]:
        """Register a handler that takes a list of events at once, for example to write them with one statement.

        They are in order, and all that come one after the other: an event of a type with another handler ends the list.
        If the handler fails, the same events come again one by one, each in a list of its own.
        """

        def register(handler: BatchHandler[ConnectionT]) -> BatchHandler[ConnectionT]:
            self._handlers.add(event_types, handler, takes_batch=True)
            return handler

        return register

    def _order_of(self, aggregate_type: str) -> Order:
        return self._orders[aggregate_type]

    def _know(self, connection: AnyConnection) -> ConsumerDatabase:
        return ConsumerDatabase(
            connection,
            table=self._inbox_table,
            consumer=self.name,
            handlers=self._handlers,
            order_of=self._order_of,
            limits=self.limits,
            before_commit=self._before_commit,
            pipeline=self._pipeline,
            asynchronous=self._is_asynchronous,
            metrics=self._metrics,
            spans=self._spans,
            handler_begins=self._watch.handler_begins,
            error_texts=self._error_texts,
        )

    def _check_horizon(self) -> None:
        """Refuse a horizon behind which topics still hold events; a topic that is not there yet holds none."""
        if self._horizon_days is None:
            return
        kept = kafka_admin.find_retentions(self.contract.topics, settings=self._settings, logger=_LIBRDKAFKA_LOG)
        hint = (
            "Forget ids later, with purge-inbox --horizon-days too, or let the topics keep their events for less long."
        )
        refuse_short_horizon(self._horizon_days, kept, field="Consumer.horizon_days", hint=hint)

    def _refuse_without_handlers(self) -> None:
        if not self._handlers:
            raise ConfigError(
                f"{self.name} has no handler, so every event would be done with and have no effect",
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
            session = Session(self._connect, self._know)
            stack.push_async_callback(session.close)
            await session.open()
            replay = Replay(
                session,
                stack.enter_context(TopicReader.opened(self._settings)),
                contract=self.contract,
                order_of=self._order_of,
                limits=self.limits,
                retries=RetryTracker(self._retry, error_texts=self._error_texts),
                waits=waits,
                rate=rate,
            )
            return await replay.run(selection, dry_run=dry_run, is_stopping=is_stopping)

    async def _run(self, waits: Waits, is_stopping: Callable[[], bool]) -> None:
        confluent.require()
        self._refuse_without_handlers()
        async with AsyncExitStack() as stack:
            unhandled = UnhandledEvents(
                handlers=self._handlers,
                contract=self.contract,
                opened=partial(TopicReader.opened, self._settings),
                waits=waits,
                is_stopping=is_stopping,
                alive=self._watch.handler_begins,
            )
            session = Session(self._connect, self._know, unhandled.refuse if self._wait_for_handled else None)
            stack.push_async_callback(session.close)
            await session.open()
            offsets = Offsets(told=lambda is_done: self._watch.offsets_committed(is_done=is_done))
            ownership = Ownership()
            settings = kafka_clients.settings_telling(self._settings, self._watch.connected)
            client = kafka_clients.make_consumer({**settings, "on_commit": offsets.answered}, _LIBRDKAFKA_LOG)
            stack.push_async_callback(waits.call, leave, client)
            await waits.call(
                kafka_reading.find_topics, client, self.limits.reach_seconds, settings["bootstrap.servers"]
            )
            await waits.call(self._check_horizon)
            partitions = KafkaPartitions(self._settings, _LIBRDKAFKA_LOG)
            stack.push_async_callback(waits.call, partitions.close)
            keeper = BackgroundPoller(
                client, limit_seconds=2 * self.limits.handler_seconds, handler_at=lambda: self._watch.handler_at
            )
            stack.callback(keeper.end)
            loop = Loop(
                client,
                keeper,
                offsets,
                ownership,
                session,
                partitions=partitions,
                contract=self.contract,
                limits=self.limits,
                retries=RetryTracker(self._retry, error_texts=self._error_texts),
                watch=self._watch,
                waits=waits,
            )
            subscribe(client, self.contract.topics, keeper, offsets, ownership, self.limits, self._watch)
            stack.push_async_callback(waits.call, offsets.finish, client)
            stack.callback(keeper.end)  # before anybody else polls, and again if this is not reached
            await loop.run(is_stopping)


class Consumer(_Consumer[ConnectionT, ConnectionT]):
    """Read events and commit the effects of each exactly where and when its id is claimed.

    The type of what ``connect`` returns is that of the connection which handlers get.

    ::

        consumer = Consumer(name="shipping", contract=…, bootstrap_servers="…", connect=lambda: psycopg.connect(DSN))

        @consumer.on("OrderPlaced")
        def ship(event: Event, connection: psycopg.Connection) -> None:
            connection.execute("insert into shipments …")

        consumer.run()

    Args:
        name: The consumer group, and the name under which the inbox remembers; at most 255 bytes. Another name
            starts from the first event again.
        contract: Topics, headers and how events are numbered, from the same spec as the connector.
        connect: Opens a connection to the database that holds the effects; called again after it broke. It is the
            consumer's own and is closed, so it is not one of a pool.
        inbox: Where ids and watermarks are kept; ``cdc-outbox init --inbox`` creates it.
        kafka_settings: librdkafka's settings, for security and timeouts. Those that would break a promise are refused.
        limits: How much, how many and how long.
        retry: How events are tried again whose handler failed.
        pipeline: Run a batch's handlers in psycopg's pipeline mode: what they execute is sent without waiting for the
            answers. For handlers that only write; one that fetches waits for its rows as usual. PostgreSQL before 17
            bounds nothing in it: a process that is paused there keeps what it locked until it goes on.
        before_commit: What writes at the end of the handlers' transaction: an outbox that gathers their events.
        metrics: Told of what :data:`cdc_outbox.monitoring.series.SERIES` lists.
        spans: Told of the handlers' time; by default OpenTelemetry is, where its SDK runs.
        horizon_days: After how many days ``cdc-outbox purge-inbox`` forgets ids, where it does: the start is refused if
            a topic may keep its events for longer. ``None`` checks nothing.
        error_texts: Whether the park and the log quote what a handler's exception says, up to 500 characters of it.
            With ``False`` they have its class and the line that raised it: for handlers whose errors quote what is
            private.
        wait_for_handled: Whether a consumer that has stored no offset yet leaves its events in the topics until one of
            them has a handler. With ``False`` events without a handler are claimed and skipped from the first on.
    """

    _new_event = threading.Event
    _stopping: threading.Event

    def stop(self) -> None:
        """Make :meth:`run` return after the batch at hand; safe from a signal handler or another thread."""
        self._stopping.set()

    def run(self) -> None:
        """Apply events until :meth:`stop` is called.

        Losing the database or the brokers is waited out, once both were reached. An event whose handler fails is tried
        again, and then parked with what depends on it, so that the others go on.

        Raises:
            BrokerUnavailableError, DatabaseUnavailableError: One could not be reached at the start.
            ConfigError: librdkafka refuses a setting, there is no handler, or ids are forgotten too soon.
            TransactionEndedError: A handler committed or rolled back. The offset of its event is not committed; it
                comes again at the next start.
            DatabaseAccessError, TableNotFoundError: The inbox cannot be used.
            TopicReplacedError, OffsetOutOfRangeError: The topics do not go on from where the database's effects end.
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
        """Give this consumer messages again, in transactions like those of :meth:`run`, until all were given.

        What was applied is skipped, and what never was is applied in order. It may run beside the consumer itself;
        :meth:`stop` ends it early.

        Args:
            selection: Which messages; ``None`` for all that the topics hold.
            rate: How many events a second reach handlers at most.
            dry_run: Only tell what would become of them.

        Raises:
            ConfigError: The selection takes an event of an ``increasing`` type, and leaves out an earlier one of its
                aggregate that the consumer has not read yet.
            ParkFullError: More would be set aside than ``limits`` allow.
            CdcOutboxError: As for :meth:`run`.
        """
        waits, selection = Blocking(self._stopping), selection or Selection()
        try:
            return finish(self._replay(waits, self._stopping.is_set, selection, rate=rate, dry_run=dry_run))
        finally:
            self._stopping.clear()


class AsyncConsumer(_Consumer[Awaitable[ConnectionT], ConnectionT]):
    """The same for a service that runs on asyncio; its handlers may be coroutine functions.

    ::

        async def connect():
            return await psycopg.AsyncConnection.connect(DSN)

        consumer = AsyncConsumer(name="shipping", contract=…, bootstrap_servers="…", connect=connect)

        @consumer.on("OrderPlaced")
        async def ship(event: Event, connection: psycopg.AsyncConnection) -> None:
            await connection.execute("insert into shipments …")

        await consumer.run()

    Args as for :class:`Consumer`; ``connect`` returns something to await.
    """

    _is_asynchronous = True
    _new_event = asyncio.Event
    _stopping: asyncio.Event

    def stop(self) -> None:
        """Make :meth:`run` return after the batch at hand; called in the event loop's thread."""
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
        """Give this consumer messages again; see :meth:`Consumer.replay`."""
        waits, selection = Yielding(self._stopping), selection or Selection()
        try:
            return await self._replay(waits, self._stopping.is_set, selection, rate=rate, dry_run=dry_run)
        finally:
            self._stopping.clear()
