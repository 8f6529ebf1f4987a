"""How far a slot is behind its server's log, where that ends, and whether there is anything to publish."""

from dataclasses import dataclass

from cdc_outbox.databases.drivers import AnyConnection, TransactionDriver, translated_for_operator
from cdc_outbox.databases.facts import COUNTED_ROWS
from cdc_outbox.databases.lsn import Lsn
from cdc_outbox.databases.sql import load
from cdc_outbox.databases.table import TableName
from cdc_outbox.errors import DatabaseAccessError


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotLag:
    """A slot's lag.

    Args:
        unconfirmed_bytes: Of the log, behind what its reader has confirmed; ``None`` before the first time.
        kept_bytes: Of the log that the server keeps on its disk for the slot; ``None`` if it keeps none any more.
        confirmed: What its reader has confirmed; all before it is given away.
        log_end: Where the server's log ends.
        seconds: How long its reader took to confirm what it confirmed last, or for how long nobody has read it;
            ``None`` where the server does not tell: it rests, is older than PostgreSQL 17, or the role may not see it.
    """

    slot: str
    active: bool
    unconfirmed_bytes: int | None
    kept_bytes: int | None
    confirmed: Lsn | None
    log_end: Lsn
    seconds: float | None = None


def find_lag(connection: AnyConnection, driver: TransactionDriver, slot: str) -> SlotLag | None:
    """Return a slot's lag, ``None`` if there is no such slot."""
    statement = load(driver.dialect, "lag")["lag"].render({}, driver.style)
    with translated_for_operator():
        rows = driver.fetch(connection, statement, {"slot": slot})
    if not rows:
        return None
    active, unconfirmed, kept, confirmed, log_end, seconds = rows[0]
    return SlotLag(
        slot=slot,
        active=active,
        unconfirmed_bytes=unconfirmed,
        kept_bytes=kept,
        confirmed=Lsn.parse(confirmed) if confirmed else None,
        log_end=Lsn.parse(log_end),
        seconds=None if seconds is None else max(0.0, seconds),
    )


def find_log(connection: AnyConnection, driver: TransactionDriver) -> tuple[str, Lsn]:
    """Return the database's name, and where its server's log ends; on a standby, where it has come to."""
    statement = load(driver.dialect, "lag")["log"].render({}, driver.style)
    with translated_for_operator():
        [(database, log_end)] = driver.fetch(connection, statement, {})
    return database, Lsn.parse(log_end)


def count_rows(connection: AnyConnection, driver: TransactionDriver, table: TableName) -> int:
    """Return how many rows a table holds, up to :data:`COUNTED_ROWS`; none where the role cannot read it.

    Raises:
        DatabaseAccessError: Row-level security shows none of them.
    """
    statements = load(driver.dialect, "lag")
    with translated_for_operator():
        [(may_read, hides_rows)] = driver.fetch(
            connection, statements["table"].render({}, driver.style), {"table": table.quoted}
        )
        if not may_read:
            return 0
        written = statements["written"].render({"table": table.quoted}, driver.style)
        [(rows,)] = driver.fetch(connection, written, {"limit": COUNTED_ROWS})
    if hides_rows and not rows:
        raise DatabaseAccessError(
            f"row-level security may hide rows of {table} from this role",
            hint="Give the role the attribute bypassrls, or use the role that owns the table.",
        )
    return int(rows)
