"""What a comparison says of a whole aggregate type, and what it could not prove. Pure."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from cdc_outbox.event import SequenceMode
from cdc_outbox.operate.books import Books, Unnumbered
from cdc_outbox.operate.verification import Circumstances, forgotten
from cdc_outbox.safe_text import counted


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


def sums_of(name: str, books: Books, known: Circumstances) -> Sums:
    """Add one aggregate type up."""
    unnumbered = books.unnumbered.get(name)
    if unnumbered is not None:
        return _sums_of_ids(name, unnumbered, known)
    own = [account for aggregate, account in books.accounts.items() if aggregate.aggregate_type == name]
    is_gapless = known.mode is SequenceMode.GAPLESS
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
    books: Books,
    *,
    known_topics: Collection[str],
    starting_later: Collection[str],
    compacted: Collection[str],
    has_heads: bool,
    keeps_rows: bool,
) -> Iterator[str]:
    """Say what is not proven, and what is worth knowing."""
    yield from (f"there is no topic {topic} yet" for topic in books.contract.topics if topic not in known_topics)
    for topic in sorted(starting_later):
        yield f"{topic} has forgotten its oldest messages: what was applied of them is taken for complete"
    for topic in sorted(compacted):
        yield f"{topic} is compacted: of what was applied it proves nothing"
    for name in sorted(books.unnumbered):
        if keeps_rows:
            yield f"{name} is not numbered: of events whose rows are pruned nothing is proven"
        else:
            yield f"{name} is not numbered, and its rows are not kept: nothing is proven"
    if not has_heads:
        yield "the outbox numbers nothing: a missing event of a type that is numbered elsewhere cannot be seen"
    for name, aggregates in sorted(books.strangers.items()):
        yield f"{name} has {counted(aggregates, 'aggregate')} in the outbox and is not in the spec: not compared"
    if books.repeated:
        yield f"{counted(books.repeated, 'message')} came twice, which is no difference"
