"""Consumers: what is applied, with what, and for how long."""

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import AsyncExitStack, suppress
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import confluent_kafka
from confluent_kafka import KafkaException, TopicPartition

from cdc_outbox import kafka
from cdc_outbox.consumer.calls import BeforeCommit
from cdc_outbox.consumer.database import ConsumerDatabase
from cdc_outbox.consumer.delivery import Outcome
from cdc_outbox.consumer.epochs import Place
from cdc_outbox.consumer.handlers import BatchHandler, Handler, Handlers
from cdc_outbox.consumer.keeper import Keeper
from cdc_outbox.consumer.limits import Limits
from cdc_outbox.consumer.loop import Loop, Waits
from cdc_outbox.consumer.offsets import Offsets, leave
from cdc_outbox.consumer.ordering import Order
from cdc_outbox.consumer.orders import orders_of
from cdc_outbox.consumer.ownership import Ownership
from cdc_outbox.consumer.poison import Poison
from cdc_outbox.consumer.retry import Retry
from cdc_outbox.consumer.session import Session
from cdc_outbox.consumer.table import InboxTable
from cdc_outbox.consumer.watch import Watch
from cdc_outbox.drivers.immediate import finish
from cdc_outbox.errors import ConfigError
from cdc_outbox.metrics import Metrics, NoMetrics
from cdc_outbox.progress import Progress
from cdc_outbox.tracing import OpenTelemetrySpans, Spans
from cdc_outbox.wire import WireContract

HandlerT = TypeVar("HandlerT", bound=Handler)
EventT = TypeVar("EventT")
BatchHandlerT = TypeVar("BatchHandlerT", bound=BatchHandler)

_LIBRDKAFKA_LOG = logging.getLogger("cdc_outbox.consumer.consumer.librdkafka")
_MAX_NAME_BYTES = 255
"""It is part of every key in the inbox, and an index has only so much room."""
_REACH_SECONDS = 5.0
"""How long the first contact with the brokers may take before the consumer says that it cannot reach them."""


class _Consumer(Generic[EventT]):
    """What both kinds of consumers have in common: all but what waits."""

    _is_asynchronous = False
    _new_event: Callable[[], EventT]

    def __init__(
        self,
        *,
        name: str,
        contract: WireContract,
        bootstrap_servers: str,
        connect: Callable[[], Any],
        inbox: InboxTable | None = None,
        kafka_settings: Mapping[str, Any] = MappingProxyType({}),
        limits: Limits | None = None,
        retry: Retry | None = None,
        pipeline: bool = False,
        latest: Collection[str] = (),
        by_watermark: Collection[str] = (),
        before_commit: BeforeCommit | None = None,
        metrics: Metrics | None = None,
        spans: Spans | None = None,
    ) -> None:
        if not name:
            raise ConfigError("a consumer has a name, under which it remembers", field="Consumer.name")
        if len(name.encode()) > _MAX_NAME_BYTES or "\0" in name:
            raise ConfigError(
                f"a consumer's name has at most {_MAX_NAME_BYTES} bytes and no NUL", field="Consumer.name"
            )
        self.name = name
        self.contract = contract
        self.limits = limits or Limits()
        self._stopping = self._new_event()
        self._connect = connect
        self._inbox_table = inbox
        self._retry = retry or Retry()
        self._pipeline, self._before_commit = pipeline, before_commit
        self._orders = orders_of(contract, latest, by_watermark)
        self._settings = kafka.consumer_settings(bootstrap_servers=bootstrap_servers, group=name, extra=kafka_settings)
        self._handlers = Handlers(asynchronous=self._is_asynchronous)
        self.metrics = metrics or NoMetrics()
        self._spans = spans or OpenTelemetrySpans()
        self._watch = Watch(name=name, limits=self.limits, metrics=self.metrics)

    @property
    def outcomes(self) -> Counter[Outcome]:
        """How many events came to which end since this object was made."""
        return self._watch.outcomes

    def progress(self) -> Progress:
        """Return how far it is, at once; from any thread."""
        return self._watch.progress()

    def on(self, *event_types: str) -> Callable[[HandlerT], HandlerT]:
        """Register the handler of event types.

        It is called with the event and the connection, inside the inbox transaction: what it does to the database is
        committed together with the claim. It may run more than once for one event; its effects are committed once.

        It neither commits, rolls back nor closes the connection. psycopg's methods refuse to; where SQL does it, the
        consumer stops with a TransactionEndedError, and the event comes again.
        """

        def register(handler: HandlerT) -> HandlerT:
            self._handlers.add(event_types, handler, takes_batch=False)
            return handler

        return register

    def on_batch(self, *event_types: str) -> Callable[[BatchHandlerT], BatchHandlerT]:
        """Register a handler that takes a list of events at once, for example to write them with one statement.

        They are in order, and all that come one after the other: an event of a type with another handler ends the list.
        If the handler fails, the same events come again one by one, each in a list of its own.
        """

        def register(handler: BatchHandlerT) -> BatchHandlerT:
            self._handlers.add(event_types, handler, takes_batch=True)
            return handler

        return register

    def _order_of(self, aggregate_type: str) -> Order:
        return self._orders[aggregate_type]

    def _know(self, connection: Any) -> ConsumerDatabase:  # noqa: ANN401 - any driver's
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
            metrics=self.metrics,
            spans=self._spans,
        )

    async def _run(self, waits: Waits, is_stopping: Callable[[], bool]) -> None:
        if not self._handlers:
            raise ConfigError(
                f"{self.name} has no handler, so every event would be done with and have no effect",
                field="Consumer.on",
                hint='Register one with @consumer.on("EventType").',
            )
        async with AsyncExitStack() as stack:
            session = Session(self._connect, self._know)
            stack.push_async_callback(session.close)
            await session.open()
            offsets = Offsets(told=lambda is_done: self._watch.offsets_committed(is_done=is_done))
            ownership = Ownership()
            client = kafka.make_consumer({**self._settings, "on_commit": offsets.answered}, _LIBRDKAFKA_LOG)
            stack.push_async_callback(waits.call, leave, client)
            await waits.call(_reach, client)
            keeper = Keeper(client)
            stack.callback(keeper.end)
            loop = Loop(
                client,
                keeper,
                offsets,
                ownership,
                session,
                contract=self.contract,
                limits=self.limits,
                poison=Poison(self._retry),
                watch=self._watch,
                waits=waits,
            )
            _subscribe(client, self.contract.topics, keeper, offsets, ownership, self.limits, self._watch)
            stack.push_async_callback(waits.call, offsets.finish, client)
            await loop.run(is_stopping)


class Consumer(_Consumer[threading.Event]):
    """Read events and commit the effects of each exactly where and when its id is claimed.

    ::

        consumer = Consumer(name="shipping", contract=…, bootstrap_servers="…", connect=lambda: psycopg.connect(DSN))

        @consumer.on("OrderPlaced")
        def ship(event: Event, connection: psycopg.Connection) -> None:
            connection.execute("insert into shipments …")

        consumer.run()

    Args:
        name: The consumer group, and the name under which the inbox remembers; at most 255 bytes. Another name
            starts from the first event again.
        contract: Topics, headers and sequence modes, from the same spec as the connector.
        connect: Opens a connection to the database that holds the effects; called again after it broke. It is the
            consumer's own and is closed, so it is not one of a pool.
        inbox: Where ids and watermarks are kept; ``cdc-outbox init --inbox`` creates it.
        kafka_settings: librdkafka's settings, for security and timeouts. Those that would break a promise are refused.
        limits: How much, how many and how long.
        retry: How events are tried again whose handler failed.
        pipeline: Run a batch's handlers in psycopg's pipeline mode: what they execute is sent without waiting for the
            answers. For handlers that only write; one that fetches waits for its rows as usual.
        latest: Aggregate types whose events each carry the whole state, so that a stale one is skipped and a missing
            one does not matter.
        by_watermark: Aggregate types whose source never goes back and is never restored: no ids are kept for them,
            and what is stale by its sequence is a duplicate.
        before_commit: What writes at the end of the handlers' transaction: an outbox that gathers their events.
        metrics: Told of what :data:`cdc_outbox.metrics.SERIES` lists.
        spans: Told of the handlers' time; by default OpenTelemetry is, where its SDK runs.
    """

    _new_event = threading.Event

    def stop(self) -> None:
        """Make :meth:`run` return after the batch at hand; safe from a signal handler or another thread."""
        self._stopping.set()

    def run(self) -> None:
        """Apply events until :meth:`stop` is called.

        Losing the database or the brokers is waited out, once both were reached. An event whose handler fails is tried
        again, and then parked with what depends on it, so that the others go on.

        Raises:
            BrokerUnavailableError, DatabaseUnavailableError: One could not be reached at the start.
            ConfigError: librdkafka refuses a setting, or there is no handler.
            TransactionEndedError: A handler committed or rolled back. The offset of its event is not committed; it
                comes again at the next start.
            DatabaseAccessError, TableNotFoundError: The inbox cannot be used.
        """
        try:
            finish(self._run(_Blocking(self._stopping), self._stopping.is_set))
        finally:
            # Cleared at the end and not at the start: a stop that comes before the run, or twice, is meant for it.
            self._stopping.clear()


class AsyncConsumer(_Consumer[asyncio.Event]):
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

    def stop(self) -> None:
        """Make :meth:`run` return after the batch at hand; called in the event loop's thread."""
        self._stopping.set()

    async def run(self) -> None:
        """Apply events until :meth:`stop` is called or the task is cancelled; see :meth:`Consumer.run`."""
        try:
            await self._run(_Yielding(self._stopping), self._stopping.is_set)
        finally:
            self._stopping.clear()


class _Blocking:
    """Waiting, for a thread."""

    def __init__(self, stopping: threading.Event) -> None:
        self._stopping = stopping

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:  # noqa: ANN401
        return function(*arguments)

    async def sleep(self, seconds: float) -> None:
        self._stopping.wait(seconds)


class _Yielding:
    """Waiting, for an event loop."""

    def __init__(self, stopping: asyncio.Event) -> None:
        self._stopping = stopping

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:  # noqa: ANN401
        """Call it on a thread, and wait for its end when cancelled too: what comes next uses the same client."""
        work = asyncio.ensure_future(asyncio.to_thread(function, *arguments))
        try:
            return await asyncio.shield(work)
        finally:
            while not work.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([work])

    async def sleep(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._stopping.wait(), seconds)
        except TimeoutError:
            return


def _subscribe(  # noqa: PLR0917 - all that a rebalance concerns
    client: confluent_kafka.Consumer,
    topics: Collection[str],
    keeper: Keeper,
    offsets: Offsets,
    ownership: Ownership,
    limits: Limits,
    watch: Watch,
) -> None:
    """Join the group; the callbacks come while somebody polls."""

    def assign(_client: confluent_kafka.Consumer, partitions: list[TopicPartition]) -> None:
        watch.rebalanced("assigned")
        ownership.assign(Place(partition.topic, partition.partition) for partition in partitions)

    def revoke(client: confluent_kafka.Consumer, partitions: list[TopicPartition]) -> None:
        watch.rebalanced("revoked")
        # The transaction at hand may still end, and its offsets be committed; who comes next waits for us that long.
        keeper.wait_until_idle(limits.handler_seconds)
        offsets.revoke(client, partitions)
        forget(client, partitions)

    def lose(client: confluent_kafka.Consumer, partitions: list[TopicPartition]) -> None:
        watch.rebalanced("lost")
        forget(client, partitions)

    def forget(client: confluent_kafka.Consumer, partitions: list[TopicPartition]) -> None:
        offsets.lose(client, partitions)
        ownership.lose(Place(partition.topic, partition.partition) for partition in partitions)

    client.subscribe(list(topics), on_assign=assign, on_revoke=revoke, on_lost=lose)


def _reach(client: confluent_kafka.Consumer) -> None:
    try:
        client.list_topics(timeout=_REACH_SECONDS)
    except KafkaException as error:
        raise kafka.translate(error.args[0]) from error
