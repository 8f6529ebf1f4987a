"""Make the insertion of a plain event, by a function that is made once for a table.

It does what ``draft`` and ``OutboxStatements.add`` do, by the same checks, without asking each event what the table
settles; ``tests/contract/test_plain_insertion.py`` compares the rows.
"""

from collections.abc import Callable
from functools import partial

from cdc_outbox.contract.outbox_options import OutboxMode
from cdc_outbox.databases.table import OutboxTable
from cdc_outbox.event import Event, SequenceMode, new_event_id
from cdc_outbox.formats import payload
from cdc_outbox.formats.event_format import EventFormat, PayloadType
from cdc_outbox.writer.draft import (
    Draft,
    check_size,
    check_texts,
    checked_columns,
    checked_id,
    size_of,
    stored_form,
)
from cdc_outbox.writer.outbox_statements import Insertion, OutboxStatements

Plain = Callable[[Event], Insertion]
"""Makes the insertion of one event."""


def is_plain(table: OutboxTable) -> bool:
    """Return whether a row of the table holds what the event says and nothing else."""
    kept = table.mode is OutboxMode.KEEP
    return kept and table.format is EventFormat.PLAIN and table.payload_type is PayloadType.JSON


def compile_insertion(statements: OutboxStatements, max_message_bytes: int | None) -> Plain:
    """Return what makes one event's insertion, for a table that :func:`is_plain`.

    The function raises what ``draft`` and :meth:`OutboxStatements.add` raise.

    Args:
        max_message_bytes: As in ``draft``.
    """
    table, mode_of, parameters_of = statements.table, statements.mode_of, statements.parameters_of
    header_parameters = table.header_parameters
    no_headers = dict.fromkeys(header_parameters.values())
    encode = partial(payload.encode, max_depth=statements.dialect.features.max_payload_depth)
    plans = {mode: statements.plan_of(mode) for mode in SequenceMode if table.is_numbered or not mode.is_numbered}

    def insertion_of(event: Event) -> Insertion:
        size = check_texts(event)
        event_id = new_event_id() if event.id is None else checked_id(event.id)
        encoded = encode(event.payload)
        if type(encoded) is str and encoded.isascii():
            size += len(encoded)
        else:
            encoded = stored_form(encoded, table)
            size += size_of(encoded, table)
        columns = checked_columns(event.headers, table) if event.headers else event.headers
        check_size(size, columns, max_message_bytes)
        draft = Draft(event, event_id, encoded, columns)
        parameters = parameters_of(draft)
        parameters |= no_headers
        for column, value in columns.items():
            parameters[header_parameters[column]] = value
        return Insertion(plans[mode_of(event)], parameters, (draft,))

    return insertion_of
