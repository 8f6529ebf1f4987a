"""Make the parameters of a plain event, by a function that is made once for a table.

It does what ``draft`` and ``OutboxStatements.add`` do, by the same checks, without asking each event what the table
settles, and without the objects in between; ``tests/unit/test_plain_insertion.py`` compares the rows. After a commit
that waited for the disk the processor's caches hold nothing of all this: each function that is called and each object
that is made costs several times what it costs in a loop.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from cdc_outbox.contract.outbox_options import OutboxMode
from cdc_outbox.databases.table import OutboxTable
from cdc_outbox.event import Event, SequenceMode, new_event_id
from cdc_outbox.formats import payload
from cdc_outbox.formats.event_format import EventFormat, PayloadType
from cdc_outbox.writer.draft import (
    check_aggregate_id,
    check_names,
    check_size,
    checked_columns,
    checked_id,
    size_of,
    stored_form,
)
from cdc_outbox.writer.outbox_statements import OutboxStatements, StepPlan, mark_of

Plain = Callable[[Event], tuple[StepPlan, dict[str, Any]]]
"""Returns what writes one event, and its parameters."""

_MAX_KNOWN = 1_000
"""A service has a handful of aggregate types and types; one that makes them up has each looked at."""


def is_plain(table: OutboxTable) -> bool:
    """Return whether a row of the table holds what the event says and nothing else."""
    kept = table.mode is OutboxMode.KEEP
    return kept and table.format is EventFormat.PLAIN and table.payload_type is PayloadType.JSON


def compile_parameters(statements: OutboxStatements, max_message_bytes: int | None) -> Plain:
    """Return what makes one event's parameters, for a table that :func:`is_plain`.

    The function raises what ``draft`` and :meth:`OutboxStatements.add` raise.

    Args:
        max_message_bytes: As in ``draft``.
    """
    table, mode_of, marks_heads = statements.table, statements.mode_of, statements.dialect.features.marks_heads
    header_parameters = table.header_parameters
    no_headers = dict.fromkeys(header_parameters.values())
    encode = partial(payload.encode, max_depth=statements.dialect.features.max_payload_depth)
    bare = statements.without_headers
    modes = [mode for mode in SequenceMode if table.is_numbered or not mode.is_numbered]
    plans = {mode: (bare.plan_of(mode), statements.plan_of(mode)) for mode in modes}
    known: dict[tuple[str, str], tuple[StepPlan, StepPlan]] = {}

    def checked_plans(event: Event) -> tuple[StepPlan, StepPlan]:
        found = plans[mode_of(event)]
        if event.sequence is None and len(known) < _MAX_KNOWN:
            known[event.aggregate_type, event.type] = found
        return found

    def parameters_of(event: Event) -> tuple[StepPlan, dict[str, Any]]:
        try:
            found = known.get((event.aggregate_type, event.type)) if event.sequence is None else None
        except TypeError:  # a name that is no text
            found = None
        if found is None:
            check_names(event)
        size = check_aggregate_id(event)
        event_id = new_event_id() if event.id is None else checked_id(event.id)
        encoded = encode(event.payload)
        if type(encoded) is str and encoded.isascii():
            size += len(encoded)
        else:
            encoded = stored_form(encoded, table)
            size += size_of(encoded, table)
        columns = checked_columns(event.headers, table) if event.headers else event.headers
        check_size(size, columns, max_message_bytes)
        parameters = {
            "id": event_id,
            "aggregate_type": event.aggregate_type,
            "aggregate_id": event.aggregate_id,
            "type": event.type,
            "payload": encoded,
            "sequence": event.sequence,
        }
        if marks_heads:
            parameters["mark"] = mark_of(event, event_id)
        without_headers, plan = found or checked_plans(event)
        if not columns and without_headers is not plan:
            return without_headers, parameters
        parameters |= no_headers
        for column, value in columns.items():
            parameters[header_parameters[column]] = value
        return plan, parameters

    return parameters_of
