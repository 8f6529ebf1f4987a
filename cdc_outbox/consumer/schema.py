"""The inbox's tables and role: how they are made and brought up to date."""

from cdc_outbox.consumer.table import InboxTable
from cdc_outbox.migrations import Component, Migration
from cdc_outbox.privileges import Privilege, Role
from cdc_outbox.sql import load


def inbox_component(table: InboxTable) -> Component:
    """Return an inbox: the claims, partitioned by range of the event's id, and the watermarks.

    The id of our own events is a UUIDv7, whose text sorts by time: a partition can be a span of time, and the key is
    unique over all of them. Here every id goes into the one partition that takes the rest. A later release makes
    ranges, each before ids of its time come: PostgreSQL refuses a range of which the rest already holds an id.
    """
    create = load("postgresql", "inbox_schema")["create"].render(table.names())
    return Component(
        kind="inbox",
        tables=(table.table, table.rest, table.watermarks),
        migrations=(Migration(version=1, statements=(create,)),),
    )


def consumer_role(name: str, table: InboxTable) -> Role:
    """Return the consuming service's role: it claims events and moves watermarks, and forgets neither."""
    wanted = {table.table: ("select", "insert"), table.watermarks: ("select", "insert", "update")}
    return Role(
        name=name,
        privileges=tuple(
            Privilege(table=place, action=action) for place, actions in wanted.items() for action in actions
        ),
    )
