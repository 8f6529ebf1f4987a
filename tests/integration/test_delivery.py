"""The inbox transaction on a real database: whatever a handler does to it, no event is lost and none has half its
effects."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from uuid import uuid4

import psycopg
import pytest
from psycopg.errors import Diagnostic

from cdc_outbox.consumer import Handler, InboxTable, Order, Outcome, RecordedEvent, SequenceMode, inbox_component
from cdc_outbox.consumer.delivery import Delivery
from cdc_outbox.consumer.handlers import HandlerRunner, Handlers
from cdc_outbox.consumer.item import Item
from cdc_outbox.consumer.session import sql_stores
from cdc_outbox.databases.drivers.immediate import ImmediateTransactions, finish
from cdc_outbox.databases.drivers.psycopg import Psycopg
from cdc_outbox.errors import (
    CdcOutboxError,
    ConfigError,
    ConsumerError,
    DatabaseError,
    DatabaseUnavailableError,
    HandlerError,
    TransactionAbortedError,
    TransactionConflictError,
    TransactionEndedError,
    TransactionTimeoutError,
)
from cdc_outbox.message import Message
from cdc_outbox.testing import Stack
from tests.support.events import make_event
from tests.support.rig import Connection, run_upgrade
from tests.support.service import apply_effect

GAPLESS, NONE = SequenceMode.GAPLESS, SequenceMode.NONE


@pytest.fixture(scope="module")
def dsn(outbox_stack: Stack) -> str:
    dsn = outbox_stack.postgres.create_database("delivery")
    with psycopg.connect(dsn) as connection:
        run_upgrade(connection, inbox_component(InboxTable()))
        connection.execute("create table effects (aggregate text, sequence bigint, event_id text)")
        connection.execute("create table cards (id int primary key)")
        connection.execute(
            "create table payments (card int references cards deferrable initially deferred, event_id text)"
        )
    return dsn


@pytest.fixture(params=[False, True], ids=["transactional", "autocommit"])
def autocommit(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def new_event(mode: SequenceMode = GAPLESS) -> RecordedEvent:
    """Return the first event of a new aggregate."""
    return make_event(1 if mode is GAPLESS else None, str(uuid4()), event_id=str(uuid4()))


def deliver(
    connection: Connection, event: RecordedEvent, handler: Handler = apply_effect, mode: SequenceMode = GAPLESS
) -> Outcome:
    driver, handlers = ImmediateTransactions(Psycopg()), Handlers()
    handlers.add(["OrderPlaced"], handler, takes_batch=False)
    delivery = Delivery(
        stores=sql_stores(table=InboxTable(), consumer="shipping", driver=driver),
        driver=driver,
        calls=HandlerRunner(driver=driver, handlers=handlers),
        order_of=lambda _: Order(mode=mode),
    )
    item = Item(event=event, message=Message(topic="orders", partition=0, offset=0, key=None, value=None))
    [outcome] = finish(delivery.apply([item], connection, {})).outcomes
    return outcome


def traces(dsn: str, event: RecordedEvent) -> tuple[int, int, int]:
    """Return how many claims, watermarks and effects an event has left."""
    query = """
        select (select count(*) from inbox where event_id = '~' || %(id)s),
            (select count(*) from inbox_watermarks where aggregateid = %(aggregate)s),
            (select count(*) from effects where event_id = %(id)s)
    """
    with psycopg.connect(dsn) as connection:
        [row] = connection.execute(query, {"id": event.id, "aggregate": event.aggregate_id}).fetchall()
    return row


def after_an_error(connection: Connection) -> None:
    try:
        connection.execute("select 1 from nowhere")
    except psycopg.Error:
        connection.rollback()


def enter_and_leave(connection: Connection) -> None:
    with connection:
        pass


def end_and_begin(statement: str) -> Callable[[Connection], None]:
    def end(connection: Connection) -> None:
        connection.execute(statement.encode())
        connection.execute("select 1")

    return end


ENDINGS: dict[str, tuple[Callable[[Connection], object], type[CdcOutboxError], int]] = {
    "commit()": (psycopg.Connection.commit, HandlerError, 0),
    "rollback()": (psycopg.Connection.rollback, HandlerError, 0),
    "rollback() after an error": (after_an_error, HandlerError, 0),
    "with connection": (enter_and_leave, HandlerError, 0),
    "close()": (psycopg.Connection.close, TransactionEndedError, 0),
    "commit": (end_and_begin("commit"), TransactionEndedError, 1),
    "rollback": (end_and_begin("rollback"), TransactionEndedError, 0),
    "commit and chain": (end_and_begin("commit and chain"), TransactionEndedError, 1),
    "rollback and chain": (end_and_begin("rollback and chain"), TransactionEndedError, 0),
}
"""How a handler may end its transaction → what is raised, and how many effects it has committed by itself."""


@pytest.mark.parametrize("mode", [GAPLESS, NONE])
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_handler_that_ends_its_transaction_is_told_so_and_its_event_comes_again(
    dsn: str, ending: str, mode: SequenceMode, *, autocommit: bool
) -> None:
    end, error, committed = ENDINGS[ending]
    event = new_event(mode)

    def handler(event: RecordedEvent, connection: Connection) -> None:
        apply_effect(event, connection)
        end(connection)

    with psycopg.connect(dsn, autocommit=autocommit) as connection, pytest.raises(error):
        deliver(connection, event, handler, mode)
    assert traces(dsn, event) == (0, 0, committed)
    with psycopg.connect(dsn, autocommit=autocommit) as connection:
        assert deliver(connection, event, mode=mode) is Outcome.APPLIED
    assert traces(dsn, event) == (1, 1 if mode is GAPLESS else 0, committed + 1)


@pytest.mark.parametrize("mode", [GAPLESS, NONE])
def test_a_handler_that_commits_and_then_fails_gets_its_event_again(
    dsn: str, mode: SequenceMode, *, autocommit: bool
) -> None:
    event = new_event(mode)

    def handler(event: RecordedEvent, connection: Connection) -> None:
        apply_effect(event, connection)
        connection.execute("commit")
        connection.execute("select 1")
        raise LookupError

    with psycopg.connect(dsn, autocommit=autocommit) as connection, pytest.raises(TransactionEndedError) as caught:
        deliver(connection, event, handler, mode)
    assert event.id
    assert event.id in str(caught.value)
    assert traces(dsn, event)[:2] == (0, 0)
    with psycopg.connect(dsn) as connection:
        assert deliver(connection, event, mode=mode) is Outcome.APPLIED


@pytest.mark.parametrize(("mode", "outcome"), [(GAPLESS, Outcome.PARKED), (NONE, Outcome.DUPLICATE)])
def test_a_claim_that_is_moved_before_it_is_taken_back_stays(dsn: str, mode: SequenceMode, outcome: Outcome) -> None:
    event = new_event(mode)

    def handler(event: RecordedEvent, connection: Connection) -> None:
        apply_effect(event, connection)
        connection.execute("commit")
        with psycopg.connect(dsn) as purging:  # whatever writes the row anew
            purging.execute("update inbox set claimed_at = claimed_at where event_id = %s", (f"~{event.id}",))
        connection.execute("select 1")
        raise LookupError

    with psycopg.connect(dsn) as connection, pytest.raises(HandlerError):
        deliver(connection, event, handler, mode)
    assert traces(dsn, event) == (1, 0, 1)
    with psycopg.connect(dsn) as connection:
        assert deliver(connection, event, mode=mode) is outcome
        query = "select reason from inbox_parked where event_id = %s"
        assert connection.execute(query, (event.id,)).fetchall() == ([("conflict",)] if mode is GAPLESS else [])


def test_a_refused_commit_that_the_handler_swallows_does_no_harm(dsn: str, *, autocommit: bool) -> None:
    event = new_event()

    def handler(event: RecordedEvent, connection: Connection) -> None:
        for end in (connection.commit, connection.rollback):
            with pytest.raises(psycopg.ProgrammingError):
                end()
        apply_effect(event, connection)

    with psycopg.connect(dsn, autocommit=autocommit) as connection:
        assert deliver(connection, event, handler) is Outcome.APPLIED
        assert deliver(connection, event, handler) is Outcome.DUPLICATE
    assert traces(dsn, event) == (1, 1, 1)


def cut(dsn: str, connection: Connection) -> None:
    with psycopg.connect(dsn, autocommit=True) as other:
        other.execute("select pg_terminate_backend(%s, 5000)", (connection.info.backend_pid,))


def test_a_connection_that_is_cut_under_the_outbox_in_a_handler_is_worth_a_retry(dsn: str) -> None:
    from cdc_outbox import Event, Outbox

    def handler(_event: RecordedEvent, connection: Connection) -> None:
        cut(dsn, connection)
        Outbox().add(connection, Event(aggregate_type="order", aggregate_id="1", type="OrderSeen", payload={}))

    event = new_event(NONE)
    with psycopg.connect(dsn) as connection, pytest.raises(DatabaseUnavailableError):
        deliver(connection, event, handler, NONE)
    assert traces(dsn, event) == (0, 0, 0)


def test_a_transaction_that_idled_too_long_is_worth_a_retry(dsn: str) -> None:
    event = new_event()
    failure: DatabaseError | None = None
    early: list[Diagnostic] = []
    # An error that libpq reads together with the answer to the statement before, it takes for a notice, and what it
    # tells later is that the connection is closed. Where this process was that slow, the server waits longer.
    for milliseconds in (20, 200, 2_000, 20_000):
        early.clear()
        with psycopg.connect(dsn) as connection:
            connection.add_notice_handler(early.append)
            with pytest.raises(DatabaseError) as caught:
                deliver(connection, event, partial(idle_for_too_long, milliseconds, dsn))
        failure = caught.value
        if not early:
            break
    assert isinstance(failure, TransactionTimeoutError)
    assert failure.retryable
    assert traces(dsn, event) == (0, 0, 0)


def idle_for_too_long(milliseconds: int, dsn: str, event: RecordedEvent, connection: Connection) -> None:
    apply_effect(event, connection)
    connection.execute(f"set idle_in_transaction_session_timeout = {milliseconds}")
    with psycopg.connect(dsn, autocommit=True) as watcher:
        query = "select count(*) from pg_stat_activity where pid = %s"
        while watcher.execute(query, (connection.info.backend_pid,)).fetchall() != [(0,)]:
            pass


def test_a_claim_that_waits_too_long_for_another_is_worth_a_retry(dsn: str) -> None:
    event = new_event()
    with psycopg.connect(dsn) as zombie, psycopg.connect(dsn, options="-c lock_timeout=50ms") as connection:
        zombie.execute("insert into inbox (consumer, event_id) values ('shipping', '~' || %s)", (event.id,))
        with pytest.raises(TransactionConflictError) as caught:
            deliver(connection, event)
        assert caught.value.retryable
        zombie.rollback()
        assert deliver(connection, event) is Outcome.APPLIED


def test_a_database_that_takes_no_writes_is_waited_for(dsn: str) -> None:
    options = "-c default_transaction_read_only=on"
    with psycopg.connect(dsn, options=options) as connection, pytest.raises(DatabaseUnavailableError) as caught:
        deliver(connection, new_event())
    assert caught.value.retryable


def test_effects_that_the_commit_refuses_are_told_with_the_event(dsn: str, *, autocommit: bool) -> None:
    def handler(event: RecordedEvent, connection: Connection) -> None:
        apply_effect(event, connection)
        connection.execute("insert into payments values (4711, %s)", (event.id,))

    event = new_event()
    with psycopg.connect(dsn, autocommit=autocommit) as connection:
        with pytest.raises(ConsumerError, match=rf"{event.id}\) could not be applied: ForeignKeyViolation: ") as caught:
            deliver(connection, event, handler)
        assert "violates foreign key constraint" in str(caught.value)
        assert traces(dsn, event) == (0, 0, 0)
        assert deliver(connection, event) is Outcome.APPLIED


@pytest.mark.parametrize("level", ["SERIALIZABLE", "REPEATABLE_READ"])
def test_a_connection_whose_snapshots_are_not_renewed_is_refused_before_the_handler(dsn: str, level: str) -> None:
    handled: list[RecordedEvent] = []
    with psycopg.connect(dsn) as connection:
        connection.isolation_level = psycopg.IsolationLevel[level]
        with pytest.raises(ConfigError, match="the inbox needs READ COMMITTED"):
            deliver(connection, new_event(), lambda event, _: handled.append(event))
    assert handled == []


def test_a_handler_cannot_change_the_isolation_of_its_transaction(dsn: str) -> None:
    """PostgreSQL refuses that after the first statement, and the refusal is not overheard."""

    def handler(_event: RecordedEvent, connection: Connection) -> None:
        with suppress(psycopg.Error):
            connection.execute("set transaction isolation level serializable")

    event = new_event()
    with psycopg.connect(dsn) as connection, pytest.raises(TransactionAbortedError):
        deliver(connection, event, handler)
    assert traces(dsn, event) == (0, 0, 0)
