"""A message that cannot be read: by what it is known, and which aggregate it can be told to be of."""

import hashlib

from cdc_outbox import envelope, foreign
from cdc_outbox.consumer.ordering import Aggregate
from cdc_outbox.event import SequenceMode
from cdc_outbox.message import Message
from cdc_outbox.wire import BINARY_NAMES, WireContract

_DIGEST_DIGITS = 32
"""Of the content: 128 bits."""


def identity_of(message: Message) -> str:
    """Return the position with a digest of the content: a topic that is created anew gives the same positions again."""
    content = repr((message.timestamp_ms, message.key, message.value, message.headers, message.has_headers))
    return f"{message.position}#{hashlib.sha256(content.encode()).hexdigest()[:_DIGEST_DIGITS]}"


def aggregate_in(message: Message, contract: WireContract) -> Aggregate | None:
    """Return the aggregate of a message that does not keep the contract, ``None`` where it cannot be told.

    The id is the key. The type is the header's; where there is no such header, the topic's, if the contract's topic
    belongs to one type. The source is the header's. In an envelope both are fields. A numbered event without a source
    cannot be told: each source counts by itself.
    """
    if contract.foreign is not None:
        message = foreign.unwrapped(message)
    present = {name for name, value in message.headers if value is not None}
    is_binary = BINARY_NAMES.type in present and contract.headers.type not in present
    names = BINARY_NAMES if is_binary else contract.headers
    fields = _fields_in(message, contract)
    try:
        aggregate_id = (message.key or b"").decode()
        aggregate_type = _text(message, names.aggregate_type) or fields.get(names.aggregate_type, "")
        source = _text(message, names.source) or fields.get(names.source, "")
        f"{source}{aggregate_type}".encode()
    except UnicodeError:  # half a surrogate pair too, which JSON can escape
        return None
    if not aggregate_type:
        here = [name for name in contract.aggregates if contract.topic_of(name) == message.topic]
        aggregate_type = here[0] if len(here) == 1 else ""
    if not aggregate_id or aggregate_type not in contract.aggregates:
        return None
    if not source and contract.mode_of(aggregate_type) is not SequenceMode.NONE:
        return None
    return Aggregate(source, aggregate_type, aggregate_id)


def _text(message: Message, header: str) -> str:
    """Return a header's text, empty where there is none.

    Raises:
        UnicodeError: It is no text, or appears with two values.
    """
    values = {value for name, value in message.headers if name == header and value is not None}
    if len(values) > 1:
        raise UnicodeError(header)
    return "".join(value.decode() for value in values)


def _fields_in(message: Message, contract: WireContract) -> dict[str, str]:
    if not contract.fields or message.value is None:
        return {}
    try:
        opened = envelope.opened(message.value, contract.headers.placed())
    except ValueError:
        return {}
    return {} if opened is None else dict(opened[1])
