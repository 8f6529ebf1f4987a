"""What becomes of binlogs and of the schema's history, on MariaDB."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import gettempdir
from uuid import uuid4

from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.debezium.lint import Config
from cdc_outbox.message import Message
from tests.proofs.place import MariaDbPlace
from tests.proofs.proof import Changes, Proof
from tests.proofs.ran import Site
from tests.support.configs import config_of

_HISTORY = "schema.history.internal"
_LAST, _LONG = '{"last":1}', 20
_FILE = f"{gettempdir()}/{{name}}.history"
Seen = Callable[[MariaDbPlace], object]


def _write(place: MariaDbPlace) -> None:
    place.until(place.reader)
    place.event()


def _arrives(place: MariaDbPlace) -> object:
    return place.messages()


def _restart(place: MariaDbPlace) -> None:
    _again(place, lambda: None)


def _again(place: MariaDbPlace, meanwhile: Callable[[], object]) -> None:
    _write(place)
    place.until(place.messages)

    def stopped() -> None:
        place.until(lambda: not place.reader())
        meanwhile()

    place.restart(stopped)
    place.event("later")


def _event_and_other(place: MariaDbPlace) -> None:
    _write(place)
    place.sql("insert into {name}.other (note) values ('x')")


def _unreadable_and_event(place: MariaDbPlace) -> None:
    """Move the columns by a statement that Debezium's parser does not know."""
    place.until(place.reader)
    place.sql("alter table {name}.outbox add column address inet6 first, drop column created_at")
    place.event()


def _event_and_drop(place: MariaDbPlace) -> None:
    place.event()
    place.sql("alter table {name}.outbox drop column created_at")


def _rollback_and_event(place: MariaDbPlace) -> None:
    place.until(place.reader)
    place.sql("begin")
    place.event()
    place.sql("create temporary table {name}.scratch (id int)")
    place.sql("rollback")
    place.event(payload=_LAST)


def _long_transaction_and_event(place: MariaDbPlace) -> None:
    place.until(place.reader)
    place.sql("begin")
    for _ in range(_LONG):
        place.event()
    place.sql("commit")
    place.event(payload=_LAST)


def _arrived(count: int) -> Seen:
    """Return whether the last event has arrived, and this many before it; they have one partition."""

    def seen(place: MariaDbPlace) -> bool:
        values = [message.value for message in place.messages()]
        return _LAST.encode() in values and len(values) == count + 1

    return seen


def _fails(text: str) -> Seen:
    return lambda place: text in place.trace()


def _history_file(place: MariaDbPlace) -> Path:
    return Path(_FILE.replace("{name}", place.name))


def _has_no_task(place: MariaDbPlace) -> bool:
    refusal = "Failed to reconfigure connector's tasks ({name})".replace("{name}", place.name)
    return place.status().state == "RUNNING" and not place.status().tasks and refusal in place.log()


def _reads_nothing(place: MariaDbPlace) -> bool:
    return place.runs() and not place.reader() and not place.messages("later")


def _columns_have_moved(place: MariaDbPlace) -> bool:
    topics = [topic for topic in place.topics.partitions if topic.startswith(f"{place.name}.")]
    return any(message.key == b"order" for topic in topics for message in place.topics.messages(topic))


def _prefix(entry: Message) -> str:
    """Return whose entry of a history it is."""
    return str(json.loads(entry.value or b"")["source"]["server"])


def _later(place: MariaDbPlace) -> object:
    return place.messages("later")


def _has_locked(place: MariaDbPlace) -> object:
    query = "select 1 from mysql.general_log where user_host like '{name}%' and argument like '%WITH READ LOCK'"
    return place.messages() and place.sql(query)


def _has_moved(place: MariaDbPlace, known: dict[str, object]) -> bool:
    return place.offset() != known


@dataclass(frozen=True, kw_only=True)
class OnMariaDb(Proof):
    """A hazard that shows when the connector runs.

    Args:
        before: What another configuration had that ran before; none, if none did.
        alone: Whether it would disturb the others, which read the same binlog.
        act: What is done when the connector reads.
        shows: Whether the hazard is seen.
        instead: What is seen of a fixed one.
    """

    kind: DatabaseKind = DatabaseKind.MARIADB
    shows: Seen
    act: Callable[[MariaDbPlace], object] = _write
    instead: Seen = _arrives
    before: Changes | None = None
    alone: bool = False

    def prove(self, site: Site) -> None:
        """Run both; the fixed one comes second, and shows that there was time enough."""
        with self._acted(site, self.changes) as flagged, self._acted(site, self.fixed) as fixed:
            fixed.until(lambda: self.instead(fixed))
            assert not self.shows(fixed)
            flagged.until(lambda: self.shows(flagged))

    @contextmanager
    def _acted(self, site: Site, changes: Changes) -> Iterator[MariaDbPlace]:
        with self._place(site) as (place, names):
            if self.before is not None:
                place.deploy(self.config(self.before, **names))
                place.until(place.reader)
                place.client.stop(place.name)
                place.until(lambda: not place.reader())
            place.deploy(self.config(changes, **names))
            if self.before is not None:
                place.client.resume(place.name)
            self.act(place)
            yield place

    @contextmanager
    def _place(self, site: Site) -> Iterator[tuple[MariaDbPlace, dict[str, str]]]:
        token = uuid4().hex[:8]
        names = {
            "name": f"{self.code.lower()}_{token}",
            "port": str(site.stack.mariadb.port),
            "brokers": site.stack.broker.bootstrap_servers,
            "id": str(int(token, 16) % 10**9 + 1),
            "buffer": "1000",  # many connectors share a worker, and the size that the linter wants takes 20 MB each
        }
        with closing(MariaDbPlace(site.stack, site.topics, names["name"])) as place:
            yield place, names


@dataclass(frozen=True, kw_only=True)
class StandsStill(OnMariaDb):
    """An offset that is not stored anew while other tables are written; the fixed one's is."""

    shows: Seen = _arrives

    def prove(self, site: Site) -> None:
        """Run both."""
        with self._acted(site, self.changes) as flagged, self._acted(site, self.fixed) as fixed:
            flagged.until(flagged.offset)
            flagged.until(flagged.messages)
            before: dict[str, object] = {}
            for _ in range(3):
                before, known = flagged.offset(), fixed.offset()
                flagged.sql("insert into {name}.other (note) values ('x')")
                fixed.sql("insert into {name}.other (note) values ('x')")
                fixed.until(partial(_has_moved, fixed, known))
            assert flagged.offset() == before


_SECOND: Changes = {
    "name": "{name}_two",
    "topic.prefix": "{name}_two",
    "database.server.id": "{id}1",
    f"{_HISTORY}.kafka.topic": "{name}.second_history",
    "table.include.list": "{name}\\.other",
    "predicates.isOutbox.pattern": "{name}_two\\.{name}\\.other",
}


@dataclass(frozen=True, kw_only=True)
class PairOnMariaDb(OnMariaDb):
    """A hazard of a second connector beside a clean one; the changes are the second one's."""

    first: Changes = field(default_factory=dict)

    def linted(self, changes: Changes) -> Sequence[Config]:
        """Return both as the linter reads them."""
        first, second = self.config(self.first), self.config({**_SECOND, **changes})
        return config_of(first, name="one.json"), config_of(second, name="two.json")

    @contextmanager
    def _acted(self, site: Site, changes: Changes) -> Iterator[MariaDbPlace]:
        with self._place(site) as (place, names):
            place.deploy(self.config(self.first, **names))
            _write(place)
            place.until(place.messages)
            place.deploy(self.config({**_SECOND, **changes}, **names))
            self.act(place)
            yield place


RAN: tuple[OnMariaDb, ...] = (
    OnMariaDb(
        code="CC112",
        changes={f"{_HISTORY}.kafka.topic": None},
        act=lambda place: place.until(lambda: place.trace() or place.reader()),
        shows=_fails("Error configuring an instance of KafkaSchemaHistory"),
        instead=lambda place: place.reader(),
    ),
    OnMariaDb(
        code="CC209",
        changes={"tasks.max": "2"},
        act=lambda place: place.until(lambda: place.status().state == "RUNNING"),
        shows=_has_no_task,
        instead=lambda place: place.runs(),
    ),
    OnMariaDb(
        code="CC202",
        before={"table.include.list": "{name}\\.other"},
        changes={"table.include.list": "{name}\\.outbox,{name}\\.other", "inconsistent.schema.handling.mode": "skip"},
        fixed={"table.include.list": "{name}\\.outbox,{name}\\.other"},
        act=_event_and_other,
        shows=lambda place: place.messages(f"{place.name}.other") and not place.messages(),
        instead=_fails("schema isn't known"),
    ),
    OnMariaDb(
        code="CC701",
        changes={_HISTORY: "io.debezium.relational.history.MemorySchemaHistory"},
        act=_restart,
        shows=_fails("The db history topic is missing"),
        instead=_later,
    ),
    OnMariaDb(
        code="CC703",
        changes={f"{_HISTORY}.store.only.captured.tables.ddl": None},
        shows=lambda place: any(b"`other`" in (one.value or b"") for one in place.messages("history")),
    ),
    OnMariaDb(
        code="CC705",
        changes={"include.schema.changes": None},
        shows=lambda place: place.topics.messages(place.name),
    ),
    OnMariaDb(
        code="CC706",
        changes={f"{_HISTORY}.kafka.topic": "{name}", "include.schema.changes": "true"},
        fixed={f"{_HISTORY}.kafka.topic": "{name}"},
        also=("CC705",),
        act=_restart,
        shows=_reads_nothing,
        instead=_later,
    ),
    OnMariaDb(
        code="CC708",
        changes={"snapshot.locking.mode": None},
        shows=_has_locked,
    ),
    OnMariaDb(
        code="CC702",
        changes={
            _HISTORY: "io.debezium.storage.file.history.FileSchemaHistory",
            f"{_HISTORY}.file.filename": _FILE,
        },
        act=lambda place: _again(place, lambda: _history_file(place).unlink(missing_ok=True)),
        fixed={},
        shows=_fails("The db history topic is missing"),
        instead=_later,
    ),
    OnMariaDb(
        code="CC704",
        alone=True,
        changes={f"{_HISTORY}.skip.unparseable.ddl": "true"},
        act=_unreadable_and_event,
        shows=_columns_have_moved,
        instead=_fails("ParsingException"),
    ),
    OnMariaDb(
        code="CC707",
        changes={"snapshot.mode": "recovery"},
        before={},
        act=_event_and_drop,
        shows=_fails("internal schema size 5, but row size 6"),
    ),
    StandsStill(code="CC709", changes={"heartbeat.interval.ms": None}),
    OnMariaDb(
        code="CC710",
        changes={"binlog.buffer.size": None},
        act=_rollback_and_event,
        shows=_arrived(1),
        instead=_arrived(0),
    ),
    OnMariaDb(
        code="CC711",
        changes={"binlog.buffer.size": "10"},
        act=_long_transaction_and_event,
        # The transaction's GTID, and for each event two of the binlog: the last fills the buffer.
        shows=_arrived(4),
        instead=_arrived(_LONG),
    ),
    PairOnMariaDb(
        code="CC903",
        changes={"database.server.id": "{id}"},
        act=lambda place: place.until(lambda: place.status("_two").tasks),
        shows=_fails("A slave with the same server_uuid/server_id is already connected"),
        instead=lambda place: [task.state for task in place.status("_two").tasks] == ["RUNNING"],
    ),
    PairOnMariaDb(
        code="CC905",
        changes={f"{_HISTORY}.kafka.topic": "{name}.history"},
        shows=lambda place: {_prefix(one) for one in place.messages("history")} == {place.name, f"{place.name}_two"},
        instead=lambda place: place.messages("second_history"),
    ),
)
