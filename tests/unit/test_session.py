"""Who closes a consumer's connection, and what is said where there is none."""

import asyncio
import copy
import logging
from typing import Any

import asyncpg
import psycopg
import pytest

from cdc_outbox.consumer.fencing import NO_IDS, NO_OFFSET, OffsetMove, TopicPartition
from cdc_outbox.consumer.session import EffectsDatabase, Session
from cdc_outbox.databases.drivers.immediate import finish
from cdc_outbox.errors import (
    CdcOutboxError,
    ConfigError,
    DatabaseAccessError,
    DatabaseUnavailableError,
    OutboxError,
    PartitionLostError,
    TableNotFoundError,
)
from cdc_outbox.testing import MemoryDatabase


class Connection:
    """A connection that knows whether it was closed."""

    is_closed = False

    def close(self) -> None:
        self.is_closed = True


class Unprepared:
    """What is known of a connection that cannot be prepared."""

    def __init__(self, error: BaseException) -> None:
        self.driver = self.stores = self.delivery = None
        self._error = error

    async def prepare(self, _connection: object) -> None:
        raise self._error


@pytest.mark.parametrize(
    ("error", "is_closed"),
    [
        (DatabaseUnavailableError("it is shutting down"), True),
        (asyncio.CancelledError(), True),
        (OutboxError("the connection already has a transaction"), False),
        (ConfigError("its transactions are SERIALIZABLE"), False),
    ],
    ids=["lost", "cancelled", "shared", "refused"],
)
def test_a_connection_that_failed_is_closed_and_one_that_was_refused_is_left_to_its_owner(
    error: BaseException, *, is_closed: bool
) -> None:
    connection, known = Connection(), Unprepared(error)
    know: Any = lambda _connection: known  # noqa: E731
    with pytest.raises(type(error)):
        finish(Session(lambda: connection, know).open())
    assert connection.is_closed is is_closed


@pytest.mark.parametrize(
    "error",
    [
        ConnectionRefusedError(111, "Connect call failed"),
        TimeoutError(),
        asyncpg.ObjectNotInPrerequisiteStateError('database "orders" is not currently accepting connections'),
    ],
)
def test_a_server_that_does_not_answer_is_waited_for_whoever_tells_of_it(
    error: Exception,
) -> None:
    assert isinstance(raised_by_connect(error), DatabaseUnavailableError)


def test_a_bug_in_the_function_that_connects_is_named_in_a_sentence_without_what_it_may_quote(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    raised = raised_by_connect(KeyError("hunter2"))
    assert isinstance(raised, ConfigError)
    assert str(raised).startswith("connect() raised KeyError at test_session.py:")
    assert "hunter2" not in f"{raised} {raised.hint}"
    assert isinstance(raised.__cause__, KeyError)
    assert "--verbose" in (raised.hint or "")
    assert "hunter2" in caplog.text


def test_an_error_of_ours_leaves_as_it_is() -> None:
    assert isinstance(raised_by_connect(ConfigError("the DSN cannot be read")), ConfigError)


class Recreated:
    """A database that is dropped and created again; while it does not exist it refuses logins."""

    exists = False
    driver = stores = delivery = None

    def connect(self) -> Connection:
        if not self.exists:
            raise DatabaseAccessError('database "orders" does not exist', sqlstate="3D000")
        return Connection()

    async def prepare(self, _connection: object) -> None:
        """Nothing needs to be prepared."""


def test_a_database_that_refuses_the_first_login_is_an_error_and_a_later_login_an_outage() -> None:
    database = Recreated()
    know: Any = lambda _connection: database  # noqa: E731
    session = Session(database.connect, know)
    with pytest.raises(DatabaseAccessError):
        finish(session.open())
    database.exists = True
    finish(session.open())
    finish(session.close())
    database.exists = False
    with pytest.raises(DatabaseUnavailableError, match="does not exist") as caught:
        finish(session.open())
    assert (caught.value.retryable, caught.value.sqlstate) == (True, "3D000")
    database.exists = True
    finish(session.open())


def raised_by_connect(error: Exception) -> CdcOutboxError:
    def connect() -> None:
        raise error

    know: Any = MemoryDatabase
    with pytest.raises(CdcOutboxError) as caught:
        finish(Session(connect, know).open())
    return caught.value


class Pooled(MemoryDatabase):
    """A database behind a pooler, which keeps the connections of its clients while the server is another one."""

    delivery: Any = None

    def __init__(self) -> None:
        super().__init__()
        self.driver = self

    async def prepare(self, _connection: object, *, idle_seconds: float = 0) -> None:
        """Nothing needs to be prepared."""


def test_lost_commits_are_noticed_on_a_connection_that_a_pooler_kept() -> None:
    database, quiet, now = Pooled(), TopicPartition("orders", 0), [0.0]
    know: Any = lambda _connection: database  # noqa: E731
    session = Session(Connection, know, clock=lambda: now[0])
    held = {quiet: finish(session.issue([quiet]))[quiet].epoch}
    backup = copy.deepcopy(database.committed)
    finish(database.begin(None))
    finish(database.store_offsets(None, held, {quiet: OffsetMove(NO_OFFSET, 7)}))
    finish(database.commit(None))
    assert finish(session.compare(held, {quiet: 7}))
    database.committed = database.now = backup
    now[0] = 29
    assert not finish(session.compare(held, {quiet: 7}))
    now[0] = 30
    with pytest.raises(PartitionLostError) as caught:
        finish(session.compare(held, {quiet: 7}))
    assert caught.value.partitions == (quiet,)


@pytest.mark.parametrize("kind", [psycopg.errors.UndefinedTable, TableNotFoundError])
def test_a_database_without_an_inbox_is_told_with_the_command_that_makes_one(kind: type[Exception]) -> None:
    class Empty(Pooled):
        async def issue(self, connection: Any, places: Any, topic_ids: Any = NO_IDS) -> Any:
            raise kind('relation "public.inbox_epochs" does not exist')

    know: Any = lambda _connection: Empty()  # noqa: E731
    with pytest.raises(TableNotFoundError, match="inbox_epochs") as caught:
        finish(Session(Connection, know).issue([TopicPartition("orders", 0)]))
    assert caught.value.hint.startswith("Create the inbox with `cdc-outbox init --inbox --dsn …`")
    assert "`cdc-outbox init`" not in "".join(caught.value.__notes__)


def test_a_connection_in_the_place_of_a_function_that_opens_one_is_refused() -> None:
    connection: Any = Connection()
    with pytest.raises(ConfigError, match="a function that opens a connection, not Connection") as caught:
        EffectsDatabase(connect=connection)
    assert caught.value.field == "EffectsDatabase.connect"
