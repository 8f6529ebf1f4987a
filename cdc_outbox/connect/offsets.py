"""Offsets as Connect shows them. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from cdc_outbox.lsn import Lsn


def own_offset(offsets: Sequence[Mapping[str, Any]], *, topic_prefix: str) -> Mapping[str, Any] | None:
    """Return where a connector goes on, ``None`` if nothing is stored of that.

    Args:
        offsets: Everything that is stored under the connector's name, also from when it had another prefix.
    """
    own = (entry.get("offset") for entry in offsets if entry.get("partition", {}).get("server") == topic_prefix)
    return next(filter(None, own), None)


def last_lsn(offset: Mapping[str, Any]) -> Lsn | None:
    """Return the position of the last change that was published, by an offset of a PostgreSQL connector."""
    text = str(offset.get("lsn", ""))
    return Lsn(int(text)) if text.isdecimal() else None


def confirmed_lsn(offset: Mapping[str, Any]) -> Lsn | None:
    """Return up to where an offset of a PostgreSQL connector lets the slot move, ``None`` where it says no position.

    Debezium confirms ``lsn_commit`` (``PostgresStreamingChangeEventSource.commitOffset``), the end of the last
    transaction that it has read whole. ``lsn`` is the last change's own position: where two transactions overlap, it is
    the smaller one for as long as nothing follows, because the one that commits last may have written first.
    """
    found = [int(offset[key]) for key in ("lsn", "lsn_commit") if str(offset.get(key, "")).isdecimal()]
    return Lsn(max(found)) if found else None
