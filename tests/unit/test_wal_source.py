"""What a source confirms, and when it refuses to read."""

import logging
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from cdc_outbox.databases.heartbeats import Heartbeat
from cdc_outbox.databases.lsn import Lsn
from cdc_outbox.databases.pgoutput import keepalive_frame
from cdc_outbox.databases.publishers import LogIdentity, PublisherKind
from cdc_outbox.databases.replication import PINNED
from cdc_outbox.errors import (
    CdcOutboxError,
    DatabaseAccessError,
    DatabaseError,
    DatabaseUnavailableError,
    TransactionConflictError,
)
from cdc_outbox.relay import wal_source
from cdc_outbox.relay.relay_errors import (
    NotThePublisherError,
    PublicationNotFoundError,
    ServerChangedError,
    SlotInUseError,
    SlotLostError,
    SlotMovedError,
    SlotNotFoundError,
)
from cdc_outbox.relay.transactions import MAX_EVENTS
from cdc_outbox.relay.units import Unit
from cdc_outbox.relay.wal_source import (
    ANSWER_SECONDS,
    IDLE_SECONDS,
    LATE_SECONDS,
    LOOK_SECONDS,
    QUIET_SECONDS,
    SILENCE_SECONDS,
    StreamFacts,
    WalSource,
)
from tests.support.relay_parts import (
    LOG,
    HeldExecutor,
    ImmediateExecutor,
    MemoryServer,
    NamedRoutes,
    publisher,
    slot_at,
)


@pytest.fixture
def server() -> MemoryServer:
    made = MemoryServer()
    made.keepalives = False
    return made


@pytest.fixture
def source(server: MemoryServer) -> WalSource:
    return source_of(server, ImmediateExecutor)


def source_of(server: MemoryServer, make_executor: Callable[[], Executor]) -> WalSource:
    return WalSource(
        server, NamedRoutes(), slot="slot", publication="pub", clock=lambda: 0.0, make_executor=make_executor
    )


def read(source: WalSource) -> Unit[int]:
    unit = source.read(0)
    assert unit is not None
    return unit


def deliver(unit: Unit[int]) -> None:
    for _ in unit.events:
        unit.delivered()


def test_a_read_that_ends_with_a_full_unit_leaves_more(server: MemoryServer, source: WalSource) -> None:
    server.write(*[b"1"] * (MAX_EVENTS + 1))
    source.open()
    assert len(read(source).events) == MAX_EVENTS
    assert source.has_more
    assert len(read(source).events) == 1
    assert not source.has_more


def test_what_was_received_is_confirmed_once_it_is_delivered(server: MemoryServer, source: WalSource) -> None:
    server.write(b"1", b"2")
    source.open()
    unit = read(source)
    assert source.settle(2) is True
    unit.delivered()
    assert source.settle(4) is True
    assert server.confirmed == 1
    unit.delivered()
    assert source.settle(4.5) is False
    assert server.confirmed == 100


def test_a_keepalive_behind_events_under_way_confirms_nothing(server: MemoryServer, source: WalSource) -> None:
    server.write(b"1")
    source.open()
    unit = read(source)
    server.streams[0]._frames = [keepalive_frame(900)]
    assert read(source).position == 900
    source.settle(2)
    assert server.confirmed == 1
    deliver(unit)
    source.settle(4)
    assert server.confirmed == 900


def test_the_server_hears_of_the_relay_while_nothing_is_delivered(server: MemoryServer, source: WalSource) -> None:
    server.write(b"1")
    source.open()
    read(source)
    for tenths in range(1, 201):
        source.settle(tenths / 10)
    assert len(server.told) >= 20 / QUIET_SECONDS
    assert set(server.told) == {1}


def test_a_keepalive_that_asks_is_answered_at_once(server: MemoryServer, source: WalSource) -> None:
    source.open()
    server.streams[0]._frames = [keepalive_frame(1, wants_reply=True)]
    source.read(0)
    source.settle(0)
    assert server.told == [1]


def test_reports_of_units_that_were_read_before_the_source_was_opened_again_confirm_nothing(
    server: MemoryServer, source: WalSource
) -> None:
    server.write(b"1")
    source.open()
    earlier = read(source)
    source.close()
    source.open()
    read(source)
    deliver(earlier)
    assert source.settle(4) is True
    assert server.confirmed == 1


def test_the_last_status_update_comes_when_the_source_is_closed(server: MemoryServer, source: WalSource) -> None:
    server.write(b"1")
    server.write(b"2")
    source.open()
    unit = read(source)
    deliver(unit)
    source.close()
    assert server.confirmed == 200
    assert not server.is_read


FOREIGN = Heartbeat(number=3, id="c3", previous="a2", at=datetime(2026, 11, 24, tzinfo=UTC))


def with_slot(facts: StreamFacts, **options: object) -> StreamFacts:
    return replace(facts, slot=slot_at(1, **options))


CHANGES = [
    (lambda facts: replace(facts, slot=None), SlotNotFoundError),
    (lambda facts: with_slot(facts, wal_status="lost"), SlotLostError),
    (lambda facts: with_slot(facts, invalidation="idle_timeout"), SlotLostError),
    (lambda facts: replace(facts, publishes=False), PublicationNotFoundError),
    (lambda facts: replace(facts, log=LogIdentity("8", 3)), ServerChangedError),
    (lambda facts: replace(facts, publisher=None), NotThePublisherError),
    (lambda facts: replace(facts, publisher=publisher(kind=PublisherKind.DEBEZIUM)), NotThePublisherError),
    (lambda facts: replace(facts, slot=slot_at(101)), SlotMovedError),
    (lambda facts: replace(facts, foreign=FOREIGN), NotThePublisherError),
]


@pytest.mark.parametrize(("change", "kind"), CHANGES, ids=lambda each: getattr(each, "__name__", ""))
def test_a_change_is_named_within_seconds_and_again_when_the_source_is_opened(
    server: MemoryServer, source: WalSource, change: object, kind: type[CdcOutboxError]
) -> None:
    assert callable(change)
    server.write(b"1")
    source.open()
    deliver(read(source))
    source.settle(2)
    before = server.facts
    server.facts = change(before)
    with pytest.raises(kind) as caught:
        source.settle(LOOK_SECONDS)
    assert not caught.value.retryable
    assert caught.value.hint
    source._stream = None
    with pytest.raises(kind):
        source.open()
    server.facts = before
    server.is_read = False
    source.open()


def test_a_slot_that_a_crashed_server_has_put_back_is_read_from_the_position_that_was_written_down(
    server: MemoryServer, source: WalSource
) -> None:
    server.write(b"1")
    source.open()
    deliver(read(source))
    source.close()
    assert server.confirmed == 100
    server.facts = replace(server.facts, slot=slot_at(1), flushed=Lsn(100))
    server.write(b"2")
    source.open()
    assert server.facts.publisher == publisher(epoch=3, confirmed=Lsn(100))
    unit = read(source)
    assert [value for _, value, *_ in unit.events] == [b"2"]
    source.settle(QUIET_SECONDS)
    deliver(unit)
    source.settle(2 * QUIET_SECONDS)
    assert server.told[-2:] == [100, 200]


def test_a_position_behind_the_end_of_the_log_is_not_read_from(server: MemoryServer, source: WalSource) -> None:
    before = publisher(confirmed=Lsn(100))
    server.facts = replace(server.facts, publisher=before, flushed=Lsn(99))
    with pytest.raises(ServerChangedError, match="ends at 0/63, and relays confirmed up to 0/64") as caught:
        source.open()
    assert "--take-over" in (caught.value.hint or "")
    assert (server.streams, server.facts.publisher) == ([], before)


def test_a_position_of_another_timeline_is_neither_read_from_nor_claimed(
    server: MemoryServer, source: WalSource
) -> None:
    other = publisher(log=LogIdentity("7", 2), confirmed=Lsn(250))
    server.facts = replace(server.facts, publisher=other, slot=slot_at(2))
    for number in range(4):
        server.write(b"%d" % number)
    for epoch in (2, 3):  # the second one begins with what the first one claimed
        source.open()
        assert server.facts.publisher == publisher(epoch=epoch, confirmed=Lsn(2), log=LOG)
        assert [event[1] for event in read(source).events] == [b"0", b"1", b"2", b"3"]
        source.close()


def test_a_slot_in_use_may_be_free_later(server: MemoryServer, source: WalSource) -> None:
    server.is_read = True
    with pytest.raises(SlotInUseError) as caught:
        source.open()
    assert caught.value.retryable
    source.close()


def test_a_position_is_written_down_before_the_slot_confirms_it(server: MemoryServer, source: WalSource) -> None:
    server.write(b"1")
    source.open()
    deliver(read(source))
    source.settle(2)
    assert (server.noted, server.confirmed) == ([100], 100)


def test_while_a_position_is_written_down_events_are_read_and_the_server_hears_of_the_relay(
    server: MemoryServer,
) -> None:
    executor = HeldExecutor()
    source = source_of(server, lambda: executor)
    server.write(b"1")
    source.open()
    executor.holds = True
    deliver(read(source))
    assert source.settle(2) is False
    server.write(b"2")
    deliver(read(source))
    source.settle(2 + QUIET_SECONDS)
    assert (server.noted, server.told) == ([], [1])
    executor.run()
    assert source.settle(3 + QUIET_SECONDS) is False  # the next one is due
    assert (server.noted, server.told) == ([100], [1, 100])
    executor.run()
    assert source.settle(3 + QUIET_SECONDS) is False  # a look is due
    executor.run()
    assert source.settle(3 + QUIET_SECONDS) is False
    assert (server.noted, server.told) == ([100, 200], [1, 100, 200])


def test_nothing_more_is_read_while_a_position_waits_to_be_written_down(server: MemoryServer) -> None:
    executor = HeldExecutor()
    source = source_of(server, lambda: executor)
    server.write(b"1")
    source.open()
    executor.holds = True
    deliver(read(source))
    source.settle(2)
    source.settle(2 + LATE_SECONDS)
    server.write(b"2")
    assert source.read(0) is None
    executor.run()
    source.settle(2 + LATE_SECONDS)
    assert [event[1] for event in read(source).events] == [b"2"]


def test_frames_are_not_waited_for_while_the_second_threads_result_is_due(server: MemoryServer) -> None:
    executor = HeldExecutor()
    source = source_of(server, lambda: executor)
    server.write(b"1")
    source.open()
    executor.holds = True
    deliver(read(source))
    source.settle(2)
    assert source.read(30) is None
    executor.run()
    source.settle(2)
    assert source.read(30) is None
    assert source.read(0) is None
    assert server.waits[-2:] == [0.01, 30]


def test_the_log_of_others_is_confirmed_once_a_minute(server: MemoryServer, source: WalSource) -> None:
    source.open()
    for second in range(1, int(3 * IDLE_SECONDS) + 1):
        server.streams[0]._frames = [keepalive_frame(second + 10)]
        read(source)
        source.settle(second)
    assert server.noted == [70, 130, 190]


def test_events_of_which_the_commit_comes_late_are_confirmed_at_once(server: MemoryServer, source: WalSource) -> None:
    server.write(b"1")
    source.open()
    *begun, commit = server.log.pop()[1]
    server.streams[0]._frames = [keepalive_frame(50), *begun]
    deliver(read(source))
    source.settle(2)
    assert server.confirmed == 50
    server.streams[0]._frames = [commit]
    read(source)
    source.settle(4)
    assert server.confirmed == 100


def test_a_relay_takes_the_next_epoch_once_it_reads_the_slot(server: MemoryServer, source: WalSource) -> None:
    server.is_read = True
    with pytest.raises(SlotInUseError):
        source.open()
    assert server.facts.publisher == publisher()
    server.is_read = False
    source.open()
    assert server.facts.publisher == publisher(epoch=2)


def test_a_copy_of_the_server_that_publishes_is_neither_claimed_nor_confirmed(
    server: MemoryServer, source: WalSource
) -> None:
    server.write(b"1")
    looks = iter([server.facts, replace(server.facts, foreign=FOREIGN)])
    server.look = lambda: next(looks)  # type: ignore[method-assign]
    with pytest.raises(NotThePublisherError, match="heartbeat 3 of 2026-11-24 00:00:00"):
        source.open()
    source.close()
    assert server.facts.publisher == publisher()
    assert server.told == []


def test_units_of_an_old_epoch_are_not_confirmed(server: MemoryServer, source: WalSource) -> None:
    server.write(b"1")
    source.open()
    deliver(read(source))
    server.facts = replace(server.facts, publisher=publisher(epoch=3))
    with pytest.raises(NotThePublisherError):
        source.settle(2)
    source.close()
    assert server.noted == []
    assert server.confirmed == 1


def test_whom_another_relay_precedes_reads_nothing(server: MemoryServer, source: WalSource) -> None:
    look = server.look

    def look_late() -> StreamFacts:
        facts = look()
        assert facts.publisher is not None
        server.facts = replace(facts, publisher=replace(facts.publisher, epoch=facts.publisher.epoch + 1))
        return facts

    server.look = look_late  # type: ignore[method-assign]
    with pytest.raises(NotThePublisherError):
        source.open()
    source.close()
    assert not server.is_read


def test_a_slot_that_was_read_by_others_between_two_starts_is_not_read(server: MemoryServer, source: WalSource) -> None:
    server.facts = replace(server.facts, slot=slot_at(2))
    with pytest.raises(SlotMovedError) as caught:
        source.open()
    assert (caught.value.expected, caught.value.found) == (Lsn(1), Lsn(2))
    assert server.streams == []


@pytest.mark.parametrize(("position", "is_read"), [(2, True), (50, True), (51, False)])
def test_after_a_promotion_the_slot_is_compared_with_the_end_of_its_timeline(
    server: MemoryServer, source: WalSource, position: int, *, is_read: bool
) -> None:
    server.facts = replace(server.facts, publisher=publisher(log=LogIdentity("7", 2)), slot=slot_at(position))
    if is_read:
        source.open()
        assert server.facts.publisher == publisher(epoch=2, confirmed=Lsn(position), log=LOG)
    else:
        with pytest.raises(SlotMovedError):
            source.open()


def test_a_server_of_another_history_is_not_read(server: MemoryServer, source: WalSource) -> None:
    server.facts = replace(server.facts, publisher=publisher(log=LogIdentity("7", 4)))
    with pytest.raises(ServerChangedError):
        source.open()
    source.close()
    assert server.told == []


def test_a_standby_that_answers_for_a_moment_is_an_outage_unless_it_is_the_first_that_answers(
    server: MemoryServer, source: WalSource
) -> None:
    primary = server.facts
    server.facts = standby = replace(primary, log=LogIdentity("7", None))
    with pytest.raises(ServerChangedError):
        source.open()
    server.facts = primary
    source.open()
    server.facts = replace(server.facts, log=standby.log)
    with pytest.raises(DatabaseUnavailableError, match="standby"):
        source.settle(LOOK_SECONDS)
    source.close()
    with pytest.raises(DatabaseUnavailableError, match="standby"):
        source.open()


def test_a_login_that_is_refused_after_one_that_was_accepted_is_an_outage(
    server: MemoryServer, source: WalSource
) -> None:
    accepting, server.look = server.look, refusing(DatabaseAccessError("no"))  # type: ignore[method-assign]
    with pytest.raises(DatabaseAccessError):
        source.open()
    server.look = accepting  # type: ignore[method-assign]
    source.open()
    source.close()
    server.look = refusing(DatabaseAccessError("no"))  # type: ignore[method-assign]
    with pytest.raises(DatabaseUnavailableError):
        source.open()
    server.look = refusing(DatabaseAccessError("a privilege", sqlstate="42501"))  # type: ignore[method-assign]
    with pytest.raises(DatabaseAccessError):
        source.open()


def refusing(error: Exception) -> Callable[..., Any]:
    def refuse(*_: object) -> None:
        raise error

    return refuse


@pytest.mark.parametrize("code", ["40P01", "55P03", "57014"])
@pytest.mark.parametrize("kind", ["look", "confirm"])
def test_a_lock_is_waited_out_with_a_line_in_the_log(
    server: MemoryServer, source: WalSource, code: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, wal_source.__name__)
    source.open()
    server.write(b"1")
    deliver(read(source))
    locked = DatabaseError if code == "57014" else TransactionConflictError
    free = getattr(server, kind)
    setattr(server, kind, refusing(locked("locked", sqlstate=code)))
    for second in range(1, 30):
        source.settle(second)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "waits: locked" in caplog.text
    assert "waits: locked" in source.warning
    assert server.confirmed == (100 if kind == "look" else 1)
    setattr(server, kind, free)
    for second in range(30, 40):
        source.settle(second)
    assert (source.warning, server.confirmed) == ("", 100)


def test_nothing_more_is_read_while_a_lock_keeps_a_position_from_being_written_down(
    server: MemoryServer, source: WalSource
) -> None:
    source.open()
    server.write(b"1")
    deliver(read(source))
    confirm, server.confirm = server.confirm, refusing(TransactionConflictError("locked"))  # type: ignore[method-assign]
    server.write(b"2")
    for second in range(1, 10):
        source.settle(second)
    assert source.read(0) is None
    server.confirm = confirm  # type: ignore[method-assign]
    source.settle(10)
    source.settle(11)
    assert [event[1] for event in read(source).events] == [b"2"]


def test_a_lock_when_the_source_is_opened_is_waited_out(server: MemoryServer, source: WalSource) -> None:
    server.claim = refusing(DatabaseError("canceling statement", sqlstate="57014"))  # type: ignore[method-assign]
    with pytest.raises(TransactionConflictError):
        source.open()


class Moving:
    """Monotonic seconds of the test."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def moving_source(server: MemoryServer, silence_seconds: float = 30.0) -> tuple[WalSource, Moving, HeldExecutor]:
    clock, executor = Moving(), HeldExecutor()
    source = WalSource(
        server,
        NamedRoutes(),
        slot="slot",
        publication="pub",
        silence_seconds=silence_seconds,
        clock=clock,
        make_executor=lambda: executor,
    )
    return source, clock, executor


def run_until(source: WalSource, clock: Moving, end: float) -> None:
    """Read and settle as the relay's loop does."""
    while clock.now < end:
        clock.now += 0.5
        source.read(0)
        source.settle(clock.now)


@pytest.mark.parametrize(("silence_seconds", "bound"), [(5.0, 30.0), (30.0, 30.0), (60.0, 60.0)])
def test_a_stream_that_answers_no_status_update_is_lost_in_time(
    server: MemoryServer, silence_seconds: float, bound: float
) -> None:
    source, clock, _ = moving_source(server, silence_seconds)
    source.open()
    run_until(source, clock, 100)
    server.answers = False
    with pytest.raises(DatabaseUnavailableError, match="stream has not been answered"):
        run_until(source, clock, 300)
    assert bound <= clock.now - 100 <= bound + QUIET_SECONDS + 1
    assert source.silent["stream"] == pytest.approx(clock.now - bound, abs=1)


def test_a_stream_without_rows_that_answers_is_never_lost(server: MemoryServer) -> None:
    source, clock, _ = moving_source(server)
    source.open()
    run_until(source, clock, 1_000)
    source.read(0)
    assert source.silent == {"stream": None, "database": None}


def test_answers_that_came_while_nothing_was_read_count(server: MemoryServer) -> None:
    source, clock, _ = moving_source(server)
    source.open()
    run_until(source, clock, 10)
    server.streams[0]._frames.append(keepalive_frame(500))
    read(source)
    for clock.now in range(11, 300):  # the sink is full
        source.settle(clock.now)
        assert source.silent["stream"] is None
    run_until(source, clock, 310)


def test_the_bound_of_a_stream_is_twice_the_time_limit_of_its_session() -> None:
    assert PINNED["wal_sender_timeout"] == f"{ANSWER_SECONDS / 2:g}s"


def test_a_stream_whose_slot_another_process_reads_is_lost(server: MemoryServer, source: WalSource) -> None:
    source.open()
    server.facts = with_slot(server.facts, reader=7)
    with pytest.raises(DatabaseUnavailableError, match="process 7 reads the slot"):
        source.settle(LOOK_SECONDS)


def test_a_look_that_is_not_answered_is_lost_in_time_and_its_thread_closes_what_it_uses(server: MemoryServer) -> None:
    closed = []
    server.close = lambda: closed.append("old")  # type: ignore[method-assign]
    source, clock, executor = moving_source(server)
    source.open()
    executor.holds = True
    with pytest.raises(DatabaseUnavailableError, match="database has not answered for 30 s"):
        run_until(source, clock, 100)
    assert source.silent["database"] == clock.now - 30
    source.close()
    assert closed == []
    executor.run()
    assert closed == ["old"]
    executor.holds = False
    source.open()
    assert source.silent["database"] is None


def test_a_source_that_opens_is_given_up_when_the_relay_is_stopped(server: MemoryServer) -> None:
    executor = HeldExecutor()
    executor.holds = True
    source = WalSource(server, NamedRoutes(), slot="slot", publication="pub", make_executor=lambda: executor)
    began = time.monotonic()
    with pytest.raises(DatabaseUnavailableError):
        source.open(lambda: True)
    source.close()
    assert time.monotonic() - began < SILENCE_SECONDS
