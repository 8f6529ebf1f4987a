"""Offsets as Connect shows them. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any


def own_offset(offsets: Sequence[Mapping[str, Any]], *, topic_prefix: str) -> Mapping[str, Any] | None:
    """Return where a connector goes on, ``None`` if nothing is stored of that.

    Args:
        offsets: Everything that is stored under the connector's name, also from when it had another prefix.
    """
    own = (entry.get("offset") for entry in offsets if entry.get("partition", {}).get("server") == topic_prefix)
    return next(filter(None, own), None)
