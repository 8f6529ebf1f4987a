"""What the headers of an event's attributes are called, and which names a header cannot have."""

from collections.abc import Mapping
from dataclasses import dataclass

from cdc_outbox.errors import ConfigError

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
        reason = "it is empty, or holds a colon, a comma or a blank at an end"
    elif header.startswith(DEBEZIUM_PREFIX):
        reason = "Debezium's own headers are named so, and a consumer skips them"
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

    type: str = "eventType"
    aggregate_type: str = "aggregateType"
    sequence: str = "sequence"
    source: str = "source"
    created_at: str = "createdAt"

    def __post_init__(self) -> None:
        taken = {"id": "the event's id"}
        for role, header in self.placed().items():
            take_header(taken, header, f"the {role}", field=f"HeaderNames.{role}")

    def placed(self) -> Mapping[str, str]:
        """Return attribute → header, in the order of the wire."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


BINARY_NAMES = HeaderNames(
    type="ce_type",
    aggregate_type="ce_aggregatetype",
    sequence="ce_sequence",
    source="ce_source",
    created_at="ce_createdat",
)
"""What CloudEvents calls them in binary mode; aggregate type, sequence and time of creation are extensions."""
