"""An event as the content of a logical message: a JSON object whose fields are the outbox's columns. Pure."""

import json
from collections.abc import Mapping
from typing import Any

from cdc_outbox.event import SequenceMode
from cdc_outbox.table import OutboxTable
from cdc_outbox.writer.draft import Draft


def emission(draft: Draft, table: OutboxTable, mode: SequenceMode) -> Mapping[str, Any]:
    """Return what the statements that emit a message take.

    The payload is a JSON string that holds the text, so that it arrives byte for byte. All is ASCII, because the
    connector reads the content in its JVM's own charset. What the statement alone knows it adds to the text: behind
    ``"sequence":``, ``"source":`` and the key of the time of creation, which is a number of microseconds since 1970.
    """
    columns, event = table.columns, draft.event
    content: dict[str, str | bytes | None] = {
        columns.id: draft.id,
        columns.aggregate_type: event.aggregate_type,
        columns.aggregate_id: event.aggregate_id,
        columns.type: event.type,
        columns.payload: draft.payload,
        **{column: draft.columns.get(column) for column in table.header_columns},
    }
    known = {
        "id": draft.id,
        "aggregate_type": event.aggregate_type,
        "aggregate_id": event.aggregate_id,
        "sequence": event.sequence,
        "prefix": table.message_prefix,
        "created_key": None if columns.created_at is None else f", {json.dumps(columns.created_at)}: ",
    }
    if mode is SequenceMode.NONE:
        # Fields that are missing make the EventRouter's placements fail; null is a header without a value.
        nulls = dict.fromkeys(filter(None, (columns.sequence, columns.source)))
        return {**known, "content": _unclosed(content | nulls)}
    return {
        **known,
        "content": f"{_unclosed(content)}, {json.dumps(columns.sequence)}: ",
        "source_key": f", {json.dumps(columns.source)}: ",
    }


def _unclosed(content: Mapping[str, Any]) -> str:
    return json.dumps(content)[:-1]
