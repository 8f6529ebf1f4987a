"""The ways an outbox may go about its events: what becomes of a row, what a message looks like."""

from collections.abc import Mapping
from enum import StrEnum

from cdc_outbox.errors import ConfigError


class PayloadType(StrEnum):
    """What the payload column holds, and with it what arrives as the message's value."""

    JSON = "json"
    BYTES = "bytes"
    """Avro, Protobuf, anything: the connector needs BinaryDataConverter."""


class EventFormat(StrEnum):
    """How an event's attributes travel."""

    PLAIN = "plain"
    """In headers of this package's names."""
    CLOUDEVENTS_BINARY = "cloudevents-binary"
    """In the headers of CloudEvents 1.0, the payload as it is."""
    CLOUDEVENTS_STRUCTURED = "cloudevents-structured"
    """In an envelope of CloudEvents 1.0 around the payload, and in the plain headers besides."""


FORMAT_HEADERS: Mapping[EventFormat, Mapping[str, str]] = {
    EventFormat.PLAIN: {},
    EventFormat.CLOUDEVENTS_BINARY: {
        "ce_specversion": "ce_specversion",
        "ce_time": "ce_time",
        "content_type": "content-type",
    },
    EventFormat.CLOUDEVENTS_STRUCTURED: {"content_type": "content-type"},
}
"""Header columns that the writer fills in, each with its header."""


class OutboxMode(StrEnum):
    """What becomes of an event's row, and with it what the pipeline cannot promise.

    Whatever the mode, writer, topics and consumer are the same: numbers without gaps, effects once.
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

    All that DELETE cannot do, and: the record's timestamp is the connector's clock, not the row's; an event that is
    not numbered has no source; payloads are text, never bytes; nothing refuses the same id twice; after a restart the
    connector may repeat events that it had delivered (consumers skip them). PostgreSQL only.
    """

    @property
    def keeps_rows(self) -> bool:
        """Whether the table can tell afterwards what was written."""
        return self is OutboxMode.KEEP

    def refuse_elsewhere(self, database: str) -> None:
        """Refuse a database that has no such mode.

        Args:
            database: A dialect, or whose database it is.

        Raises:
            ConfigError: It is not PostgreSQL, and there is no table.
        """
        if self is OutboxMode.MESSAGE and database != "postgresql":
            raise ConfigError(f"{database} has no logical messages", field="mode")


class Partitions(StrEnum):
    """How long the span of time is whose events share a partition, by the time in their ids."""

    DAY = "day"
    MONTH = "month"
