"""Read outbox and inbox for ``verify``, page by page, each page once."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

from cdc_outbox.consumer.claims import columns_of
from cdc_outbox.consumer.ordering import Aggregate
from cdc_outbox.contract.outbox_options import OutboxMode
from cdc_outbox.databases.drivers import AnyConnection, Row, TransactionDriver
from cdc_outbox.databases.drivers.immediate import finish
from cdc_outbox.databases.introspection import Catalog
from cdc_outbox.databases.table import OutboxTable
from cdc_outbox.operations.connections import OpenDatabase, OpenInbox
from cdc_outbox.operations.reconciliation import Parked

_PAGE = 10_000
"""Rows: some megabytes, and few enough questions."""


class OutboxStage:
    """What the outbox gave out.

    Args:
        connection: To the server that is written to: a replica may lag behind the topics.
    """

    def __init__(self, connection: AnyConnection, driver: TransactionDriver, table: OutboxTable) -> None:
        lacking = {"source": "null", "sequence": "null"}
        self._database = OpenDatabase(connection, driver, {**lacking, **table.names(driver.dialect)}, "verify")
        Catalog(connection, driver).refuse_hidden_rows(table.table, table.heads)
        self.has_heads = table.is_numbered
        """Whether it remembers the last number of each aggregate."""
        self.keeps_rows = table.mode is OutboxMode.KEEP
        """Whether events stay as rows until they are pruned."""
        self.republishes = driver.dialect.features.has_publications
        """Whether `deploy-connector` publishes rows of this database again."""

    def heads(self) -> Iterator[Row]:
        """Return source, aggregate type, aggregate id and last number of each aggregate."""
        if not self.has_heads:
            return
        page = self._database.ask("first_heads", rows=_PAGE)
        while page:
            yield from page
            source, aggregate_type, aggregate_id, _ = page[-1]
            page = self._database.ask(
                "next_heads", source=source, aggregate_type=aggregate_type, aggregate_id=aggregate_id, rows=_PAGE
            )

    def rows(self) -> Iterator[Row]:
        """Return id, aggregate type, aggregate id, source and sequence of each event that is kept, in their ids' order.

        Rows that are committed meanwhile may be among them or not.
        """
        if not self.keeps_rows:
            return
        page = self._database.ask("first_rows", rows=_PAGE)
        while page:
            yield from (row for _, *row in page)  # type: ignore[misc]
            page = self._database.ask("next_rows", after=page[-1][0], rows=_PAGE)


class InboxStage:
    """What a consumer remembers."""

    def __init__(self, inbox: OpenInbox) -> None:
        self.consumer = inbox.consumer
        self._inbox = inbox
        table = inbox.table
        Catalog(inbox.connection, inbox.driver).refuse_hidden_rows(
            table.table, table.watermarks, table.parked, table.holes
        )
        self._database = inbox.database("remembered")
        self._database.ask("isolate")

    @contextmanager
    def at_one_moment(self) -> Iterator[None]:
        """Let all that is read inside be as it was at one moment."""
        with self._database.transaction():
            yield

    def watermarks(self) -> Iterator[Row]:
        """Return source, aggregate type, aggregate id and the last number applied."""
        after = Aggregate("", "", "")
        while page := self._database.ask("watermarks", consumer=self.consumer, **after._asdict(), limit=_PAGE):
            yield from page
            after = Aggregate(*page[-1][:3])

    def watermarks_of(self, aggregates: Sequence[Aggregate]) -> Iterator[Row]:
        """Return the same of these aggregates, without those of which nothing is remembered."""
        # A topic may hold what no database does, and so no consumer remembers.
        storable = [aggregate for aggregate in aggregates if "\0" not in "".join(aggregate)]
        for start in range(0, len(storable), _PAGE):
            yield from self._database.ask(
                "watermarks_of", consumer=self.consumer, **columns_of(storable[start : start + _PAGE])
            )

    def topics(self) -> set[str]:
        """Return the topics of which it was ever given partitions; none where another loop reads for it."""
        return {topic for (topic,) in self._database.ask("topics", consumer=self.consumer)}

    def parked(self) -> Iterator[tuple[Aggregate, str, str, Parked]]:
        """Return each parked event: its aggregate, empty if it cannot be read, topic, id, and how it is parked."""
        after = 0
        while page := self._database.ask("parked", consumer=self.consumer, after=after, limit=_PAGE):
            for parked_id, *names, topic, event_id, sequence, state, reason in page:
                yield Aggregate(*names), topic, event_id, Parked(sequence, state, reason)
                after = parked_id

    def holes(self) -> Iterator[Row]:
        """Return source, aggregate type, aggregate id, first and last number of what was accepted as missing."""
        after, first = Aggregate("", "", ""), 0
        while page := self._database.ask("holes", consumer=self.consumer, **after._asdict(), first=first, limit=_PAGE):
            yield from page
            after, first = Aggregate(*page[-1][:3]), page[-1][3]

    def claimed(self, event_ids: Sequence[str]) -> set[str]:
        """Return those ids that are remembered as applied."""
        found: set[str] = set()
        for start in range(0, len(event_ids), _PAGE):
            page = event_ids[start : start + _PAGE]
            found |= finish(self._inbox.stores.inbox.find_claims(self._inbox.connection, page))
        return found

    def purged_before(self) -> datetime | None:
        """Return up to which time the consumer's ids were forgotten."""
        [(seconds,)] = self._database.ask("purged_before", consumer=self.consumer)
        return None if seconds is None else datetime.fromtimestamp(float(seconds), UTC)
