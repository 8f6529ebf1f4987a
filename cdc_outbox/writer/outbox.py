"""Add events inside the caller's own transaction."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from cdc_outbox.contract.wire import WireContract
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.drivers import (
    AnyConnection,
    AsyncDriver,
    find_async_driver,
    find_driver,
    serves,
    serves_type,
)
from cdc_outbox.databases.drivers.immediate import Immediate, finish
from cdc_outbox.databases.sql import ParameterStyle
from cdc_outbox.databases.table import OutboxTable
from cdc_outbox.errors import ConfigError, EventError, OutboxError
from cdc_outbox.event import Event, RecordedEvent, new_event_id
from cdc_outbox.formats.schemas import EventSchemas
from cdc_outbox.telemetry import running_provider
from cdc_outbox.writer.collection import Collection
from cdc_outbox.writer.draft import Draft, draft, traced
from cdc_outbox.writer.execution import DirectDriver, execute, execute_now, refuse_outside_transaction
from cdc_outbox.writer.outbox_statements import OutboxStatements
from cdc_outbox.writer.plain_insertion import Plain, compile_parameters, is_plain
from cdc_outbox.writer.reaction import Reaction, find_reaction, is_reacting, reacting, unwritten

if TYPE_CHECKING:  # at run time it would bring YAML and JSON Schema into every service that writes
    from cdc_outbox.spec import Spec


MAX_MESSAGE_BYTES = 1_000_000
"""Kafka's producers and topics refuse a record over 1,048,576 bytes by default; a refused record fails the connector's
task, and everything behind it waits. The rest is for the headers that every event has."""


_SPEC_HINT = 'Read a spec with load_spec: Outbox(spec=load_spec("connectors/orders.yaml")).'

PublicationPolicy = Callable[[Event], bool]
"""Decides whether an event is written."""


def publish_everything(event: Event) -> bool:  # noqa: ARG001 - that is the policy
    """Decide that every event is written."""
    return True


class _Way(NamedTuple):
    """How events are written through a driver.

    Args:
        direct: The synchronous driver behind it; ``None`` where there is none.
        run: What runs that one's calls, where an asynchronous connection takes several at the price of one.
        serves_type: Whether it fits every connection of the type that it was made for.
        plain: ``None`` for a table that is not plain, or with schemas.
    """

    driver: AsyncDriver
    direct: DirectDriver | None
    run: Callable[..., Awaitable[Any]] | None
    statements: OutboxStatements
    plain: Plain | None
    serves_type: bool


class _Outbox:
    """What both faces share: all but the waiting, over drivers that may be waited for."""

    def __init__(
        self,
        *,
        spec: "Spec | None" = None,
        table: OutboxTable | None = None,
        contract: WireContract | None = None,
        max_message_bytes: int | None = MAX_MESSAGE_BYTES,
        schemas: EventSchemas | None = None,
        policy: PublicationPolicy = publish_everything,
    ) -> None:
        self.table, self.contract = _table_and_contract(spec, table, contract)
        self._dialect = None if spec is None else spec.database.kind.known_dialect
        self.max_message_bytes = max_message_bytes
        self.schemas = schemas
        self.policy = policy
        self._statements: dict[tuple[Dialect, ParameterStyle], tuple[OutboxStatements, Plain | None]] = {}
        self._ways: dict[type, _Way] = {}

    def _find(self, connection: AnyConnection) -> AsyncDriver:
        raise NotImplementedError

    def _way(self, connection: AnyConnection) -> _Way:
        """Return the way that fits a connection; that of a type's last one is kept, and fits many others."""
        way = self._ways.get(type(connection))
        if way is None or not (way.serves_type or serves(way.driver, connection)):
            driver = self._find(connection)
            below, run = getattr(driver, "direct", None), getattr(driver, "run", None)
            direct = None if below is None else DirectDriver.of(below)
            way = _Way(driver, direct, run, *self._statements_for(driver), serves_type(driver))
            if serves(driver, connection):
                self._ways[type(connection)] = way
        return way

    def _statements_for(self, driver: AsyncDriver) -> tuple[OutboxStatements, Plain | None]:
        key = (driver.dialect, driver.style)
        if key not in self._statements:
            if self._dialect not in {None, driver.dialect}:
                raise OutboxError(
                    f"the connection's database is {driver.dialect}, and the spec's is {self._dialect}",
                    hint="Pass a connection to the database that the connector reads; tests can use MemoryOutbox.",
                )
            statements = OutboxStatements(
                table=self.table, contract=self.contract, dialect=driver.dialect, style=driver.style
            )
            is_general = self.schemas is not None or not is_plain(self.table)
            plain = None if is_general else compile_parameters(statements, self.max_message_bytes)
            self._statements[key] = statements, plain
        return self._statements[key]

    def _draft(self, event: Event, driver: AsyncDriver) -> Draft:
        checked = draft(
            event, self.table, driver.dialect, max_message_bytes=self.max_message_bytes, schemas=self.schemas
        )
        return traced(checked, self.table, self.contract)

    def _react(self, connection: AnyConnection, events: Iterable[Event]) -> list[RecordedEvent] | None:
        """Leave events to the end of the handlers' transaction, if this is one."""
        reaction = find_reaction(self, connection)
        if reaction is None:
            return None
        driver, _, _, statements, *_ = self._way(connection)
        headers = self.table.headers.values()
        given = [_checked(event) for event in events]
        drafts = {
            index: self._draft(reaction.with_cause(event, headers), driver)
            for index, event in enumerate(given)
            if self.policy(event)
        }
        # Nothing is sent, but what cannot be written is refused here, where its handler is known.
        statements.add_all(list(drafts.values()))
        reaction.drafts += drafts.values()
        return [
            unwritten(drafts[index].event, drafts[index].id) if index in drafts else _declined(event)
            for index, event in enumerate(given)
        ]

    async def _add(self, connection: AnyConnection, event: Event) -> RecordedEvent:
        reacted = self._react(connection, [event])
        if reacted is not None:
            return reacted[0]
        _checked(event)
        if self.policy is not publish_everything and not self.policy(event):
            return _declined(event)
        return await self._add_by(self._way(connection), connection, event)

    async def _add_by(self, way: _Way, connection: AnyConnection, event: Event) -> RecordedEvent:
        driver, direct, run, statements, plain, _ = way
        if plain is None or running_provider() is not None:
            plan, parameters, [drafted] = statements.add(self._draft(event, driver))
            event = drafted.event
        else:
            plan, parameters = plain(event)
        event_id = parameters["id"]
        ids = ((event, event_id),)
        if run is not None:
            rows = await run(connection, execute_now, direct, plan, parameters, ids)
        else:
            await refuse_outside_transaction(driver, connection)
            rows = await execute(driver, connection, plan, parameters, ids)
        return statements.written_alone(event, event_id, rows)

    async def _add_all(self, connection: AnyConnection, events: Iterable[Event]) -> list[RecordedEvent]:
        events = list(events)
        reacted = self._react(connection, events)
        if reacted is not None:
            return reacted
        driver = self._find(connection)
        given = [_checked(event) for event in events]
        drafts = {index: self._draft(event, driver) for index, event in enumerate(given) if self.policy(event)}
        written = {event.id: event for event in await self._write(connection, list(drafts.values()))}
        return [written[drafts[index].id] if index in drafts else _declined(event) for index, event in enumerate(given)]

    async def _begin_collection(self, connection: AnyConnection) -> None:
        if find_reaction(self, connection) is None:
            await refuse_outside_transaction(self._find(connection), connection)

    async def _write(self, connection: AnyConnection, drafts: Sequence[Draft]) -> list[RecordedEvent]:
        driver, _, _, statements, *_ = self._way(connection)
        insertions = statements.add_all(drafts)
        await refuse_outside_transaction(driver, connection)
        return [
            event
            for insertion in insertions
            for event in statements.written(
                insertion, await execute(driver, connection, insertion.plan, insertion.parameters, insertion.ids)
            )
        ]


class Outbox(_Outbox):
    """Write events into an outbox table.

    An outbox has no connection and no state; all threads can share one object.

    Args:
        spec: The pipeline's spec, from :func:`~cdc_outbox.load_spec`. It sets table, columns, mode, headers, format,
            and the aggregate types with their numbering.
        table: Without a spec: the table to write to. Default: ``public.outbox``.
        contract: Without a spec: the aggregate types and their numbering; needs ``table``, and both must agree.
            Default: every type is accepted and numbered gaplessly.
        max_message_bytes: The limit for one event's payload, key and own headers together; ``None`` means no limit.
        schemas: Schemas by which payloads are checked, by event type and version.
        policy: Decides which events are written; a declined event is returned with ``is_written`` false.

    Raises:
        ConfigError: ``table`` or ``contract`` with a spec, a contract without a table, or the two do not agree.
        OutboxError: Later, for a connection to another kind of database than the spec's.
    """

    def _find(self, connection: AnyConnection) -> AsyncDriver:
        return Immediate(find_driver(connection))

    def add(self, connection: AnyConnection, event: Event) -> RecordedEvent:
        """Write one event and return it with its id, sequence, source and time.

        The event exists if and only if the caller's transaction commits. From this call to the commit, other writers of
        the same aggregate wait, so add events last. The connection is neither committed nor closed.

        Raises:
            NotInTransactionError: The connection is in autocommit mode and no transaction is open.
            EventError: The event cannot be written; the transaction is as it was.
            StaleSequenceError: The event has its own sequence number, which the aggregate has already reached.
            DuplicateEventError: The event has its own id, which the outbox already contains.
            DatabaseError: The database refused, and on PostgreSQL the transaction is aborted; the driver's own error
                is the cause. If ``retryable``, the whole transaction may be repeated:
                DatabaseUnavailableError (on a new connection), TransactionConflictError, TransactionTimeoutError.
                If not, repeating does not help: TableNotFoundError, DatabaseAccessError, plain DatabaseError.
        """
        if is_reacting() or running_provider() is not None or self.policy is not publish_everything:
            return finish(self._add(connection, event))
        _checked(event)
        way = self._way(connection)
        direct, plain = way.direct, way.plain
        if direct is None or plain is None:
            return finish(self._add_by(way, connection, event))
        # Nearly every event is written here: without coroutines, and without objects in between.
        plan, parameters = plain(event)
        event_id = parameters["id"]
        rows = execute_now(connection, direct, plan, parameters, ((event, event_id),))
        return way.statements.written_alone(event, event_id, rows)

    def add_all(self, connection: AnyConnection, events: Iterable[Event]) -> list[RecordedEvent]:
        """Write many events and return them as :meth:`add` does, in the same order.

        On PostgreSQL, one statement writes all events of a sequence mode. Aggregates are locked in a fixed order, so
        that two calls never deadlock; several calls in one transaction may, so make one call, or use :meth:`collect`.

        Raises:
            NotInTransactionError: As :meth:`add`.
            EventError: One of the events cannot be written; none was, and the transaction is unchanged.
            StaleSequenceError, DuplicateEventError, DatabaseError: As :meth:`add`; some may have been written.
        """
        return finish(self._add_all(connection, events))

    @contextmanager
    def collect(self, connection: AnyConnection) -> Iterator[Collection]:
        """Collect a transaction's events in a ``with`` block, and write them together at its end.

        Open it inside the transaction. Afterwards :attr:`Collection.written` has the written events. If an exception
        leaves the block, nothing is written.

        Raises:
            NotInTransactionError: As :meth:`add`, at the start and at the end.
            EventError, StaleSequenceError, DuplicateEventError, DatabaseError: As :meth:`add_all`, at the end.
        """
        finish(self._begin_collection(connection))
        with Collection.gathering() as collection:
            yield collection
        collection.written = self.add_all(connection, collection.events)

    @contextmanager
    def gathering(self, connection: AnyConnection) -> Iterator[Reaction]:
        """Collect the events that handlers add on this connection, and write them together at the block's end.

        For a consumer: pass the outbox as ``EffectsDatabase(before_commit=…)``. Inside the block :meth:`add` refuses
        invalid events as always, and returns the event with its id and ``is_written`` false; the database sets sequence
        and source at the block's end.
        """
        reaction = Reaction(connection)
        with reacting(self, reaction):
            yield reaction
        if reaction.drafts:
            self._write_gathered(connection, reaction.drafts)

    def _write_gathered(self, connection: AnyConnection, drafts: Sequence[Draft]) -> None:
        finish(self._write(connection, drafts))


class AsyncOutbox(_Outbox):
    """Write events into an outbox table through an asynchronous driver; the twin of :class:`Outbox`."""

    def _find(self, connection: AnyConnection) -> AsyncDriver:
        return find_async_driver(connection)

    async def add(self, connection: AnyConnection, event: Event) -> RecordedEvent:
        """Write one event as :meth:`Outbox.add` does."""
        return await self._add(connection, event)

    async def add_all(self, connection: AnyConnection, events: Iterable[Event]) -> list[RecordedEvent]:
        """Write many events as :meth:`Outbox.add_all` does."""
        return await self._add_all(connection, events)

    @asynccontextmanager
    async def collect(self, connection: AnyConnection) -> AsyncIterator[Collection]:
        """Collect a transaction's events as :meth:`Outbox.collect` does."""
        await self._begin_collection(connection)
        with Collection.gathering() as collection:
            yield collection
        collection.written = await self.add_all(connection, collection.events)

    @asynccontextmanager
    async def gathering(self, connection: AnyConnection) -> AsyncIterator[Reaction]:
        """Collect the events of handlers as :meth:`Outbox.gathering` does."""
        reaction = Reaction(connection)
        with reacting(self, reaction):
            yield reaction
        if reaction.drafts:
            await self._write_gathered(connection, reaction.drafts)

    async def _write_gathered(self, connection: AnyConnection, drafts: Sequence[Draft]) -> None:
        await self._write(connection, drafts)


def _table_and_contract(
    spec: "Spec | None", table: OutboxTable | None, contract: WireContract | None
) -> tuple[OutboxTable, WireContract | None]:
    """Return where to write and what is promised, and refuse what would write past the connector."""
    if spec is not None:
        if table is not None or contract is not None:
            hint = "Remove table and contract: the spec has both."
            raise ConfigError("spec cannot be combined with table or contract", field="Outbox.spec", hint=hint)
        given: Any = spec  # anything may be passed
        table, contract = getattr(given, "outbox", given), getattr(given, "contract", given)
    for name, value, kind in (("table", table, OutboxTable), ("contract", contract, WireContract)):
        if not isinstance(value, kind | None):
            wanted = f"{name} must be {'an' if kind is OutboxTable else 'a'} {kind.__name__}"
            wanted, field = (wanted, name) if spec is None else ("spec must be a Spec", "spec")
            raise ConfigError(f"{wanted}, not {type(value).__name__}", field=f"Outbox.{field}", hint=_SPEC_HINT)
    if contract is not None and table is None:
        hint = "Pass the spec: Outbox(spec=...). Without a spec, pass the table too: Outbox(table=..., contract=...)."
        raise ConfigError(
            "a contract does not contain the table that the connector reads", field="Outbox.table", hint=hint
        )
    table = table or OutboxTable()
    if spec is None and contract is not None:
        _refuse_disagreement(table, contract)
    return table, contract


def _refuse_disagreement(table: OutboxTable, contract: WireContract) -> None:
    for option in ("format", "payload_type"):
        ours, theirs = getattr(table, option), getattr(contract, option)
        if ours is not theirs:
            raise ConfigError(
                f"the table's {option} is {ours}, but the contract's is {theirs}",
                field=f"contract.{option}",
                hint="Pass their spec instead: Outbox(spec=...).",
            )
    ours, theirs = set(table.headers.values()), set(contract.extra_headers)
    if ours != theirs:
        raise ConfigError(
            f"the table has columns for the headers {_listed(ours)}, but the contract names {_listed(theirs)}",
            field="contract.extra_headers",
            hint="Pass their spec instead: Outbox(spec=...).",
        )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _checked(event: Event) -> Event:
    """Return what is an event; anything else is often the connection, passed in the wrong place."""
    if not isinstance(event, Event):
        hint = "Pass an Event." if isinstance(event, RecordedEvent) else "Pass the connection first, then an Event."
        raise EventError(f"event must be an Event, not {type(event).__name__}", hint=hint)
    return event


def _declined(event: Event) -> RecordedEvent:
    return unwritten(event, new_event_id() if event.id is None else event.id)
