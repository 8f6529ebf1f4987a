"""What random histories of a recovery are judged by: what is not named, or named and not missing, fails them."""

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cdc_outbox import RecordedEvent
from cdc_outbox.message import Message
from tests.faults.oracle import Oracle
from tests.faults.runbook import Found
from tests.faults.written import Ledger, Restore

BEGIN = datetime(2026, 11, 23, 8, tzinfo=UTC)
RESTORED_AT = BEGIN + timedelta(minutes=30)


def event(number: int, event_id: str = "") -> RecordedEvent:
    return RecordedEvent(
        aggregate_type="order",
        aggregate_id="1",
        type="Placed",
        payload={},
        id=event_id or f"e{number}",
        sequence=number,
        source="s.1",
        created_at=BEGIN,
    )


def went_back(begin: str, end: str) -> str:
    return f"the database was restored to heartbeat 1: events committed between {begin} and {end} may be missing"


@dataclass
class StubHistory:
    """Of numbers 1 to 5, committed at 08:01 to 08:05, a restore took 4 and 5; 4 was published."""

    ledger: Ledger = field(
        default_factory=lambda: Ledger(
            committed={f"e{number}": event(number) for number in range(1, 6)},
            at={f"e{number}": BEGIN + timedelta(minutes=number) for number in range(1, 6)},
            present={"e1", "e2", "e3"},
            taken={"e4", "e5"},
            shown={"e4", "e5"},
            restores=[Restore(RESTORED_AT, BEGIN + timedelta(minutes=3, seconds=30))],
            is_shown=True,
        )
    )
    dead: set[str] = field(default_factory=set)

    def effects(self) -> list[str]:
        return ["e1", "e2", "e3", "e4"]

    def published(self) -> dict[str, RecordedEvent]:
        return {f"e{number}": event(number) for number in range(1, 5)}

    def rows(self) -> set[str]:
        return {"e1", "e2", "e3"}

    def dead_events(self) -> set[str]:
        return self.dead

    def heartbeat_messages(self) -> list[Message]:
        return []


def extra(numbers: str) -> Found:
    message = f"{numbers} in the topic, and the outbox has given out no more than 3."
    return Found("extra", "order/1 (s.1)", message)


def judged(
    history: StubHistory, *messages: str, found: set[Found], seen: frozenset[str] = frozenset({"OP401"})
) -> list[str]:
    told = dict.fromkeys(messages, RESTORED_AT + timedelta(minutes=1))
    runbook = SimpleNamespace(seen=seen, left=set(), found=found, messages=told)
    return list(Oracle(cast("Any", history), cast("Any", runbook)).judge())


@pytest.mark.parametrize("until", ["2026-11-23 08:31:00+0000", "the restore"])
def test_what_is_named_exactly_is_right(until: str) -> None:
    assert judged(StubHistory(), went_back("2026-11-23 08:03:30+0000", until), found={extra("4")}) == []


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ("2026-11-23 08:04:30+0000", "2026-11-23 08:31:00+0000"),
        ("2026-11-23 08:05:30+0000", "the restore"),
        ("2026-11-23 08:03:30+0000", "2026-11-23 08:04:30+0000"),
    ],
)
def test_an_event_that_lies_outside_the_time_that_is_named_is_not_named(begin: str, end: str) -> None:
    told = judged(StubHistory(), went_back(begin, end), found={extra("4")})
    assert re.search(r"event e[45] order/1 .* lies in none of", told[0])


def test_a_time_in_which_nothing_was_lost_is_wrong() -> None:
    right = went_back("2026-11-23 08:03:30+0000", "the restore")
    [told] = judged(
        StubHistory(), right, went_back("2026-11-23 08:40:00+0000", "2026-11-23 08:41:00+0000"), found={extra("4")}
    )
    assert "nothing was lost in the time that is named" in told


def test_a_time_that_begins_too_early_is_wrong() -> None:
    [told] = judged(StubHistory(), went_back("2026-11-23 08:03:00+0000", "the restore"), found={extra("4")})
    assert "nothing was lost at the beginning of the time that is named" in told


@pytest.mark.parametrize("numbers", ["4 to 5", "3 to 4", "5"])
def test_numbers_that_are_not_those_that_are_lost_are_wrong(numbers: str) -> None:
    right = went_back("2026-11-23 08:03:30+0000", "the restore")
    [told] = judged(StubHistory(), right, found={extra(numbers)})
    assert told.endswith("and lost are {'order/1 (s.1)': {4}}")


def test_a_number_that_is_lost_and_not_named_is_wrong() -> None:
    right = went_back("2026-11-23 08:03:30+0000", "the restore")
    [told] = judged(StubHistory(), right, found=set())
    assert told == "`verify` names as extra {}, and lost are {'order/1 (s.1)': {4}}"


def test_a_conflict_that_is_none_is_wrong() -> None:
    right = went_back("2026-11-23 08:03:30+0000", "the restore")
    conflict = Found("conflict", "order/1 (s.1)", "2 is e2 in the outbox, but another event in the topic.")
    [told] = judged(StubHistory(), right, found={extra("4"), conflict})
    assert told == "`verify` names as conflicts ['e2'], and they are []"


def test_a_restore_that_no_heartbeat_shows_and_what_stays_behind_are_wrong() -> None:
    right = went_back("2026-11-23 08:03:30+0000", "the restore")
    missing = Found("missing", "order/1 (s.1)", "3 was given out and is not in the topic: late, or lost.")
    told = judged(StubHistory(dead={"e2"}), right, found={extra("4"), missing}, seen=frozenset({"DB514"}))
    assert [each.partition(":")[0] for each in told] == [
        "event e2 order/1 (s.1) 2 of 2026-11-23 08",
        "the producer's database went back, and no heartbeat shows it",
        "after the recovery there is missing",
    ]
