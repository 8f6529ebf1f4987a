"""MariaDB's or MySQL's log and a place in it, and what its server says about a pipeline, as values."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from cdc_outbox.databases.facts import TableFacts

_GTID = re.compile(r"[0-9]+-[0-9]+-[0-9]+")
_FILE = re.compile(r".+\.([0-9]{6,})")


@dataclass(frozen=True, slots=True, order=True)
class BinlogPosition:
    """A place in a server's binlog, in log order.

    Args:
        number: The file's; numbers are given in order.
        offset: Bytes from the file's beginning.
        file: Its whole name.
    """

    number: int
    offset: int
    file: str = field(compare=False)

    @classmethod
    def of(cls, file: str, offset: int) -> Self | None:
        """Return the place in a file, ``None`` if a binlog's file is never called so."""
        name = _FILE.fullmatch(file)
        return cls(int(name[1]), offset, file) if name else None

    def __str__(self) -> str:
        return f"{self.file}:{self.offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """A server's binlog, as far as it can prove anything.

    Args:
        on: Whether it is written at all.
        format: The binlog format; a connector understands ``ROW`` only.
        end: Where it ends.
        sizes: Every file that is still there, with its length.
        only: The databases whose changes alone are written; empty for all.
        without: The databases whose changes are left out.
    """

    on: bool
    format: str
    end: BinlogPosition | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    only: Sequence[str] = ()
    without: Sequence[str] = ()

    def leaves_out(self, database: str) -> bool:
        """Return whether changes of a database are not written."""
        return bool(self.only and database not in self.only) or database in self.without


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountFacts:
    """One of the accounts that the connector's user may log in by.

    Args:
        host: From where.
        may: What it was granted, in small letters: ``select`` on the outbox, ``replication slave``, ``replication
            client``.
        has_roles: Whether it was granted roles; their rights are not read.
    """

    host: str
    is_locked: bool = False
    may: frozenset[str] = frozenset()
    has_roles: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BinlogFacts:
    """Everything that a preflight looks at; ``None`` for what does not exist, and what this role may not see.

    Args:
        has_gtids: Whether positions have a meaning on other servers too, in an order that is kept.
        gtid_state: MariaDB's last GTID of each server in each domain, by commas; also of binlogs that were purged.
        keep_seconds: How long a binlog is kept, 0 for ever.
        replicas: The server ids of those who read the binlog and said so.
        rows: In the outbox; the count ends at :data:`COUNTED_ROWS`.
        source: Under which events are numbered; ``None`` also where none are, and where this role may not see it.
        unseen: What this role may not see, each with what it takes.
    """

    is_mariadb: bool
    database: str
    server_id: str
    log: Log
    row_image: str
    is_compressed: bool
    has_gtids: bool
    keep_seconds: float
    replicas: Sequence[str] | None
    accounts: Sequence[AccountFacts] | None
    table: TableFacts | None
    rows: int = 0
    gtid_state: str | None = None
    source: str | None = None
    unseen: Mapping[str, str] = field(default_factory=dict)


def missing_gtids(gtids: str, state: str) -> list[str]:
    """Return the GTIDs that a server's binlog has not come to.

    Args:
        gtids: MariaDB's, ``domain-server-sequence`` by commas.
        state: The last one of each server in each domain.
    """
    last = dict(map(_parsed, _gtids_in(state)))
    return [gtid for gtid in _gtids_in(gtids) if _parsed(gtid)[1] > last.get(_parsed(gtid)[0], 0)]


def _gtids_in(listed: str) -> list[str]:
    """Return those of MariaDB's form; MySQL has others."""
    return [gtid.strip() for gtid in listed.split(",") if _GTID.fullmatch(gtid.strip())]


def _parsed(gtid: str) -> tuple[str, int]:
    server, _, number = gtid.rpartition("-")
    return server, int(number)


def read_log(ask: Callable[[str], Sequence[Sequence[Any]] | None], version: str, written: str) -> Log:
    """Return a server's binlog, which is written.

    Args:
        ask: Executes a statement of ``binlog.sql`` by its name; ``None`` where the role may not.
        version: As the server spells it.
        written: The format.
    """
    # MySQL 8.4 has dropped the old name.
    status, files = ask("log_status" if has_new_names(version) else "master_status"), ask("files")
    if not status:
        return Log(on=True, format=written)
    file, offset, only, without, *_ = status[0]
    return Log(
        on=True,
        format=written,
        end=BinlogPosition.of(file, int(offset)),
        sizes={name: int(size) for name, size, *_ in files or ()},
        only=_names_in(only),
        without=_names_in(without),
    )


def _names_in(listed: str) -> list[str]:
    """Return the databases of a filter."""
    return [name for name in listed.split(",") if name]


def has_new_names(version: str) -> bool:
    """Return whether a server has MySQL's newer words, which avoid "slave"."""
    numbers = re.match(r"([0-9]+)\.([0-9]+)", version)
    return "mariadb" not in version.lower() and bool(numbers and (int(numbers[1]), int(numbers[2])) >= (8, 2))
