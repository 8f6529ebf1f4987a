"""The tables that a consumer remembers in."""

from collections.abc import Mapping
from dataclasses import dataclass

from cdc_outbox.table import TableName, quote


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxTable:
    """The table in which a consumer claims the ids of the events it has applied, in the handler's transaction.

    Several consumers may share it: every key starts with the consumer's name.
    """

    schema: str = "public"
    name: str = "inbox"

    def __post_init__(self) -> None:
        _ = self.table  # which checks both names

    @property
    def table(self) -> TableName:
        """The claims, partitioned by range of the event's id."""
        return TableName(schema=self.schema, name=self.name)

    @property
    def watermarks(self) -> TableName:
        """The last sequence applied, one row per consumer, source and aggregate; never pruned."""
        return self.table.sibling("watermarks")

    @property
    def rest(self) -> TableName:
        """The partition of the claims that takes every id for which no other partition was made."""
        return self.table.sibling("rest")

    def names(self) -> Mapping[str, str]:
        """Return what the statements in ``sql/`` call ``{inbox}``, ``{watermarks}`` and ``{rest}``."""
        return {
            "inbox": self.table.quoted,
            "watermarks": self.watermarks.quoted,
            "rest": self.rest.quoted,
            "schema": quote(self.schema),
        }
