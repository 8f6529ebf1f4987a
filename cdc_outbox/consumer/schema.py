"""The inbox's tables and role: how they are made and brought up to date."""

from cdc_outbox.consumer.table import InboxTable
from cdc_outbox.migrations import Component, load_migrations
from cdc_outbox.privileges import Privilege, Role
from cdc_outbox.table import Dialect


def inbox_component(table: InboxTable) -> Component:
    """Return an inbox: the claims, the watermarks, the park and what it needs.

    On PostgreSQL the claims are partitioned by range of the event's id: the text of a UUIDv7 sorts by time, so a
    partition can be a span of time, and the key is unique over all of them. What has no partition goes into the one
    that takes the rest. PostgreSQL refuses a range of which the rest holds an id already.
    """
    names = {**table.names(), **_indexes(table)}
    return Component(kind="inbox", tables=table.tables, migrations=load_migrations(table.dialect, "inbox", names))


def _indexes(table: InboxTable) -> dict[str, str]:
    """Return the names of the park's indexes, which SQLite alone wants to be told the schema of."""
    named = {f"parked_{suffix}": table.parked.sibling(suffix) for suffix in ("aggregates", "due", "ids")}
    in_schema = table.dialect is Dialect.SQLITE
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
            Privilege(table=place, action=action) for place, actions in wanted.items() for action in actions
        ),
    )
