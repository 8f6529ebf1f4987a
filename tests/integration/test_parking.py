"""A failing event is parked with what depends on it, tried again, and given up in the end; others go on."""

import logging
import re
from dataclasses import replace
from typing import Any

import pytest

from cdc_outbox.consumer import Consumer, Fate, Outcome, RecordedEvent, Retry
from cdc_outbox.event import new_event_id
from tests.support.commands import run_command
from tests.support.events import make_event
from tests.support.rig import Connection, eventually
from tests.support.service import HASTY, PATIENT, Service, apply_effect, effects_of
from tests.support.timings import QUICK_LIMITS


class Flaky:
    """A handler that fails until it is fixed."""

    def __init__(self) -> None:
        self.is_mended = False
        self.tried: list[str | None] = []

    def __call__(self, event: RecordedEvent, connection: Connection) -> None:
        self.tried.append(event.id)
        apply_effect(event, connection)
        if not self.is_mended:
            raise LookupError("no such account")


def flaky(service: Service, handler: Flaky, **options: Any) -> Consumer:
    consumer = service.consumer(**({"retry": PATIENT} | options))
    consumer.on("Poison")(handler)
    return consumer


def events_of(aggregate_type: str, *kinds: str) -> list[RecordedEvent]:
    """Return events of one aggregate, numbered as their type is."""
    numbers: dict[str, list[int | None]] = {"order": [1, 2, 3, 4], "invoice": [2, 5, 9, 14], "metric": [None] * 4}
    return [
        make_event(number, "a", event_type=kind, aggregate_type=aggregate_type)
        for number, kind in zip(numbers[aggregate_type], kinds, strict=True)
    ]


BEHIND = {"order": "gap", "invoice": "behind", "metric": "behind"}
"""Why the successors of a failed event wait, by how they are numbered."""


@pytest.mark.parametrize("aggregate_type", BEHIND)
@pytest.mark.parametrize("restarts", [False, True], ids=["in one run", "across a restart"])
def test_the_successors_of_a_failed_event_wait_behind_it_and_follow_it_in_order(
    fed_service: Service, aggregate_type: str, *, restarts: bool
) -> None:
    first, failing, *later = events = events_of(aggregate_type, "OrderPlaced", "Poison", "OrderPlaced", "OrderPlaced")
    order_of_ids = "select event_id from effects where aggregate = 'a' order by number"
    handler, soon = Flaky(), Retry(inline_retry_seconds=0, parked_pause_seconds=0.2, longest_pause_seconds=0.2)
    fed_service.send(*events, make_event(1, "other"))
    waiting = [(failing.sequence, "waiting", "failed")]
    waiting += [(event.sequence, "waiting", BEHIND[aggregate_type]) for event in later]
    with fed_service.running(flaky(fed_service, handler, retry=soon)):
        eventually(lambda: ("other", 1) in fed_service.effects(), "another aggregate to go on")
        fed_service.wait_for_parked(*waiting)
        assert fed_service.rows(order_of_ids) == [(first.id,)]
        if not restarts:
            handler.is_mended = True
            eventually(lambda: len(fed_service.effects()) == 5, "five effects")
            fed_service.wait_for_parked()
    if restarts:
        handler.is_mended = True
        with fed_service.running(flaky(fed_service, handler)):
            eventually(lambda: len(fed_service.effects()) == 5, "five effects")
            fed_service.wait_for_parked()
    assert fed_service.rows(order_of_ids) == [(event.id,) for event in events]


@pytest.mark.parametrize("aggregate_type", BEHIND)
def test_what_comes_later_waits_too_while_its_predecessor_is_parked(fed_service: Service, aggregate_type: str) -> None:
    _, failing, third, fourth = events_of(aggregate_type, "OrderPlaced", "Poison", "OrderPlaced", "OrderPlaced")
    if aggregate_type == "order":
        failing, third, fourth = (
            replace(one, sequence=number) for number, one in enumerate((failing, third, fourth), 1)
        )
    fed_service.send(failing)
    behind = BEHIND[aggregate_type]
    with fed_service.running(flaky(fed_service, Flaky())):
        fed_service.wait_for_parked((failing.sequence, "waiting", "failed"))
        fed_service.send(third)
        fed_service.wait_for_parked((failing.sequence, "waiting", "failed"), (third.sequence, "waiting", behind))
    with fed_service.running(flaky(fed_service, Flaky())):
        fed_service.send(fourth)
        fed_service.wait_for_parked(
            (failing.sequence, "waiting", "failed"),
            (third.sequence, "waiting", behind),
            (fourth.sequence, "waiting", behind),
        )
    assert fed_service.effects() == []


@pytest.mark.parametrize("aggregate_type", BEHIND)
def test_an_event_that_keeps_failing_is_dead_after_its_attempts_and_those_behind_it_wait(
    fed_service: Service, aggregate_type: str
) -> None:
    failing, second, *_ = events_of(aggregate_type, "Poison", "OrderPlaced", "OrderPlaced", "OrderPlaced")
    handler = Flaky()
    fed_service.send(failing, second)
    with fed_service.running(flaky(fed_service, handler, retry=HASTY)):
        fed_service.wait_for_parked(
            (failing.sequence, "dead", "failed"), (second.sequence, "waiting", BEHIND[aggregate_type])
        )
        fed_service.send(make_event(1, "other"))
        fed_service.wait_for_effects(("other", 1))
    assert set(handler.tried) == {failing.id}
    assert len(handler.tried) in {3, 4}, "with the first try in its batch, which does not count"
    assert fed_service.effects() == [("other", 1)]
    [(attempts, error)] = fed_service.rows("select attempts, error from inbox_parked where state = 'dead'")
    assert attempts == 3
    assert re.search(r"raised LookupError at test_parking.py:\d+: no such account$", error)


def test_a_hiccup_is_tried_again_at_once_and_nothing_is_parked(fed_service: Service) -> None:
    handler = Flaky()
    consumer = flaky(fed_service, handler, retry=Retry(inline_retry_seconds=20, first_pause_seconds=0.01))
    fed_service.send(make_event(1, event_type="Poison"), make_event(2))
    with fed_service.running(consumer):
        eventually(lambda: len(handler.tried) > 3, "some tries")
        handler.is_mended = True
        fed_service.wait_for_effects(*effects_of(2))
    assert consumer.outcomes == {Outcome.APPLIED: 2}


def test_an_error_that_another_try_cannot_mend_is_dead_at_once(fed_service: Service) -> None:
    handler = Flaky()
    fed_service.send(make_event(1, event_type="Poison"), make_event(2), make_event(1, "other"))
    with fed_service.running(flaky(fed_service, handler, retry=Retry(park_at_once=(LookupError,)))):
        fed_service.wait_for_parked((1, "dead", "failed"), (2, "waiting", "gap"))
        fed_service.wait_for_effects(("other", 1))
    assert len([event_id for event_id in handler.tried if event_id]) <= 2  # once in its batch, and once alone


def test_what_somebody_decides_to_apply_is_applied_and_what_waits_behind_it_follows(fed_service: Service) -> None:
    handler = Flaky()
    fed_service.send(
        *(make_event(number, event_type="Poison" if number == 1 else "OrderPlaced") for number in (1, 2, 3))
    )
    with fed_service.running(flaky(fed_service, handler, retry=HASTY)):
        fed_service.wait_for_parked((1, "dead", "failed"), (2, "waiting", "gap"), (3, "waiting", "gap"))
        handler.is_mended = True
        with fed_service.connect() as connection:
            connection.execute(
                "update inbox_parked set state = 'waiting', forced = true, retry_at = now() where state = 'dead'"
            )
        fed_service.wait_for_effects(*effects_of(3))
        fed_service.wait_for_parked()


def test_an_old_number_under_a_new_id_and_a_known_id_under_a_new_number_are_parked_and_not_skipped(
    fed_service: Service,
) -> None:
    first, second, third = (make_event(number) for number in (1, 2, 3))
    fed_service.send(first, second, replace(first, id=new_event_id()), replace(second, sequence=3), third)
    with fed_service.running():
        fed_service.wait_for_effects(*effects_of(3))
        fed_service.wait_for_parked((1, "dead", "conflict"), (3, "dead", "conflict"))
    errors = [error for (error,) in fed_service.rows("select error from inbox_parked order by parked_id")]
    assert "contradicts what was applied: the aggregate is at 2" in errors[0]
    assert "contradicts what was applied: another event was applied under its id" in errors[1]
    assert fed_service.watermark() == 3


@pytest.mark.parametrize("aggregate_type", ["order", "invoice"])
def test_an_event_under_the_id_of_one_that_is_parked_does_not_pass_for_it(
    fed_service: Service, aggregate_type: str
) -> None:
    handler = Flaky()
    first = make_event(1, event_type="Poison", aggregate_type=aggregate_type)
    second = replace(make_event(2, aggregate_type=aggregate_type), id=first.id)
    fed_service.send(first, second, first)
    consumer = flaky(fed_service, handler, retry=PATIENT)
    with fed_service.running(consumer):
        fed_service.wait_for_parked((1, "waiting", "failed"), (None, "dead", "unreadable"))
        eventually(lambda: consumer.outcomes == {Outcome.PARKED: 2, Outcome.DUPLICATE: 1}, "three events")
        handler.is_mended = True
        retry = "update inbox_parked set state = 'waiting', retry_at = now() where reason = %s"
        with fed_service.connect() as connection:
            connection.execute(retry, ["failed"])
        fed_service.wait_for_effects(("1", 1))
        with fed_service.connect() as connection:
            connection.execute(retry, ["unreadable"])
        fed_service.wait_for_parked((2, "dead", "conflict"))


def test_a_message_that_nobody_can_read_is_parked_as_it_came_and_others_go_on(fed_service: Service) -> None:
    [first] = fed_service.send(make_event(1))
    without_id = replace(first, headers=first.headers[1:], key=b"\xff\0", value=b"\xff")
    stray = replace(without_id, headers=(("trace", b"x"),))
    fed_service.send(without_id, stray, replace(stray, value=b"{}"))
    fed_service.send(make_event(2))
    with fed_service.running() as consumer:
        fed_service.wait_for_effects(*effects_of(2))
        fed_service.wait_for_parked(*[(None, "dead", "unreadable")] * 2)
    assert consumer.outcomes == {Outcome.APPLIED: 2, Outcome.PARKED: 3}
    rows = fed_service.rows('select event_id, error, "key", value from inbox_parked order by parked_id')
    topic = fed_service.pipeline.topic
    assert [row[0].partition("#")[0] for row in rows] == [f"{topic}[0]@1", f"{topic}[0]"]
    assert f"the message at {topic}[0]@1" in rows[0][1]
    assert rows[0][2:] == (b"\xff\0", b"\xff")
    # Delivered again, for example after a crash before the offset: parked once.
    with fed_service.running(fed_service.consumer(contract=fed_service.pipeline.spec.contract)):
        fed_service.send(make_event(3))
        fed_service.wait_for_effects(*effects_of(3))
    assert len(fed_service.parked()) == 2


def test_a_message_whose_header_has_a_name_that_is_not_utf8_is_parked_and_others_go_on(fed_service: Service) -> None:
    [good] = fed_service.send(make_event(1))
    fed_service.pipeline.send_raw(good, (b"\xff\xfe", b"1"))
    fed_service.send(make_event(2))
    with fed_service.running():
        fed_service.wait_for_effects(*effects_of(2))
        fed_service.wait_for_parked((None, "dead", "unreadable"))
    [(key, value, headers, error)] = fed_service.rows('select "key", value, headers, error from inbox_parked')
    assert (key, value, headers) == (good.key, good.value, "null")
    assert "a header name is not UTF-8" in error
    # Read again from the park, it is still no message without headers.
    assert fed_service.consumer().replay().fates == {Fate.DUPLICATE: 2, Fate.UNREADABLE: 1}


@pytest.mark.parametrize("aggregate_type", BEHIND)
def test_what_was_parked_under_a_topic_that_is_read_no_more_is_applied_when_it_is_tried_again(
    fed_service: Service, aggregate_type: str
) -> None:
    contract = fed_service.pipeline.spec.contract
    first, *others = events_of(aggregate_type, "Poison", "OrderPlaced", "OrderPlaced", "OrderPlaced")
    renamed = replace(contract, topic=contract.topic.replace(".", ".old."))
    fed_service.pipeline.stack.broker.create_topic(renamed.topic_of(aggregate_type), partitions=1)
    fed_service.send(renamed.message_of(first))
    handler = Flaky()
    with fed_service.running(
        flaky(fed_service, handler, contract=renamed, retry=Retry(inline_retry_seconds=0, max_attempts=1))
    ):
        fed_service.wait_for_parked((first.sequence, "dead", "failed"))
    # The events go to the topic of another name from now on, and the consumers follow.
    fed_service.send(*others)
    handler.is_mended = True
    retry = ("parked", "retry", str(fed_service.parked_id_of(first.sequence)), "--inbox-dsn", fed_service.dsn)
    with fed_service.running(flaky(fed_service, handler)):
        eventually(lambda: len(fed_service.parked()) == 4, "the others to wait behind it")
        done = run_command(*retry, "--consumer", fed_service.name)
        assert done.returncode == 0, done.stderr
        eventually(lambda: fed_service.parked() == [], "the park to be empty")
    order_of_ids = "select event_id from effects order by number"
    assert [event_id for (event_id,) in fed_service.rows(order_of_ids)] == [event.id for event in (first, *others)]


def test_at_the_bound_the_partition_is_paused_loudly_and_others_go_on_until_there_is_room(
    two_partition_service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    service = two_partition_service
    # Of two events: the second one may exceed it.
    limits = replace(QUICK_LIMITS, max_parked_bytes=service.pipeline.spec.contract.message_of(make_event(2)).size + 1)
    with caplog.at_level(logging.WARNING), service.running(service.consumer(limits=limits)) as consumer:
        # The first event of "1" is missing.
        service.send(*(make_event(number) for number in range(2, 6)), partition=0)
        eventually(lambda: "partition is paused" in caplog.text, "the pause")
        assert len(service.parked()) == 2
        [paused, *_] = [record for record in caplog.records if record.message == "partition is paused"]
        assert str(vars(paused)["reason"]).endswith("max_parked_bytes is reached")
        service.send(*(make_event(number, "other") for number in (1, 2)), partition=1)
        service.wait_for_effects(*effects_of(2, "other"))
        service.send(make_event(1, "third"), partition=1)
        service.wait_for_effects(*effects_of(2, "other"), ("third", 1))
        assert len(service.parked()) == 2
        # An operator makes room.
        applied = service.one("select count(*) from effects")
        with service.connect() as connection:
            connection.execute("delete from inbox_parked")
            connection.execute("update inbox_watermarks set parked = 0")
        eventually(lambda: len(service.parked()) == 2, "the partition to go on")
        assert caplog.text.count("partition resumed") >= 1
        assert service.one("select count(*) from effects") == applied
    assert consumer.outcomes[Outcome.APPLIED] == 3
