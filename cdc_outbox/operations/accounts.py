"""Collect what a pipeline holds as its events come in, and derive what that says of an aggregate type. Pure.

There is one account for each aggregate: half a kilobyte, and four bytes for each of its events.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from sys import intern

from cdc_outbox.consumer.ordering import Aggregate, aggregate_of
from cdc_outbox.contract.wire import WireContract
from cdc_outbox.event import RecordedEvent
from cdc_outbox.message import Message
from cdc_outbox.operations.reconciliation import (
    Account,
    Circumstances,
    Difference,
    DifferenceKind,
    Numbers,
    fingerprint,
    forgotten,
)
from cdc_outbox.redaction import counted

_MAX_LISTED = 1_000
"""How many findings of one kind are kept; further ones are only counted."""


@dataclass(slots=True)
class Unnumbered:
    """The events of one aggregate type that only their ids tell apart.

    Args:
        lacking: Ids of rows that the outbox keeps, and that no message has had yet.
        unapplied: Ids of rows that a message had, and the inbox has not.
        late: The same of messages that came while the topics were compared.
    """

    messages: int = 0
    rows: int = 0
    lacking: set[str] = field(default_factory=set)
    unapplied: set[str] = field(default_factory=set)
    late: set[str] = field(default_factory=set)


class Findings:
    """Findings by kind: all are counted, and the first of them kept."""

    def __init__(self) -> None:
        self.events: Counter[tuple[str, DifferenceKind]] = Counter()
        """By aggregate type and kind."""
        self.locations: Counter[DifferenceKind] = Counter()
        self.listed: dict[DifferenceKind, list[Difference]] = {kind: [] for kind in DifferenceKind}

    def add(self, found: Difference, aggregate_type: str = "") -> None:
        """Count one."""
        self.events[aggregate_type, found.kind] += found.events
        self.locations[found.kind] += 1
        if len(self.listed[found.kind]) < _MAX_LISTED:
            self.listed[found.kind].append(found)

    def __iter__(self) -> Iterator[Difference]:
        return (found for kind in DifferenceKind for found in self.listed[kind])

    @property
    def has_differences(self) -> bool:
        """Whether there is one among them."""
        return any(kind.is_difference for kind in self.locations)


class Accounts:
    """The accounts of a pipeline's aggregates.

    Args:
        contract: What its messages keep.
    """

    def __init__(self, contract: WireContract) -> None:
        self.contract = contract
        self.accounts: dict[Aggregate, Account] = {}
        self.unnumbered = {name: Unnumbered() for name, mode in contract.aggregates.items() if not mode.is_numbered}
        self.findings = Findings()
        """What no later look can change."""
        self.messages = 0
        self.repeated = 0
        self.late = 0
        """Events that came behind all others of their aggregate while the topics were compared."""
        self.strangers: Counter[str] = Counter()
        """Aggregate types of the outbox that the contract does not know, and how many aggregates or rows they have."""

    def account(self, source: str, aggregate_type: str, aggregate_id: str) -> Account:
        """Return an aggregate's account; it is opened by the first who asks."""
        # A plain tuple finds what is kept under a named one, and costs less.
        found = self.accounts.get((source, aggregate_type, aggregate_id))  # type: ignore[call-overload]
        if found is None:
            found = self.accounts[Aggregate(intern(source), intern(aggregate_type), aggregate_id)] = Account()
        return found  # type: ignore[no-any-return]

    def take(self, event: RecordedEvent, message: Message) -> None:
        """Enter an event that a topic holds."""
        self.messages += 1
        unnumbered = self.unnumbered.get(event.aggregate_type)
        if unnumbered is not None:
            unnumbered.messages += 1
            if event.id in unnumbered.lacking:
                unnumbered.lacking.discard(event.id)
                unnumbered.unapplied.add(event.id)
        elif event.sequence is not None:
            self._take_number(event, event.sequence, message)

    def take_later(self, event: RecordedEvent, message: Message) -> None:
        """Enter an event that came after the first look, if it was missing then; it need not be applied yet."""
        unnumbered = self.unnumbered.get(event.aggregate_type)
        if unnumbered is not None:
            if event.id in unnumbered.lacking:
                unnumbered.lacking.discard(event.id)
                unnumbered.late.add(event.id)
                unnumbered.messages += 1
                self.late += 1
            return
        account = self.accounts.get(aggregate_of(event))
        if account is not None and event.sequence is not None and event.sequence <= account.given:
            numbers = account.numbers = account.numbers or Numbers()
            last = numbers.last
            self._take_number(event, event.sequence, message)
            # A message that comes again is no event more, and the consumer is given time for one between others.
            self.late += numbers.last > last

    def unreadable(self, message: Message, reason: str) -> None:
        """Enter a message that cannot be read."""
        self.messages += 1
        remedy = "Find its producer. Consumers park it; its event is unknown."
        self.findings.add(
            Difference(
                kind=DifferenceKind.UNREADABLE, location=message.position, events=1, message=f"{reason}.", remedy=remedy
            )
        )

    def compare_row(self, event_id: str, account: Account, aggregate: Aggregate, sequence: int) -> None:
        """Compare an event's row with the message of its number."""
        known = account.numbers.get(sequence) if account.numbers is not None else None
        if known is not None and known != fingerprint(event_id):
            message = f"{sequence} is {event_id} in the outbox, but another event in the topic."
            self._conflict(aggregate, message)

    def _take_number(self, event: RecordedEvent, sequence: int, message: Message) -> None:
        account = self.account(*aggregate_of(event))
        if account.numbers is None:
            account.numbers = Numbers()
        size, own = len(account.numbers), fingerprint(event.id)
        first = account.numbers.add(sequence, own)
        # Of one that came twice the later message counts: it is still to come to who has read the earlier one.
        if sequence >= account.numbers.last:
            account.partition, account.offset = message.partition or 0, message.offset or 0
        if first != own:
            aggregate = aggregate_of(event)
            self._conflict(
                aggregate, f"{sequence} is {event.id} at {message.position}, but an earlier message has another event."
            )
        elif len(account.numbers) == size:
            self.repeated += 1

    def _conflict(self, aggregate: Aggregate, message: str) -> None:
        location = f"{aggregate.aggregate_type}/{aggregate.aggregate_id} ({aggregate.source})"
        remedy = (
            "Two writers numbered one aggregate, or the outbox was restored: after a restore it needs a new "
            "incarnation (`cdc-outbox init --new-incarnation`)."
        )
        self.findings.add(
            Difference(kind=DifferenceKind.CONFLICT, location=location, events=1, message=message, remedy=remedy),
            aggregate.aggregate_type,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """One aggregate type, added up.

    Args:
        given: How many events the outbox gave out; of types without gapless numbers, how many rows it keeps.
        held: How many of them the topic holds; of unnumbered types, its messages.
        applied: How many the consumer has applied, ``None`` where that is not known.
        forgotten: How many the topic may have forgotten, so that nothing is proven of them.
    """

    aggregate_type: str
    aggregates: int = 0
    given: int | None = None
    held: int = 0
    applied: int | None = None
    forgotten: int = 0


def sums_of(name: str, accounts: Accounts, known: Circumstances) -> Sums:
    """Add one aggregate type up."""
    unnumbered = accounts.unnumbered.get(name)
    if unnumbered is not None:
        return _sums_of_ids(name, unnumbered, known)
    own = [account for aggregate, account in accounts.accounts.items() if aggregate.aggregate_type == name]
    is_gapless = known.mode.is_gapless
    return Sums(
        aggregate_type=name,
        aggregates=len(own),
        given=sum(account.given for account in own) if is_gapless and known.has_heads else None,
        held=sum(len(account.numbers or ()) for account in own),
        applied=sum(account.applied for account in own) if is_gapless and known.consumer is not None else None,
        forgotten=sum(forgotten(account, known) for account in own),
    )


def _sums_of_ids(name: str, unnumbered: Unnumbered, known: Circumstances) -> Sums:
    open_ids = len(unnumbered.lacking | unnumbered.unapplied | unnumbered.late)
    applied = None if known.consumer is None else unnumbered.rows - open_ids
    return Sums(aggregate_type=name, given=unnumbered.rows, held=unnumbered.messages, applied=applied)


def notes_of(
    accounts: Accounts,
    *,
    known_topics: Collection[str],
    starting_later: Collection[str],
    compacted: Collection[str],
    has_heads: bool,
    keeps_rows: bool,
) -> Iterator[str]:
    """Yield notes about what is not proven and what is worth knowing."""
    yield from (f"there is no topic {topic} yet" for topic in accounts.contract.topics if topic not in known_topics)
    for topic in sorted(starting_later):
        yield f"the oldest messages of {topic} are gone: the events applied from them count as complete"
    for topic in sorted(compacted):
        yield f"{topic} is compacted: it does not prove which applied events existed"
    for name in sorted(accounts.unnumbered):
        if keeps_rows:
            yield f"{name} is not numbered: nothing is proven about events whose rows are pruned"
        else:
            yield f"{name} is not numbered and its rows are not kept: nothing is proven"
    if not has_heads:
        yield ("the outbox numbers nothing: missing events of a type that is numbered elsewhere cannot be found")
    for name, aggregates in sorted(accounts.strangers.items()):
        yield (f"{name} has {counted(aggregates, 'aggregate')} in the outbox but is not in the spec: not compared")
    if accounts.repeated:
        yield f"{counted(accounts.repeated, 'message')} came twice, which is not a difference"
