"""A failing event is parked with what depends on it, tried again, and given up in the end; others go on."""

import logging
from dataclasses import replace
from typing import Any

import pytest

from cdc_outbox.consumer import Consumer, Event, Limits, Outcome, Retry
from cdc_outbox.event import new_event_id
from tests.support.desk import HASTY, PATIENT, Desk, numbered, placed
from tests.support.rig import Connection, apply_effect, eventually, one


class Flaky:
    """A handler that fails until it is mended."""

    def __init__(self) -> None:
        self.is_mended = False
        self.tried: list[str | None] = []

    def __call__(self, event: Event, connection: Connection) -> None:
        self.tried.append(event.id)
        apply_effect(event, connection)
        if not self.is_mended:
            raise LookupError("hunter2")


def flaky(desk: Desk, handler: Flaky, **options: Any) -> Consumer:
    consumer = desk.consumer(**({"retry": PATIENT} | options))
    consumer.on("Poison")(handler)
    return consumer


def events_of(aggregate_type: str, *kinds: str) -> list[Event]:
    """Return events of one aggregate, numbered as their type is."""
    numbers: dict[str, list[int | None]] = {"order": [1, 2, 3, 4], "invoice": [2, 5, 9, 14], "metric": [None] * 4}
    return [
        placed(number, "a", kind, aggregate_type) for number, kind in zip(numbers[aggregate_type], kinds, strict=True)
    ]


BEHIND = {"order": "gap", "invoice": "behind", "metric": "behind"}
"""Why the successors of a failed event wait, by how they are numbered."""


@pytest.mark.parametrize("aggregate_type", BEHIND)
@pytest.mark.parametrize("restarts", [False, True], ids=["in one run", "across a restart"])
def test_the_successors_of_a_failed_event_wait_behind_it_and_follow_it_in_order(
    desk: Desk, aggregate_type: str, *, restarts: bool
) -> None:
    first, failing, *later = events = events_of(aggregate_type, "OrderPlaced", "Poison", "OrderPlaced", "OrderPlaced")
    order_of_ids = "select event_id from effects where aggregate = 'a' order by number"
    handler, soon = Flaky(), Retry(inline_retry_seconds=0, parked_pause_seconds=0.2, longest_pause_seconds=0.2)
    desk.send(*events, placed(1, "other"))
    waiting = [(failing.sequence, "waiting", "failed")]
    waiting += [(event.sequence, "waiting", BEHIND[aggregate_type]) for event in later]
    with desk.running(flaky(desk, handler, retry=soon)):
        eventually(lambda: ("other", 1) in desk.effects(), "another aggregate to go on")
        desk.wait_for_parked(*waiting)
        assert desk.rows(order_of_ids) == [(first.id,)]
        if not restarts:
            handler.is_mended = True
            eventually(lambda: len(desk.effects()) == 5, "five effects")
            desk.wait_for_parked()
    if restarts:
        handler.is_mended = True
        with desk.running(flaky(desk, handler)):
            eventually(lambda: len(desk.effects()) == 5, "five effects")
            desk.wait_for_parked()
    assert desk.rows(order_of_ids) == [(event.id,) for event in events]


@pytest.mark.parametrize("aggregate_type", BEHIND)
def test_what_comes_later_waits_too_while_its_predecessor_is_parked(desk: Desk, aggregate_type: str) -> None:
    _, failing, third, fourth = events_of(aggregate_type, "OrderPlaced", "Poison", "OrderPlaced", "OrderPlaced")
    if aggregate_type == "order":
        failing, third, fourth = (
            replace(one, sequence=number) for number, one in enumerate((failing, third, fourth), 1)
        )
    desk.send(failing)
    behind = BEHIND[aggregate_type]
    with desk.running(flaky(desk, Flaky())):
        desk.wait_for_parked((failing.sequence, "waiting", "failed"))
        desk.send(third)
        desk.wait_for_parked((failing.sequence, "waiting", "failed"), (third.sequence, "waiting", behind))
    with desk.running(flaky(desk, Flaky())):
        desk.send(fourth)
        desk.wait_for_parked(
            (failing.sequence, "waiting", "failed"),
            (third.sequence, "waiting", behind),
            (fourth.sequence, "waiting", behind),
        )
    assert desk.effects() == []


@pytest.mark.parametrize("aggregate_type", BEHIND)
def test_an_event_that_keeps_failing_is_dead_after_its_attempts_and_those_behind_it_wait(
    desk: Desk, aggregate_type: str
) -> None:
    failing, second, *_ = events_of(aggregate_type, "Poison", "OrderPlaced", "OrderPlaced", "OrderPlaced")
    handler = Flaky()
    desk.send(failing, second)
    with desk.running(flaky(desk, handler, retry=HASTY)):
        desk.wait_for_parked((failing.sequence, "dead", "failed"), (second.sequence, "waiting", BEHIND[aggregate_type]))
        desk.send(placed(1, "other"))
        desk.wait_for_effects(("other", 1))
    assert set(handler.tried) == {failing.id}
    assert len(handler.tried) in {3, 4}, "with the first try in its batch, which does not count"
    assert desk.effects() == [("other", 1)]
    [(attempts, error)] = desk.rows("select attempts, error from inbox_parked where state = 'dead'")
    assert attempts == 3
    assert "raised LookupError at test_parking.py:" in error
    assert "hunter2" not in error


def test_a_hiccup_is_tried_again_at_once_and_nothing_is_parked(desk: Desk) -> None:
    handler = Flaky()
    consumer = flaky(desk, handler, retry=Retry(inline_retry_seconds=20, first_pause_seconds=0.01))
    desk.send(placed(1, event_type="Poison"), placed(2))
    with desk.running(consumer):
        eventually(lambda: len(handler.tried) > 3, "some tries")
        handler.is_mended = True
        desk.wait_for_effects(*numbered(2))
    assert consumer.outcomes == {Outcome.APPLIED: 2}


def test_an_error_that_another_try_cannot_mend_is_dead_at_once(desk: Desk) -> None:
    handler = Flaky()
    desk.send(placed(1, event_type="Poison"), placed(2), placed(1, "other"))
    with desk.running(flaky(desk, handler, retry=Retry(park_at_once=(LookupError,)))):
        desk.wait_for_parked((1, "dead", "failed"), (2, "waiting", "gap"))
        desk.wait_for_effects(("other", 1))
    assert len([event_id for event_id in handler.tried if event_id]) <= 2  # once in its batch, and once alone


def test_what_somebody_decides_to_apply_is_applied_and_what_waits_behind_it_follows(desk: Desk) -> None:
    handler = Flaky()
    desk.send(*(placed(number, event_type="Poison" if number == 1 else "OrderPlaced") for number in (1, 2, 3)))
    with desk.running(flaky(desk, handler, retry=HASTY)):
        desk.wait_for_parked((1, "dead", "failed"), (2, "waiting", "gap"), (3, "waiting", "gap"))
        handler.is_mended = True
        with desk.pipeline.connect() as connection:
            connection.execute(
                "update inbox_parked set state = 'waiting', forced = true, retry_at = now() where state = 'dead'"
            )
        desk.wait_for_effects(*numbered(3))
        desk.wait_for_parked()


def test_an_old_number_under_a_new_id_and_a_known_id_under_a_new_number_are_parked_and_not_skipped(
    desk: Desk,
) -> None:
    first, second, third = (placed(number) for number in (1, 2, 3))
    desk.send(first, second, replace(first, id=new_event_id()), replace(second, sequence=3), third)
    with desk.running():
        desk.wait_for_effects(*numbered(3))
        desk.wait_for_parked((1, "dead", "conflict"), (3, "dead", "conflict"))
    errors = [error for (error,) in desk.rows("select error from inbox_parked order by place")]
    assert "contradicts what was applied: the aggregate stands at 2" in errors[0]
    assert "contradicts what was applied: another event was applied under its id" in errors[1]
    assert desk.watermark() == 3


@pytest.mark.parametrize("aggregate_type", ["order", "invoice"])
def test_an_event_under_the_id_of_one_that_is_parked_does_not_pass_for_it(desk: Desk, aggregate_type: str) -> None:
    handler = Flaky()
    first = placed(1, event_type="Poison", aggregate_type=aggregate_type)
    second = replace(placed(2, aggregate_type=aggregate_type), id=first.id)
    desk.send(first, second, first)
    consumer = flaky(desk, handler, retry=PATIENT)
    with desk.running(consumer):
        desk.wait_for_parked((1, "waiting", "failed"), (None, "dead", "unreadable"))
        eventually(lambda: consumer.outcomes == {Outcome.PARKED: 3}, "three events")
        handler.is_mended = True
        retry = "update inbox_parked set state = 'waiting', retry_at = now() where reason = %s"
        with desk.pipeline.connect() as connection:
            connection.execute(retry, ["failed"])
        desk.wait_for_effects(("1", 1))
        with desk.pipeline.connect() as connection:
            connection.execute(retry, ["unreadable"])
        desk.wait_for_parked((2, "dead", "conflict"))


def test_a_message_that_nobody_can_read_is_parked_as_it_came_and_others_go_on(desk: Desk) -> None:
    [first] = desk.send(placed(1))
    without_id = replace(first, headers=first.headers[1:], key=b"\xff\0", value=b"\xff")
    desk.pipeline.produce(without_id, replace(without_id, headers=()))
    desk.send(placed(2))
    with desk.running() as consumer:
        desk.wait_for_effects(*numbered(2))
        desk.wait_for_parked(*[(None, "dead", "unreadable")] * 2)
    assert consumer.outcomes == {Outcome.APPLIED: 2, Outcome.PARKED: 2}
    rows = desk.rows('select event_id, error, "key", value from inbox_parked order by place')
    topic = desk.pipeline.topic
    assert [row[0] for row in rows] == [f"{topic}[0]@1", f"{topic}[0]@2"]
    assert f"the message at {topic}[0]@1" in rows[0][1]
    assert rows[0][2:] == (b"\xff\0", b"\xff")
    # Delivered again, for example after a crash before the offset: parked once.
    with desk.running(desk.consumer(contract=desk.pipeline.spec.contract)):
        desk.send(placed(3))
        desk.wait_for_effects(*numbered(3))
    assert len(desk.parked()) == 2


def test_at_the_bound_the_partition_is_paused_loudly_and_others_go_on_until_there_is_room(
    two_partitions: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    desk = two_partitions
    with caplog.at_level(logging.WARNING), desk.running(desk.consumer(limits=Limits(max_parked_events=2))) as consumer:
        # The first event of "1" is missing.
        desk.send(*(placed(number) for number in range(2, 6)), partition=0)
        eventually(lambda: "partition is paused" in caplog.text, "the pause")
        assert len(desk.parked()) == 2
        desk.send(*(placed(number, "other") for number in (1, 2)), partition=1)
        desk.wait_for_effects(*numbered(2, "other"))
        desk.send(placed(1, "third"), partition=1)
        desk.wait_for_effects(*numbered(2, "other"), ("third", 1))
        assert len(desk.parked()) == 2
        # Somebody makes room.
        with desk.pipeline.connect() as connection:
            applied = one(connection, "select count(*) from effects")
            connection.execute("delete from inbox_parked")
            connection.execute("update inbox_watermarks set parked = 0")
        eventually(lambda: len(desk.parked()) == 2, "the partition to go on")
        assert caplog.text.count("partition goes on") >= 1
        assert one_row(desk, "select count(*) from effects") == applied
    assert consumer.outcomes[Outcome.APPLIED] == 3


def one_row(desk: Desk, query: str) -> Any:
    [(value,)] = desk.rows(query)
    return value
