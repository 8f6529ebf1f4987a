"""Where watermarks go back to when a consumer is made to forget."""

from hypothesis import given
from hypothesis import strategies as st

from cdc_outbox.consumer import Aggregate, SequenceMode, WireContract
from cdc_outbox.operations.reset import standing

ORDER, PRICE = Aggregate("orders.1", "order", "1"), Aggregate("orders.1", "price", "1")
CONTRACT = WireContract(aggregates={"order": SequenceMode.GAPLESS, "price": SequenceMode.INCREASING})


@given(st.integers(1, 20), st.none() | st.integers(1, 25))
def test_what_the_topic_holds_follows_what_stays_remembered(last: int, first: int | None) -> None:
    stays = standing({ORDER: last}, {} if first is None else {ORDER: first}, CONTRACT).get(ORDER, 0)
    assert stays <= last
    if first is not None and first <= last + 1:
        assert stays == first - 1
    else:  # nothing of it can come again
        assert stays == last


def test_growing_numbers_need_no_predecessor() -> None:
    assert standing({PRICE: 90}, {PRICE: 50}, CONTRACT) == {}
