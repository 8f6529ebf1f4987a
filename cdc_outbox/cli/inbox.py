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


def read_aggregate(text: str) -> tuple[str, str]:
    """Read ``TYPE/ID``; the id may hold what it likes."""
    aggregate_type, slash, aggregate_id = text.partition("/")
    if not (aggregate_type and slash and aggregate_id):
        raise click.BadParameter(f"{text!r} is not TYPE/ID, such as order/42.")
    return aggregate_type, aggregate_id


def split_aggregate(
    _context: click.Context, _option: click.Parameter, value: str | None
) -> tuple[str, str] | tuple[None, None]:
    """Read the option, if it is given."""
    return (None, None) if value is None else read_aggregate(value)
