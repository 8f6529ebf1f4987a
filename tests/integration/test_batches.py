"""Many events in one transaction, each as if it had one of its own."""

import sqlite3
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from cdc_outbox.consumer import Consumer, Outcome, RecordedEvent
from cdc_outbox.consumer.pipeline import pipeline_of
from cdc_outbox.errors import ConfigError
from tests.support.events import make_event
from tests.support.rig import Connection, eventually, one
from tests.support.service import PATIENT, Service, apply_effect, effects_of
from tests.support.timings import QUICK_LIMITS


def transactions(service: Service) -> int:
    return int(service.one("select count(distinct xmin::text) from effects"))


def poisoned(service: Service, **options: Any) -> Consumer:
    """Return a consumer whose handler of Poison leaves an effect and fails."""
    consumer = service.consumer(**({"retry": PATIENT} | options))

    @consumer.on("Poison")
    def fail(event: RecordedEvent, connection: Connection) -> None:
        apply_effect(event, connection)
        raise LookupError("hunter2")

    return consumer


def test_many_events_share_a_transaction_and_keep_their_order(fed_service: Service) -> None:
    fed_service.send(*(make_event(number, aggregate_id) for number in range(1, 101) for aggregate_id in "abc"))
    fed_service.consume(300)
    fed_service.wait_for_effects(*(effect for aggregate_id in "abc" for effect in effects_of(100, aggregate_id)))
    assert transactions(fed_service) < 30
    assert fed_service.watermark("b") == 100


def test_a_batch_is_as_large_as_the_limit_says(fed_service: Service) -> None:
    fed_service.send(*(make_event(number) for number in range(1, 41)))
    fed_service.consume(40, fed_service.consumer(limits=replace(QUICK_LIMITS, batch_events=1)))
    assert transactions(fed_service) == 40


def test_one_event_of_a_batch_fails_and_it_alone_is_parked_while_the_rest_is_applied(fed_service: Service) -> None:
    events = [make_event(number, aggregate_id) for number in range(1, 21) for aggregate_id in "abc"]
    events[30] = make_event(11, "a", event_type="Poison")
    fed_service.send(*events)
    consumer = poisoned(fed_service)
    with fed_service.running(consumer):
        fed_service.wait_for_effects(*effects_of(10, "a"), *effects_of(20, "b"), *effects_of(20, "c"))
        fed_service.wait_for_parked(
            (11, "waiting", "failed"), *((number, "waiting", "gap") for number in range(12, 21))
        )
        eventually(lambda: consumer.outcomes.total() == 60, "every event to come to an end")
        # The stream goes on in the same run.
        fed_service.send(*(make_event(number, "b") for number in range(21, 41)))
        fed_service.wait_for_effects(*effects_of(10, "a"), *effects_of(40, "b"), *effects_of(20, "c"))
    assert consumer.outcomes == {Outcome.APPLIED: 70, Outcome.PARKED: 10}
    assert fed_service.metrics.total("cdc_outbox_consumer_events_total", outcome="parked") == 10


def test_several_events_of_a_batch_fail(fed_service: Service) -> None:
    kinds = {3: "Poison", 17: "Poison", 18: "Poison"}
    fed_service.send(*(make_event(1, str(number), event_type=kinds.get(number, "OrderPlaced")) for number in range(30)))
    with fed_service.running(poisoned(fed_service)):
        fed_service.wait_for_effects(*((str(number), 1) for number in range(30) if number not in kinds))
        fed_service.wait_for_parked(*[(1, "waiting", "failed")] * 3)


def test_a_deadlock_makes_batches_smaller_and_is_no_poison(fed_service: Service) -> None:
    sizes: list[int] = []
    consumer = fed_service.consumer(retry=PATIENT)

    @consumer.on_batch("Contended")
    def contend(events: list[RecordedEvent], connection: Connection) -> None:
        sizes.append(len(events))
        for event in events:
            apply_effect(event, connection)
        if len(events) > 2 or len(sizes) < 4:
            connection.execute("do $$ begin raise exception 'deadlock' using errcode = '40P01'; end $$")

    fed_service.send(*(make_event(number, event_type="Contended") for number in range(1, 21)))
    fed_service.consume(20, consumer)
    fed_service.wait_for_effects(*effects_of(20))
    assert fed_service.parked() == []
    assert sizes[:4] == [1, 1, 1, 1], "the first event alone met others again and again"
    assert max(sizes) > 2, "there was no deadlock of a batch"
    assert 2 in sizes[sizes.index(max(sizes)) :], "a batch is halved, and not gone through one by one"
    assert consumer.outcomes == {Outcome.APPLIED: 20}


def test_a_batch_handler_gets_neighbours_in_order_and_another_type_ends_the_list(fed_service: Service) -> None:
    lists: list[list[int | None]] = []
    consumer = fed_service.consumer()

    @consumer.on_batch("Counted", "Weighed")
    def count(events: list[RecordedEvent], connection: Connection) -> None:
        lists.append([event.sequence for event in events])
        for event in events:
            apply_effect(event, connection)

    kinds = ["Counted"] * 10 + ["OrderPlaced"] + ["Weighed", "Counted"] * 5
    # The first makes the batch grow, so that the others come together.
    fed_service.send(*(make_event(number, "warm-up") for number in range(1, 100)))
    fed_service.send(*(make_event(number, event_type=kind) for number, kind in enumerate(kinds, 1)))
    fed_service.consume(99 + 21, consumer)
    fed_service.wait_for_effects(*effects_of(21), *effects_of(99, "warm-up"))
    assert [number for numbers in lists for number in numbers] == [*range(1, 11), *range(12, 22)]
    assert not any({10, 12} <= set(numbers) for numbers in lists)
    assert max(map(len, lists)) > 1


def test_a_batch_handler_that_fails_gets_the_same_events_one_by_one(fed_service: Service) -> None:
    lists: list[list[str]] = []
    consumer = fed_service.consumer(retry=PATIENT)

    @consumer.on_batch("Counted")
    def count(events: list[RecordedEvent], connection: Connection) -> None:
        lists.append([event.aggregate_id for event in events])
        if "7" in lists[-1]:
            raise LookupError
        for event in events:
            apply_effect(event, connection)

    fed_service.send(*(make_event(1, str(number), event_type="Counted") for number in range(12)))
    with fed_service.running(consumer):
        fed_service.wait_for_effects(*((str(number), 1) for number in range(12) if number != 7))
        fed_service.wait_for_parked((1, "waiting", "failed"))
    assert any(len(ids) > 1 and "7" in ids for ids in lists)
    assert ["7"] in lists


def test_in_a_pipeline_statements_do_not_wait_and_effects_are_the_same(fed_service: Service) -> None:
    statuses: list[object] = []
    consumer = fed_service.consumer(pipeline=True)

    @consumer.on("Piped")
    def pipe(event: RecordedEvent, connection: Connection) -> None:
        apply_effect(event, connection)
        statuses.append(connection.pgconn.pipeline_status)

    fed_service.send(*(make_event(number, event_type="Piped") for number in range(1, 51)))
    fed_service.consume(50, consumer)
    fed_service.wait_for_effects(*effects_of(50))
    assert set(statuses) == {psycopg.pq.PipelineStatus.ON}
    assert transactions(fed_service) < 25


@pytest.mark.parametrize("kind", ["fails", "swallows", "raises"])
def test_a_statement_that_fails_in_a_pipeline_parks_its_own_event_alone(fed_service: Service, kind: str) -> None:
    consumer = fed_service.consumer(pipeline=True, retry=PATIENT)

    @consumer.on("Poison")
    def fail(event: RecordedEvent, connection: Connection) -> None:
        apply_effect(event, connection)
        if kind == "raises":
            raise LookupError
        try:
            connection.execute("select 1 / 0").fetchall()
        except psycopg.Error:
            if kind == "fails":
                raise

    fed_service.send(
        *(make_event(1, str(number), event_type="Poison" if number == 5 else "OrderPlaced") for number in range(16))
    )
    with fed_service.running(consumer):
        fed_service.wait_for_effects(*((str(number), 1) for number in range(16) if number != 5))
        fed_service.wait_for_parked((1, "waiting", "failed"))


@pytest.mark.parametrize("isolated", [True, False])
def test_settings_of_an_event_end_with_its_transaction_and_an_isolated_event_has_one_of_its_own(
    fed_service: Service,
    isolated: bool,  # noqa: FBT001 - pytest's
) -> None:
    seen: dict[str, str] = {}
    shown = "select coalesce(current_setting('app.tenant', true), '') || current_setting('search_path')"
    consumer = fed_service.consumer()

    def handle(event: RecordedEvent, connection: Connection) -> None:
        seen[event.aggregate_id] = one(connection, shown)
        apply_effect(event, connection)

    @consumer.on("OfTenant", isolated=isolated)
    def set_tenant(event: RecordedEvent, connection: Connection) -> None:
        handle(event, connection)
        connection.execute("select set_config('app.tenant', %s, true)", [event.aggregate_id])
        connection.execute("set local search_path = public")

    consumer.on("Shared")(handle)
    kinds = ["Shared", "Shared", "OfTenant", "Shared", "OfTenant", "OfTenant", "Shared"] * 2
    fed_service.send(*(make_event(1, str(number), event_type=kind) for number, kind in enumerate(kinds)))
    fed_service.consume(len(kinds), consumer)
    assert len(seen) == len(kinds)
    assert (len(set(seen.values())) == 1) is isolated


def test_a_connection_without_a_pipeline_mode_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"sqlite3.Connection has no pipeline mode"):
        pipeline_of(sqlite3.connect(":memory:"))
