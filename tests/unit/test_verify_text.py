"""What `cdc-outbox verify` prints of its findings."""

from cdc_outbox.cli.verify import _text
from cdc_outbox.operations.accounts import Findings, Sums
from cdc_outbox.operations.reconciliation import Difference, DifferenceKind
from cdc_outbox.operations.verify import Verified


def test_a_remedy_is_printed_once_for_all_findings_that_it_is_for() -> None:
    findings = Findings()
    for number in range(25):
        found = Difference(
            kind=DifferenceKind.BEHIND,
            location=f"order/{number}",
            events=1,
            message="not applied.",
            remedy="Does it run?" if number else "Look at it.",
        )
        findings.add(found, "order")
    findings.add(Difference(kind=DifferenceKind.HOLE, location="order/1", events=1, message="accepted."), "order")
    lines = list(_text(Verified(sums=[Sums(aggregate_type="order")], findings=findings)))
    assert lines[2:] == [
        *(f"behind: order/{number}: not applied." for number in range(20)),
        "behind: 5 more",
        "  Look at it.",
        "  Does it run?",
        "hole: order/1: accepted.",
        "differences found",
    ]
