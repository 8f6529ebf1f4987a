"""The bugs that consumers have, planted one by one: what guards the real thing fails with each of them.

Every check is run on the consumer as it is, where it passes, and on one with the bug, where it must not.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from cdc_outbox.consumer import Handler, Order, Outcome, RecordedEvent, SequenceMode, start_offsets
from cdc_outbox.consumer.claims import Claims, SqlInbox
from cdc_outbox.consumer.delivery import Delivered, Delivery
from cdc_outbox.consumer.fencing import SqlEpochs, TopicPartition
from cdc_outbox.consumer.handlers import HandlerRunner, Handlers
from cdc_outbox.consumer.inbox_tables import InboxTable, Statements
from cdc_outbox.consumer.item import Item, item_of
from cdc_outbox.consumer.loop import Loop
from cdc_outbox.consumer.session import Session, sql_stores
from cdc_outbox.consumer.sql_parked_events import SqlPark
from cdc_outbox.databases.drivers import TransactionState
from cdc_outbox.databases.drivers.immediate import ImmediateTransactions, finish
from cdc_outbox.databases.drivers.psycopg import Psycopg
from cdc_outbox.errors import CdcOutboxError
from cdc_outbox.kafka import clients as kafka_clients
from tests.support.events import make_event
from tests.support.rig import Connection, eventually
from tests.support.service import Service, apply_effect, effects_of

Plant = Callable[[Service, pytest.MonkeyPatch], None]
"""What puts a bug in."""


class CrashedError(BaseException):
    """The process dies here, as far as it can in a test."""


class Member:
    """A consumer without a broker: events are delivered by hand, and then what is due in the park."""

    def __init__(
        self,
        service: Service,
        *,
        name: str = "",
        handler: Handler = apply_effect,
        mode: SequenceMode = SequenceMode.GAPLESS,
    ) -> None:
        self._dsn, self._contract, handlers = service.dsn, service.pipeline.spec.contract, Handlers()
        self._place = TopicPartition(service.pipeline.topic, 0)
        driver = ImmediateTransactions(Psycopg())
        handlers.add(["OrderPlaced"], handler, takes_batch=False)
        self._stores = sql_stores(table=InboxTable(), consumer=name or service.name, driver=driver)
        calls, order = HandlerRunner(driver=driver, handlers=handlers), Order(mode=mode)
        self._delivery = Delivery(stores=self._stores, driver=driver, calls=calls, order_of=lambda _: order)

    def deliver(self, *events: RecordedEvent) -> list[Outcome]:
        messages = [replace(self._contract.message_of(event), partition=0, offset=0) for event in events]
        with psycopg.connect(self._dsn) as connection:
            outcomes = self._apply(connection, [item_of(message, self._contract) for message in messages]).outcomes
            due = finish(self._stores.park.find_due(connection, [self._place], 10))
            connection.rollback()
            self._apply(connection, [item_of(row.message, self._contract, row) for row in due])
        return outcomes

    def _apply(self, connection: Connection, items: Sequence[Item]) -> Delivered:
        return finish(self._delivery.apply(items, connection, {}))


def fail(_event: RecordedEvent, _connection: Connection) -> None:
    raise LookupError


def swallow(event: RecordedEvent, connection: Connection) -> None:
    apply_effect(event, connection)
    with suppress(psycopg.Error):
        connection.execute("select 1 from nowhere")


def purge(service: Service) -> None:
    """Forget all ids, and say so, as a purge does; watermarks are kept."""
    with service.connect() as connection:
        connection.execute(
            "insert into inbox_purges (consumer, purged_before)"
            " select distinct consumer, clock_timestamp() + interval '1 day' from inbox"
        )
        connection.execute("delete from inbox")


def a_failed_event_is_applied_when_it_comes_again(service: Service) -> None:
    event = make_event(1)
    with suppress(CdcOutboxError):
        Member(service, handler=fail).deliver(event)
    Member(service).deliver(event)
    assert service.effects() == effects_of(1)


def every_consumer_applies_every_event(service: Service) -> None:
    event = make_event(1)
    for name in ("shipping", "billing"):
        Member(service, name=name).deliver(event)
    assert service.effects() == effects_of(1) * 2


def what_waited_in_the_park_is_applied(service: Service) -> None:
    first, second = make_event(1), make_event(2)
    Member(service).deliver(second)
    Member(service).deliver(first)
    assert service.effects() == effects_of(2)
    assert service.parked() == []


def a_crash_before_the_park_loses_nothing(service: Service) -> None:
    first, second = make_event(1), make_event(2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SqlPark, "add", crash)
        with suppress(CrashedError):
            Member(service).deliver(second)
    Member(service).deliver(second)
    Member(service).deliver(first)
    assert service.effects() == effects_of(2)


def an_event_whose_id_was_forgotten_is_not_applied_again(service: Service) -> None:
    events = [make_event(number) for number in (1, 2)]
    Member(service).deliver(*events)
    purge(service)
    Member(service).deliver(*events)
    assert service.effects() == effects_of(2)
    assert {reason for _, _, reason in service.parked()} <= {"expired"}


def an_event_without_a_number_whose_id_was_forgotten_is_not_applied_again(service: Service) -> None:
    event, member = make_event(None, aggregate_type="metric"), Member(service, mode=SequenceMode.NONE)
    member.deliver(event)
    purge(service)
    member.deliver(event)
    assert len(service.effects()) == 1


def an_event_whose_handler_swallows_an_sql_error_is_not_taken_for_applied(service: Service) -> None:
    event = make_event(1)
    with suppress(CdcOutboxError):
        outcomes = Member(service, handler=swallow).deliver(event)
        assert len(service.effects()) == outcomes.count(Outcome.APPLIED)
    Member(service).deliver(event)
    assert service.effects() == effects_of(1)


def a_marker_later(service: Service) -> None:
    """Let the next consumer apply an event of another aggregate, behind all others in the partition."""
    service.send(make_event(1, "marker"))
    successor = service.consumer()
    successor.on("Deadly")(apply_effect)
    with service.running(successor):
        eventually(lambda: ("marker", 1) in service.effects(), "what comes after it in the partition")


def an_event_at_which_the_process_dies_comes_again(service: Service) -> None:
    consumer = service.consumer()
    consumer.on("Deadly")(crash)
    service.send(make_event(1), make_event(2, event_type="Deadly"))
    with suppress(CrashedError):
        service.run_to_its_end(consumer)
    a_marker_later(service)
    assert service.effects() == [*effects_of(2), ("marker", 1)]


def an_event_that_was_about_to_be_parked_comes_again(service: Service) -> None:
    service.send(make_event(1), make_event(4))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SqlPark, "add", crash)
        with suppress(CrashedError):
            service.run_to_its_end()
    a_marker_later(service)
    assert service.effects() == [*effects_of(1), ("marker", 1)]
    assert service.parked() == [(4, "waiting", "gap")]


def believe_the_group(patch: pytest.MonkeyPatch) -> None:
    """Read from the group's offsets, wherever the database's are: they make up for offsets that are committed early."""
    patch.setattr(start_offsets, "start_of", lambda *_: None)


def auto_commit(_service: Service, patch: pytest.MonkeyPatch) -> None:
    """Offsets are stored as soon as a message is polled, and committed when the client is closed."""
    chosen = kafka_clients.consumer_settings

    def careless(**options: Any) -> Mapping[str, Any]:
        return {**chosen(**options), "enable.auto.commit": True, "enable.auto.offset.store": True}

    patch.setattr(kafka_clients, "consumer_settings", careless)
    believe_the_group(patch)


def offset_before_the_park(_service: Service, patch: pytest.MonkeyPatch) -> None:
    """An event counts as done with before the database knows of it."""
    apply = Session.apply

    async def early(session: Session, items: Sequence[Item], *arguments: Any, **options: Any) -> Delivered:
        [loop] = [one for one in loops if one._session is session]
        for item in items:
            loop._offsets.done(item.message)
        return await apply(session, items, *arguments, **options)

    loops: list[Loop] = []
    make = Loop.__init__

    def remember(loop: Loop, *arguments: Any, **options: Any) -> None:
        make(loop, *arguments, **options)
        loops.append(loop)

    patch.setattr(Loop, "__init__", remember)
    patch.setattr(Session, "apply", early)
    believe_the_group(patch)


def dedup_outside_the_transaction(service: Service, patch: pytest.MonkeyPatch) -> None:
    """The claim is committed before its effects are."""
    claim = SqlInbox.claim

    async def elsewhere(inbox: SqlInbox, _connection: Any, event_ids: Sequence[str]) -> Claims:
        with psycopg.connect(service.dsn) as other:
            return replace(await claim(inbox, other, event_ids), transaction="")

    async def forget(*_: Any) -> bool:
        return False

    async def nothing(*_: Any) -> None:
        """Have no statement for it."""

    patch.setattr(SqlInbox, "claim", elsewhere)
    patch.setattr(SqlInbox, "claim_next", nothing)
    patch.setattr(SqlInbox, "take_back", forget)


def dedup_without_the_consumers_name(_service: Service, patch: pytest.MonkeyPatch) -> None:
    """All consumers remember under one name."""
    make = Statements.__init__

    def nameless(statements: Statements, file: str, **options: Any) -> None:
        make(statements, file, **(options | {"consumer": "everybody"}))

    patch.setattr(Statements, "__init__", nameless)


def claim_kept_by_what_is_parked(_service: Service, patch: pytest.MonkeyPatch) -> None:
    """What is parked is claimed too, so that it looks as if it had been applied."""

    async def keep(*_: Any) -> None:
        """Give nothing back."""

    patch.setattr(SqlInbox, "release", keep)


def purge_without_watermarks(_service: Service, patch: pytest.MonkeyPatch) -> None:
    """A purge forgets the sequences together with the ids."""
    whole = purge

    def careless(service: Service) -> None:
        whole(service)
        with service.connect() as connection:
            connection.execute("delete from inbox_watermarks")

    patch.setitem(globals(), "purge", careless)


def purge_without_a_horizon(_service: Service, patch: pytest.MonkeyPatch) -> None:
    """A purge does not say up to which time ids were forgotten."""
    whole = purge

    def careless(service: Service) -> None:
        whole(service)
        with service.connect() as connection:
            connection.execute("delete from inbox_purges")

    patch.setitem(globals(), "purge", careless)


def swallowed_sql_error(_service: Service, patch: pytest.MonkeyPatch) -> None:
    """Nobody looks at the transaction, and nobody asks the server anything before the commit."""

    async def nothing(*_: Any) -> list[Any]:
        return []

    state = Psycopg.state

    def trusting(driver: Psycopg, connection: Connection) -> TransactionState:
        found = state(driver, connection)
        return TransactionState.OPEN if found is TransactionState.ABORTED else found

    patch.setattr(Psycopg, "state", trusting)
    patch.setattr(SqlInbox, "advance", nothing)
    patch.setattr(SqlEpochs, "find_stale", nothing)


def crash(*_: Any) -> None:
    raise CrashedError


PLANTED: list[tuple[Plant, Callable[[Service], None]]] = [
    (auto_commit, an_event_at_which_the_process_dies_comes_again),
    (offset_before_the_park, an_event_that_was_about_to_be_parked_comes_again),
    (offset_before_the_park, an_event_at_which_the_process_dies_comes_again),
    (dedup_outside_the_transaction, a_failed_event_is_applied_when_it_comes_again),
    (dedup_outside_the_transaction, a_crash_before_the_park_loses_nothing),
    (dedup_without_the_consumers_name, every_consumer_applies_every_event),
    (claim_kept_by_what_is_parked, what_waited_in_the_park_is_applied),
    (purge_without_watermarks, an_event_whose_id_was_forgotten_is_not_applied_again),
    (purge_without_a_horizon, an_event_without_a_number_whose_id_was_forgotten_is_not_applied_again),
    (swallowed_sql_error, an_event_whose_handler_swallows_an_sql_error_is_not_taken_for_applied),
]
"""A bug, and what finds it."""
CHECKS = list(dict.fromkeys(check for _, check in PLANTED))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_consumer_keeps(fed_service: Service, check: Callable[[Service], None]) -> None:
    check(fed_service)


@pytest.mark.parametrize(
    ("plant", "check"), PLANTED, ids=[f"{plant.__name__}-{check.__name__}" for plant, check in PLANTED]
)
def test_a_bug_is_found(
    fed_service: Service, plant: Plant, check: Callable[[Service], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(fed_service, monkeypatch)
    with pytest.raises(AssertionError) as caught:
        check(fed_service)
    assert "in vain" not in str(caught.value), "it was waited for something that has nothing to do with the bug"
