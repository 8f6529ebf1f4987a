"""What has to be found after a recovery, by the writers' ledger: all of it, and nothing else."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial

from cdc_outbox import RecordedEvent
from cdc_outbox.databases.heartbeats import Acceptance, read_record
from tests.faults.history import History
from tests.faults.runbook import Runbook

_SECOND = timedelta(seconds=1)
"""What a finding leaves out of a time."""
_STAMP = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[+-]\d{4}"
_RANGE = re.compile(rf"committed between ({_STAMP}|its backup) and ({_STAMP}|the restore)")
_WENT_BACK = "the database was restored to heartbeat"
_EXTRA = re.compile(r"(.+) in the topic, and the outbox has given out no more than \d+")
_CONFLICT = re.compile(r"(\d+) is (\S+) (?:at|in) ")
_HEARTBEATS = {"OP401", "OP402", "OP403"}
"""What heartbeats tell of a database that went back."""
_Spans = dict[str, list[tuple[int, int]]]


@dataclass(frozen=True)
class _Range:
    """A time of which a finding says that something is lost that was committed in it."""

    begin: datetime
    end: datetime
    text: str

    def holds(self, at: datetime) -> bool:
        return self.begin <= at < self.end + _SECOND


@dataclass
class Oracle:
    """Compares effects and findings with what the writers committed.

    Args:
        unaffected: How many events had no effect, at the last look.
    """

    history: History
    runbook: Runbook
    unaffected: int = field(default=0, init=False)
    _judged_at: datetime = field(default_factory=partial(datetime.now, UTC), init=False)

    def judge(self) -> Iterator[str]:
        """Say what is wrong."""
        ledger, published = self.history.ledger, self.history.published()
        effects = Counter(self.history.effects())
        for event_id, times in effects.items():
            if times > 1 or event_id not in ledger.committed:
                yield f"{self._known(event_id)} had its effect {times} times"
        without = ledger.committed.keys() - effects.keys()
        self.unaffected = len(without)
        dead, conflicts = self.history.dead_events(), self._conflicting(published)
        ranges = list(self._ranges())
        for event_id in sorted(without - dead - conflicts):
            if event_id in published:
                yield f"{self._known(event_id)} is in its topic, had no effect, and nothing names it"
            elif event_id not in ledger.taken:
                yield f"{self._known(event_id)} was never published, and nothing names it"
        for event_id in sorted(ledger.shown):
            if not any(each.holds(ledger.at[event_id]) for each in ranges):
                told = [f"{each.begin} to {each.end}" for each in ranges]
                yield f"{self._known(event_id)} is not in the database any more, and lies in none of {told}"
        for event_id in sorted(dead - without):
            yield f"{self._known(event_id)} had its effect, and is a dead letter all the same"
        yield from self._wrong_codes()
        yield from self._wrong_ranges(ranges)
        yield from self._wrong_numbers(published, conflicts)

    def _wrong_codes(self) -> Iterator[str]:
        """Say which findings are left, and which one did not come."""
        ledger, runbook = self.history.ledger, self.runbook
        accepted = [at for _, at in self._accepted() if at > self._judged_at]
        if ledger.is_shown and not (accepted or runbook.seen & _HEARTBEATS):
            yield "the producer's database went back, and no heartbeat shows it"
        ledger.is_shown, self._judged_at = False, datetime.now(UTC)
        if runbook.left:
            yield f"what is found does not come to an end: {sorted(runbook.left)}"
        for each in runbook.found:
            if each.kind not in {"extra", "conflict", "parked"} or not ledger.restores:
                yield f"after the recovery there is {each.kind}: {each.place}: {each.message}"

    def _accepted(self) -> Iterator[tuple[str, datetime]]:
        """Return what was found when it was accepted, and when."""
        for message in self.history.heartbeat_messages():
            record = read_record(message)
            if isinstance(record, Acceptance):
                yield from ((text, record.at) for text in record.found)

    def _ranges(self) -> Iterator[_Range]:
        """Return the times that findings name, which a person saw or accepted."""
        for text, seen_at in {**dict(self._accepted()), **self.runbook.messages}.items():
            named = _RANGE.search(text)
            if named is None:
                continue
            restored = [each.at for each in self.history.ledger.restores if each.at <= seen_at]
            until = named[2]
            if until == "the restore" and not restored:
                end = seen_at
            else:
                end = restored[-1] if until == "the restore" else _time(until)
            yield _Range(_time(named[1]), end, text)

    def _wrong_ranges(self, ranges: list[_Range]) -> Iterator[str]:
        """Say which times are named though nothing befell the producer in them, or begin too early."""
        ledger = self.history.ledger
        for each in ranges:
            went_back = _WENT_BACK in each.text
            since = [restore.since for restore in ledger.restores if each.holds(restore.at)]
            if not since and (went_back or not any(each.holds(at) for at in ledger.broken_at)):
                yield f"nothing was lost in the time that is named: {each.text}"
            elif went_back and each.begin < min(since) - _SECOND:
                yield f"nothing was lost at the beginning of the time that is named: {each.text}"

    def _wrong_numbers(self, published: Mapping[str, RecordedEvent], conflicts: set[str]) -> Iterator[str]:
        """Say which numbers `verify` names wrongly, or does not name."""
        named: _Spans = defaultdict(list)
        told = set()
        for each in self.runbook.found:
            if each.kind == "extra":
                spans = _EXTRA.match(each.message)
                named[each.place] += _spans(spans[1]) if spans else []
            elif each.kind == "conflict":
                told |= {found[2] for found in [_CONFLICT.match(each.message)] if found}
        numbers = {place: _numbers(spans) for place, spans in named.items()}
        expected = self._lost_numbers(published)
        if numbers != expected:
            yield f"`verify` names as extra {numbers}, and lost are {expected}"
        if told != conflicts:
            yield f"`verify` names as conflicts {sorted(told)}, and they are {sorted(conflicts)}"

    def _lost_numbers(self, published: Mapping[str, RecordedEvent]) -> dict[str, set[int]]:
        """Return by aggregate the published numbers that the database does not know to have given out."""
        ledger = self.history.ledger
        given: Counter[str] = Counter()
        for event_id in ledger.present:
            event = ledger.committed[event_id]
            if event.sequence is not None:
                given[_place(event)] = max(given[_place(event)], event.sequence)
        lost: dict[str, set[int]] = defaultdict(set)
        for event in published.values():
            if event.sequence is not None and event.sequence > given[_place(event)]:
                lost[_place(event)].add(event.sequence)
        return dict(lost)

    def _conflicting(self, published: Mapping[str, RecordedEvent]) -> set[str]:
        """Return the ids of events, in topic or outbox, under whose number the topic had another one before."""
        rows, committed = self.history.rows(), self.history.ledger.committed
        kept = [committed[event_id] for event_id in rows & committed.keys()]
        first: dict[tuple[str, int | None], str] = {}
        for event in published.values():
            first.setdefault((_place(event), event.sequence), event.id)
        return {
            event.id
            for event in (*published.values(), *kept)
            if event.sequence is not None and first.get((_place(event), event.sequence), event.id) != event.id
        }

    def _known(self, event_id: str) -> str:
        ledger = self.history.ledger
        event = ledger.committed.get(event_id)
        where = "" if event is None else f" {_place(event)} {event.sequence} of {ledger.at[event_id]}"
        return f"event {event_id}{where}{' (taken)' if event_id in ledger.taken else ''}"


def _place(event: RecordedEvent) -> str:
    return f"{event.aggregate_type}/{event.aggregate_id} ({event.source})"


def _time(text: str) -> datetime:
    if text == "its backup":  # whoever restored it knows when that was made
        return datetime.min.replace(tzinfo=UTC)
    return datetime.strptime(text, "%Y-%m-%d %H:%M:%S%z")


def _spans(text: str) -> list[tuple[int, int]]:
    """Read ``4 to 5, 7``."""
    found = [part.split(" to ") for part in text.split(", ")]
    return [(int(each[0]), int(each[-1])) for each in found]


def _numbers(spans: list[tuple[int, int]]) -> set[int]:
    return {number for first, last in spans for number in range(first, last + 1)}
