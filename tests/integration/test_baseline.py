"""A baseline: what came before is accepted as it is."""

from uuid import uuid4

import pytest

from cdc_outbox.consumer import Outcome
from cdc_outbox.consumer.ordering import Aggregate
from cdc_outbox.errors import InboxError
from cdc_outbox.operations.baseline import Baseline
from cdc_outbox.testing import Stack
from tests.support.brokerless_service import BrokerlessService
from tests.support.events import SOURCE, make_event

APPLIED, PARKED = Outcome.APPLIED, Outcome.PARKED


@pytest.fixture
def service(outbox_stack: Stack) -> BrokerlessService:
    service = BrokerlessService(outbox_stack.postgres.create_database(f"baseline_{uuid4().hex[:8]}"))
    service.create_tables()
    return service


def test_a_baseline_accepts_what_came_before_of_those_that_were_never_seen(service: BrokerlessService) -> None:
    service.deliver(make_event(41), make_event(42), make_event(7, "2"))
    service.deliver(make_event(1, "3"), make_event(3, "3"))
    service.broken = {"4", "5"}
    service.deliver(
        make_event(1, "4"),
        make_event(2, "4"),
        make_event(5, "5", aggregate_type="price"),
    )
    with service.opened() as inbox:
        work = Baseline(inbox)
        gaps = work.find()
        assert [(gap.aggregate.aggregate_id, gap.missing, gap.parked) for gap in gaps] == [("1", 40, 2), ("2", 6, 1)]
        assert service.holes() == []
        service.deliver(*(make_event(sequence, "2") for sequence in range(1, 7)))  # they come after all
        assert [gap.aggregate.aggregate_id for gap in work.accept(gaps, note="from June")] == ["1"]
        assert work.find() == []
    assert service.holes() == [("1", 1, 40, "baseline", None, "from June")]
    service.retry_parked()
    assert (service.watermark(), service.parked_behind()) == (42, 0)
    assert [effect for effect in service.effects() if effect[0] == "1"] == [("1", 41), ("1", 42)]
    assert (service.watermark("3"), service.parked_behind("3")) == (1, 1)
    assert service.deliver(make_event(40)) == [PARKED]
    assert "conflict" in {reason for _, _, reason in service.parked()}


def test_a_missing_event_in_the_middle_is_given_up_only_where_it_is_named(service: BrokerlessService) -> None:
    service.deliver(make_event(1), make_event(4))
    service.deliver(make_event(1, "2"), make_event(3, "2"))
    with service.opened() as inbox:
        assert Baseline(inbox).find() == []
        with pytest.raises(
            InboxError, match=r"order/9 of 'orders.1' does not wait for a missing event; .*order/1 of orders.1"
        ):
            Baseline(inbox, Aggregate(SOURCE, "order", "9")).find()
        work = Baseline(inbox, Aggregate(SOURCE, "order", "1"))
        work.accept(work.find(), note=None)
    assert service.holes() == [("1", 2, 3, "baseline", None, None)]
    assert service.retry_parked() == [APPLIED]
    assert (service.watermark(), service.parked_behind()) == (4, 0)
    assert (service.watermark("2"), service.parked_behind("2")) == (1, 1)
