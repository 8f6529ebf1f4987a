"""An event's attributes, one table: what each is called in a row, in a header, in a CloudEvent and in an envelope.

Columns, headers, formats and the shape of the outbox follow from it. A built-in header is an entry of
:data:`BUILT_IN_HEADERS`; an attribute is a field of the event, an entry of :data:`ATTRIBUTES`, a name in
:class:`ColumnNames` and, where it has a header, in :class:`HeaderNames`; ``WireContract.event_of`` reads it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum

from cdc_outbox.errors import ConfigError


class AttributeKind(StrEnum):
    """What an attribute is; each dialect, and each check of a table, has the SQL types of a kind."""

    ID = "id"
    """A UUID."""
    NAME = "name"
    """A text of which a service has a handful, for topics and handlers."""
    KEY = "key"
    """A text that becomes a message's key."""
    LABEL = "label"
    """A short text beside these."""
    NUMBER = "number"
    """From 1, 63 bits."""
    TIME = "time"
    """In UTC, to the microsecond."""
    PAYLOAD = "payload"
    """What the table's payload type says."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute of an event.

    Args:
        name: The field of :class:`~cdc_outbox.event.RecordedEvent`.
        column: Its column's name, Debezium's where it has one.
        header: Its header's name; empty for what a message has another place for. The id's is in
            :attr:`WireContract.id_header`, because the EventRouter writes it by itself.
        field: Its name in an envelope, its header's by default.
        cloud_event: Its name in a CloudEvent; empty for none.
        is_optional: Whether a table of another make may lack the column.
        is_nullable: Whether a row that this package writes may lack a value.
        is_given: Whether the writer has a value for it, and not only the database.
    """

    name: str
    kind: AttributeKind
    column: str
    header: str = ""
    field: str = ""
    cloud_event: str = ""
    is_optional: bool = False
    is_nullable: bool = False
    is_given: bool = True


# fmt: off
_TABLE = (
    Attribute("id", AttributeKind.ID, column="id", field="id", cloud_event="id"),
    Attribute("type", AttributeKind.NAME, column="type", header="eventType", cloud_event="type"),
    Attribute("aggregate_type", AttributeKind.NAME, column="aggregatetype", header="aggregateType",
              cloud_event="aggregatetype"),
    Attribute("aggregate_id", AttributeKind.KEY, column="aggregateid", field="aggregateId", cloud_event="subject"),
    Attribute("payload", AttributeKind.PAYLOAD, column="payload", is_nullable=True),
    Attribute("sequence", AttributeKind.NUMBER, column="sequence", header="sequence", cloud_event="sequence",
              is_optional=True, is_nullable=True),
    Attribute("source", AttributeKind.LABEL, column="source", header="source", cloud_event="source",
              is_optional=True, is_given=False),
    Attribute("created_at", AttributeKind.TIME, column="created_at", header="createdAt", cloud_event="createdat",
              is_optional=True, is_given=False),
)
# fmt: on
ATTRIBUTES: Mapping[str, Attribute] = {attribute.name: attribute for attribute in _TABLE}
"""By name, in the order of the wire."""

BUILT_IN_HEADERS: Mapping[str, str] = {"traceparent": "traceparent", "tracestate": "tracestate"}
"""Header columns of every outbox that `init` makes, each with its header: W3C trace context, as OpenTelemetry writes
it. Their values are among an event's headers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnNames:
    """The columns of an event's attributes, in the order of the table."""

    id: str = ATTRIBUTES["id"].column
    aggregate_type: str = ATTRIBUTES["aggregate_type"].column
    aggregate_id: str = ATTRIBUTES["aggregate_id"].column
    type: str = ATTRIBUTES["type"].column
    payload: str = ATTRIBUTES["payload"].column
    sequence: str | None = ATTRIBUTES["sequence"].column
    source: str | None = ATTRIBUTES["source"].column
    created_at: str | None = ATTRIBUTES["created_at"].column

    def names(self) -> Mapping[str, str]:
        """Return attribute → column of those that the table has, in its order."""
        found = {item.name: getattr(self, item.name) for item in fields(self)}
        return {name: column for name, column in found.items() if column is not None}


GIVEN = tuple(name for name in ColumnNames().names() if ATTRIBUTES[name].is_given)
"""The attributes that the writer has a value for, in the order of the table."""

DEBEZIUM_PREFIX = "__debezium."
"""Headers that Debezium adds of its own accord; they say nothing about the event."""


def take_header(taken: dict[str, str], header: str, what: str, *, field: str) -> None:
    """Note what a header carries, and refuse one that cannot.

    Args:
        taken: Header → what it carries; the header is added.
        field: What an error names as its cause.

    Raises:
        ConfigError: The header carries something else, or has a name that does not arrive as it is sent.
    """
    if header in taken:
        reason = f"it already carries {taken[header]}"
    elif header != header.strip() or not header or set(header) & set(":,"):
        reason = "it is empty, or contains a colon, a comma or a blank at an end"
    elif header.startswith(DEBEZIUM_PREFIX):
        reason = "Debezium uses this name for its own headers, which consumers ignore"
    else:
        taken[header] = what
        return
    raise ConfigError(f"{header!r} cannot be the header of {what}: {reason}", field=field)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderNames:
    """The headers that carry an event's attributes.

    The id is not among them: the EventRouter always writes it as ``id``, before all others (a relay that does not is
    a :class:`ForeignOutbox`). No two are the same, and none holds a colon or a comma, which separate the entries of
    the EventRouter's placement option.
    """

    type: str = ATTRIBUTES["type"].header
    aggregate_type: str = ATTRIBUTES["aggregate_type"].header
    sequence: str = ATTRIBUTES["sequence"].header
    source: str = ATTRIBUTES["source"].header
    created_at: str = ATTRIBUTES["created_at"].header

    def __post_init__(self) -> None:
        taken = {"id": "the event's id"}
        for role, header in self.placed().items():
            take_header(taken, header, f"the {role}", field=f"HeaderNames.{role}")

    def placed(self) -> Mapping[str, str]:
        """Return attribute → header, in the order of the wire."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


BINARY_NAMES = HeaderNames(
    **{name: f"ce_{attribute.cloud_event}" for name, attribute in ATTRIBUTES.items() if attribute.header}
)
"""What CloudEvents calls them in binary mode; aggregate type, sequence and time of creation are extensions."""
