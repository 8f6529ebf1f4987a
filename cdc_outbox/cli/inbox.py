"""A consumer's inbox, as the commands reach it."""

from collections.abc import Iterator
from contextlib import contextmanager

import click

from cdc_outbox.cli.database import connected
from cdc_outbox.consumer.table import InboxTable
from cdc_outbox.database import DatabaseKind
from cdc_outbox.operate.inbox import OpenInbox


@contextmanager
def opened(dsn: str, *, consumer: str, schema: str) -> Iterator[OpenInbox]:
    """Connect to an inbox that a consumer of this name has used.

    Raises:
        ConfigError: None has, or it is not on PostgreSQL.
    """
    with connected(dsn, DatabaseKind.POSTGRESQL) as (connection, driver):
        inbox = OpenInbox(connection, driver, table=InboxTable(schema=schema), consumer=consumer)
        inbox.refuse_unknown()
        yield inbox


def split_aggregate(
    _context: click.Context, _option: click.Parameter, value: str | None
) -> tuple[str, str] | tuple[None, None]:
    """Read ``TYPE/ID``; the id may hold what it likes."""
    if value is None:
        return None, None
    aggregate_type, slash, aggregate_id = value.partition("/")
    if not (aggregate_type and slash):
        raise click.BadParameter(f"{value!r} is not TYPE/ID, such as order/42")
    return aggregate_type, aggregate_id


def plain(text: str) -> str:
    """Return a text that came from elsewhere as a terminal may be given it: in one line, and moving nothing."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
