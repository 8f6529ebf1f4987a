"""The tables that a consumer remembers in: their names, how they are made, and the statements on them."""

from collections.abc import Mapping
from dataclasses import dataclass

from cdc_outbox.contract.outbox_options import chosen, settle
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.drivers import AnyConnection, AsyncDriver, Row
from cdc_outbox.databases.drivers.statements import NamedStatements
from cdc_outbox.databases.migrations import Component, load_migrations
from cdc_outbox.databases.roles import Privilege, Role
from cdc_outbox.databases.table import TableName
from cdc_outbox.errors import ConfigError, TransactionConflictError

_MAX_NAME_BYTES = 255
"""A consumer's name is part of every key in the inbox, and an index has only so much room."""


def checked_name(name: str, field: str) -> str:
    """Return the name under which a consumer remembers.

    Raises:
        ConfigError: It can be none.
    """
    if not name:
        raise ConfigError("a consumer's name must not be empty", field=field)
    if len(name.encode()) > _MAX_NAME_BYTES or "\0" in name:
        raise ConfigError(f"a consumer's name may have at most {_MAX_NAME_BYTES} bytes and no NUL", field=field)
    return name


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxTable:
    """The table in which a consumer claims the ids of the events it has applied, in the handler's transaction.

    Several consumers may share it: every key starts with the consumer's name.

    Args:
        schema: The schema of the tables; ``None``, on MySQL only, means the connection's database.
        name: The name of the table of claims, and the prefix of the other tables' names.
    """

    schema: str | None = "public"
    name: str = "inbox"
    dialect: Dialect = Dialect.POSTGRESQL

    def __post_init__(self) -> None:
        settle(self, {"dialect": Dialect})
        _ = self.table  # which checks both names

    @classmethod
    def on(cls, dialect: Dialect) -> "InboxTable":
        """Return the inbox under the default names of a database of this dialect."""
        dialect = chosen(Dialect, dialect, "dialect")
        return cls(schema=dialect.features.default_schema, dialect=dialect)

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
        """Parked events, with their whole messages."""
        return self.table.sibling("parked")

    @property
    def holes(self) -> TableName:
        """Sequence numbers that an operator accepted as missing, with the reason; never pruned."""
        return self.table.sibling("holes")

    @property
    def epochs(self) -> TableName:
        """The owner of a partition: the number of its last assignment."""
        return self.table.sibling("epochs")

    @property
    def starts(self) -> TableName:
        """How often an event was begun, to find events that crash the process."""
        return self.table.sibling("starts")

    @property
    def purges(self) -> TableName:
        """Up to which time each consumer's ids were forgotten."""
        return self.table.sibling("purges")

    @property
    def tables(self) -> tuple[TableName, ...]:
        """All of them; the one with the inbox's name first."""
        rest = (self.rest,) if self.dialect.features.has_partitions else ()
        return (self.table, *rest, self.watermarks, *self._beside)

    @property
    def _beside(self) -> tuple[TableName, ...]:
        return self.parked, self.holes, self.epochs, self.starts, self.purges

    def names(self) -> Mapping[str, str]:
        """Return what the statements in ``sql/`` call the inbox, its watermarks and so on."""
        return {
            "inbox": self.table.quoted,
            "rest": self.rest.quoted,
            "watermarks": self.watermarks.quoted,
            "parked": self.parked.quoted,
            "holes": self.holes.quoted,
            "epochs": self.epochs.quoted,
            "starts": self.starts.quoted,
            "purges": self.purges.quoted,
        }


_CANCELED = "57014"
"""A ``statement_timeout`` of the role's: a claim that waits for another one's end is no event's fault."""


class Statements:
    """The statements of one file for one consumer.

    Args:
        file: ``inbox``, ``park`` or ``epochs``.
        consumer: The name under which it remembers; part of every key.
        driver: How to talk to the connection.
    """

    def __init__(self, file: str, *, table: InboxTable, consumer: str, driver: AsyncDriver) -> None:
        self.consumer = consumer
        self._driver = driver
        self._statements = NamedStatements(driver, file, table.names())
        self._steps = self._statements.all_steps()

    async def fetch(self, connection: AnyConnection, name: str, **parameters: object) -> list[Row]:
        """Execute a statement by its name, step by step, and return the rows of all its steps."""
        values = self._statements.values({"consumer": self.consumer, **parameters})
        rows: list[Row] = []
        try:
            for step in self._steps[name]:
                rows += await self._driver.fetch(connection, step, values)
        except Exception as error:
            if getattr(error, "sqlstate", None) == _CANCELED:
                message = "the server canceled a statement of the inbox, which was waiting for another transaction"
                raise TransactionConflictError(message, sqlstate=_CANCELED) from error
            raise
        return rows


def inbox_component(table: InboxTable) -> Component:
    """Return an inbox: the claims, the watermarks, the park and what it needs.

    On PostgreSQL the claims are partitioned by range of the event's id: the text of a UUIDv7 sorts by time, so a
    partition can be a span of time, and the key is unique over all of them. An id without a partition goes into the
    default partition. PostgreSQL refuses a range of which the default partition holds an id already.
    """
    names = {**table.names(), **_indexes(table)}
    return Component(kind="inbox", tables=table.tables, migrations=load_migrations(table.dialect, "inbox", names))


def _indexes(table: InboxTable) -> dict[str, str]:
    """Return the names of the park's indexes, with their schema where the dialect wants it."""
    named = {f"parked_{suffix}": table.parked.sibling(suffix) for suffix in ("aggregates", "due", "ids")}
    in_schema = table.dialect.features.indexes_have_schemas
    return {
        "parked_name": table.dialect.quote(table.parked.name),
        **{key: name.quoted if in_schema else table.dialect.quote(name.name) for key, name in named.items()},
    }


def consumer_role(name: str, table: InboxTable) -> Role:
    """Return the consuming service's role: it claims events, moves watermarks and parks, and forgets no watermark."""
    # A claim is given back where its event is parked in the same transaction.
    wanted = {
        table.table: ("select", "insert", "delete"),
        table.watermarks: ("select", "insert", "update"),
        table.parked: ("select", "insert", "update", "delete"),
        table.holes: ("select", "insert"),
        table.epochs: ("select", "insert", "update"),
        table.starts: ("select", "insert", "update", "delete"),
        table.purges: ("select",),
    }
    return Role(
        name=name,
        dialect=table.dialect,
        privileges=tuple(
            Privilege(table=table_name, action=action) for table_name, actions in wanted.items() for action in actions
        ),
    )
