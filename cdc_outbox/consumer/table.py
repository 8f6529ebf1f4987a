"""The tables that a consumer remembers in."""

from collections.abc import Mapping
from dataclasses import dataclass

from cdc_outbox.errors import ConfigError
from cdc_outbox.table import Dialect, TableName

KEY_BYTES: Mapping[str, int] = {"event_id": 2300, "source": 500, "aggregate_type": 500, "aggregate_id": 1300}
"""How long the columns of a key are on MySQL, where each has a length of its own: with the consumer's name and the
first sequence of a hole they fill most of what InnoDB's index takes, 3,072 bytes. A topic's name has at most 249."""

_MAX_NAME_BYTES = 255
"""A consumer's name is part of every key in the inbox, and an index has only so much room."""


def checked_name(name: str, field: str) -> str:
    """Return the name under which a consumer remembers.

    Raises:
        ConfigError: It can be none.
    """
    if not name:
        raise ConfigError("a consumer has a name, under which it remembers", field=field)
    if len(name.encode()) > _MAX_NAME_BYTES or "\0" in name:
        raise ConfigError(f"a consumer's name has at most {_MAX_NAME_BYTES} bytes and no NUL", field=field)
    return name


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxTable:
    """The table in which a consumer claims the ids of the events it has applied, in the handler's transaction.

    Several consumers may share it: every key starts with the consumer's name.

    Args:
        schema: Where the tables lie; ``None`` is the connection's database, on MySQL only.
        name: The claims', and what the names of the others begin with.
    """

    schema: str | None = "public"
    name: str = "inbox"
    dialect: Dialect = Dialect.POSTGRESQL

    def __post_init__(self) -> None:
        _ = self.table  # which checks both names

    @classmethod
    def on(cls, dialect: Dialect) -> "InboxTable":
        """Return the inbox where a database of this dialect has it unless somebody says otherwise."""
        return cls(schema=dialect.default_schema, dialect=dialect)

    @property
    def table(self) -> TableName:
        """The claims; on PostgreSQL partitioned by range of the event's id."""
        return TableName(schema=self.schema, name=self.name, dialect=self.dialect)

    @property
    def watermarks(self) -> TableName:
        """The last sequence applied, one row per consumer, source and aggregate; never pruned."""
        return self.table.sibling("watermarks")

    @property
    def rest(self) -> TableName:
        """The partition of the claims that takes every id for which no other partition was made."""
        return self.table.sibling("rest")

    @property
    def parked(self) -> TableName:
        """Events that wait or are given up, as the messages they came in."""
        return self.table.sibling("parked")

    @property
    def holes(self) -> TableName:
        """Sequences that somebody accepted as missing, so that what a watermark says stays explained; never pruned."""
        return self.table.sibling("holes")

    @property
    def epochs(self) -> TableName:
        """Who owns a partition: the number of its last assignment."""
        return self.table.sibling("epochs")

    @property
    def starts(self) -> TableName:
        """How often an event was begun, where a process may have died of it."""
        return self.table.sibling("starts")

    @property
    def purges(self) -> TableName:
        """Up to which time each consumer's ids were forgotten."""
        return self.table.sibling("purges")

    @property
    def tables(self) -> tuple[TableName, ...]:
        """All of them; the one with the inbox's name first."""
        rest = (self.rest,) if self.dialect is Dialect.POSTGRESQL else ()
        return (self.table, *rest, self.watermarks, *self._beside)

    @property
    def _beside(self) -> tuple[TableName, ...]:
        return self.parked, self.holes, self.epochs, self.starts, self.purges

    def names(self) -> Mapping[str, str]:
        """Return what the statements in ``sql/`` call ``{inbox}``, ``{watermarks}``, ``{parked}`` and so on."""
        return {
            "inbox": self.table.quoted,
            "rest": self.rest.quoted,
            "watermarks": self.watermarks.quoted,
            "parked": self.parked.quoted,
            "holes": self.holes.quoted,
            "epochs": self.epochs.quoted,
            "starts": self.starts.quoted,
            "purges": self.purges.quoted,
            **{f"{column}_bytes": str(size) for column, size in KEY_BYTES.items()},
        }
