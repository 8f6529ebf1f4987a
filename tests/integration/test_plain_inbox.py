"""The inbox for services that own their loop: claim, order and effects in the caller's own transaction."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from cdc_outbox.consumer import AsyncInbox, Inbox, InboxTable, RecordedEvent, SequenceMode, Verdict, WireContract
from cdc_outbox.consumer.inbox_tables import inbox_component
from cdc_outbox.errors import (
    CdcOutboxError,
    ConfigError,
    ConsumerError,
    DatabaseError,
    MessageError,
    NotInTransactionError,
    SequenceConflictError,
    SequenceGapError,
    TransactionEndedError,
    WatermarkMovedError,
)
from cdc_outbox.testing import Stack
from tests.support.events import make_event
from tests.support.rig import Connection, one, run_upgrade
from tests.support.service import apply_effect

CONTRACT = WireContract(
    aggregates={"order": SequenceMode.GAPLESS, "price": SequenceMode.INCREASING, "metric": SequenceMode.NONE}
)
NEXT, DUPLICATE = Verdict.NEXT, Verdict.DUPLICATE


@pytest.fixture(scope="module")
def dsn(outbox_stack: Stack) -> str:
    dsn = outbox_stack.postgres.create_database("plain_inbox")
    with psycopg.connect(dsn) as connection:
        run_upgrade(connection, inbox_component(InboxTable()))
        connection.execute("create table effects (aggregate text, sequence bigint, event_id text)")
    return dsn


@pytest.fixture
def inbox() -> Inbox:
    return Inbox(name=uuid4().hex, contract=CONTRACT)


def receive(
    dsn: str,
    inbox: Inbox,
    event: RecordedEvent,
    apply: Callable[[RecordedEvent, Connection], object] = apply_effect,
    **options: Any,
) -> Verdict:
    """Do what the docstring shows."""
    with psycopg.connect(dsn, **options) as connection:  # noqa: SIM117 - as it is shown
        with connection.transaction(), inbox.receiving(connection, event) as verdict:
            if verdict is NEXT:
                apply(event, connection)
    return verdict


def effects(dsn: str, event: RecordedEvent) -> int:
    with psycopg.connect(dsn) as connection:
        return int(one(connection, "select count(*) from effects where event_id = %s", event.id))


@pytest.mark.parametrize("autocommit", [False, True])
def test_effects_are_committed_once_and_in_order(dsn: str, inbox: Inbox, *, autocommit: bool) -> None:
    first, second = make_event(1), make_event(2)
    for event, verdict in ((first, NEXT), (first, DUPLICATE), (second, NEXT), (first, DUPLICATE), (second, DUPLICATE)):
        assert receive(dsn, inbox, event, autocommit=autocommit) is verdict
    assert (effects(dsn, first), effects(dsn, second)) == (1, 1)


@pytest.mark.parametrize(("sequence", "aggregate_type"), [(1, "order"), (None, "metric")])
def test_what_was_rolled_back_comes_again(dsn: str, inbox: Inbox, sequence: int | None, aggregate_type: str) -> None:
    event = make_event(sequence, aggregate_type=aggregate_type)

    def fail(event: RecordedEvent, connection: Connection) -> None:
        apply_effect(event, connection)
        raise LookupError

    with pytest.raises(LookupError):
        receive(dsn, inbox, event, fail)
    assert effects(dsn, event) == 0
    assert receive(dsn, inbox, event) is NEXT
    assert effects(dsn, event) == 1


@pytest.mark.parametrize(
    ("event", "error", "says"),
    [
        (make_event(3), SequenceGapError, "cannot be applied before #2"),
        (make_event(1), SequenceConflictError, "the aggregate is at 1"),
    ],
)
def test_what_may_not_be_applied_raises_and_leaves_no_claim(
    dsn: str, inbox: Inbox, event: RecordedEvent, error: type[CdcOutboxError], says: str
) -> None:
    assert receive(dsn, inbox, make_event(1)) is NEXT
    for _ in range(2):
        with pytest.raises(error, match=says):
            receive(dsn, inbox, event, nobody)


def test_a_gap_says_what_is_missing_and_is_closed_by_it(dsn: str, inbox: Inbox) -> None:
    with pytest.raises(SequenceGapError) as caught:
        receive(dsn, inbox, event := make_event(2))
    assert (caught.value.expected, caught.value.actual) == (1, 2)
    assert receive(dsn, inbox, make_event(1)) is NEXT
    assert receive(dsn, inbox, event) is NEXT


def test_a_stale_state_is_superseded_and_a_watermark_alone_tells_a_duplicate(dsn: str) -> None:
    latest = Inbox(name=uuid4().hex, contract=replace(CONTRACT, latest=("price",)))
    assert receive(dsn, latest, make_event(5, aggregate_type="price")) is NEXT
    assert receive(dsn, latest, make_event(3, aggregate_type="price")) is Verdict.SUPERSEDED
    watermark = Inbox(name=uuid4().hex, contract=replace(CONTRACT, by_watermark=("order",)))
    assert receive(dsn, watermark, make_event(1)) is NEXT
    assert receive(dsn, watermark, make_event(1)) is DUPLICATE
    with psycopg.connect(dsn) as connection:
        assert one(connection, "select count(*) from inbox where consumer = %s", watermark.name) == 0


def test_an_event_whose_claim_may_be_forgotten_is_not_applied(dsn: str, inbox: Inbox) -> None:
    event = make_event(None, aggregate_type="metric")
    with psycopg.connect(dsn) as connection:
        connection.execute(
            "insert into inbox_purges (consumer, purged_before) values (%s, now() + interval '1 minute')", (inbox.name,)
        )
    try:
        with pytest.raises(ConsumerError, match="older than the last purge"):
            receive(dsn, inbox, event)
    finally:
        with psycopg.connect(dsn) as connection:
            connection.execute("delete from inbox_purges")


def test_a_block_that_ends_its_transaction_is_told_so_and_the_event_comes_again(dsn: str, inbox: Inbox) -> None:
    event = make_event(1)

    def end(_event: RecordedEvent, connection: Connection) -> None:
        connection.execute("rollback")
        connection.execute("begin")

    with pytest.raises(TransactionEndedError):
        receive(dsn, inbox, event, end)
    assert receive(dsn, inbox, event) is NEXT


def test_a_watermark_that_another_process_moved_meanwhile_undoes_the_effects(dsn: str, inbox: Inbox) -> None:
    event = make_event(1)

    def be_late(event: RecordedEvent, connection: Connection) -> None:
        apply_effect(event, connection)
        with psycopg.connect(dsn) as other:
            other.execute(
                "insert into inbox_watermarks (consumer, source, aggregatetype, aggregateid, last) "
                "values (%s, %s, %s, %s, 1)",
                (inbox.name, event.source, event.aggregate_type, event.aggregate_id),
            )

    with pytest.raises(WatermarkMovedError):
        receive(dsn, inbox, event, be_late)
    assert effects(dsn, event) == 0


def test_an_error_that_the_block_swallows_is_not_committed(dsn: str, inbox: Inbox) -> None:
    event = make_event(1)

    def swallow(event: RecordedEvent, connection: Connection) -> None:
        apply_effect(event, connection)
        with suppress(psycopg.Error):
            connection.execute("select 1 from nowhere")

    with pytest.raises(DatabaseError, match="the transaction is aborted") as refused:
        receive(dsn, inbox, event, swallow)
    assert isinstance(refused.value.__cause__, psycopg.errors.InFailedSqlTransaction)
    assert receive(dsn, inbox, event) is NEXT


def nobody(_event: RecordedEvent, _connection: Connection) -> None:
    raise AssertionError("nobody may go on")


def test_an_older_snapshot_is_refused(dsn: str, inbox: Inbox) -> None:
    options = "-c default_transaction_isolation=repeatable\\ read"
    with pytest.raises(ConfigError, match="READ COMMITTED"):
        receive(dsn, inbox, make_event(1), nobody, options=options)


def test_outside_a_transaction_nothing_is_claimed(dsn: str, inbox: Inbox) -> None:
    event = make_event(1)
    with (
        psycopg.connect(dsn, autocommit=True) as connection,
        pytest.raises(NotInTransactionError) as caught,
        inbox.receiving(connection, event),
    ):
        nobody(event, connection)
    assert "connection.transaction()" in str(caught.value.hint)
    assert receive(dsn, inbox, event) is NEXT


def test_what_is_no_event_of_the_contract_is_refused(dsn: str, inbox: Inbox) -> None:
    with pytest.raises(MessageError):
        receive(dsn, inbox, make_event(1, aggregate_type="unknown"), nobody)


def test_the_asynchronous_twin_does_the_same(dsn: str) -> None:
    inbox = AsyncInbox(name=uuid4().hex, contract=CONTRACT)
    event = make_event(1)

    async def receive() -> list[Verdict]:
        verdicts = []
        async with await psycopg.AsyncConnection.connect(dsn) as connection:
            for fails in (True, False, False):
                with suppress(LookupError):
                    async with connection.transaction(), inbox.receiving(connection, event) as verdict:
                        if fails:
                            raise LookupError
                        verdicts.append(verdict)
            with pytest.raises(SequenceGapError):
                async with connection.transaction(), inbox.receiving(connection, make_event(3)):
                    raise AssertionError("nobody may go on")
        return verdicts

    assert asyncio.run(receive()) == [NEXT, DUPLICATE]


@pytest.mark.parametrize("name", ["", "x" * 256, "a\0"])
def test_a_name_that_can_be_no_key_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="name"):
        Inbox(name=name, contract=CONTRACT)
