"""What our own pipelines speak: which column becomes which header, and the way back from a message to an event."""

import re
from collections.abc import Collection, Container, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from cdc_outbox.contract.outbox_options import chosen, settle
from cdc_outbox.contract.plain_reader import PlainReader, record_of, sequence_of
from cdc_outbox.errors import ConfigError, MessageError
from cdc_outbox.event import RecordedEvent, SequenceMode
from cdc_outbox.formats import cloudevents, envelope, foreign, payload
from cdc_outbox.formats.attributes import (
    BINARY_NAMES,
    BUILT_IN_HEADERS,
    DEBEZIUM_PREFIX,
    HeaderNames,
    take_header,
)
from cdc_outbox.formats.event_format import FORMAT_HEADERS, EventFormat, PayloadType
from cdc_outbox.formats.foreign import ForeignOutbox
from cdc_outbox.formats.timestamps import from_header, from_milliseconds, to_microseconds, to_milliseconds
from cdc_outbox.message import Message

_TOPIC = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
"""What Kafka accepts as a topic's name; a worse one makes the connector's task fail, so writers refuse it."""
_PLACEHOLDER = "{aggregate_type}"


@dataclass(frozen=True, kw_only=True)
class WireContract:
    """A pipeline's topics, the numbers of their events, and the headers of their messages.

    Args:
        aggregates: Every aggregate type that is spoken of, with its sequence mode.
        latest: Aggregate types whose events each carry the whole state: a consumer skips stale events, and missing ones
            do not matter.
        by_watermark: Aggregate types whose source never goes back and is never restored: a consumer keeps no ids of
            their events, and an event that is stale by its sequence number is a duplicate.
        topic: The topic's name, with ``{aggregate_type}`` in it or without.
        headers: Which header says what in plain and structured messages; binary CloudEvents have names of their own.
        extra_headers: What else travels as headers, in the order of the wire: those of the table's header columns.
        format: What :meth:`message_of` writes; :meth:`event_of` reads every format.
        payload_type: What the outbox's is. Nothing in a message tells bytes, so its readers have to know.
        foreign: Set for an outbox of another tool: values that its messages lack come from here and from the topic, and
            JsonConverter's envelope around key, headers and value is removed. It is never removed in pipelines of this
            package, whose payloads may look like one.
    """

    aggregates: Mapping[str, SequenceMode]
    latest: tuple[str, ...] = ()
    by_watermark: tuple[str, ...] = ()
    topic: str = f"outbox.event.{_PLACEHOLDER}"
    headers: HeaderNames = field(default_factory=HeaderNames)
    extra_headers: tuple[str, ...] = tuple(BUILT_IN_HEADERS.values())
    format: EventFormat = EventFormat.PLAIN
    payload_type: PayloadType = PayloadType.JSON
    foreign: ForeignOutbox | None = None

    def __post_init__(self) -> None:
        if not self.aggregates:
            raise ConfigError("a contract must have at least one aggregate type", field="aggregates")
        settle(self, {"format": EventFormat, "payload_type": PayloadType})
        modes = {name: chosen(SequenceMode, mode, f"aggregates.{name}") for name, mode in self.aggregates.items()}
        object.__setattr__(self, "aggregates", modes)
        self._refuse_unnumbered()
        is_numbered = all(mode.is_numbered for mode in self.aggregates.values())
        if self.format is EventFormat.CLOUDEVENTS_BINARY and not is_numbered:
            raise ConfigError(
                "an event without a sequence number would have an empty ce_sequence, on which CloudEvents readers fail",
                field="outbox.format",
                hint="Number every aggregate type, or choose cloudevents-structured.",
            )
        taken = {header: f"the {role}" for role, header in self.names.placed().items()}
        take_header(taken, self.id_header, "the event's id", field="foreign.id_header")
        if self.foreign is not None:
            _check_default_type(self.foreign.default_type)
        for header in (*FORMAT_HEADERS[self.format].values(), *cloudevents.ROW_HEADERS[self.format]):
            taken[header] = f"something in {self.format}"
        for header in self.extra_headers:
            take_header(taken, header, "a header column", field="outbox.headers")
        if self.format is EventFormat.CLOUDEVENTS_STRUCTURED:
            _refuse_binary(taken)
        if self.fields and len({envelope.PAYLOAD, *self.fields.values()}) <= len(self.fields):
            raise ConfigError("two fields of the envelope would have the same name", field="headers")
        for aggregate_type in self.aggregates:
            if not _TOPIC.fullmatch(self.topic_of(aggregate_type)):
                raise ConfigError(
                    f"the aggregate type {aggregate_type!r} makes the topic {self.topic_of(aggregate_type)!r}, "
                    "which Kafka refuses",
                    field="aggregates",
                    hint="Use letters, digits, dot, underscore and hyphen, 249 characters at most.",
                )

    def _refuse_unnumbered(self) -> None:
        for option, names in (("latest", self.latest), ("by_watermark", self.by_watermark)):
            for name in names:
                if not self.mode_of(name).is_numbered:
                    raise ConfigError(
                        f"{option} needs sequence numbers, but events of {name!r} have none",
                        field=f"aggregates.{name}.{option}",
                        hint=f"Number the aggregate type, or remove it from {option}.",
                    )

    @property
    def names(self) -> HeaderNames:
        """The headers that carry an event's attributes in this contract's format."""
        return BINARY_NAMES if self.format is EventFormat.CLOUDEVENTS_BINARY else self.headers

    @property
    def id_header(self) -> str:
        """The header that carries the event's id, in every format."""
        return "id" if self.foreign is None else self.foreign.id_header

    @property
    def fields(self) -> Mapping[str, str]:
        """Attribute → field of the envelope, in the order of the wire; none in the formats without one."""
        return envelope.fields_of(self.headers.placed()) if self.format is EventFormat.ENVELOPE else {}

    @property
    def placed(self) -> Mapping[str, str]:
        """Attribute → header, in the order of the wire, of those that are headers in this contract's format."""
        return {} if self.fields else self.names.placed()

    @property
    def topics(self) -> tuple[str, ...]:
        """Every topic of the contract, sorted."""
        return tuple(sorted({self.topic_of(aggregate_type) for aggregate_type in self.aggregates}))

    def topic_of(self, aggregate_type: str) -> str:
        """Return the topic that events of this aggregate type go to."""
        return self.topic.replace(_PLACEHOLDER, aggregate_type)

    def mode_of(self, aggregate_type: str) -> SequenceMode:
        """Return how this aggregate type is numbered.

        Raises:
            ConfigError: The contract does not know it.
        """
        if aggregate_type not in self.aggregates:
            known = ", ".join(sorted(self.aggregates))
            raise ConfigError(
                f"the aggregate type {aggregate_type!r} is not in the contract; its types are {known}",
                field="aggregates",
                hint="Correct the aggregate type, or add it to aggregates in the spec and export its contract again.",
            )
        return self.aggregates[aggregate_type]

    def message_of(self, event: RecordedEvent) -> Message:
        """Return the message of a written event; the inverse of :meth:`event_of`.

        The timestamp is the row's ``created_at`` cut to milliseconds, as Debezium cuts it; the header has it whole. An
        expanded payload stands there as it was written; Debezium's says the same in other words.
        """
        written = cloudevents.encoded(event, self.format, event.id, event.created_at)
        placed = _attributes(event, self.placed)
        extra = (*self.extra_headers, *FORMAT_HEADERS[self.format].values())
        said = cloudevents.filled(written.headers, self.format, self.extra_headers)
        headers = {self.id_header: event.id} | placed | {header: said.get(header) for header in extra}
        headers |= {header: getattr(event, role) for header, role in cloudevents.ROW_HEADERS[self.format].items()}
        return Message(
            topic=self.topic_of(event.aggregate_type),
            key=event.aggregate_id.encode(),
            value=self._value(written),
            headers=tuple((name, None if value is None else str(value).encode()) for name, value in headers.items()),
            timestamp_ms=to_milliseconds(event.created_at),
        )

    def event_of(self, message: Message, *, attempt: int = 1) -> RecordedEvent:
        """Return the event that a message carries.

        Args:
            attempt: Which attempt to apply the event this is, for :attr:`RecordedEvent.record`.

        Raises:
            MessageError: The message does not keep the contract: the name of a header is not UTF-8, the id or
                the type is missing, a header of the contract is not UTF-8 or appears with two values, the sequence
                is no positive number or is missing where the contract promises one, the aggregate type is unknown,
                the payload is not JSON, neither a header nor the record's timestamp has the time of creation.

        Trace context and text headers that the contract does not name are headers of the event, by their first value.
        """
        if self._plain_reader is not None and (event := self._plain_reader.event_of(message, attempt)) is not None:
            return event
        if not message.has_headers:
            raise _broken(message, "a header name is not UTF-8, so the headers cannot be read")
        if self.foreign is not None:
            message = foreign.unwrapped(message)
        headers = self._texts(message)
        names = self._names_in(headers)
        content, attributes = self._content(message, headers, names)
        if attributes:
            headers = {**attributes, **headers}
        headers = self._completed(headers, names, message)
        aggregate_type = _required(headers, names.aggregate_type, message)
        sequence, source = headers.pop(names.sequence, None), headers.pop(names.source, None)
        created_at = self._created_at(headers, names.created_at, message)
        numbered = self._is_numbered(aggregate_type, message)
        if numbered and (sequence is None or not source):
            raise _broken(message, f"{aggregate_type} is numbered, but its sequence or source is missing")
        event = RecordedEvent(
            id=_required(headers, self.id_header, message),
            type=_required(headers, names.type, message),
            aggregate_type=aggregate_type,
            aggregate_id=_key(message),
            payload=content,
            sequence=_sequence(sequence, message) if numbered else None,
            source=source,
            created_at=created_at,
            headers=headers,
            record=record_of(message, attempt),
        )
        try:
            decoded = cloudevents.decoded(event)
        except ValueError as error:
            raise _broken(message, str(error)) from error
        # Half a surrogate pair, which JSON can escape, is no text that a database takes.
        texts = f"{decoded.id}{decoded.type}{decoded.aggregate_type}{decoded.aggregate_id}{decoded.source}"
        if not texts.isascii():
            _refuse_halves(texts, message)
        return decoded

    @cached_property
    def _plain_reader(self) -> PlainReader | None:
        """The reader of plain messages; ``None`` for a contract whose messages have another format."""
        if self.foreign is not None or self.format is not EventFormat.PLAIN:
            return None
        return PlainReader.of(self.headers, self.aggregates, self.extra_headers, self.payload_type)

    def _value(self, event: RecordedEvent) -> bytes | None:
        encoded = None if event.payload is None else payload.encode(event.payload)
        if self.fields and not isinstance(encoded, bytes):
            attributes = _attributes(event, self.fields)
            encoded = envelope.sealed(attributes, encoded, expanded=self.payload_type is PayloadType.EXPANDED)
        return encoded.encode() if isinstance(encoded, str) else encoded

    def _content(
        self, message: Message, headers: Mapping[str, str], names: HeaderNames
    ) -> tuple[Any, Mapping[str, str]]:
        """Return the payload, and the attributes that stand beside it where the headers have none."""
        if message.value is None:
            return None, {}
        try:
            if self.payload_type is PayloadType.BYTES and self.foreign is not None:
                return foreign.opened_bytes(message.value), {}
            if self.foreign is not None and not cloudevents.says_bytes(headers):
                typed = names.type in headers
                return foreign.opened(message.value, names.placed(), id_header=self.id_header, typed=typed)
            opened = None if names.type in headers else envelope.opened(message.value, names.placed())
            if opened is not None:
                return opened
            if self.payload_type is PayloadType.BYTES or cloudevents.says_bytes(headers):
                return message.value, {}
            return payload.decode(message.value), {}
        except ValueError as error:
            raise _broken(message, f"the payload is not JSON: {error}") from error

    def _completed(self, headers: dict[str, str], names: HeaderNames, message: Message) -> dict[str, str]:
        """Return the headers, with what a foreign outbox leaves unsaid."""
        if self.foreign is None:
            return headers
        here = [aggregate_type for aggregate_type in self.aggregates if self.topic_of(aggregate_type) == message.topic]
        said = {name: text for name, text in headers.items() if text}
        unsaid = {self.id_header: headers.get("ce_id", "")}
        if len(here) == 1:
            unsaid[names.aggregate_type] = here[0]
        aggregate_type = (unsaid | said).get(names.aggregate_type, "")
        unsaid[names.type] = (self.foreign.default_type or "").replace(_PLACEHOLDER, aggregate_type)
        return headers | unsaid | said

    def _names_in(self, present: Container[str]) -> HeaderNames:
        """Return what the attributes are called in a message that has these headers."""
        binary = BINARY_NAMES.type in present and self.headers.type not in present
        return BINARY_NAMES if binary else self.headers

    def _texts(self, message: Message) -> dict[str, str]:
        """Return the headers that have a value, as text; one that the contract names must say the same if repeated."""
        texts: dict[str, str] = {}
        for name, value in message.headers:
            if value is None or name.startswith(DEBEZIUM_PREFIX):
                continue
            try:
                text = value.decode()
            except UnicodeDecodeError as error:
                if not self._asks_for(name, message):
                    continue  # Kafka allows any bytes, and tracers write them
                raise _broken(message, f"the header {name!r} is not UTF-8") from error
            if texts.setdefault(name, text) != text and self._asks_for(name, message):
                raise _broken(message, f"the header {name!r} appears twice with different values")
        return texts

    def _asks_for(self, name: str, message: Message) -> bool:
        """Return whether the contract names a header of this message; asked only of one that is not in order."""
        names = self._names_in({name for name, value in message.headers if value is not None})
        own = {*self.extra_headers} - {*BUILT_IN_HEADERS.values()}  # trace context never decides about an event
        return name in {self.id_header, *names.placed().values(), *own}

    def _created_at(self, headers: dict[str, str], name: str, message: Message) -> datetime:
        """Take the time of creation out of the headers; without that header it is the record's timestamp.

        Other outboxes may write anything under the name, which is left among the headers then.
        """
        text = headers.get(name)
        if text is None:
            return _recorded_at(message)
        try:
            created_at = from_header(text)
        except ValueError as error:
            if self.foreign is not None:
                return _recorded_at(message)
            raise _broken(message, f"the header {name!r} is not a time: {text[:40]!r}") from error
        del headers[name]
        return created_at

    def _is_numbered(self, aggregate_type: str, message: Message) -> bool:
        try:
            return self.mode_of(aggregate_type).is_numbered
        except ConfigError as error:
            raise _broken(message, str(error)) from error


def _refuse_binary(headers: Collection[str]) -> None:
    for header in headers:
        if header.lower().startswith("ce_"):
            reason = f"the header {header!r} begins with ce_: readers would take the messages for binary CloudEvents"
            raise ConfigError(reason, field="outbox.headers", hint="Choose another name for the header.")


def _check_default_type(default_type: str | None) -> None:
    if default_type is not None and (not default_type or "{" in default_type.replace(_PLACEHOLDER, "")):
        reason = f"{default_type!r} is not a valid type: it is empty, or contains a brace outside {_PLACEHOLDER}"
        raise ConfigError(reason, field="foreign.default_type")


def _required(headers: dict[str, str], name: str, message: Message) -> str:
    text = headers.pop(name, "")
    if not text:
        raise _broken(message, f"the header {name!r} is missing or empty")
    return text


def _sequence(text: str | None, message: Message) -> int:
    number = sequence_of(text)
    if number is None:
        raise _broken(message, f"the sequence {(text or '')[:40]!r} is not a positive number")
    return number


def _key(message: Message) -> str:
    if not message.key:
        raise _broken(message, "the key is empty, so the aggregate is unknown")
    try:
        return message.key.decode()
    except UnicodeDecodeError as error:
        raise _broken(message, "the key is not UTF-8") from error


def _recorded_at(message: Message) -> datetime:
    if message.timestamp_ms is None:  # Debezium and Kafka give every record one
        raise _broken(message, "neither a header nor a timestamp contains the creation time")
    try:
        return from_milliseconds(message.timestamp_ms)
    except OverflowError as error:
        raise _broken(message, "its timestamp is outside the calendar") from error


def _attributes(event: RecordedEvent, names: Mapping[str, str]) -> dict[str, str | int | None]:
    """Return attributes by their names, as the connector writes them: a time as a number."""
    found = {name: getattr(event, role) for role, name in names.items() if role != "created_at"}
    if "created_at" in names:
        found[names["created_at"]] = to_microseconds(event.created_at)
    return found


def _refuse_halves(texts: str, message: Message) -> None:
    try:
        texts.encode()
    except UnicodeEncodeError as error:
        raise _broken(message, "its id, type, aggregate or source contains half a surrogate pair") from error


def _broken(message: Message, reason: str) -> MessageError:
    return MessageError(f"the message at {message.position} breaks the contract: {reason}")
