"""What a caller of the writer meets where the database refuses. Not collected itself: see ``test_writer_*.py``."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from cdc_outbox import (
    CdcOutboxError,
    DatabaseError,
    DuplicateEventError,
    Event,
    OutboxTable,
    TableNotFoundError,
    TransactionConflictError,
)
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.event import new_event_id
from tests.support.writer_clients import ORDER, Client, Store

SECRET = "4711-0815"
WAIT_BRIEFLY = {
    Dialect.POSTGRESQL: "set lock_timeout = '50ms'",
    Dialect.MYSQL: "set innodb_lock_wait_timeout = 1",
    Dialect.SQLITE: "pragma busy_timeout = 0",
}
TIME_OUT = {
    Dialect.POSTGRESQL: "set statement_timeout = '50ms'",
    Dialect.MYSQL: "set max_statement_time = 0.05",
}
REFUSE_CANCELED_ORDERS = {
    Dialect.POSTGRESQL: "alter table strict add constraint no_canceled check (type <> 'OrderCanceled')",
    Dialect.MYSQL: "alter table strict add constraint no_canceled check (type <> 'OrderCanceled')",
    Dialect.SQLITE: "create trigger if not exists no_canceled before insert on strict when new.type = 'OrderCanceled' "
    f"begin select raise(abort, 'refused: {SECRET}'); end",
}


def refusal(write: Callable[[], object], kind: type[CdcOutboxError]) -> CdcOutboxError:
    """Return what a write raises: an error of exactly this kind, with the driver's own as its cause."""
    with pytest.raises(CdcOutboxError) as caught:
        write()
    error = caught.value
    assert type(error) is kind, repr(error)
    assert error.hint
    assert error.__cause__ is not None
    assert not isinstance(error.__cause__, CdcOutboxError)
    return error


def raised_by(write: Callable[[], object]) -> Exception | None:
    try:
        write()
    except Exception as error:  # noqa: BLE001 - which it is, the test looks at
        return error
    return None


class WriterErrorsContract(ABC):
    """Whatever a driver raises is our error; the transaction stays the caller's to end."""

    @abstractmethod
    def open(self, store: Any, *, autocommit: bool = False) -> Client: ...

    @pytest.fixture(params=["add", "add_all"])
    def write(self, request: pytest.FixtureRequest, client: Client) -> Callable[..., object]:
        def write(event: Event = ORDER, **options: Any) -> object:
            return client.add(event, **options) if request.param == "add" else client.add_all([event], **options)

        return write

    def test_a_table_that_is_missing(self, client: Client, write: Callable[..., object]) -> None:
        error = refusal(lambda: write(table=OutboxTable(name="nowhere")), TableNotFoundError)
        assert "nowhere" in str(error)
        assert "cdc-outbox init" in error.hint
        assert not error.retryable
        client.rollback()
        assert client.add().sequence == 1

    def test_an_id_that_was_written_before(self, client: Client, write: Callable[..., object], store: Store) -> None:
        event = replace(ORDER, id=new_event_id())
        client.add(event)
        client.commit()
        error = refusal(lambda: write(event), DuplicateEventError)
        assert str(error) == f"an event with the id {event.id} is already in the outbox"
        assert not error.retryable
        client.rollback()
        assert store.numbers() == [("42", 1)]

    def test_what_another_unique_column_refuses_is_not_in_the_outbox(
        self, client: Client, write: Callable[..., object], store: Store
    ) -> None:
        table = OutboxTable(name="once")
        store.make_tables(table)
        store.query("create unique index if not exists once_each on once (aggregateid)")
        event = replace(ORDER, aggregate_id=new_event_id())
        client.add(event, table=table)
        client.commit()
        error = refusal(lambda: write(event, table=table), DatabaseError)
        assert not error.retryable
        client.rollback()

    def test_what_the_database_does_not_take(self, client: Client, write: Callable[..., object], store: Store) -> None:
        table = OutboxTable(name="strict")
        store.make_tables(table)
        if store.dialect is not Dialect.SQLITE:
            store.query("alter table strict drop constraint if exists no_canceled")
        store.query(REFUSE_CANCELED_ORDERS[store.dialect])
        canceled = replace(ORDER, type="OrderCanceled", aggregate_id=SECRET, payload={"card": SECRET})
        error = refusal(lambda: write(canceled, table=table), DatabaseError)
        assert not error.retryable
        assert "a constraint does not allow the row" in str(error)
        assert SECRET not in str(error) + error.hint
        client.rollback()
        assert client.add().sequence == 1

    def test_a_lock_that_is_not_to_be_had(self, client: Client, store: Store) -> None:
        with closing(self.open(store)) as other:
            client.execute(WAIT_BRIEFLY[store.dialect])
            other.add()
            error = refusal(client.add, TransactionConflictError)
            assert error.retryable
            other.commit()
            client.rollback()
        assert client.add().sequence == 2
        client.commit()
        assert store.numbers() == [("42", 1), ("42", 2)]

    def test_a_statement_that_takes_too_long(self, client: Client, store: Store) -> None:
        if store.dialect not in TIME_OUT:  # nothing there ends a statement
            return
        with closing(self.open(store)) as other:
            client.execute(TIME_OUT[store.dialect])
            other.add()
            assert refusal(client.add, TransactionConflictError).retryable
            client.rollback()

    def test_a_transaction_that_is_aborted(self, client: Client, store: Store) -> None:
        if store.dialect is not Dialect.POSTGRESQL:  # others undo the statement alone
            return
        refusal(lambda: client.add(table=OutboxTable(name="nowhere")), TableNotFoundError)
        error = refusal(client.add, DatabaseError)
        assert "the transaction is aborted" in str(error)
        assert not error.retryable
        client.rollback()
        assert client.add().sequence == 1

    def test_a_connection_that_was_closed(self, client: Client) -> None:
        client.execute("select 1")
        client.disconnect()
        error = raised_by(client.add)
        if error is not None:  # a session or a framework opens another connection
            assert isinstance(error, DatabaseError)
            assert error.hint
