"""What a connector's stored offset proves about MariaDB's binlog. Pure.

Debezium stores where it would begin again: everything before was acknowledged by Kafka, or is none of its business,
and is never sent again. Only a server's own binlog counts by these positions. They begin anew at ``reset master``, and
mean nothing on another server.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from cdc_outbox.binlog import BinlogPosition, Log
from cdc_outbox.connect.offsets import own_offset
from cdc_outbox.errors import UnprovenDeliveryError

_NO_OFFSET_HINT = (
    "Does the connector of the spec's name run, and read this outbox? It stores an offset about once a minute, and "
    "none for an idle outbox unless it has a heartbeat.interval.ms."
)
_ANOTHER_LOG_HINT = (
    "Does the DSN lead to the server that the connector reads? If its binlog was reset or purged, begin the connector "
    "anew and let it publish the table's rows again."
)


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
    elif log.leaves_out(database):
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
    offset = own_offset(offsets, topic_prefix=topic_prefix)
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
