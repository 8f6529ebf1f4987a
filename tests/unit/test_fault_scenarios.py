"""What the fault kit tries, and how it says what it found."""

from collections.abc import Iterable

import pytest

from cdc_outbox.consumer.ordering import Order
from cdc_outbox.event import SequenceMode
from cdc_outbox.testing import FaultReport
from cdc_outbox.testing.faults import Problem, Repetition
from cdc_outbox.testing.faults.report import difference
from cdc_outbox.testing.faults.scenarios import Scenario, scenarios
from tests.support.events import make_event


def tried(
    events: Iterable[tuple[str, int]],
    *,
    mode: SequenceMode = SequenceMode.GAPLESS,
    latest: bool = False,
    statements: int = 0,
    has_others: bool = True,
) -> dict[str, Scenario]:
    order = Order(mode=mode, latest=latest)
    given = [make_event(number, name, event_type="Placed", event_id=f"{name}{number}") for name, number in events]
    found = list(scenarios(given, order_of=lambda _: order, statements=statements, has_others=has_others))
    assert len({scenario.name for scenario in found}) == len(found)
    return {scenario.name: scenario for scenario in found}


def ids(scenario: Scenario) -> list[list[str]]:
    return [[event.id for event in batch] for batch in scenario.batches]


def test_aggregates_change_places_and_the_events_of_one_do_not() -> None:
    found = tried([("a", 1), ("b", 1), ("a", 2), ("b", 2)])
    for name in ("one aggregate after the other", "the last aggregate first", "aggregates in turns"):
        for aggregate in "ab":
            numbers = [event_id for [event_id] in ids(found[name]) if event_id.startswith(aggregate)]
            assert numbers == [f"{aggregate}1", f"{aggregate}2"]
    assert ids(found["the last aggregate first"]) == [["b1"], ["b2"], ["a1"], ["a2"]]
    assert ids(found["aggregates in turns"]) == [["b1"], ["a1"], ["b2"], ["a2"]]


def test_an_order_that_is_the_given_one_is_not_tried_again() -> None:
    assert not [name for name in tried([("a", 1), ("a", 2)]) if "aggregate" in name]


@pytest.mark.parametrize(
    ("mode", "latest", "is_tried"),
    [
        (SequenceMode.GAPLESS, False, True),
        (SequenceMode.GAPLESS, True, False),
        (SequenceMode.INCREASING, False, False),
        (SequenceMode.NONE, False, False),
    ],
)
def test_a_successor_comes_first_only_where_the_consumer_would_notice(
    mode: SequenceMode, *, latest: bool, is_tried: bool
) -> None:
    found = tried([("a", 1), ("a", 2)], mode=mode, latest=latest)
    assert ("successors before their predecessors" in found) is is_tried


def test_each_statement_of_a_handler_is_struck_by_each_kind_of_fault() -> None:
    found = tried([("a", 1)], statements=2)
    struck = {(s.fault.kind, s.fault.statement) for s in found.values() if s.fault and s.fault.statement}
    assert struck == {(kind, number) for kind in ("crash", "conflict", "loss") for number in (1, 2)}


def test_a_database_with_one_writer_has_no_other_consumer() -> None:
    assert any(scenario.usurped for scenario in tried([("a", 1)]).values())
    assert not any(scenario.usurped for scenario in tried([("a", 1)], has_others=False).values())


def test_rows_are_compared_in_any_order_and_as_often_as_they_are_there() -> None:
    assert difference([(1,), (2,)], [(2,), (1,)]) is None
    assert difference([(1,)], [(1,), (1,)]) == "1 are surplus: (1,)"
    assert difference([{"a": 1}, 2], [3]) == "2 are missing: {'a': 1}, 2; 1 are surplus: 3"
    assert difference(range(5), []) == "5 are missing: 0, 1, 2, …"


def test_a_report_names_each_problem_with_its_remedy_and_the_worst_repetition_only() -> None:
    report = FaultReport(consumer="shipping", scenarios=["x", "y"], skipped=["z, for a reason"])
    report.repetitions = [Repetition(name="mails", scenario=name, times=times) for name, times in (("x", 2), ("y", 3))]
    report.raise_for_problems()
    assert str(report).splitlines() == [
        "the handlers of shipping are safe: 2 scenarios",
        "note: mails happen again: 3 more times, for example in 'y'",
        "note: not tried: z, for a reason",
    ]


def test_problems_that_have_one_remedy_name_it_once() -> None:
    report = FaultReport(consumer="shipping", scenarios=["x", "y", "z"])
    report.problems = [Problem(scenario=name, what="differs", remedy=f"Fix {name > 'x'}.") for name in "yxz"]
    with pytest.raises(AssertionError) as caught:
        report.raise_for_problems()
    assert str(caught.value).splitlines() == [
        "the handlers of shipping are not safe: 3 scenarios",
        "- y: differs",
        "- z: differs",
        "  → Fix True.",
        "- x: differs",
        "  → Fix False.",
    ]
