"""Poll, apply, commit the offset: the loop around the inbox transaction."""

import contextlib
import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Protocol

import confluent_kafka
from confluent_kafka import KafkaException

from cdc_outbox import kafka
from cdc_outbox.consumer.delivery import Delivery, Handler, Outcome
from cdc_outbox.consumer.inbox import SqlInbox
from cdc_outbox.consumer.offsets import Offsets, leave, rewind
from cdc_outbox.consumer.table import InboxTable
from cdc_outbox.drivers import find_transaction_driver, translate
from cdc_outbox.errors import CdcOutboxError, ConfigError, OutboxError
from cdc_outbox.message import Message
from cdc_outbox.metrics import Metrics, NoMetrics
from cdc_outbox.table import Dialect
from cdc_outbox.wire import WireContract

_log = logging.getLogger(__name__)

_MAX_NAME_BYTES = 255
"""It is part of every key in the inbox, and an index has only so much room."""
_POLL_SECONDS = 0.5
"""How long an idle consumer may take to notice that it shall stop."""
_REACH_SECONDS = 5.0
"""How long the first contact with the brokers may take before the consumer says that it cannot reach them."""
_FIRST_RETRY_SECONDS, _LAST_RETRY_SECONDS = 0.1, 5.0
"""Doubled from one to the other: quick for a deadlock, patient for a database that restarts."""


class Connection(Protocol):
    """What every driver's connection has in common."""

    def close(self) -> None:
        """End it."""


class Consumer:
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
        metrics: Told of each event after its commit, as ``cdc_outbox_consumer_events_total`` with ``outcome``.
    """

    def __init__(
        self,
        *,
        name: str,
        contract: WireContract,
        bootstrap_servers: str,
        connect: Callable[[], Connection],
        inbox: InboxTable | None = None,
        kafka_settings: Mapping[str, Any] = MappingProxyType({}),
        metrics: Metrics | None = None,
    ) -> None:
        if not name:
            raise ConfigError("a consumer has a name, under which it remembers", field="Consumer.name")
        if len(name.encode()) > _MAX_NAME_BYTES or "\0" in name:
            raise ConfigError(
                f"a consumer's name has at most {_MAX_NAME_BYTES} bytes and no NUL", field="Consumer.name"
            )
        self.name = name
        self.contract = contract
        self._connect = connect
        self._inbox_table = inbox or InboxTable()
        self._settings = kafka.consumer_settings(bootstrap_servers=bootstrap_servers, group=name, extra=kafka_settings)
        self._metrics = metrics or NoMetrics()
        self.outcomes: Counter[Outcome] = Counter()
        """How many events came to which end since this object was made."""
        self._handlers: dict[str, Handler] = {}
        self._stopping = threading.Event()

    def on(self, event_type: str) -> Callable[[Handler], Handler]:
        """Register the handler of an event type.

        It is called with the event and the connection, inside the inbox transaction: what it does to the database is
        committed together with the claim. It may run more than once for one event; its effects are committed once.

        It neither commits, rolls back nor closes the connection. psycopg's methods refuse to; where SQL does it, the
        consumer stops with a TransactionEndedError, and the event comes again.
        """

        def register(handler: Handler) -> Handler:
            if event_type in self._handlers:
                raise ConfigError(f"the event type {event_type!r} has a handler already", field="Consumer.on")
            self._handlers[event_type] = handler
            return handler

        return register

    def stop(self) -> None:
        """Make :meth:`run` return after the event at hand; safe from a signal handler or another thread."""
        self._stopping.set()

    def run(self) -> None:
        """Apply events until :meth:`stop` is called.

        Losing the database or the brokers is waited out, once both were reached.

        Raises:
            BrokerUnavailableError, DatabaseUnavailableError: One could not be reached at the start.
            ConfigError: librdkafka refuses a setting, or there is no handler.
            ConsumerError: A message, a handler or the order of events is wrong. The offset of that event is not
                committed, those before it are; it comes again at the next start.
        """
        if not self._handlers:
            raise ConfigError(
                f"{self.name} has no handler, so every event would be done with and have no effect",
                field="Consumer.on",
                hint='Register one with @consumer.on("EventType").',
            )
        with contextlib.ExitStack() as stack:
            # Cleared last of all and not at the start: a stop that comes before the run, or twice, is meant for it.
            stack.callback(self._stopping.clear)
            session = _Session(self._connect, self._delivery)
            stack.callback(session.close)
            session.open()
            offsets = Offsets()
            client = kafka.make_consumer({**self._settings, "on_commit": offsets.answered}, _log.getChild("librdkafka"))
            stack.callback(leave, client)
            _reach(client)
            client.subscribe(list(self.contract.topics), on_revoke=offsets.revoke, on_lost=offsets.lose)
            stack.callback(offsets.finish, client)
            self._loop(client, offsets, session)

    def _loop(self, client: confluent_kafka.Consumer, offsets: Offsets, session: "_Session") -> None:
        pauses = Pauses()
        while not self._stopping.is_set():
            record = client.poll(_POLL_SECONDS)
            offsets.commit(client)
            if record is None:
                continue
            if record.error():
                _pass_over(record)
                continue
            message = kafka.message_of(record)
            place = message.topic, message.partition
            try:
                self._apply(message, session)
            except CdcOutboxError as error:
                if not error.retryable:
                    raise
                seconds = pauses.next(place)
                _log.warning("event will be tried again", extra={"reason": str(error), "seconds": seconds})
                rewind(client, message)
                session.close()
                self._stopping.wait(seconds)
            else:
                # A crash before this line repeats the event, and its claim tells; after it, the event is done with.
                offsets.done(message)
                pauses.end(place)

    def _apply(self, message: Message, session: "_Session") -> None:
        event = self.contract.event_of(message)
        [outcome] = session.open().apply([event], session.connection)
        self.outcomes[outcome] += 1
        self._metrics.count("cdc_outbox_consumer_events_total", consumer=self.name, outcome=outcome, type=event.type)

    def _delivery(self, connection: Connection) -> Delivery:
        driver = find_transaction_driver(connection)
        if driver.dialect is not Dialect.POSTGRESQL:
            raise OutboxError(f"the inbox is on PostgreSQL, and the consumer's connection leads to {driver.dialect}")
        inbox = SqlInbox(table=self._inbox_table, consumer=self.name, driver=driver)
        return Delivery(inbox=inbox, driver=driver, handlers=self._handlers, mode_of=self.contract.mode_of)


class Pauses:
    """How long to wait before an event is tried again, for each partition: that others go on does not help it."""

    def __init__(self) -> None:
        self._next: dict[tuple[str, int | None], float] = {}

    def next(self, place: tuple[str, int | None]) -> float:
        """Return a pause in seconds, twice as long as the last one of this partition."""
        seconds = self._next.get(place, _FIRST_RETRY_SECONDS)
        self._next[place] = min(seconds * 2, _LAST_RETRY_SECONDS)
        return seconds

    def end(self, place: tuple[str, int | None]) -> None:
        """Begin with a short pause again, for the event at hand is applied."""
        self._next.pop(place, None)


class _Session:
    """The database connection, opened when it is needed and closed after it failed."""

    def __init__(self, connect: Callable[[], Connection], delivery: Callable[[Connection], Delivery]) -> None:
        self._connect = connect
        self._make_delivery = delivery
        self._delivery: Delivery | None = None
        self.connection: Connection | None = None

    def open(self) -> Delivery:
        if self.connection is None or self._delivery is None:
            try:
                self.connection = self._connect()
            except Exception as error:
                ours = translate(error)
                if ours is None:
                    raise
                raise ours from error
            self._delivery = self._make_delivery(self.connection)
        return self._delivery

    def close(self) -> None:
        if self.connection is not None:
            with contextlib.suppress(Exception):  # it is broken, or about to be gone
                self.connection.close()
            self.connection = None


def _reach(client: confluent_kafka.Consumer) -> None:
    try:
        client.list_topics(timeout=_REACH_SECONDS)
    except KafkaException as error:
        raise kafka.translate(error.args[0]) from error


def _pass_over(record: confluent_kafka.Message) -> None:
    """Note an error that librdkafka gets over by itself, and raise any other."""
    error = record.error()
    assert error is not None  # noqa: S101 - the caller looked
    if error.fatal() or error.code() not in kafka.PASSING_ERRORS:
        raise kafka.translate(error)
    _log.warning("kafka reports a passing error", extra={"topic": record.topic(), "reason": error.str()})
