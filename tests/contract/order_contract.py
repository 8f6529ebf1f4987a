"""What a delivery promises about the order of an aggregate's events of which one cannot be read, on every database."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from cdc_outbox import SequenceMode, WireContract
from cdc_outbox.consumer.delivery import Delivery
from cdc_outbox.consumer.handlers import HandlerRunner, Handlers
from cdc_outbox.consumer.item import Item, Outcome, item_of
from cdc_outbox.consumer.ordering import Watermark, aggregate_of, orders_of
from cdc_outbox.consumer.parked_events import Failure, Reason, State
from cdc_outbox.databases.drivers.immediate import finish
from cdc_outbox.event import RecordedEvent
from cdc_outbox.formats.event_format import PayloadType
from cdc_outbox.message import Message
from cdc_outbox.testing import MemoryDatabase
from tests.contract.inbox_contract import HOME, Opened, failed
from tests.support.events import SOURCE, make_event

CONTRACT = WireContract(
    aggregates={"order": SequenceMode.GAPLESS, "price": SequenceMode.INCREASING, "visit": SequenceMode.NONE},
    topic="orders",
)
MENDED = replace(CONTRACT, payload_type=PayloadType.BYTES)
APPLIED, PARKED, DUPLICATE = Outcome.APPLIED, Outcome.PARKED, Outcome.DUPLICATE


class _Within:
    """A driver whose transaction is open already, and stays so."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)

    async def begin(self, connection: Any) -> None:
        """Do nothing."""

    async def commit(self, connection: Any) -> None:
        """Do nothing."""


@dataclass
class Reader:
    """A consumer within one transaction, which is handed its messages."""

    opened: Opened
    contract: WireContract = CONTRACT
    applied: list[str] = field(default_factory=list)
    """The ids of the events whose handler ran, in order."""
    offset: int = 0

    def __post_init__(self) -> None:
        self.held = {HOME: self.opened.issue(HOME)[HOME].epoch}

    def message_of(self, event: RecordedEvent) -> Message:
        self.offset += 1
        return replace(CONTRACT.message_of(event), topic=HOME.topic, partition=HOME.partition, offset=self.offset)

    def broken(self, event: RecordedEvent, **changes: Any) -> Message:
        """Return a message that :data:`MENDED` alone can read."""
        return replace(self.message_of(event), value=b"\xff", **changes)

    def read(self, *messages: Message | RecordedEvent) -> list[Outcome]:
        """Apply what comes from the topic, in one transaction."""
        came = [each if isinstance(each, Message) else self.message_of(each) for each in messages]
        return self.apply([item_of(message, self.contract) for message in came])

    def fail(self, event: RecordedEvent) -> None:
        """Park an event that fails, dead."""
        assert self.apply([item_of(self.message_of(event), self.contract).failing(failed(None))]) == [PARKED]

    def redo(self, *, fails: bool = False) -> list[Outcome]:
        """Apply what is due with what waits behind it; have the first one fail, if it is to."""
        items = [item_of(row.message, self.contract, row) for row in self.opened.due()]
        return self.apply([items[0].failing(failed(None)), *items[1:]] if fails else items)

    def retry(self, reason: Reason) -> None:
        """Make due what is parked for a reason, as an operator does."""
        [parked_id] = [parked_id for parked_id, why, _ in self._rows() if why is reason]
        failure = Failure(
            reason=reason, error="", attempts=1, retry_seconds=0.0, keeps_order=reason is Reason.UNREADABLE
        )
        finish(self.opened.park.fail(self.opened.connection, parked_id, failure))

    def chain(self) -> list[tuple[Reason, State]]:
        """Return what is parked and blocks its aggregate, in the order in which it is applied."""
        return [(reason, state) for _, reason, state in self._rows()]

    def _rows(self) -> list[tuple[int, Reason, State]]:
        if isinstance(self.opened.driver, MemoryDatabase):
            rows = sorted(self.opened.driver.now.rows.values(), key=lambda row: (row.turn, row.parked.parked_id))
            return [(row.parked.parked_id, row.parked.reason, row.parked.state) for row in rows if row.parked.blocks]
        query = "select parked_id, reason, state from inbox_parked where blocks order by turn, parked_id"
        return [
            (parked_id, Reason(reason), State(state))
            for parked_id, reason, state in finish(self.opened.driver.fetch(self.opened.connection, query))
        ]

    def apply(self, items: Sequence[Item]) -> list[Outcome]:
        driver: Any = _Within(self.opened.driver)
        handlers = Handlers()
        handlers.add(["OrderPlaced"], lambda event, _: self.applied.append(event.id), takes_batch=False)
        delivery = Delivery(
            stores=self.opened.stores,
            driver=driver,
            calls=HandlerRunner(driver=driver, handlers=handlers),
            order_of=orders_of(self.contract).__getitem__,
        )
        return finish(delivery.apply(items, self.opened.connection, self.held)).outcomes

    def mark(self, event: RecordedEvent) -> Watermark:
        """Return what is remembered of an event's aggregate."""
        aggregate = aggregate_of(event)
        return self.opened.watermarks(aggregate).get(aggregate, Watermark())


class OrderContract:
    """An unreadable message of which the aggregate can be told keeps its place, unless numbers have no gaps."""

    @pytest.fixture
    def reader(self, opened: Opened) -> Reader:
        return Reader(opened)

    @pytest.fixture(params=["price", "visit"])
    def events(self, request: pytest.FixtureRequest) -> list[RecordedEvent]:
        """Return the events of one aggregate, by their type."""
        is_numbered = request.param == "price"
        return [
            make_event(
                number if is_numbered else None, aggregate_type=request.param, source=SOURCE if is_numbered else ""
            )
            for number in (1, 2, 3, 4)
        ]

    def test_what_stands_before_a_gap_is_applied_and_the_rest_waits(self, reader: Reader) -> None:
        first, second, third, fourth = (make_event(number) for number in (1, 2, 3, 4))
        assert reader.read(first) == [APPLIED]
        # The watermark is locked after it was read, and moves from where it is then.
        assert reader.read(second, fourth) == [APPLIED, PARKED]
        assert (reader.mark(first), reader.chain()) == (Watermark(2, 1), [(Reason.GAP, State.WAITING)])
        assert reader.read(third) == [APPLIED]
        assert reader.redo() == [APPLIED]
        assert reader.mark(first) == Watermark(4)

    def test_what_comes_later_waits_and_is_applied_in_order_once_it_can_be_read(
        self, reader: Reader, events: list[RecordedEvent]
    ) -> None:
        first, second, third, fourth = events
        broken = reader.broken(second)
        assert reader.read(first, broken, third) == [APPLIED, PARKED, PARKED]
        assert reader.read(fourth) == [PARKED]
        assert reader.read(broken) == [DUPLICATE]
        behind = [(Reason.BEHIND, State.WAITING)] * 2
        assert reader.chain() == [(Reason.UNREADABLE, State.DEAD), *behind]
        assert reader.mark(first).parked == 3
        reader.retry(Reason.UNREADABLE)
        assert reader.redo() == [PARKED] * 3
        assert reader.chain() == [(Reason.UNREADABLE, State.DEAD), *behind]
        reader.contract = MENDED
        assert reader.redo() == []
        reader.retry(Reason.UNREADABLE)
        assert reader.redo() == [APPLIED] * 3
        assert reader.applied == [event.id for event in events]
        assert (reader.chain(), reader.mark(first).parked) == ([], 0)
        assert reader.read(broken) == [DUPLICATE]

    def test_what_can_be_read_at_last_and_fails_keeps_its_place(
        self, reader: Reader, events: list[RecordedEvent]
    ) -> None:
        first, second, third, fourth = events
        reader.read(first, reader.broken(second), third)
        reader.contract = MENDED
        reader.retry(Reason.UNREADABLE)
        assert reader.redo(fails=True) == [PARKED, PARKED]
        assert reader.read(fourth) == [PARKED]
        assert reader.chain() == [(Reason.FAILED, State.DEAD), *[(Reason.BEHIND, State.WAITING)] * 2]
        assert reader.mark(first).parked == 3
        reader.retry(Reason.FAILED)
        assert reader.redo() == [APPLIED] * 3
        assert reader.applied == [event.id for event in events]
        assert (reader.chain(), reader.mark(first).parked) == ([], 0)

    def test_it_waits_itself_for_what_is_parked_before_it(self, reader: Reader, events: list[RecordedEvent]) -> None:
        first, second, third, _ = events
        reader.fail(first)
        assert reader.read(reader.broken(second), third) == [PARKED, PARKED]
        reader.contract = MENDED
        reader.retry(Reason.UNREADABLE)
        assert reader.redo() == [PARKED] * 3
        assert reader.redo() == [], "it waits for the first one"
        assert reader.chain()[:2] == [(Reason.FAILED, State.DEAD), (Reason.UNREADABLE, State.WAITING)]
        reader.retry(Reason.FAILED)
        assert reader.redo() == [APPLIED] * 3
        assert reader.applied == [event.id for event in events[:3]]
        assert (reader.chain(), reader.mark(first).parked) == ([], 0)

    def test_nobody_passes_it_while_it_is_dead_whatever_the_contract_is(
        self, reader: Reader, events: list[RecordedEvent]
    ) -> None:
        first, second, third, fourth = events
        reader.fail(first)
        reader.read(reader.broken(second), third)
        reader.contract = MENDED
        reader.retry(Reason.FAILED)
        assert reader.redo() == [APPLIED, PARKED, PARKED]
        assert reader.read(fourth) == [PARKED]
        assert reader.redo() == []
        reader.retry(Reason.UNREADABLE)
        assert reader.redo() == [APPLIED] * 3
        assert reader.applied == [event.id for event in events]

    def test_what_was_applied_already_is_a_duplicate_and_those_behind_it_go_on(
        self, reader: Reader, events: list[RecordedEvent]
    ) -> None:
        first, second, third, _ = events
        assert reader.read(first, second, reader.broken(second), third) == [APPLIED, APPLIED, PARKED, PARKED]
        reader.contract = MENDED
        reader.retry(Reason.UNREADABLE)
        assert reader.redo() == [DUPLICATE, APPLIED]
        assert (reader.chain(), reader.mark(first).parked) == ([], 0)

    def test_what_turns_out_to_be_of_another_aggregate_lets_go_on_what_waited(
        self, reader: Reader, events: list[RecordedEvent]
    ) -> None:
        first, second, *_ = events

        def from_sources(message: Message, source: str, origin: str) -> Message:
            others = [header for header in message.headers if header[0] != CONTRACT.headers.source]
            sources = (CONTRACT.headers.source, source.encode()), ("origin", origin.encode())
            return replace(message, headers=(*others, *sources))

        waiting = from_sources(reader.message_of(first), "orders.9", "orders.9")
        broken = from_sources(reader.broken(second), "orders.9", SOURCE)
        assert reader.read(broken, waiting) == [PARKED, PARKED]
        reader.contract = replace(MENDED, headers=replace(CONTRACT.headers, source="origin"))
        reader.retry(Reason.UNREADABLE)
        assert reader.redo() == [APPLIED, APPLIED]
        assert sorted(reader.applied) == sorted(event.id for event in (first, second))
        assert reader.chain() == []
        aggregates = [replace(first, source=source) for source in ("orders.9", SOURCE)]
        assert [reader.mark(event).parked for event in aggregates] == [0, 0]

    @pytest.mark.parametrize("key", [None, b"", b"\xff"])
    def test_what_cannot_be_told_to_be_of_an_aggregate_keeps_nobody_waiting(
        self, reader: Reader, events: list[RecordedEvent], key: bytes | None
    ) -> None:
        first, second, third, _ = events
        assert reader.read(first, reader.broken(second, key=key), third) == [APPLIED, PARKED, APPLIED]
        assert reader.chain() == []

    def test_where_numbers_have_no_gaps_the_missing_number_keeps_the_order(self, reader: Reader) -> None:
        first, second, third = (make_event(number) for number in (1, 2, 3))
        assert reader.read(first, reader.broken(second), third) == [APPLIED, PARKED, PARKED]
        assert reader.chain() == [(Reason.GAP, State.WAITING)]
        assert reader.mark(first).parked == 1

    def test_an_aggregate_that_no_inbox_takes_keeps_nobody_waiting(
        self, reader: Reader, events: list[RecordedEvent]
    ) -> None:
        first, second, third, _ = events
        assert reader.read(first, reader.broken(second, key=b"a" * 3000), third) == [APPLIED, PARKED, APPLIED]
