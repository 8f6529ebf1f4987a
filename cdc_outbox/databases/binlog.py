"""A place in MariaDB's or MySQL's log, and what is known of that log."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

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
        format: What is written: ``ROW`` is what a connector understands.
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
        """Tell whether changes of a database are not written."""
        return bool(self.only and database not in self.only) or database in self.without


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


def status_statement(version: str) -> str:
    """Return the statement that this server calls the position by; MySQL 8.4 has dropped the old one."""
    return "log_status" if has_new_names(version) else "master_status"


def names_in(listed: str) -> list[str]:
    """Return the databases of a filter."""
    return [name for name in listed.split(",") if name]


def has_new_names(version: str) -> bool:
    """Tell whether a server has MySQL's newer words, in which nobody is a slave."""
    numbers = re.match(r"([0-9]+)\.([0-9]+)", version)
    return "mariadb" not in version.lower() and bool(numbers and (int(numbers[1]), int(numbers[2])) >= (8, 2))
