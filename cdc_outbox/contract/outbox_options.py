"""The ways an outbox may go about its events: what becomes of a row, what goes with it."""

from enum import StrEnum
from typing import TypeVar

from cdc_outbox.errors import ConfigError
from cdc_outbox.formats.event_format import EventFormat, PayloadType
from cdc_outbox.redaction import either

Choice = TypeVar("Choice", bound=StrEnum)


def chosen(kind: type[Choice], given: object, field: str) -> Choice:
    """Return the member of an enumeration that an option has, or has the text of.

    Raises:
        ConfigError: It is another value.
    """
    words = [each.value for each in kind]
    if given not in words:
        raise ConfigError(f"{field} must be {either(words)}, not {given!r}", field=field)
    return kind(given)


def settle(options: object, kinds: dict[str, type[StrEnum]]) -> None:
    """Replace texts in the fields of a frozen dataclass by the members of their enumerations.

    Raises:
        ConfigError: As :func:`chosen`.
    """
    for field, kind in kinds.items():
        object.__setattr__(options, field, chosen(kind, getattr(options, field), field))


class OutboxMode(StrEnum):
    """What happens to an event's row, which limits the pipeline's promises.

    Writer, topics and consumer are the same in every mode: numbers without gaps, effects once.
    """

    KEEP = "keep"
    """It stays until it is pruned, and can be published, compared and read again."""
    DELETE = "delete"
    """It is deleted in the transaction that inserted it: the log has it, the table stays empty.

    Once the log is gone, so are the events. What a lost slot held cannot be published again, events cannot be
    compared with the table, nothing but the log can be read instead of it. Whether something was written before the
    slot is known from the head table only, so not of aggregate types without numbers.
    """
    MESSAGE = "message"
    """There is no row: the event is a logical message in PostgreSQL's log, and only the head table exists.

    All that DELETE cannot do, and: an event that is not numbered has no source; payloads are text, never bytes; nothing
    refuses the same id twice; after a restart the connector may repeat events that it had delivered (consumers skip
    them). PostgreSQL only.
    """

    @property
    def keeps_rows(self) -> bool:
        """Whether the table keeps the rows of written events."""
        return self is OutboxMode.KEEP


class Partitions(StrEnum):
    """The span of time whose events share a partition, by the time in their ids."""

    DAY = "day"
    MONTH = "month"


def refuse_together(mode: OutboxMode, payload_type: PayloadType, event_format: EventFormat) -> None:
    """Refuse what does not go together, on any database.

    Raises:
        ConfigError: A format or a mode cannot carry such payloads, or would change them.
    """
    if mode is OutboxMode.MESSAGE and payload_type is PayloadType.BYTES:
        raise ConfigError(
            "a logical message carries the payload as JSON text, never as bytes",
            field="payload_type",
            hint="Choose the mode keep or delete.",
        )
    if mode is OutboxMode.MESSAGE and event_format is EventFormat.ENVELOPE:
        raise ConfigError(
            "Debezium encodes null and large numbers of a logical message with another type than small numbers, and "
            "fails on the second type in an envelope",
            field="format",
            hint="Choose another format, or the mode keep or delete.",
        )
    if payload_type is PayloadType.BYTES and event_format in {EventFormat.ENVELOPE, EventFormat.CLOUDEVENTS_STRUCTURED}:
        hint = f"Choose {EventFormat.PLAIN} or {EventFormat.CLOUDEVENTS_BINARY}."
        raise ConfigError("an envelope must be JSON, not bytes", field="format", hint=hint)
    if payload_type is PayloadType.EXPANDED and event_format not in {EventFormat.PLAIN, EventFormat.ENVELOPE}:
        raise ConfigError(
            "the JSON of a CloudEvent must arrive as written, but expansion changes it",
            field="payload_type",
            hint=f"Choose {PayloadType.JSON}.",
        )


def refuse_elsewhere(database: str, mode: OutboxMode, payload_type: PayloadType, event_format: EventFormat) -> None:
    """Refuse what a database, or Debezium's router for it, does not have.

    Args:
        database: A dialect, or whose database it is.

    Raises:
        ConfigError: There is no table, and it is not PostgreSQL; or the router for MongoDB's documents does not make
            what is asked for.
    """
    if mode is OutboxMode.MESSAGE and database != "postgresql":
        raise ConfigError(f"{database} has no logical messages", field="mode")
    if database == "mongodb" and event_format is EventFormat.ENVELOPE:
        raise ConfigError(
            "a number in mongodb may have another type in the next document, which fails in an envelope",
            field="format",
            hint="Choose another format.",
        )
    if database == "mongodb" and payload_type is PayloadType.EXPANDED:
        raise ConfigError("Debezium expands documents of mongodb, not text", field="payload_type", hint="Choose json.")
