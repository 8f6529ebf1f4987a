"""One random history of a pipeline: what befalls it, step by step, and the writers' own ledger of it."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from signal import SIGINT, SIGKILL, SIGTERM
from uuid import UUID

import psycopg

from cdc_outbox import Event, Outbox
from cdc_outbox.connect.wait import Condition, condition_of
from cdc_outbox.operate.heartbeats import Heartbeat, read_record
from tests.support.own_server import OwnServer
from tests.support.rig import eventually, one
from tests.support.service import Service

AGGREGATES = ("a", "b", "c")
_SECONDS = 20
"""For how long a step may wait for what it needs."""
_COMMANDS = (
    ("deploy-connector", "--stable-seconds=0"),
    ("deploy-connector", "--earlier-events=republish", "--stable-seconds=0"),
    ("recover", "--yes", "--stable-seconds=0"),
    ("stop",),
    ("resume", "--stable-seconds=0"),
)
"""What somebody runs at any time, whether it is of use or not."""


@dataclass
class Ledger:
    """What writers committed, kept outside the databases.

    Args:
        present: Ids of the events that the producer's database has.
        taken: Ids of those that a restore took out of it.
        restores: How often the producer's database went back.
        shown: Whether what a restore took has to be found: the topic had a heartbeat from after the snapshot.
    """

    committed: dict[str, Event] = field(default_factory=dict)
    present: set[str] = field(default_factory=set)
    taken: set[str] = field(default_factory=set)
    restores: int = 0
    shown: bool = False


@dataclass
class _Snapshot:
    data: Path
    present: set[str]
    heartbeats: set[str]


class History:
    """What befalls a pipeline and its consumer.

    Args:
        service: It runs all the time.
    """

    def __init__(self, own: OwnServer, service: Service, random: Random) -> None:
        self.own, self.service, self.random = own, service, random
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
        found += [self.take_snapshot, self.command, *[self.interrupt] * 2, self.promote, self.clone, self.purge]
        found += [self.restore_producer] * 3 if self._snapshot is not None else []
        found += [self.restore_consumer] * 2 if self._backed_up else [self.back_up_consumer]
        return [*found, self.restore_publication if self._is_out else self.drop_publication]

    def write(self, count: int = 0) -> None:
        """Commit events of any aggregates, and let a minute pass, in which a heartbeat is written."""
        spec = self.own.pipeline.spec
        outbox = Outbox(table=spec.outbox, contract=spec.contract)
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
                event = outbox.add(connection, event)
                connection.commit()
                self.ledger.committed[event.id or ""] = event
                self.ledger.present.add(event.id or "")
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
            eventually(lambda: self.ledger.present <= self.published(), "the events", seconds=3)
        except AssertionError:
            self.log.append("  (not all arrive)")

    def published(self) -> set[str]:
        """Return the ids of the events that the topics hold."""
        pipeline = self.own.pipeline
        broker, contract = pipeline.stack.broker, pipeline.spec.contract
        return {contract.event_of(each).id or "" for topic in contract.topics for each in broker.messages(topic)}

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

    def _sent_heartbeats(self) -> set[str]:
        topic = self.own.pipeline.spec.heartbeat_topic
        assert topic is not None
        found = [read_record(message) for message in self.own.pipeline.stack.broker.messages(topic)]
        return {each.id for each in found if isinstance(each, Heartbeat)}

    def _known_heartbeats(self) -> set[str]:
        """Return the ids of the heartbeats that were written until now."""
        with self.own.pipeline.connect() as connection:
            rows = connection.execute("select cast(id as text) from outbox_heartbeats").fetchall()
        return {event_id for (event_id,) in rows} | self._sent_heartbeats()

    def _go_back(self, present: set[str], heartbeats: set[str]) -> None:
        """Note what the producer's database will have; its heartbeats were written until then."""
        ledger = self.ledger
        ledger.taken |= ledger.present - present
        ledger.present = set(present)
        ledger.restores += 1
        ledger.shown = ledger.shown or bool(self._sent_heartbeats() - heartbeats)

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

        eventually(is_gone, "the slot to be gone", seconds=_SECONDS)

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
        done = self.own.run("prune", "--keep=0s", "--wait=0s")
        self.log.append(f"  {done.returncode}: {done.stdout.strip() or done.stderr.strip()}")

    def purge(self) -> None:
        """Forget which events the consumer has applied, as far as their numbers tell it too."""
        done = self.own.run(
            "purge-inbox", f"--inbox-dsn={self.service.dsn}", "--horizon-days=0.00001", "--accept-shorter-horizon"
        )
        self.log.append(f"  {done.returncode}: {done.stdout.strip() or done.stderr.strip()}")

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
        heartbeats = self._known_heartbeats()
        with own.beside(name, data) as standby:
            eventually(lambda: own.caught_up(standby), "the standby to catch up", seconds=_SECONDS)
            own.disconnect(standby)
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

    def _move_to(self, name: str, present: set[str], heartbeats: set[str]) -> None:
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
        stack = self.own.pipeline.stack
        environment = stack.environment() | {"PATH": "/usr/bin:/bin", "CDC_OUTBOX_DSN": self.own.pipeline.dsn}
        program = [sys.executable, "-m", "tests.support.quick_program", command, str(self.own.spec), *options]
        with subprocess.Popen(
            program, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stderr is not None
            for number, _ in enumerate(process.stderr, 1):
                if number == lines:
                    process.send_signal(how)
            code = process.wait(120)
        self.log.append(f"  {command} {' '.join(options)}: {how.name} at line {lines}, ended with {code}")

    def clear(self) -> None:
        """Remove the copy of the storage, and the slot, of which the server has only so many."""
        if self._snapshot is not None:
            shutil.rmtree(self._snapshot.data, ignore_errors=True)
        self.own.pipeline.client.stop(self.own.pipeline.name)
        self.lose_slot()
