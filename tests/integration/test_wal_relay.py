"""The relay on PostgreSQL, with a sink in memory: restarts, odd roles, large transactions, lost slots."""

import json
import os
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from cdc_outbox.backoff import Backoff
from cdc_outbox.connect.postgresql_database import PostgresqlDatabase
from cdc_outbox.databases import replication
from cdc_outbox.databases.drivers.psycopg import Psycopg
from cdc_outbox.databases.facts import SlotFacts
from cdc_outbox.databases.lsn import Lsn
from cdc_outbox.databases.publishers import Publisher, PublisherKind, Publishers
from cdc_outbox.databases.replication import ReplicationConnection
from cdc_outbox.databases.slots import read_slots
from cdc_outbox.databases.table import OutboxTable
from cdc_outbox.errors import CdcOutboxError, DatabaseError, DatabaseUnavailableError, TransactionConflictError
from cdc_outbox.kafka import own_heartbeats
from cdc_outbox.kafka.own_heartbeats import OwnHeartbeats
from cdc_outbox.message import Message
from cdc_outbox.relay.postgresql_server import PostgresqlServer
from cdc_outbox.relay.relay import Relay
from cdc_outbox.relay.relay_errors import (
    NotThePublisherError,
    PublicationNotFoundError,
    ServerChangedError,
    SlotError,
    SlotInUseError,
    SlotLostError,
    SlotMovedError,
    SlotNotFoundError,
)
from cdc_outbox.relay.transactions import MAX_EVENTS
from cdc_outbox.relay.wal_source import WalSource
from cdc_outbox.spec import parse_spec
from cdc_outbox.telemetry import RelayState
from cdc_outbox.testing import Postgres
from cdc_outbox.testing.postgres import find_installed, make_postgres
from cdc_outbox.testing.process import ServerCommand, make_data_folder, run_to_end, unprivileged_user
from tests.support.patience import patience
from tests.support.pipeline import Pipeline
from tests.support.publishers import create_publishers, declare, publishers_of
from tests.support.relay_parts import MemoryTopic, NamedRoutes
from tests.support.relay_thread import RelayThread
from tests.support.rig import Connection, eventually, one, open_folder
from tests.support.threads import Threads

INSERT = "insert into outbox select gen_random_uuid(), 'order', '1', 'Placed', int8send(n), now() "

TABLE = OutboxTable(name="outbox")
DEBIANS = 15
"""The version that infra/setup installs beside the stack's."""
OLDER = Path(os.environ["OLDER_POSTGRESQL"]) if "OLDER_POSTGRESQL" in os.environ else None
"""A folder with further versions, which infra/postgresql fetches."""
VERSIONS = [None, DEBIANS, *sorted(int(path.name) for path in OLDER.glob("[0-9]*"))] if OLDER else [None, DEBIANS]


def free_port() -> int:
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def find_programs(version: int, folder: Path) -> Path:
    """Return the folder of a version's programs, where the server's own user may read them."""
    if OLDER is None or version == DEBIANS:
        return find_installed(version)
    return shutil.copytree(OLDER / str(version), folder / f"programs-{version}", symlinks=True) / "bin"


@pytest.fixture(scope="module")
def start_server() -> Iterator[Callable[[int | None], Postgres]]:
    """Start a server of a version that is installed, or of the stack's; the same one at each call."""
    with open_folder() as folder, ExitStack() as started:

        @cache
        def start(version: int | None) -> Postgres:
            installed = None if version is None else find_programs(version, Path(folder))
            server = make_postgres(Path(folder) / f"{version}", free_port(), installed=installed, short_lived=True)
            started.callback(server.stop)
            server.start()
            return server

        yield start


@pytest.fixture
def postgres(start_server: Callable[[int | None], Postgres], request: pytest.FixtureRequest) -> Postgres:
    return start_server(getattr(request, "param", None))


def on(versions: list[int | None]) -> pytest.MarkDecorator:
    ids = [str(version or "newest") for version in versions]
    return pytest.mark.parametrize("postgres", versions, ids=ids, indirect=True)


on_old_servers_too = on(VERSIONS)
on_servers_with_row_filters = on([version for version in VERSIONS if version != 14])


@dataclass
class Outbox:
    """A database with an outbox, its publication and its slot, which all have the database's name."""

    name: str
    dsn: str

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            yield connection

    def execute(self, *statements: str) -> None:
        with self.connect() as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def insert(self, first: int, last: int) -> None:
        self.execute(f"{INSERT} from generate_series({first}, {last}) n")

    def confirmed_since(self, lsn: str) -> bool:
        with self.connect() as connection:
            query = "select confirmed_flush_lsn >= %s::pg_lsn from pg_replication_slots where slot_name = %s"
            return bool(one(connection, query, lsn, self.name))

    def declare(self, kind: PublisherKind = PublisherKind.WAL_RELAY) -> Publisher:
        with self.connect() as connection:
            return declare(connection, TABLE, kind, self.name)

    def publisher(self) -> Publisher:
        with self.connect() as connection:
            found = publishers_of(connection, TABLE).find()
        assert found is not None
        return found

    def slot(self) -> SlotFacts:
        with self.connect() as connection:
            found = read_slots(connection, Psycopg()).find(self.name)
        assert found is not None
        return found

    def server(self, dsn: str = "") -> PostgresqlServer:
        return PostgresqlServer(dsn or self.dsn, TABLE, slot=self.name, publication=self.name, name=self.name)

    def source(self, dsn: str = "") -> WalSource:
        return WalSource(self.server(dsn), NamedRoutes(), slot=self.name, publication=self.name)


@pytest.fixture
def outbox(postgres: Postgres) -> Iterator[Outbox]:
    name = f"r{uuid4().hex[:10]}"
    made = Outbox(name, postgres.create_database(name))
    with made.connect() as connection:
        create_publishers(connection, TABLE)
    made.execute(
        "create table outbox (id uuid, aggregatetype text, aggregateid text, type text, payload bytea, "
        "created_at timestamp)",
        # So little that a server would stream a large transaction before its commit, if it were asked to.
        f"alter database {name} set logical_decoding_work_mem = '64kB'",
        f"create publication {name} for table outbox with (publish = 'insert')",
        f"select pg_create_logical_replication_slot('{name}', 'pgoutput')",
    )
    made.declare()
    yield made
    with made.connect() as connection:
        drop = "select pg_drop_replication_slot(slot_name) from pg_replication_slots where database = %s and not active"
        eventually(lambda: not connection.execute(drop, (name,)).fetchall(), "the slot to be gone")


class Running(RelayThread):
    """A relay in a thread, and what it has delivered."""

    def __init__(self, source: WalSource, topic: MemoryTopic) -> None:
        super().__init__(Relay(source, topic.open, retries=Backoff(first_seconds=0.1, longest_seconds=0.5)))
        self.topic = topic

    def numbers(self) -> list[int]:
        values = [value for value in list(self.topic.values) if value is not None]
        return [int.from_bytes(bytes.fromhex(value[2:].decode())) for value in values]

    def delivered(self, last: int) -> None:
        eventually(lambda: last in self.numbers()[-1:] or self.error, f"event {last}")
        assert self.error is None

    def failed(self, kind: type[CdcOutboxError]) -> None:
        eventually(lambda: self.error, kind.__name__)
        assert isinstance(self.error, kind)


@pytest.fixture
def topic() -> MemoryTopic:
    made = MemoryTopic()
    made.room = 1_000
    return made


@contextmanager
def running(outbox: Outbox, topic: MemoryTopic, dsn: str = "") -> Iterator[Running]:
    with Running(outbox.source(dsn), topic) as started:
        yield started


@on_old_servers_too
def test_committed_events_are_delivered_in_order_and_none_again(outbox: Outbox, topic: MemoryTopic) -> None:
    outbox.insert(1, 3)
    outbox.execute(f"begin; {INSERT} from generate_series(100, 109) n; rollback")
    with running(outbox, topic) as relay:
        relay.delivered(3)
        outbox.insert(4, 4)
        relay.delivered(4)
    with running(outbox, topic) as again:
        outbox.insert(5, 5)
        again.delivered(5)
    assert again.numbers() == [1, 2, 3, 4, 5]


def test_transactions_that_overlap_come_in_the_order_of_their_commits(outbox: Outbox, topic: MemoryTopic) -> None:
    with running(outbox, topic) as relay, psycopg.connect(outbox.dsn) as earlier:
        earlier.execute(f"{INSERT} from generate_series(1, 1) n".encode())
        outbox.insert(2, 2)
        relay.delivered(2)
        eventually(lambda: outbox.publisher().confirmed == outbox.slot().confirmed, "the second to be confirmed")
        earlier.commit()
        relay.delivered(1)
    with running(outbox, topic) as again:
        outbox.insert(3, 3)
        again.delivered(3)
    assert again.numbers() == [2, 1, 3]


def test_an_idle_relay_confirms_the_log_of_others(
    outbox: Outbox, topic: MemoryTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cdc_outbox.relay.wal_source.IDLE_SECONDS", 0.5)
    with running(outbox, topic):
        outbox.execute("create table busy as select from generate_series(1, 1000)")
        with outbox.connect() as connection:
            end = one(connection, "select pg_current_wal_lsn()")
        eventually(lambda: outbox.confirmed_since(end), "the keepalive's position")


@on_old_servers_too
def test_a_relay_goes_on_when_the_server_was_restarted(postgres: Postgres, outbox: Outbox, topic: MemoryTopic) -> None:
    with running(outbox, topic) as relay:
        outbox.insert(1, 2)
        relay.delivered(2)
        postgres.stop()
        postgres.start()
        outbox.insert(3, 4)
        relay.delivered(4)
    assert list(dict.fromkeys(relay.numbers())) == [1, 2, 3, 4]


@on_old_servers_too
def test_settings_of_the_role_change_no_byte(postgres: Postgres, outbox: Outbox) -> None:
    role = f"{outbox.name}_role"
    outbox.execute(
        f"create role {role} superuser login password 'secret'",
        f"alter role {role} set datestyle = 'German'",
        f"alter role {role} set bytea_output = 'escape'",
        f"alter role {role} set timezone = 'Asia/Tokyo'",
        "insert into outbox values (gen_random_uuid(), 'order', '1', 'Placed', '\\x0061ff', '2026-11-20 12:34:56.5')",
    )
    seen: list[Any] = []
    with closing(outbox.source(postgres.dsn(outbox.name, user=role, password="secret"))) as source:
        source.open()
        while not seen:
            unit = source.read(1)
            seen += unit.events if unit else ()
    outbox.execute(f"drop role {role}")
    assert seen[0][1] == b"\\x0061ff"
    assert seen[0][5] == [("moment", b"2026-11-20 12:34:56.5")]


@on_old_servers_too
def test_a_large_transaction_comes_in_bounded_units_and_is_confirmed_as_a_whole(
    outbox: Outbox, topic: MemoryTopic
) -> None:
    outbox.insert(1, 50_000)
    with closing(outbox.source()) as source:
        source.open()
        sizes, before = [], 0
        while before < 50_000:
            unit = source.read(1)
            if unit is None:
                continue
            sizes.append(len(unit.events))
            before += len(unit.events)
            assert unit.position is None or before in {0, 50_000}
    assert max(sizes) == MAX_EVENTS
    with running(outbox, topic) as relay:
        relay.delivered(50_000)
    assert relay.numbers() == list(range(1, 50_001))
    with running(outbox, topic) as again:
        outbox.insert(50_001, 50_001)
        again.delivered(50_001)
    assert len(again.numbers()) == 50_001


@on_old_servers_too
def test_a_second_relay_waits_and_takes_over(outbox: Outbox, topic: MemoryTopic) -> None:
    with running(outbox, topic) as first:
        outbox.insert(1, 1)
        first.delivered(1)
        with closing(outbox.source()) as other, pytest.raises(SlotInUseError):
            other.open()
        with running(outbox, topic) as second:
            first.relay.stop()
            first.ended.result()
            outbox.insert(2, 2)
            second.delivered(2)
    assert second.numbers() == [1, 2]


def test_a_look_while_another_relay_confirms_finds_no_slot_that_is_further_than_its_row(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Publishers.find

    def find(publishers: Publishers) -> Publisher | None:
        """Read the row, and have another relay confirm right after it."""
        found = read(publishers)
        outbox.insert(1, 1)
        outbox.execute(
            "update outbox_publishers set confirmed = pg_current_wal_lsn()",
            "select pg_replication_slot_advance(slot, confirmed) from outbox_publishers",
        )
        return found

    monkeypatch.setattr(Publishers, "find", find)
    with closing(outbox.server()) as server:
        facts = server.look()
    assert facts.slot is not None
    assert facts.publisher is not None
    assert facts.slot.confirmed is not None
    assert facts.publisher.confirmed is not None
    assert facts.slot.confirmed <= facts.publisher.confirmed


def test_a_pooler_that_drops_the_settings_is_named(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cdc_outbox.databases.replication.PINNED", {"DateStyle": "SQL, DMY"})
    monkeypatch.setattr("cdc_outbox.databases.drivers.psycopg_bounded.connect", dropping_options)
    with closing(outbox.source()) as source, pytest.raises(DatabaseError, match="DateStyle=ISO, MDY, not SQL, DMY"):
        source.open()


def dropping_options(dsn: str, **options: Any) -> psycopg.Connection[Any]:
    return psycopg.connect(dsn, autocommit=True, **(options | {"options": ""}))


def change_slot(outbox: Outbox, *statements: str) -> None:
    """Run statements that need a free slot, which the relay takes again between two of them."""
    end = "select pg_terminate_backend(active_pid, 10000) from pg_replication_slots where slot_name = %s"
    with outbox.connect() as connection:

        def changed() -> bool:
            connection.execute(end, (outbox.name,))
            try:
                for statement in statements:
                    connection.execute(statement.encode())
            except psycopg.errors.ObjectInUse:
                return False
            return True

        eventually(changed, "the slot to be changed")


@on_old_servers_too
def test_a_dropped_slot_is_named(outbox: Outbox, topic: MemoryTopic) -> None:
    with running(outbox, topic) as relay:
        outbox.insert(1, 1)
        relay.delivered(1)
        change_slot(outbox, f"select pg_drop_replication_slot('{outbox.name}')")
        relay.failed(SlotNotFoundError)


@on_old_servers_too
def test_a_slot_that_others_move_under_a_relay_is_named_and_not_read(outbox: Outbox, topic: MemoryTopic) -> None:
    topic.is_down = True
    with running(outbox, topic) as relay:
        outbox.insert(1, 1)
        change_slot(outbox, f"select pg_replication_slot_advance('{outbox.name}', pg_current_wal_lsn())")
        relay.failed(SlotMovedError)
    assert relay.numbers() == []


@contextmanager
def little_log(postgres: Postgres) -> Iterator[None]:
    """Let the server give up slots that need more than a megabyte of its log."""
    settings = {"max_wal_size": "'32MB'", "max_slot_wal_keep_size": "'1MB'"}
    with psycopg.connect(postgres.dsn(), autocommit=True) as connection:
        for setting, value in settings.items():
            connection.execute(f"alter system set {setting} = {value}".encode())
        connection.execute("select pg_reload_conf()")
        yield
        for setting in settings:
            connection.execute(f"alter system reset {setting}".encode())
        connection.execute("select pg_reload_conf()")


def grow_log(outbox: Outbox) -> None:
    with outbox.connect() as connection:
        for _ in range(6):
            connection.execute("select pg_logical_emit_message(false, 'grow', '')")
            connection.execute("select pg_switch_wal()")


def lose_slot(outbox: Outbox) -> None:
    grow_log(outbox)
    outbox.execute("checkpoint")


@on_old_servers_too
def test_a_slot_that_is_lost_under_a_relay_is_named(postgres: Postgres, outbox: Outbox, topic: MemoryTopic) -> None:
    topic.is_down = True
    with little_log(postgres), running(outbox, topic) as relay:
        outbox.insert(1, 1)
        eventually(lambda: outbox.slot().active, "the relay to read")
        lose_slot(outbox)
        relay.failed(SlotLostError)
    assert relay.numbers() == []


@on_old_servers_too
def test_a_slot_that_was_lost_while_no_relay_ran_is_named(postgres: Postgres, outbox: Outbox) -> None:
    with little_log(postgres):
        lose_slot(outbox)
        with closing(outbox.source()) as source, pytest.raises(SlotLostError):
            source.open()


def recreate_slot(outbox: Outbox) -> None:
    outbox.execute(
        f"select pg_drop_replication_slot('{outbox.name}')",
        f"select pg_create_logical_replication_slot('{outbox.name}', 'pgoutput')",
    )


def test_a_slot_that_is_created_again_under_a_relay_is_named_and_not_read(outbox: Outbox, topic: MemoryTopic) -> None:
    topic.is_down = True
    drop = f"select pg_drop_replication_slot('{outbox.name}')"
    create = f"select pg_create_logical_replication_slot('{outbox.name}', 'pgoutput')"
    with running(outbox, topic) as relay:
        outbox.insert(1, 1)
        change_slot(outbox, f"{drop}; {create}")
        # The relay may look between the two.
        relay.failed(SlotError)
    assert isinstance(relay.error, SlotMovedError | SlotNotFoundError)
    assert relay.numbers() == []


def test_a_slot_that_was_created_again_while_no_relay_ran_is_named_and_not_read(
    outbox: Outbox, topic: MemoryTopic
) -> None:
    with running(outbox, topic) as relay:
        outbox.insert(1, 1)
        relay.delivered(1)
    outbox.insert(2, 2)
    recreate_slot(outbox)
    before = outbox.publisher()
    with closing(outbox.source()) as source, pytest.raises(SlotMovedError):
        source.open()
    assert outbox.publisher() == before
    assert not outbox.slot().active


def test_a_slot_that_others_advanced_while_no_relay_ran_is_not_read(outbox: Outbox) -> None:
    outbox.insert(1, 1)
    outbox.execute(f"select pg_replication_slot_advance('{outbox.name}', pg_current_wal_lsn())")
    with closing(outbox.source()) as source, pytest.raises(SlotMovedError):
        source.open()


def test_a_relay_reads_no_slot_of_debezium(outbox: Outbox) -> None:
    outbox.declare(PublisherKind.DEBEZIUM)
    before = outbox.publisher()
    with closing(outbox.source()) as source, pytest.raises(NotThePublisherError, match="published by debezium"):
        source.open()
    assert outbox.publisher() == before


def test_a_relay_that_another_publisher_relieved_confirms_nothing_more(outbox: Outbox, topic: MemoryTopic) -> None:
    with running(outbox, topic) as relay:
        outbox.insert(1, 1)
        relay.delivered(1)
        outbox.declare(PublisherKind.DEBEZIUM)
        confirmed = outbox.slot().confirmed
        outbox.insert(2, 2)
        relay.failed(NotThePublisherError)
    assert outbox.slot().confirmed == confirmed


def test_each_take_over_is_an_epoch_of_its_own(outbox: Outbox) -> None:
    first = outbox.publisher()
    with closing(outbox.source()) as source:
        source.open()
        with closing(outbox.source()) as waiting, pytest.raises(SlotInUseError):
            waiting.open()
        taken = outbox.publisher()
    assert taken.epoch == first.epoch + 1
    assert taken.instance != first.instance


def test_a_promoted_server_is_read_and_a_slot_that_was_created_since_is_not(
    postgres: Postgres, outbox: Outbox, topic: MemoryTopic
) -> None:
    with running(outbox, topic) as relay:
        outbox.insert(1, 1)
        relay.delivered(1)
    promote(postgres, outbox)
    before = outbox.publisher()
    with running(outbox, topic) as relay:
        outbox.insert(2, 2)
        relay.delivered(2)
    assert outbox.publisher().log.timeline == (before.log.timeline or 0) + 1
    promote(postgres, outbox)
    recreate_slot(outbox)
    with closing(outbox.source()) as source, pytest.raises(SlotMovedError, match="confirmed up to"):
        source.open()


def promote(postgres: Postgres, outbox: Outbox) -> None:
    """Let the server begin another timeline, as a standby does that takes over."""
    with outbox.connect() as connection:
        folder = Path(one(connection, "show data_directory"))
    postgres.stop()
    (folder / "standby.signal").touch()
    postgres.start()
    outbox.execute("select pg_promote()")


@on_old_servers_too
@pytest.mark.parametrize(
    "change",
    [
        "drop publication {}",
        "alter publication {} drop table outbox",
        "alter publication {} set (publish = '')",
    ],
)
def test_a_publication_without_the_outbox_is_named(outbox: Outbox, topic: MemoryTopic, change: str) -> None:
    assert_named(outbox, topic, change)


@on_servers_with_row_filters
def test_a_publication_that_leaves_rows_out_is_named(outbox: Outbox, topic: MemoryTopic) -> None:
    assert_named(outbox, topic, "alter publication {} set table outbox where (aggregateid <> '1')")


def assert_named(outbox: Outbox, topic: MemoryTopic, change: str) -> None:
    with running(outbox, topic) as relay:
        outbox.insert(1, 1)
        relay.delivered(1)
        outbox.execute(change.format(outbox.name))
        outbox.insert(2, 2)
        relay.failed(PublicationNotFoundError)


@on_old_servers_too
def test_a_publication_that_was_missing_for_one_event_is_named(outbox: Outbox, topic: MemoryTopic) -> None:
    with running(outbox, topic) as relay:
        outbox.insert(1, 1)
        relay.delivered(1)
        with outbox.connect() as connection:
            create = f"create publication {outbox.name} for table outbox with (publish = 'insert')"
            insert = f"{INSERT} from generate_series(2, 2) n"
            connection.execute(f"drop publication {outbox.name}; commit; {insert}; commit; {create}".encode())
        outbox.insert(3, 3)
        relay.failed(PublicationNotFoundError)
    assert relay.numbers() == [1]


@on_old_servers_too
def test_a_crash_of_the_server_repeats_nothing_that_was_written_down(
    postgres: Postgres, outbox: Outbox, topic: MemoryTopic
) -> None:
    with closing(psycopg.connect(outbox.dsn)) as writer:
        writer.execute("select pg_current_xact_id()")  # while it is open, the server does not save the slot
        with running(outbox, topic) as relay:
            outbox.insert(1, 50)
            relay.delivered(50)
        before = outbox.publisher()
        postgres.kill()
        postgres.start()
    found = outbox.slot().confirmed
    assert found is not None
    assert before.confirmed is not None
    assert found < before.confirmed
    with running(outbox, topic) as again:
        outbox.insert(51, 51)
        again.delivered(51)
    assert again.numbers() == list(range(1, 52))


WRITTEN_DOWN = "select confirmed >= cast(%s as pg_lsn) from outbox_publishers"


@on_old_servers_too
def test_what_is_written_down_outlives_a_crash_whatever_the_role_says(
    postgres: Postgres, outbox: Outbox, topic: MemoryTopic
) -> None:
    role = f"{outbox.name}_role"
    outbox.execute(
        f"create role {role} superuser login password 'secret'",
        f"alter role {role} set synchronous_commit = off",
        "alter system set wal_writer_delay = '10s'",
        "select pg_reload_conf()",
    )
    with running(outbox, topic, postgres.dsn(outbox.name, user=role, password="secret")) as relay:
        outbox.insert(1, 1)
        with outbox.connect() as connection:
            end = one(connection, "select cast(pg_current_wal_lsn() as text)")
        relay.delivered(1)
        with outbox.connect() as connection:
            eventually(lambda: one(connection, WRITTEN_DOWN, end), "the position to be written down")
        postgres.kill()
    postgres.start()
    with outbox.connect() as connection:
        assert one(connection, WRITTEN_DOWN, end)
    outbox.execute(f"drop role {role}", "alter system reset wal_writer_delay", "select pg_reload_conf()")


def test_a_row_that_is_ahead_of_the_log_is_named_until_it_is_taken_over(outbox: Outbox, topic: MemoryTopic) -> None:
    outbox.execute("update outbox_publishers set confirmed = pg_current_wal_flush_lsn() + 16777216")
    before = outbox.publisher()
    outbox.insert(1, 10)
    with closing(outbox.source()) as source, pytest.raises(ServerChangedError, match="the server's log ends at"):
        source.open()
    assert outbox.publisher() == before
    outbox.declare()
    with running(outbox, topic) as relay:
        relay.delivered(10)
    assert relay.numbers() == list(range(1, 11))


def test_a_relay_whose_stream_ended_while_it_opened_claims_nothing(outbox: Outbox) -> None:
    before = outbox.publisher()
    with closing(outbox.server()) as server, closing(outbox.server()) as other, ExitStack() as streams:
        server.look()
        streams.callback(server.start(None).finish)
        outbox.execute("select pg_terminate_backend(active_pid) from pg_replication_slots where active")
        eventually(lambda: not outbox.slot().active, "the end of the stream")
        other.look()
        streams.callback(other.start(None).finish)
        with pytest.raises(DatabaseUnavailableError):
            server.claim(before, Lsn(1))
        assert outbox.publisher() == before


def test_a_server_that_is_restarted_between_look_and_stream_is_looked_at_again(
    postgres: Postgres, outbox: Outbox
) -> None:
    with closing(outbox.server()) as server:
        server.look()
        postgres.restart()
        with pytest.raises(DatabaseUnavailableError, match="restarted"):
            server.start(None)


@dataclass
class Split:
    """A standby that was promoted while its primary went on, so that both have published since."""

    old: Outbox
    new: Outbox


@pytest.fixture
def split(postgres: Postgres, outbox: Outbox, topic: MemoryTopic) -> Iterator[Split]:
    copied = f"select pg_create_logical_replication_slot('{outbox.name}', 'pgoutput', failover => true)"
    outbox.execute(f"select pg_drop_replication_slot('{outbox.name}')", copied)
    outbox.declare()
    with standby(postgres, outbox) as new:
        with running(outbox, topic) as relay, new.connect() as session:

            def is_copied() -> bool:
                # Left alone, the slot moves past where the copy begins after half a minute.
                outbox.execute("select pg_log_standby_snapshot()")
                outbox.insert(1, 1)
                query = "select count(*) from pg_replication_slots where slot_name = %s and not temporary"
                return bool(one(session, query, outbox.name))

            eventually(is_copied, "the copy of the slot")
            new.execute("select pg_promote()")
            outbox.execute("select pg_logical_emit_message(false, 'filler', repeat('x', 1000000))")
            outbox.insert(6, 10)
            relay.delivered(10)
        yield Split(outbox, new)


@contextmanager
def standby(postgres: Postgres, outbox: Outbox) -> Iterator[Outbox]:
    """Run a standby, and yield the outbox as it is there."""
    outbox.execute("select pg_create_physical_replication_slot('standby', true)")
    with open_folder() as folder:
        made = make_postgres(Path(folder) / "standby", free_port(), short_lived=True)
        data, user = made.folder / "data", unprivileged_user("PostgreSQL", "postgres")
        shutil.rmtree(data)
        make_data_folder(data, user)
        backup = [str(made.programs / "pg_basebackup"), "--dbname", outbox.dsn, "--pgdata", str(data), "--slot=standby"]
        options = ["--checkpoint=fast", "--write-recovery-conf", "--no-sync"]
        environment = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
        command = ServerCommand(arguments=[*backup, *options], environment=environment, user=user)
        run_to_end(command, made.folder, "pg_basebackup")
        with (data / "postgresql.auto.conf").open("a") as settings:
            settings.write("hot_standby_feedback = on\nsync_replication_slots = on\n")
        made.password = postgres.password
        made.start()
        try:
            yield Outbox(outbox.name, made.dsn(outbox.name))
        finally:
            made.stop()
            outbox.execute("select pg_drop_replication_slot('standby')")


def test_a_position_of_another_timeline_is_not_read_from_on_a_promoted_standby(split: Split) -> None:
    topic, new, old = MemoryTopic(), split.new, split.old.publisher()
    topic.room = 1_000
    new.insert(11, 30)
    new.execute("select pg_logical_emit_message(true, 'filler', repeat('x', 2000000))")
    with new.connect() as connection:
        row = "update outbox_publishers set confirmed = cast(%s as pg_lsn), timeline = %s"
        connection.execute(row, (str(old.confirmed), old.log.timeline))
        assert one(connection, "select pg_current_wal_flush_lsn() > confirmed from outbox_publishers")
    found = new.slot().confirmed
    with closing(new.source()) as source:
        source.open()  # and it is killed right after its claim
    claimed = new.publisher()
    assert (claimed.confirmed, claimed.log.timeline) == (found, (old.log.timeline or 0) + 1)
    with running(new, topic) as relay:
        relay.delivered(30)
    assert relay.numbers()[-20:] == list(range(11, 31))


def test_nothing_is_read_where_look_and_stream_lead_to_different_servers(
    split: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(split.new.source()) as source:
        source.open()
    before = split.new.publisher(), split.old.publisher(), split.old.slot().confirmed
    moved = partial(ReplicationConnection, split.old.dsn)
    monkeypatch.setattr("cdc_outbox.relay.postgresql_server.ReplicationConnection", lambda _, *rest: moved(*rest))
    with closing(split.new.source()) as source, pytest.raises(DatabaseUnavailableError, match="two servers"):
        source.open()
    assert (split.new.publisher(), split.old.publisher(), split.old.slot().confirmed) == before


def database_of(outbox: Outbox, connection: Connection) -> PostgresqlDatabase:
    return PostgresqlDatabase(connection, Psycopg(), parse_spec(Pipeline.text(outbox.name), name="orders.yaml"))


def await_standbys(connection: Connection, names: str) -> None:
    connection.execute(f"alter system set synchronous_standby_names = '{names}'".encode())
    connection.execute("select pg_reload_conf()")
    eventually(lambda: one(connection, "show synchronous_standby_names") == names, "the setting")


def test_a_commit_that_lies_before_a_new_slot_is_visible_once_the_slot_is_made(outbox: Outbox) -> None:
    number = "select cast(pg_current_xact_id() as text)"
    awaited = "select exists (select from pg_locks where not granted and transactionid = cast(cast(%s as xid8) as xid))"
    stuck = "select exists (select from pg_stat_activity where wait_event = 'SyncRep' and datname = current_database())"
    looked = "select exists (select from pg_stat_activity where pid = %s and query like '%%snapshot_xmin%%')"
    with outbox.connect() as admin, outbox.connect() as own, ExitStack() as opened, Threads() as threads:
        first, second, writer = (opened.enter_context(closing(psycopg.connect(outbox.dsn))) for _ in range(3))
        creator = own.info.backend_pid

        def create() -> int:
            database_of(outbox, own).create_slot(timeout_seconds=patience())
            return int(one(own, "select count(*) from outbox"))

        admin.execute("select pg_drop_replication_slot(%s)", (outbox.name,))
        earlier = one(first, number)
        created = threads.submit(create)
        eventually(lambda: one(admin, awaited, earlier), "the slot to wait for the first transaction")
        later = one(second, number)
        first.rollback()
        eventually(lambda: one(admin, awaited, later), "the slot to wait for the second transaction")
        await_standbys(admin, "away")
        try:
            writer.execute(f"{INSERT} from generate_series(1, 1) n".encode())
            committed = threads.submit(writer.commit)
            eventually(lambda: one(admin, stuck), "the commit to wait for a standby")
            second.rollback()
            eventually(lambda: created.done() or one(admin, looked, creator), "the slot")
        finally:
            await_standbys(admin, "")
        assert created.result() == 1
        committed.result()


def test_a_slot_whose_earlier_transactions_do_not_end_is_dropped(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    with outbox.connect() as own, closing(psycopg.connect(outbox.dsn)) as writer:
        database = database_of(outbox, own)
        own.execute("select pg_drop_replication_slot(%s)", (outbox.name,))
        awaits = partial(database.await_older, timeout_seconds=0)

        def await_older(**_: float) -> None:
            writer.execute("select pg_current_xact_id()")
            awaits()

        monkeypatch.setattr(database, "await_older", await_older)
        with pytest.raises(TransactionConflictError, match="has not ended") as caught:
            database.create_slot(timeout_seconds=patience())
        assert "pg_stat_activity" in (caught.value.hint or "")
        assert database.find_slot() is None


def test_a_slot_that_is_nearly_lost_is_safe_once_its_reader_has_read_the_servers_next_record(
    postgres: Postgres, outbox: Outbox, topic: MemoryTopic
) -> None:
    with little_log(postgres):
        # So much that the server makes no checkpoint by itself.
        outbox.execute("alter system set max_wal_size = '1GB'", "select pg_reload_conf()")
        outbox.insert(1, 1)
        grow_log(outbox)
        assert outbox.slot().wal_status == "unreserved"
        with running(outbox, topic) as relay:
            relay.delivered(1)
            assert "to the end of the log and for 15 s more" in relay.relay.progress().warning
            assert outbox.slot().wal_status == "unreserved"

            def is_reserved() -> bool:
                outbox.execute("select pg_log_standby_snapshot()")  # what the server does every 15 s
                outbox.insert(2, 2)
                return outbox.slot().wal_status == "reserved"

            eventually(is_reserved, "the slot to release WAL")
            outbox.execute("checkpoint")
            outbox.insert(3, 3)
            relay.delivered(3)
        assert outbox.slot().wal_status == "reserved"


@pytest.mark.parametrize("name", ["outbox", "outbox_publishers"])
def test_a_lock_is_waited_out_while_a_relay_runs(
    outbox: Outbox, topic: MemoryTopic, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cdc_outbox.relay.postgresql_server._LOOK_MILLISECONDS", 200)
    monkeypatch.setattr("cdc_outbox.relay.wal_source.LOOK_SECONDS", 0.2)
    with running(outbox, topic) as relay:
        outbox.insert(1, 1)
        relay.delivered(1)
        with outbox.connect() as connection, connection.transaction():
            connection.execute(f"lock table {name}".encode())
            eventually(lambda: "waits: " in relay.relay.progress().warning or relay.error, "the lock to be met")
        outbox.insert(2, 2)
        relay.delivered(2)
        eventually(lambda: not relay.relay.progress().warning, "the warning to end")
        eventually(lambda: outbox.publisher().confirmed == outbox.slot().confirmed, "the second to be confirmed")
    assert relay.numbers() == [1, 2]


def test_a_database_that_refuses_logins_for_a_moment_is_waited_for(
    postgres: Postgres, outbox: Outbox, topic: MemoryTopic
) -> None:
    end = "select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = %s and pid <> pg_backend_pid()"
    with running(outbox, topic) as relay, psycopg.connect(postgres.dsn(), autocommit=True) as admin:
        outbox.insert(1, 1)
        relay.delivered(1)
        admin.execute(f"alter database {outbox.name} allow_connections false".encode())
        admin.execute(end, (outbox.name,))
        eventually(lambda: relay.relay.progress().failing_since or relay.error, "a login to be refused")
        admin.execute(f"alter database {outbox.name} rename to {outbox.name}_away".encode())
        refused = relay.relay.progress().polled_at
        eventually(lambda: relay.relay.progress().polled_at != refused or relay.error, "another one to be refused")
        admin.execute(f"alter database {outbox.name}_away rename to {outbox.name}".encode())
        admin.execute(f"alter database {outbox.name} allow_connections true".encode())
        outbox.insert(2, 2)
        relay.delivered(2)


def test_a_standby_that_answers_for_a_moment_is_waited_for(
    postgres: Postgres, outbox: Outbox, topic: MemoryTopic, caplog: pytest.LogCaptureFixture
) -> None:
    with running(outbox, topic) as relay:
        outbox.insert(1, 1)
        relay.delivered(1)
        with outbox.connect() as connection:
            folder = Path(one(connection, "show data_directory"))
        postgres.stop()
        (folder / "standby.signal").touch()
        postgres.start()
        eventually(lambda: "the server is a standby" in caplog.text or relay.error, "the standby to be looked at")
        outbox.execute("select pg_promote()")
        outbox.insert(2, 2)
        relay.delivered(2)


def reads_on(outbox: Outbox, relay: Running, reader: int) -> bool:
    return outbox.slot().reader == reader and relay.relay.progress().state is RelayState.READING


ROWS = "create table other as select n from generate_series(1, {}) n"
TABLES = """\
do $$ begin for n in 1..{} loop execute 'create temp table t' || n || ' (a int) on commit drop'; end loop; end $$"""


@pytest.fixture
def with_room_for_locks(postgres: Postgres) -> Iterator[None]:
    """A server that has room for the locks of a transaction of 20,000 tables."""
    change_setting(postgres, "alter system set max_locks_per_transaction = 2000")
    yield
    change_setting(postgres, "alter system reset max_locks_per_transaction")


def change_setting(postgres: Postgres, statement: str) -> None:
    with psycopg.connect(postgres.dsn(), autocommit=True) as connection:
        connection.execute(statement.encode())
    postgres.stop()
    postgres.start()


@pytest.mark.parametrize(
    ("statement", "count"),
    [(ROWS, 100_000), (ROWS, 5_000_000), (TABLES, 200), (TABLES, 20_000)],
    ids=["rows", "5,000,000 rows", "tables", "20,000 tables"],
)
@pytest.mark.usefixtures("with_room_for_locks")
def test_a_stream_is_not_lost_while_the_server_decodes_what_is_no_row_of_it(
    outbox: Outbox, topic: MemoryTopic, statement: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cdc_outbox.relay.wal_source.QUIET_SECONDS", 1.0)
    monkeypatch.setattr("cdc_outbox.relay.wal_source.ANSWER_SECONDS", 6.0)
    monkeypatch.setattr(replication, "PINNED", {**replication.PINNED, "wal_sender_timeout": "3s"})
    outbox.execute(f"alter database {outbox.name} reset logical_decoding_work_mem")
    server = outbox.server()
    source = WalSource(server, NamedRoutes(), slot=outbox.name, publication=outbox.name, silence_seconds=6.0)
    with Running(source, topic) as relay:
        outbox.insert(1, 1)
        relay.delivered(1)
        reader = outbox.slot().reader
        with psycopg.connect(outbox.dsn) as connection:
            connection.execute(statement.format(count).encode())
        outbox.insert(2, 2)
        eventually(lambda: 2 in relay.numbers() or relay.error, "the second event", seconds=60)
        assert reads_on(outbox, relay, reader)
    assert relay.numbers() == [1, 2]


def test_a_stream_is_not_lost_while_a_synchronized_standby_is_waited_for(
    outbox: Outbox, topic: MemoryTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cdc_outbox.relay.wal_source.QUIET_SECONDS", 0.2)
    monkeypatch.setattr("cdc_outbox.relay.wal_source.ANSWER_SECONDS", 2.0)
    standby = f"{outbox.name}_standby"
    outbox.execute(
        f"select pg_drop_replication_slot('{outbox.name}')",
        f"select pg_create_logical_replication_slot('{outbox.name}', 'pgoutput', failover => true)",
        f"select pg_create_physical_replication_slot('{standby}', true)",
    )
    outbox.declare()
    server = outbox.server()
    source = WalSource(server, NamedRoutes(), slot=outbox.name, publication=outbox.name, silence_seconds=2.0)
    told: list[int] = []
    tell = ReplicationConnection.tell

    def count(stream: ReplicationConnection, confirmed: int) -> None:
        told.append(confirmed)
        tell(stream, confirmed)

    with Running(source, topic) as relay, outbox.connect() as connection:
        outbox.insert(1, 1)
        relay.delivered(1)
        reader = outbox.slot().reader
        try:
            connection.execute(f"alter system set synchronized_standby_slots = '{standby}'".encode())
            connection.execute("select pg_reload_conf()")
            eventually(lambda: one(connection, "show synchronized_standby_slots") == standby, "the setting")
            monkeypatch.setattr(ReplicationConnection, "tell", count)
            outbox.insert(2, 2)
            eventually(lambda: len(told) > 8 or relay.error, "twice the bound")
            assert relay.error is None
            assert relay.numbers() == [1]
            assert reads_on(outbox, relay, reader)
        finally:
            connection.execute("alter system reset synchronized_standby_slots")
            connection.execute("select pg_reload_conf()")
        relay.delivered(2)
        assert outbox.slot().reader == reader
    outbox.execute(f"select pg_drop_replication_slot('{standby}')")


def test_a_heartbeat_whose_session_waits_for_a_standby_is_no_other_servers(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = "(number bigint primary key, id uuid, previous uuid, written_at timestamptz, lsn pg_lsn, system text)"
    outbox.execute(f"create table outbox_heartbeats {table}")
    name = str(uuid4())
    record = {"number": 1, "previous": None, "at": "2026-11-24T00:00:00+00:00", "system": "7"}
    message = Message(
        topic="beats",
        partition=0,
        offset=0,
        key=b"",
        value=json.dumps(record).encode(),
        headers=(("id", name.encode()),),
    )
    monkeypatch.setattr(own_heartbeats, "PartitionTail", lambda *_, **__: SimpleNamespace(read=lambda: [message]))
    beats = OwnHeartbeats("beats", {"bootstrap.servers": "none"}, outbox=TABLE, pipeline=outbox.name)
    stuck = "select exists (select from pg_stat_activity where wait_event = 'SyncRep' and datname = current_database())"
    with outbox.connect() as admin, closing(psycopg.connect(outbox.dsn)) as writer, Threads() as threads:
        found = beats.find_foreign(admin, Psycopg())
        assert found is not None
        assert found.id == name
        await_standbys(admin, "away")
        try:
            writer.execute("insert into outbox_heartbeats (number, id) values (1, %s)", (name,))
            committed = threads.submit(writer.commit)
            eventually(lambda: one(admin, stuck), "the commit to wait for a standby")
            assert beats.find_foreign(admin, Psycopg()) is None
            assert "waits for a standby" in beats.warning
        finally:
            await_standbys(admin, "")
        committed.result()
        assert beats.find_foreign(admin, Psycopg()) is None
        assert beats.warning == ""
