"""Add events inside the caller's own transaction."""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

from cdc_outbox.drivers import AsyncDriver, Driver, Row, find_async_driver, find_driver
from cdc_outbox.errors import ConfigError, EventError, NotInTransactionError
from cdc_outbox.event import Event
from cdc_outbox.schemas import EventSchemas
from cdc_outbox.sql import ParameterStyle
from cdc_outbox.table import Dialect, OutboxTable
from cdc_outbox.wire import WireContract
from cdc_outbox.writer.collection import Collection
from cdc_outbox.writer.draft import Draft, draft
from cdc_outbox.writer.reaction import Reaction, find_reaction, gathered, reacting
from cdc_outbox.writer.statements import Insertion, OutboxStatements
from cdc_outbox.writer.tracing import traced

MAX_MESSAGE_BYTES = 1_000_000
"""Kafka's producers and topics refuse a record over 1,048,576 bytes by default; such a record fails the connector's
task, and everything behind it waits. The rest is for the headers that every event has."""


PublicationPolicy = Callable[[Event], bool]
"""Decides whether an event is written."""


def publish_everything(event: Event) -> bool:  # noqa: ARG001 - that is the policy
    """Decide that every event is written."""
    return True


class _Outbox:
    """What both twins share: all but the waiting."""

    def __init__(
        self,
        *,
        table: OutboxTable | None = None,
        contract: WireContract | None = None,
        max_message_bytes: int | None = MAX_MESSAGE_BYTES,
        schemas: EventSchemas | None = None,
        policy: PublicationPolicy = publish_everything,
    ) -> None:
        if not isinstance(table, OutboxTable | None):
            raise ConfigError(f"table must be an OutboxTable, not {table!r}", field="Outbox.table")
        self.table = table or OutboxTable()
        self.contract = contract
        self.max_message_bytes = max_message_bytes
        self.schemas = schemas
        self.policy = policy
        if not isinstance(contract, WireContract | None):
            raise ConfigError(
                f"contract must be a WireContract, not {type(contract).__name__}",
                field="Outbox.contract",
                hint="A spec has one: parse_spec(text).contract.",
            )
        for option in ("format", "payload_type") if contract is not None else ():
            ours, theirs = getattr(self.table, option), getattr(contract, option)
            if ours is not theirs:
                raise ConfigError(
                    f"the table's {option} is {ours}, the contract's {theirs}",
                    field=f"contract.{option}",
                    hint="Take both from the spec: Outbox(table=spec.outbox, contract=spec.contract).",
                )
        self._statements: dict[tuple[Dialect, ParameterStyle], OutboxStatements] = {}

    def _statements_for(self, driver: Driver | AsyncDriver) -> OutboxStatements:
        key = (driver.dialect, driver.style)
        if key not in self._statements:
            self._statements[key] = OutboxStatements(
                table=self.table, contract=self.contract, dialect=driver.dialect, style=driver.style
            )
        return self._statements[key]

    def _draft(self, event: Event, driver: Driver | AsyncDriver) -> Draft:
        checked = draft(
            event, self.table, driver.dialect, max_message_bytes=self.max_message_bytes, schemas=self.schemas
        )
        return traced(checked, self.table, self.contract)

    def _react(
        self,
        connection: Any,  # noqa: ANN401
        events: Iterable[Event],
        find: Callable[[Any], Driver | AsyncDriver],
    ) -> list[Event] | None:
        """Leave events to the end of the handlers' transaction, if this is one."""
        reaction = find_reaction(self, connection)
        if reaction is None:
            return None
        driver, headers = find(connection), self.table.headers.values()
        given = [_checked(event) for event in events]
        drafts = {
            place: self._draft(reaction.told(event, headers), driver)
            for place, event in enumerate(given)
            if self.policy(event)
        }
        # Nothing is sent, but what cannot be written is refused here, where its handler is known.
        self._statements_for(driver).add_all(list(drafts.values()))
        reaction.drafts += drafts.values()
        return [gathered(drafts[place]) if place in drafts else event for place, event in enumerate(given)]


class Outbox(_Outbox):
    """Write events into an outbox table.

    An outbox holds no connection and no state; one object serves every thread.

    Args:
        table: Where to write; by default ``public.outbox``.
        contract: Which aggregate types there are and how they are numbered, from the spec. Without one, every
            type is taken and numbered gaplessly.
        max_message_bytes: Of one event's payload, key and own headers together; ``None`` means no limit.
        schemas: What payloads are checked against, by event type and version.
        policy: Decides which events are written; one that it declines comes back as it was, without an id.
    """

    def add(self, connection: Any, event: Event) -> Event:  # noqa: ANN401 - any driver's connection
        """Write one event and return it with its id, sequence, source and time.

        The event exists if and only if the caller's transaction commits. Writers of one aggregate wait for each
        other from here to the commit, so add last. The connection is neither committed nor closed.

        Raises:
            NotInTransactionError: The connection is in autocommit mode and no transaction is open.
            EventError: The event cannot be written; the transaction is as it was.
            StaleSequenceError: The event brings its own sequence, and the aggregate is there already.
            TableNotFoundError: The table does not exist; the transaction is aborted, as after any failed statement.
        """
        reacted = self._react(connection, [event], find_driver)
        if reacted is not None:
            return reacted[0]
        if not self.policy(_checked(event)):
            return event
        driver = find_driver(connection)
        statements = self._statements_for(driver)
        insertion = statements.add(self._draft(event, driver))
        _refuse_outside_transaction(driver, driver.joins_transaction(connection))
        [written] = statements.written(insertion, _execute(driver, connection, insertion))
        return written

    def add_all(self, connection: Any, events: Iterable[Event]) -> list[Event]:  # noqa: ANN401
        """Write many events and return them as :meth:`add` does, in the order in which they were given.

        On PostgreSQL it is one statement for all events of one sequence mode. Aggregates are locked in one order,
        so that two calls never wait for each other; two calls in one transaction may, so make it one, or collect.

        Raises:
            NotInTransactionError: As :meth:`add`.
            EventError: One of the events cannot be written; none was, and the transaction is as it was.
            StaleSequenceError: As :meth:`add`; some may have been written.
        """
        events = list(events)
        reacted = self._react(connection, events, find_driver)
        if reacted is not None:
            return reacted
        driver = find_driver(connection)
        given = [_checked(event) for event in events]
        drafts = {place: self._draft(event, driver) for place, event in enumerate(given) if self.policy(event)}
        return _as_given(given, drafts, self._write(connection, list(drafts.values())))

    @contextmanager
    def collect(self, connection: Any) -> Iterator[Collection]:  # noqa: ANN401
        """Gather a transaction's events in a ``with`` block, and write them together at its end.

        Open it inside the transaction. What it wrote is in :attr:`Collection.written` afterwards. A block that is
        left by an exception writes nothing.

        Raises:
            NotInTransactionError: As :meth:`add`, at the start and at the end.
            EventError: As :meth:`add_all`, at the end.
        """
        if find_reaction(self, connection) is None:
            driver = find_driver(connection)
            _refuse_outside_transaction(driver, driver.joins_transaction(connection))
        with Collection.gathering() as collection:
            yield collection
        collection.written = self.add_all(connection, collection.events)

    @contextmanager
    def gathering(self, connection: Any) -> Iterator[Reaction]:  # noqa: ANN401
        """Gather what handlers add to this outbox on this connection, and write it together at the block's end.

        For a consumer: pass the outbox as its ``before_commit``. Inside the block :meth:`add` refuses what it always
        refuses, and returns the event with its id, but without a sequence, which it has only once it is written.
        """
        reaction = Reaction(connection)
        with reacting(self, reaction):
            yield reaction
        if reaction.drafts:
            self._write_gathered(connection, reaction.drafts)

    def _write_gathered(self, connection: Any, drafts: Sequence[Draft]) -> None:  # noqa: ANN401
        self._write(connection, drafts)

    def _write(self, connection: Any, drafts: Sequence[Draft]) -> list[Event]:  # noqa: ANN401
        driver = find_driver(connection)
        statements = self._statements_for(driver)
        insertions = statements.add_all(drafts)
        _refuse_outside_transaction(driver, driver.joins_transaction(connection))
        return [
            event
            for insertion in insertions
            for event in statements.written(insertion, _execute(driver, connection, insertion))
        ]


class AsyncOutbox(_Outbox):
    """Write events into an outbox table through an asynchronous driver; the twin of :class:`Outbox`."""

    async def add(self, connection: Any, event: Event) -> Event:  # noqa: ANN401 - any driver's connection
        """Write one event; everything that :meth:`Outbox.add` says holds here."""
        reacted = self._react(connection, [event], find_async_driver)
        if reacted is not None:
            return reacted[0]
        if not self.policy(_checked(event)):
            return event
        driver = find_async_driver(connection)
        statements = self._statements_for(driver)
        insertion = statements.add(self._draft(event, driver))
        _refuse_outside_transaction(driver, await driver.joins_transaction(connection))
        [written] = statements.written(insertion, await _await(driver, connection, insertion))
        return written

    async def add_all(self, connection: Any, events: Iterable[Event]) -> list[Event]:  # noqa: ANN401
        """Write many events; everything that :meth:`Outbox.add_all` says holds here."""
        events = list(events)
        reacted = self._react(connection, events, find_async_driver)
        if reacted is not None:
            return reacted
        driver = find_async_driver(connection)
        given = [_checked(event) for event in events]
        drafts = {place: self._draft(event, driver) for place, event in enumerate(given) if self.policy(event)}
        return _as_given(given, drafts, await self._write(connection, list(drafts.values())))

    @asynccontextmanager
    async def collect(self, connection: Any) -> AsyncIterator[Collection]:  # noqa: ANN401
        """Gather a transaction's events; everything that :meth:`Outbox.collect` says holds here."""
        if find_reaction(self, connection) is None:
            driver = find_async_driver(connection)
            _refuse_outside_transaction(driver, await driver.joins_transaction(connection))
        with Collection.gathering() as collection:
            yield collection
        collection.written = await self.add_all(connection, collection.events)

    @asynccontextmanager
    async def gathering(self, connection: Any) -> AsyncIterator[Reaction]:  # noqa: ANN401
        """Gather what handlers add; everything that :meth:`Outbox.gathering` says holds here."""
        reaction = Reaction(connection)
        with reacting(self, reaction):
            yield reaction
        if reaction.drafts:
            await self._write_gathered(connection, reaction.drafts)

    async def _write_gathered(self, connection: Any, drafts: Sequence[Draft]) -> None:  # noqa: ANN401
        await self._write(connection, drafts)

    async def _write(self, connection: Any, drafts: Sequence[Draft]) -> list[Event]:  # noqa: ANN401
        driver = find_async_driver(connection)
        statements = self._statements_for(driver)
        insertions = statements.add_all(drafts)
        _refuse_outside_transaction(driver, await driver.joins_transaction(connection))
        return [
            event
            for insertion in insertions
            for event in statements.written(insertion, await _await(driver, connection, insertion))
        ]


def _checked(event: Event) -> Event:
    """Return what is an event; anything else is often the connection, passed in the wrong place."""
    if not isinstance(event, Event):
        raise EventError(f"an Event is wanted, not {type(event).__name__}", hint="Pass the connection first.")
    return event


def _execute(driver: Driver, connection: Any, insertion: Insertion) -> list[Row]:  # noqa: ANN401
    """Execute the steps and return the last rows that came back; if one fails or is interrupted, none of them was."""
    rows: list[Row] = []
    step = insertion.steps[0]
    try:
        for step in insertion.steps:
            if not (rows and step.reads_back):
                rows = driver.fetch(connection, step.sql, insertion.parameters) or rows
    except BaseException:  # Ctrl-C and gevent's timeouts too, after which a caller may commit
        for undoing in insertion.undo_from(step):
            with suppress(Exception):  # the database has undone all of the transaction
                driver.fetch(connection, undoing.sql, insertion.parameters)
        raise
    return rows


async def _await(driver: AsyncDriver, connection: Any, insertion: Insertion) -> list[Row]:  # noqa: ANN401
    rows: list[Row] = []
    step = insertion.steps[0]
    try:
        for step in insertion.steps:
            if not (rows and step.reads_back):
                rows = await driver.fetch(connection, step.sql, insertion.parameters) or rows
    except BaseException:  # a cancelled task's too
        for undoing in insertion.undo_from(step):
            with suppress(Exception):
                await driver.fetch(connection, undoing.sql, insertion.parameters)
        raise
    return rows


def _as_given(given: Sequence[Event], drafts: Mapping[int, Draft], written: Iterable[Event]) -> list[Event]:
    """Return the written events in the places of those that were given; what was declined stays as it was."""
    by_id = {event.id: event for event in written}
    return [by_id[drafts[place].id] if place in drafts else event for place, event in enumerate(given)]


def _refuse_outside_transaction(driver: Driver | AsyncDriver, joins: bool) -> None:  # noqa: FBT001 - what it is about
    if not joins:
        raise NotInTransactionError(
            "the connection is not in a transaction, so the event was not written", hint=driver.transaction_hint
        )
