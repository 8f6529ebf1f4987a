"""What becomes of two events on a real worker, under a configuration that nobody has checked before."""

import json
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from enum import StrEnum
from uuid import uuid4

from cdc_outbox.errors import CdcOutboxError
from cdc_outbox.message import Message
from cdc_outbox.testing import Stack
from fuzz.verdicts_mutations import Mutated
from tests.proofs.place import PostgresPlace, Topics

MARK = "ccv"
"""What the names of connectors, and so of their topics, begin with."""

_AGGREGATE_ID = "42"
_PAUSE_SECONDS = 0.25
_START_SECONDS = 30.0
_IDLE_SECONDS = 8.0
"""How long a task may run without reading its slot before it is taken for one that does not."""
_EVENT_SECONDS = 20.0
_SETTLE_SECONDS = 1.5
"""How long what was read may take to be seen in its topic."""


class Happened(StrEnum):
    """What became of two events; only the first is what was intended."""

    ARRIVES = "arrives"
    CHANGED = "arrives otherwise"
    ELSEWHERE = "goes elsewhere"
    TWICE = "arrives twice"
    NOTHING = "never arrives"
    FAILS = "task fails"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Seen:
    """What happened, and a few words about it."""

    happened: Happened
    detail: str = ""


def is_of_a_verdict(topic: str) -> bool:
    """Whether events may be in a topic."""
    return topic.startswith("outbox.event.") or (MARK in topic and not topic.startswith("__"))


@dataclass(slots=True)
class Trial:
    """A connector with a database of its own, and the events that were written there, by their aggregate types."""

    place: PostgresPlace
    mutated: Mutated
    written: dict[str, str] = field(default_factory=dict)

    def run(self) -> Seen:
        """Deploy the connector as it is, write two events, and say what became of them."""
        try:
            self.place.deploy(self.mutated.options(self.place.name))
        except CdcOutboxError as error:
            return Seen(Happened.REFUSED, _shortened(str(error)))
        began = time.monotonic()
        self._until(lambda: self.place.reader() or self._idles(began), _START_SECONDS)
        # A row of another table, the events, and what cleans up behind the first of them.
        self.place.sql("insert into {name}.other (note) values ('x')")
        for aggregate_type in ("order", "customer"):
            self._write(aggregate_type)
            self._until(lambda: self._messages(aggregate_type) or self._reads_on(), _EVENT_SECONDS)  # noqa: B023
            self.place.sql("delete from {name}.outbox")
        threading.Event().wait(_SETTLE_SECONDS)
        return self._judge()

    def _idles(self, began: float) -> bool:
        return time.monotonic() - began > _IDLE_SECONDS and self.place.runs()

    def _reads_on(self) -> bool:
        if not self.place.has_read():
            return False
        threading.Event().wait(_SETTLE_SECONDS)
        return True

    def _write(self, aggregate_type: str) -> None:
        event_id = self.written[aggregate_type] = str(uuid4())
        insert = "insert into {name}.outbox (id, aggregatetype, aggregateid, type, sequence, payload) values "
        row = (event_id, aggregate_type, _AGGREGATE_ID, "Placed", 7, json.dumps({"token": event_id}))
        insert += f"({', '.join(['%s'] * len(row))})"
        self.place.connection.execute(insert.replace("{name}", self.place.name).encode(), row)
        self.place.mark()

    def _until(self, holds: Callable[[], object], seconds: float) -> None:
        """Wait until something holds, the connector or its task has failed, or it takes too long."""
        deadline = time.monotonic() + seconds
        while not (holds() or self.place.trace()) and time.monotonic() < deadline:
            threading.Event().wait(_PAUSE_SECONDS)

    def _messages(self, aggregate_type: str) -> list[Message]:
        """Return the messages in which an event's id stands, wherever they are."""
        token = self.written[aggregate_type].encode()
        topics = self.place.topics
        return [each for topic in list(topics.partitions) for each in topics.messages(topic) if token in _octets(each)]

    def _judge(self) -> Seen:
        trace = self.place.trace()
        if trace:
            return Seen(Happened.FAILS, _cause(trace))
        found = {aggregate_type: self._messages(aggregate_type) for aggregate_type in self.written}
        missing = [aggregate_type for aggregate_type, messages in found.items() if not messages]
        if missing:
            return Seen(Happened.NOTHING, ", ".join(missing))
        name = self.place.name
        for aggregate_type, messages in found.items():
            topics = {message.topic for message in messages}
            if topics != {self.mutated.topic_of(name, aggregate_type)}:
                return Seen(Happened.ELSEWHERE, ", ".join(sorted(topics)).replace(name, "{name}"))
        for aggregate_type, messages in found.items():
            if len(messages) > 1:
                return Seen(Happened.TWICE, f"{len(messages)} times: {aggregate_type}")
            if wrong := self._wrong(messages[0], self.written[aggregate_type]):
                return Seen(Happened.CHANGED, wrong)
        return Seen(Happened.ARRIVES)

    def _wrong(self, message: Message, event_id: str) -> str:
        """Return what is wrong with a message in its topic, empty if nothing is."""
        key = event_id if self.mutated.key == "id" else _AGGREGATE_ID
        placed = {} if self.mutated.places_columns else {"eventType": "Placed", "sequence": "7"}
        if str(_meant(message.key)) != key:
            return f"the key is {message.key!r:.60}"
        for header, expected in {"id": event_id, **placed}.items():
            values = {str(_meant(value)) for name, value in message.headers if name == header}
            if values != {expected}:
                return f"the headers called {header} are {sorted(values)}"
        if _meant(message.value) != {"token": event_id}:
            return f"the value is {message.value!r:.80}"
        return ""


def observe(stack: Stack, topics: Topics, mutated: Mutated) -> Seen:
    """Run a configuration in a fresh database, and return what became of two events."""
    name = f"{MARK}{uuid4().hex[:10]}"
    stack.postgres.create_database(name)
    with closing(PostgresPlace(stack, topics, name, name)) as place:
        place.make_slot()
        return Trial(place, mutated).run()


def _octets(message: Message) -> bytes:
    return b"\0".join(part or b"" for part in (message.key, message.value, *(value for _, value in message.headers)))


def _meant(written: bytes | None) -> object:
    """Return what a converter was given, whatever JSON it made of that; of an envelope its payload."""
    found: object = (written or b"").decode(errors="replace")
    while True:
        if isinstance(found, str):
            try:
                found = json.loads(found)
            except ValueError:
                return found
        elif isinstance(found, dict) and "payload" in found:
            found = found["payload"]
        else:
            return found


def _cause(trace: str) -> str:
    """Return the first line of an exception's innermost cause."""
    causes = [line for line in trace.splitlines() if line.startswith("Caused by: ")]
    return _shortened((causes or trace.splitlines())[-1 if causes else 0].removeprefix("Caused by: "))


def _shortened(text: str) -> str:
    return " ".join(text.split())[:160]
