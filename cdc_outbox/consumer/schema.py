"""The inbox's tables and role: how they are made and brought up to date."""

from cdc_outbox.consumer.ids import TIMED
from cdc_outbox.consumer.table import InboxTable
from cdc_outbox.migrations import Component, Migration
from cdc_outbox.privileges import Privilege, Role
from cdc_outbox.sql import load
from cdc_outbox.table import derived_name

_CHECK = "_last_check"
_MAX_BYTES = 63


def inbox_component(table: InboxTable) -> Component:
    """Return an inbox: the claims, partitioned by range of the event's id, the watermarks, the park and what it needs.

    The text of a UUIDv7 sorts by time: a partition can be a span of time, and the key is unique over all of them.
    What has no partition goes into the one that takes the rest. PostgreSQL refuses a range of which the rest holds an
    id already.
    """
    statements = load(table.dialect, "inbox_schema")
    watermarks, parked = table.watermarks.name, table.parked.name
    names = {
        **table.names(),
        # As PostgreSQL named what version 1 did not name.
        "last_check": table.dialect.quote(
            watermarks.encode()[: _MAX_BYTES - len(_CHECK)].decode(errors="ignore") + _CHECK
        ),
        "timed_literal": table.dialect.literal(TIMED),
        "parked_aggregates": table.dialect.quote(derived_name(parked, "aggregates")),
        "parked_due": table.dialect.quote(derived_name(parked, "due")),
    }
    first, *later = (statement.render(names) for statement in statements.values())
    return Component(
        kind="inbox",
        tables=table.tables,
        migrations=(Migration(version=1, statements=(first,)), Migration(version=2, statements=tuple(later))),
    )


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
        privileges=tuple(
            Privilege(table=place, action=action) for place, actions in wanted.items() for action in actions
        ),
    )
