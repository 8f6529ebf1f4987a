"""One random history of a pipeline: what befalls it, step by step, and the writers' own ledger of it."""

import json
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from signal import SIGINT, SIGKILL, SIGTERM
from uuid import UUID

import psycopg

from cdc_outbox import Event, Outbox, RecordedEvent
from cdc_outbox.connect.wait import Condition, condition_of
from cdc_outbox.databases.heartbeats import Heartbeat, read_record
from cdc_outbox.message import Message
from tests.faults.killed import Program
from tests.faults.written import Ledger, Restore
from tests.support.commands import run_command
from tests.support.own_server import OwnServer
from tests.support.patience import patience
from tests.support.rig import eventually, one
from tests.support.service import Service

AGGREGATES = ("a", "b", "c")
"""For how long a step may wait for what it needs."""
_COMMANDS = (
    ("deploy-connector", "--stable-for=0s"),
    ("deploy-connector", "--earlier-events=republish", "--stable-for=0s"),
    ("recover", "--yes", "--stable-for=0s"),
    ("stop",),
    ("resume", "--stable-for=0s"),
)
"""What somebody runs at any time, whether it is of use or not."""
_PRUNE = ("prune", "--keep=0s", "--wait=0s")
_PURGE = ("purge-inbox", "--horizon=0.00001d", "--accept-shorter-horizon")
_KILLED = (*_COMMANDS, _PRUNE, _PURGE, ("recover", "--accept", "--by=history"))
"""What is killed at a random moment, and then run again."""


@dataclass(frozen=True)
class _Heartbeats:
    """Ids of heartbeats at one moment: what the database has kept, and what the topic has."""

    kept: set[str]
    sent: set[str]


@dataclass
class _Snapshot:
    data: Path
    present: set[str]
    heartbeats: _Heartbeats


class History:
    """What befalls a pipeline and its consumer.

    Args:
        service: It runs all the time.
    """

    def __init__(self, own: OwnServer, service: Service, random: Random) -> None:
        self.own, self.service, self.random = own, service, random
        self.program = Program(own, service, random)
        self._consumer = ExitStack()
        self.ledger, self.log = Ledger(), list[str]()
        self._snapshot: _Snapshot | None = None
        self._backed_up = False

    def befall(self, steps: int) -> None:
        """Take so many steps by chance."""
        for _ in range(steps):
            step = self.random.choice(self._possible())
            self.log.append(step.__name__)
            step()

    def _possible(self) -> list[Callable[[], None]]:
        """Return what can befall it now, what is frequent as often as it is."""
        found = [*[self.write] * 5, *[self.settle] * 2, self.lose_slot, self.recreate_slot, self.prune, self.restart]
        found += [self.take_snapshot, self.command, self.interrupt, self.kill, *[self.promote, self.clone] * 2]
        found += [self.purge, self.read_again]
        found += [self.restore_producer] * 3 if self._snapshot is not None else []
        found += [self.restore_consumer] * 2 if self._backed_up else [self.back_up_consumer]
        return [*found, self.restore_publication if self._is_out else self.drop_publication]

    def write(self, count: int = 0) -> None:
        """Commit events of any aggregates, and let a minute pass, in which a heartbeat is written."""
        spec = self.own.pipeline.spec
        outbox = Outbox(spec=spec)
        with psycopg.connect(self.own.pipeline.dsn) as connection:
            for number in range(count or self.random.randint(1, 6)):
                name = self.random.choice(AGGREGATES)
                kind = self.random.choice(("order", "order", "metric"))
                event = Event(
                    aggregate_type=kind,
                    aggregate_id=name,
                    type="OrderPlaced",
                    payload={"n": number},
                    id=self._untimed_id() if kind == "order" else None,
                )
                written = outbox.add(connection, event)
                connection.commit()
                self.ledger.committed[written.id] = written
                self.ledger.at[written.id] = datetime.now(UTC)
                self.ledger.present.add(written.id)
        self.own.write_heartbeats()

    def _untimed_id(self) -> str | None:
        """Return an id that tells no time, whose claim a purge forgets at once; ``None`` more often than not."""
        return str(UUID(int=self.random.getrandbits(128), version=4)) if self.random.random() < 1 / 3 else None

    def settle(self) -> None:
        """Let the connector and the consumer catch up, if they can."""
        self._wait_if_it_runs()

    def _wait_if_it_runs(self) -> None:
        client, name = self.own.pipeline.client, self.own.pipeline.name
        if condition_of(client.find_status(name)) is not Condition.UP:
            return
        try:
            eventually(lambda: self.ledger.present <= self.published().keys(), "the events", seconds=3)
        except AssertionError:
            self.log.append("  (not all arrive)")

    def published(self) -> dict[str, RecordedEvent]:
        """Return the events that the topics hold by their ids, in the order in which they came."""
        pipeline = self.own.pipeline
        broker, contract = pipeline.stack.broker, pipeline.spec.contract
        found = [contract.event_of(each) for topic in contract.topics for each in broker.messages(topic)]
        return {event.id: event for event in found}

    def effects(self) -> list[str]:
        """Return the id of the event of each effect."""
        return [event_id for (event_id,) in self.service.rows("select event_id from effects")]

    def rows(self) -> set[str]:
        """Return the ids of the events whose rows the outbox has."""
        with self.own.pipeline.connect() as connection:
            return {str(event_id) for (event_id,) in connection.execute("select id from outbox").fetchall()}

    def dead_events(self) -> set[str]:
        """Return the ids of the events that a person sees parked."""
        service = self.service
        options = (f"--consumer={service.name}", f"--inbox-dsn={service.dsn}", "--limit=10000", "--output=json")
        listed = json.loads(run_command("parked", "list", *options).stdout)["events"]
        return {str(each["event_id"]) for each in listed}

    def heartbeat_messages(self) -> list[Message]:
        """Return what the topic of heartbeats holds."""
        topic = self.own.pipeline.spec.heartbeat_topic
        assert topic is not None
        return self.own.pipeline.stack.broker.messages(topic)

    def take_snapshot(self) -> None:
        """Copy the storage of the producer's server; its slots are in it."""
        if self._snapshot is not None:
            shutil.rmtree(self._snapshot.data)
        data = self.own.copy(f"{self.own.pipeline.name}-{len(self.log)}")
        self._snapshot = _Snapshot(data, set(self.ledger.present), self._known_heartbeats())
        self.restart()

    def restore_producer(self) -> None:
        """Put the copy in the place of the producer's data."""
        snapshot = self._snapshot
        assert snapshot is not None
        if self.random.random() < 1 / 2:
            self.settle()
        self._go_back(snapshot.present, snapshot.heartbeats)
        self.own.restore(snapshot.data)
        if self.random.random() < 1 / 2:
            self.restart()

    def _known_heartbeats(self) -> _Heartbeats:
        with self.own.pipeline.connect() as connection:
            rows = connection.execute("select cast(id as text) from outbox_heartbeats").fetchall()
        return _Heartbeats({event_id for (event_id,) in rows}, self.own.published_heartbeats())

    def _go_back(self, present: set[str], heartbeats: _Heartbeats) -> None:
        """Note what the producer's database will have; its heartbeats were written until then."""
        ledger, taken, now = self.ledger, self.ledger.present - present, datetime.now(UTC)
        ledger.taken |= taken
        ledger.present = set(present)
        records = map(read_record, self.heartbeat_messages())
        sent = {each.id: each.at for each in records if isinstance(each, Heartbeat)}
        ledger.restores.append(Restore(now, max(sent[each] for each in sent.keys() & heartbeats.kept)))
        if sent.keys() - heartbeats.kept - heartbeats.sent:
            ledger.is_shown = True
            ledger.shown |= taken

    def restart(self) -> None:
        """Restart the connector, as somebody does to whom it does not look well."""
        self.own.pipeline.client.restart(self.own.pipeline.name, only_failed=False)

    def lose_slot(self) -> None:
        """Drop the slot under the connector."""
        slot = self.own.pipeline.spec.database.slot
        drop = "select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = %s"
        end = "select pg_terminate_backend(active_pid) from pg_replication_slots where slot_name = %s"

        def is_gone() -> bool:
            with self.own.pipeline.connect() as connection:
                connection.execute(end, (slot,))
                try:
                    connection.execute(drop, (slot,))
                except psycopg.errors.ObjectInUse:
                    return False
                return True

        eventually(is_gone, "the slot to be gone")
        self.ledger.broken_at.append(datetime.now(UTC))

    def recreate_slot(self) -> None:
        """Make the slot by hand, if it is not there."""
        slot = self.own.pipeline.spec.database.slot
        with self.own.pipeline.connect() as connection:
            if not one(connection, "select count(*) from pg_replication_slots where slot_name = %s", slot):
                try:
                    connection.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", (slot,))
                except psycopg.errors.DuplicateObject:  # somebody else was quicker
                    self.log.append("  (it is there)")

    def drop_publication(self) -> None:
        """Take the outbox out of the publication."""
        self.ledger.broken_at.append(datetime.now(UTC))
        self._publish("drop")

    def restore_publication(self) -> None:
        """Put the outbox back into the publication."""
        self._publish("add")

    @property
    def _is_out(self) -> bool:
        """Whether the publication lacks the outbox, also by a restore."""
        with self.own.pipeline.connect() as connection:
            return not one(connection, "select count(*) from pg_publication_tables where tablename = 'outbox'")

    def _publish(self, verb: str) -> None:
        name = psycopg.sql.Identifier(self.own.pipeline.spec.database.publication)
        statement = psycopg.sql.SQL("alter publication {} " + verb + " table public.outbox")
        with self.own.pipeline.connect() as connection:
            connection.execute(statement.format(name))

    def prune(self) -> None:
        """Delete what is proven delivered; refusing is right too, and changes nothing."""
        self._run(*_PRUNE)

    def _run(self, command: str, *arguments: str) -> None:
        done = self.own.run(command, *arguments)
        self.log.append(f"  {command}: {done.returncode}: {done.stdout.strip() or done.stderr.strip()}")

    def kill(self) -> None:
        """Kill a command that changes something at a random moment, and run it again."""
        command, *options = self.random.choice(_KILLED)
        if command == "purge-inbox":
            options.append(f"--inbox-dsn={self.service.dsn}")
        self.log.append(f"  {command}: {self.program.kill(command, *options)}")
        self._run(command, *options)

    def read_again(self) -> None:
        """Give the consumer again what it has read, by one command or the other."""
        self.random.choice((self.replay, self.reset))()

    def replay(self) -> None:
        """Give the consumer everything again beside its own reading, killed once."""
        self.log.append(f"  {self.program.kill('replay')}")
        done = self.program.run("replay")
        self.log.append(f"  {done.returncode}: {done.stderr.strip()}")

    def reset(self) -> None:
        """Stop the consumer, have it read its topics from their beginning, killed once, and start it again."""
        options = ("reset", "--offsets-only", f"--consumer={self.service.name}", f"--inbox-dsn={self.service.dsn}")
        self.stop_consumer()
        self.log.append(f"  {self.program.kill(*options)}")
        self._run(*options)
        self.start_consumer()

    def start_consumer(self) -> None:
        """Run the consumer, and another one whenever it ends."""
        self._consumer.enter_context(self.service.supervised(self.consumer_ended))

    def stop_consumer(self) -> None:
        """End it."""
        self._consumer.close()

    def purge(self) -> None:
        """Forget which events the consumer has applied, as far as their numbers tell it too."""
        self._run(*_PURGE, f"--inbox-dsn={self.service.dsn}")

    def back_up_consumer(self) -> None:
        """Copy the consumer's database."""
        self.service.back_up()
        self._backed_up = True

    def restore_consumer(self) -> None:
        """Put the copy in the place of the consumer's database."""
        self.service.restore()
        self._backed_up = False

    def command(self) -> None:
        """Run a command to its end."""
        command, *options = self.random.choice(_COMMANDS)
        done = self.own.run(command, *options)
        self.log.append(f"  {command} {' '.join(options)}: {done.returncode}")

    def promote(self) -> None:
        """Fail over to a standby that lacks the last commits and has no slot, and that takes the server's address."""
        own, name = self.own, f"standby-{self.own.pipeline.name}-{len(self.log)}"
        data, before = own.copies / name, set(self.ledger.present)
        own.call(own.program("pg_basebackup"), f"--dbname={own.server.dsn()}", f"--pgdata={data}", "--checkpoint=fast",
                 "--write-recovery-conf")  # fmt: skip
        with own.beside(name, data) as standby:
            eventually(lambda: own.caught_up(standby), "the standby to catch up")
            own.disconnect(standby)
            heartbeats = self._known_heartbeats()
            self._write_to_the_old_server()
            own.promote(standby)
        self._move_to(name, before, heartbeats)

    def clone(self) -> None:
        """Run a copy of the storage beside the server, and move to it: it has the slot, and lacks what came since."""
        own, name = self.own, f"clone-{self.own.pipeline.name}-{len(self.log)}"
        data, before, heartbeats = own.copy(name), set(self.ledger.present), self._known_heartbeats()
        self.restart()
        with own.beside(name, data):
            self._write_to_the_old_server()
        self._move_to(name, before, heartbeats)

    def _write_to_the_old_server(self) -> None:
        if self.random.random() < 2 / 3:
            self.write()
            self.settle()
        self.own.server.stop()

    def _move_to(self, name: str, present: set[str], heartbeats: _Heartbeats) -> None:
        """Let the server that ran beside in a folder of this name take the address of the producer's."""
        own = self.own
        shutil.rmtree(own.server.folder / "data")
        shutil.move(own.folder / name / "data", own.server.folder / "data")
        shutil.rmtree(own.folder / name)
        self._go_back(present, heartbeats)
        own.server.start()
        self.restart()

    def consumer_ended(self, error: BaseException) -> None:
        """Note that a consumer ended, and another one is started."""
        self.log.append(f"    the consumer ended: {type(error).__name__}: {error}")

    def interrupt(self) -> None:
        """Begin a command, and end it at one of the lines that it tells."""
        command, *options = self.random.choice(_COMMANDS)
        how, lines = self.random.choice((SIGINT, SIGTERM, SIGKILL)), self.random.randint(1, 7)
        with self.program.begin(command, *options) as process:
            assert process.stderr is not None
            for number, _ in enumerate(process.stderr, 1):
                if number == lines:
                    process.send_signal(how)
            code = process.wait(patience(120))
        self.log.append(f"  {command} {' '.join(options)}: {how.name} at line {lines}, ended with {code}")

    def clear(self) -> None:
        """Remove the copy of the storage, and the slot, of which the server has only so many."""
        if self._snapshot is not None:
            shutil.rmtree(self._snapshot.data, ignore_errors=True)
        self.own.pipeline.client.stop(self.own.pipeline.name)
        self.lose_slot()
