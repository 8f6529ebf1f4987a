"""What is left of several sources' findings: each cause once, told by the finding that helps most."""

import pytest

from cdc_outbox.debezium.explanations import explanations
from cdc_outbox.finding import Finding, Location, Severity
from cdc_outbox.operations.merged_findings import by_severity, merge

ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE


def finding(code: str, where: str = "database orders", severity: Severity = ERROR, text: str = "") -> Finding:
    """Return a finding whose message and remedy are this text."""
    document, path = where.split()
    place = Location(document=document, path=path)
    return Finding(code=code, severity=severity, location=place, message=text, remedy=text)


def test_what_two_sources_find_is_told_as_the_first_says_it() -> None:
    first, other = finding("DB303", text="first"), finding("DB303", "database billing")
    assert merge([first], [other, finding("DB303", text="second")]) == [first, other]


def test_of_what_two_sources_find_the_more_severe_is_told() -> None:
    warning, error = finding("DB203", severity=WARNING), finding("DB203")
    assert merge([warning], [error]) == merge([error], [warning]) == [error]


def test_what_one_source_finds_twice_at_a_location_is_told_twice() -> None:
    found = [finding("OP302", text="partitions"), finding("OP302", text="retention")]
    assert merge(found, [finding("OP302", text="again")]) == found


SPEC, OPTION = "spec.yaml overrides.max.queue.size", "connect max.queue.size"
PAIRS = [
    (finding("DB304"), finding("DB311")),
    (finding("DB306"), finding("DB315", severity=WARNING)),
    (finding("DB308"), finding("DB316", severity=WARNING)),
    (finding("DB511"), finding("DB505")),
    (finding("DB512"), finding("DB505")),
    (finding("DB101", "database shop"), finding("DB301")),
    (finding("DB101", "database shop"), finding("DB401")),
    (finding("OP208", "connect table.include.list"), finding("DB301")),
    (finding("OP201", "connect orders"), finding("DB601", severity=NOTE)),
    (finding("OP101", "connect orders"), finding("DB601", severity=NOTE)),
    (finding("OP102", "connect orders", NOTE), finding("DB601", severity=NOTE)),
    (finding("OP101", "connect orders"), finding("DB511", severity=WARNING)),
    (finding("OP202", "connect orders", text="Correct it."), finding("CC001", OPTION, text="Correct it.")),
    (finding("CC108", SPEC), finding("CC001", OPTION)),
]
"""A cause, and what follows from it."""


@pytest.mark.parametrize(("cause", "consequence"), PAIRS, ids=lambda each: each.code)
def test_a_cause_is_told_without_what_follows_from_it(cause: Finding, consequence: Finding) -> None:
    assert merge([consequence], [cause]) == merge([cause, consequence]) == [cause]
    assert merge([consequence]) == [consequence]
    assert {cause.code, consequence.code} <= explanations().keys()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (finding("DB304"), finding("DB311", "database billing")),
        (finding("DB511", severity=WARNING), finding("DB505")),
        (finding("DB512", "database former"), finding("DB505")),
        (finding("OP101", "topics orders"), finding("DB601", severity=NOTE)),
        (finding("OP101", "database orders"), finding("DB511", severity=WARNING)),
        (finding("OP101", "connect orders"), finding("DB511")),
        (finding("OP102", "connect orders", NOTE), finding("DB511", severity=WARNING)),
        (finding("OP202", "connect orders", text="One thing."), finding("CC001", OPTION, text="Another.")),
        (finding("OP202", "connect orders"), finding("CC001", OPTION)),
        (finding("CC108", SPEC, WARNING), finding("CC001", OPTION)),
        (finding("CC108", SPEC), finding("CC001", "connect max.batch.size")),
    ],
    ids=lambda each: each.code,
)
def test_what_may_have_causes_of_their_own_is_told_of_both(one: Finding, other: Finding) -> None:
    assert merge([one], [other]) == [one, other]


def test_the_worst_comes_first_and_equals_stay_in_order() -> None:
    found = [finding("OP301", severity=NOTE), finding("OP201"), finding("OP102", severity=NOTE)]
    found += [finding("OP203", severity=WARNING), finding("DB512")]
    assert [each.code for each in by_severity(found)] == ["OP201", "DB512", "OP203", "OP301", "OP102"]
