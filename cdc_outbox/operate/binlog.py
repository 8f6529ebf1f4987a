"""What a connector's stored offset proves about MariaDB's binlog. Pure.

Debezium stores where it would begin again: everything before was acknowledged by Kafka, or is none of its business,
and is never sent again. Only a server's own binlog counts by these positions. They begin anew at ``reset master``, and
mean nothing on another server.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from cdc_outbox.errors import UnprovenDeliveryError

_FILE = re.compile(r".+\.([0-9]{6,})")
_NO_OFFSET_HINT = (
    "Does the connector of the spec's name run, and read this outbox? It stores an offset about once a minute, and "
    "none for an idle outbox unless it has a heartbeat.interval.ms."
)
_ANOTHER_LOG_HINT = (
    "Does the DSN lead to the server that the connector reads? If its binlog was reset or purged, begin the connector "
    "anew and let it publish the table's rows again."
)


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


def log_end(log: Log, *, database: str) -> BinlogPosition:
    """Return where a log ends in which every event of a database is.

    Raises:
        UnprovenDeliveryError: Events may be missing in it.
    """
    defect = ""
    if not log.on or log.end is None:
        defect = "is off"
    elif log.format != "ROW":
        defect = f"has the format {log.format}, in which a connector finds no rows"
    elif (log.only and database not in log.only) or database in log.without:
        defect = f"leaves out the database {database!r}"
    if defect or log.end is None:
        raise UnprovenDeliveryError(
            f"the server's binlog {defect}; nothing was deleted",
            hint="A connector reads nothing but the binlog: it wants log_bin, binlog_format=ROW and no filter.",
        )
    return log.end


def stored_position(name: str, offsets: Sequence[Mapping[str, Any]], *, topic_prefix: str, log: Log) -> BinlogPosition:
    """Return up to where a connector has delivered a server's binlog.

    Args:
        name: The connector's.
        offsets: As Connect shows them, read before ``log`` was.

    Raises:
        UnprovenDeliveryError: It stored nothing, is in a snapshot, or speaks of another binlog.
    """
    offset = next(
        (entry["offset"] for entry in offsets if entry["partition"].get("server") == topic_prefix and entry["offset"]),
        None,
    )
    if offset is None:
        raise _unproven(f"the connector {name} has stored no offset", _NO_OFFSET_HINT)
    if "snapshot" in offset:
        raise _unproven(
            f"the connector {name} is publishing the rows of the table", "Run the command again when it has finished."
        )
    position = BinlogPosition.of(str(offset.get("file", "")), int(offset.get("pos") or 0))
    if position is None:
        raise _unproven(f"the connector {name} has stored no place in a binlog", _ANOTHER_LOG_HINT)
    size = log.sizes.get(position.file)
    if size is None:
        raise _unproven(f"the connector {name} is at {position}, and the server has no such file", _ANOTHER_LOG_HINT)
    if position.offset > size:
        raise _unproven(f"the connector {name} is at {position}, and that file ends at {size}", _ANOTHER_LOG_HINT)
    return position


def captures(table: str, config: Mapping[str, str]) -> bool:
    """Tell whether a connector may read a table, called ``database.table``, by its list of tables."""
    patterns = config.get("table.include.list", "")
    if not patterns.strip():
        return True
    try:
        # As Debezium does: a comma separates unless it is escaped, case does not matter.
        return any(re.fullmatch(pattern.strip(), table, re.IGNORECASE) for pattern in re.split(r"(?<!\\),", patterns))
    except re.error:  # Java knows more
        return True


def _unproven(message: str, hint: str) -> UnprovenDeliveryError:
    return UnprovenDeliveryError(f"{message}; nothing was deleted", hint=hint)
