"""A consumer's inbox, as the commands reach it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, TypeVar, cast

import click

from cdc_outbox.cli.context_option import ContextValue
from cdc_outbox.cli.contexts import Context, Databases
from cdc_outbox.cli.database import connected, database_name, dialect_of
from cdc_outbox.cli.options import DatabasesType
from cdc_outbox.consumer.inbox_tables import InboxTable
from cdc_outbox.databases.drivers import TransactionDriver
from cdc_outbox.databases.introspection import Catalog
from cdc_outbox.errors import TableNotFoundError
from cdc_outbox.operations.connections import OpenInbox

FC = TypeVar("FC", bound=Callable[..., Any])

_IDLE_SECONDS = 60.0
"""How long a transaction here may do nothing; none waits for anything but the database."""

INBOX_DSN_VARIABLE = "CDC_OUTBOX_INBOX_DSN"
"""Where the inbox's database stands, for who has the outbox's in ``CDC_OUTBOX_DSN``."""

inbox_schema_option = click.option(
    "--inbox-schema", show_default="public", help="The schema of the inbox; on MariaDB and MySQL, the database."
)


_database_option = partial(
    click.option,
    cls=ContextValue,
    entry=Context.inbox_database,
    address="inbox_database",
    type=DatabasesType(),
)


def consumer_option(*, required: bool = True, note: str = "") -> Callable[[FC], FC]:
    """Return the option ``--consumer``: under this name it is known to its group and to the inbox."""
    return click.option(
        "--consumer", metavar="NAME", required=required, help=f"The consumer's name, which is also its group id{note}."
    )


def inbox_dsn_option(note: str = "") -> Callable[[FC], FC]:
    """Return the option of a command whose ``--dsn`` is the outbox's database, or may be."""
    return _database_option("--inbox-dsn", "inbox_database", show_default="--dsn", help=f"The inbox's database{note}.")


_dsn_option = _database_option(
    "--dsn",
    "--inbox-dsn",
    "dsn",
    required=True,
    help="The inbox's database: postgresql://user:password@host/name or any libpq connection string, "
    "mysql://… or mariadb://… in the same form, or sqlite:///path.",
)


@dataclass(frozen=True, slots=True)
class InboxLocation:
    """Where an inbox lies, as the options say it."""

    dsn: str
    schema: str | None = None

    @property
    def table(self) -> InboxTable:
        """The inbox's tables."""
        dialect = dialect_of(self.dsn)
        return InboxTable(schema=self.schema or dialect.features.default_schema, dialect=dialect)

    @contextmanager
    def connected(self) -> Iterator[tuple[Any, TransactionDriver]]:
        """Connect to an inbox.

        Raises:
            TableNotFoundError: There is none.
        """
        with connected(self.dsn) as (connection, driver):
            driver.prepare(connection, idle_seconds=_IDLE_SECONDS)
            table = self.table.table
            if not Catalog(connection, driver).exists(table):
                raise TableNotFoundError(
                    f"there is no inbox {table} in the database {database_name(connection, driver, self.dsn)}",
                    hint="Create it there with `cdc-outbox init --inbox`; or give the consuming service's database "
                    f"with --inbox-dsn ({INBOX_DSN_VARIABLE}), and the schema with --inbox-schema.",
                )
            yield connection, driver

    @contextmanager
    def opened(self, consumer: str) -> Iterator[OpenInbox]:
        """Connect to an inbox that a consumer of this name has used.

        Raises:
            ConfigError: None has.
            TableNotFoundError: There is no inbox.
        """
        with self.connected() as (connection, driver):
            inbox = OpenInbox(connection, driver, table=self.table, consumer=consumer)
            inbox.refuse_unknown()
            yield inbox

    @contextmanager
    def opened_by(self, consumer: str | None) -> Iterator[list[OpenInbox]]:
        """Connect to an inbox as a consumer of this name, or as each that has used it.

        Raises:
            ConfigError: None of this name has.
            TableNotFoundError: There is no inbox.
        """
        if consumer is not None:
            with self.opened(consumer) as inbox:
                yield [inbox]
            return
        with self.connected() as (connection, driver):
            names = OpenInbox(connection, driver, table=self.table, consumer="").find_consumers()
            yield [OpenInbox(connection, driver, table=self.table, consumer=name) for name in names]


def inbox_options(command: FC) -> FC:
    """Add the options that locate an inbox; the command receives them as one ``inbox_location``."""

    @wraps(command)
    def gathered(*, dsn: Databases, inbox_schema: str | None, **others: object) -> Any:  # noqa: ANN401 - a command's own
        return command(inbox_location=InboxLocation(dsn.shared() or "", inbox_schema), **others)

    return cast("FC", _dsn_option(inbox_schema_option(gathered)))


class AggregateName(click.ParamType[tuple[str, str]]):
    """``TYPE/ID``; the id may hold what it likes."""

    name = "aggregate"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:  # noqa: ANN401 - click's
        """Return the type and the id."""
        aggregate_type, slash, aggregate_id = value.partition("/")
        if not (aggregate_type and slash and aggregate_id):
            self.fail(f"{value!r} is not TYPE/ID, such as order/42.", param, ctx)
        return aggregate_type, aggregate_id
