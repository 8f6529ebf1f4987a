"""Make a consumer forget events, so that their effects run again when they are replayed.

What a topic holds no more cannot run again, and its effects stay: so the watermark of an aggregate whose first events
are gone from the topic goes back to just before the first one that is there, and what is there follows it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cdc_outbox.consumer.claims import columns_of
from cdc_outbox.consumer.fencing import TopicPartition
from cdc_outbox.consumer.ordering import Aggregate, aggregate_of, key_of
from cdc_outbox.consumer.topic_reader import Selection, TopicReader
from cdc_outbox.contract.wire import WireContract
from cdc_outbox.databases.drivers import Row
from cdc_outbox.errors import ConsumerError, MessageError
from cdc_outbox.event import RecordedEvent, SequenceMode
from cdc_outbox.operations.connections import OpenInbox
from cdc_outbox.redaction import counted

_PAGE = 10_000
"""Watermarks that one statement puts back: some megabytes, and no server refuses as many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """What a reset forgets.

    Args:
        claims: Ids of events.
        aggregates: Whose watermark goes back.
        kept: Those of them whose first events are gone from the topic, so that their watermarks do not go back to none.
    """

    claims: int
    aggregates: int
    parked: int
    holes: int
    kept: int


def standing(
    watermarks: Mapping[Aggregate, int], firsts: Mapping[Aggregate, int], contract: WireContract
) -> dict[Aggregate, int]:
    """Return where watermarks go back to, without those of which nothing stays. Pure.

    Args:
        firsts: The first number that the topic holds of each aggregate.
    """
    stays = {}
    for aggregate, last in watermarks.items():
        mode = contract.aggregates.get(aggregate.aggregate_type, SequenceMode.NONE)
        stand = min(last, mode.predecessor(firsts.get(aggregate, last + 1)) or 0)
        if stand > 0:
            stays[aggregate] = stand
    return stays


class Reset:
    """One reset of one consumer.

    Args:
        inbox: For a role that may delete what consumers remember.
        aggregate: Type and id of the one that is forgotten; ``None`` forgets all of them.

    Raises:
        ConfigError: The contract does not know the type.
    """

    def __init__(
        self,
        contract: WireContract,
        *,
        inbox: OpenInbox,
        topics: TopicReader,
        aggregate: tuple[str, str] | None = None,
    ) -> None:
        self._contract, self._reader, self._consumer = contract, topics, inbox.consumer
        self._selection = Selection(aggregate=aggregate)
        self._topics = self._selection.topics(contract)
        names = aggregate or (None, None)
        self._wanted = {"consumer": inbox.consumer, "aggregate_type": names[0], "aggregate_id": names[1]}
        self._database = inbox.database("reset")

    def run(self, *, dry_run: bool) -> Forgotten:
        """Forget, in one transaction that holds the locks on all the watermarks from its beginning.

        Raises:
            ConsumerError: The group has members, or parked events would be lost. Nothing was changed.
            BrokerError, DatabaseError: A server cannot be asked.
        """
        self._refuse_while_it_runs()
        bounds = self._reader.bounds(self._reader.partitions(self._topics))
        ids, firsts = self._read(bounds)
        # Everything of the consumer's may include what is of no contract here; one aggregate has just these ids.
        of_ids = None if self._selection.aggregate is None else {"event_ids": sorted(map(key_of, ids))}
        with self._database.transaction():
            rows = self._database.ask("lock_watermarks", **self._wanted)
            watermarks = {Aggregate(*names): last for *names, last in rows}
            self._refuse_to_lose_parked({tp: start for tp, (start, _) in bounds.items()})
            stays = standing(watermarks, firsts, self._contract)
            [(claims,)] = self._ask_of_ids("count_ids", "inbox", of_ids)
            [(parked,)] = self._ask("count", "parked")
            [(holes,)] = self._ask("count", "holes")
            if not dry_run:
                self._forget(of_ids, stays)
                # Once more, for who has joined meanwhile and may wait for the locks with what he has read before.
                self._refuse_while_it_runs()
        return Forgotten(claims=claims, aggregates=len(watermarks), parked=parked, holes=holes, kept=len(stays))

    def forget_offsets(self, *, dry_run: bool) -> int:
        """Forget up to where each partition was applied, so that it is read from its beginning; return how many it is.

        Raises:
            ConsumerError: The group has members. Nothing was changed.
            BrokerError, DatabaseError: A server cannot be asked.
        """
        self._refuse_while_it_runs()
        with self._database.transaction():
            [(partitions,)] = self._database.ask("count_offsets", consumer=self._consumer)
            if not dry_run:
                self._database.ask("forget_offsets", consumer=self._consumer)
                self._refuse_while_it_runs()
        return int(partitions)

    def _ask(self, statement: str, table: str) -> list[Row]:
        """Ask about the aggregates that are meant, in a table that knows them."""
        return self._database.ask(statement, {"table": self._database.names[table]}, **self._wanted)

    def _ask_of_ids(self, statement: str, table: str, of_ids: Mapping[str, list[str]] | None) -> list[Row]:
        """Ask about some of the consumer's events, or about all of them, in a table that knows their ids alone."""
        name = statement if of_ids is None else f"{statement}_of"
        names = {"table": self._database.names[table]}
        return self._database.ask(name, names, consumer=self._consumer, **(of_ids or {}))

    def _forget(self, of_ids: Mapping[str, list[str]] | None, stays: Mapping[Aggregate, int]) -> None:
        for table in ("inbox", "starts"):
            self._ask_of_ids("forget_ids", table, of_ids)
        for table in ("parked", "holes", "watermarks"):
            self._ask("forget", table)
        if self._selection.aggregate is None:
            self._database.ask("forget_offsets", consumer=self._consumer)
        aggregates = list(stays)
        for start in range(0, len(aggregates), _PAGE):
            page = aggregates[start : start + _PAGE]
            lasts = [stays[aggregate] for aggregate in page]
            self._database.ask("keep_watermarks", consumer=self._consumer, **columns_of(page), lasts=lasts)

    def _read(self, bounds: Mapping[TopicPartition, tuple[int, int]]) -> tuple[set[str], dict[Aggregate, int]]:
        """Return the ids of one aggregate's events, and the first number of each aggregate that the topics hold."""
        ids: set[str] = set()
        firsts: dict[Aggregate, int] = {}
        for event in self._events(bounds):
            if self._selection.aggregate is not None:
                ids.add(event.id)
            if event.sequence is not None:
                aggregate = aggregate_of(event)
                firsts[aggregate] = min(event.sequence, firsts.get(aggregate, event.sequence))
        return ids, firsts

    def _events(self, bounds: Mapping[TopicPartition, tuple[int, int]]) -> Iterable[RecordedEvent]:
        for message in self._reader.read(bounds):
            try:
                event = self._contract.event_of(message)
            except MessageError:
                continue
            if self._selection.takes(event):
                yield event

    def _refuse_while_it_runs(self) -> None:
        members = self._reader.members(self._consumer)
        if members:
            raise ConsumerError(
                f"the group {self._consumer} has {counted(members, 'member')}; nothing was deleted",
                hint="Stop the consumer everywhere, and wait until the brokers have noticed.",
            )

    def _refuse_to_lose_parked(self, starts: Mapping[TopicPartition, int]) -> None:
        [(gone,)] = self._database.ask(
            "count_gone",
            **self._wanted,
            topics=[tp.topic for tp in starts],
            partitions=[tp.partition for tp in starts],
            starts=list(starts.values()),
        )
        if gone:
            raise ConsumerError(
                f"no topic still has {counted(gone, 'parked event')}, which would be lost; nothing was deleted",
                hint="Retry, skip or export them first: `cdc-outbox parked list`.",
            )
