"""A pipeline that runs, and a change of it that the command deploys while something goes wrong."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import psycopg

from cdc_outbox import Event, Outbox
from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.wait import Condition, condition_of
from cdc_outbox.errors import ConnectorNotFoundError
from cdc_outbox.spec import parse_spec
from cdc_outbox.testing import Stack
from cdc_outbox.testing.process import ServerCommand
from cdc_outbox.testing.settings import settings_file
from cdc_outbox.testing.worker import OWN_VARIABLES, Worker, worker_environment
from tests.support.connect_server import Answer, Asked, passing_on
from tests.support.patience import patience
from tests.support.pipeline import SELDOM, Pipeline
from tests.support.rig import eventually
from tests.support.threads import Threads

CHANGE = ("poll.interval.ms: '100'", "poll.interval.ms: '500'")
NO_CHANGE = ("", "")
IMPATIENT = SELDOM.replace("}", ", slot.retry.delay.ms: '300', slot.max.retries: '200'}")
"""A task that finds its slot still taken looks again soon, and not after ten seconds."""

Fault = Callable[[Asked], Answer | object | None]


@dataclass(frozen=True)
class Done:
    """A command that has ended, and what it said on its way."""

    code: int
    result: str
    told: str

    def failed(self, code: int, sentence: str, hint: str) -> None:
        """Compare with what it had to say."""
        assert (self.code, sentence in self.told, hint in self.told) == (code, True, True), self.told
        assert "Traceback" not in self.told


@dataclass
class Release:
    """A pipeline that runs, and the change of it that is deployed."""

    pipeline: Pipeline
    folder: Path
    url: str = ""
    before: dict[str, str] = field(default_factory=dict)
    last: int = 0

    @classmethod
    def begin(cls, pipeline: Pipeline, folder: Path) -> "Release":
        """Let the connector run, and an event arrive."""
        pipeline.deploy(stable_seconds=0, spec=parse_spec(Pipeline.text(pipeline.name, IMPATIENT), name="spec.yaml"))
        made = cls(pipeline, folder, before=pipeline.client.find_config(pipeline.name) or {})
        made.arrives()
        return made

    @property
    def client(self) -> ConnectClient:
        """The Connect that the connector runs on."""
        cluster = self.pipeline.stack.connect_cluster
        return ConnectClient(replace(cluster, urls=(self.url,)) if self.url else cluster)

    def deploy(
        self,
        *options: str,
        url: str = "",
        change: tuple[str, str] = CHANGE,
        seconds: float = 120,
        when: Mapping[str, Callable[[], object]] | None = None,
    ) -> Done:
        """Run the command.

        Args:
            change: What is another text in the spec.
            seconds: How long it may take.
            when: What to do when a line that begins so is told for the first time.
        """
        spec = self.folder / "spec.yaml"
        spec.write_text(Pipeline.text(self.pipeline.name, IMPATIENT).replace(*change))
        quick = [sys.executable, "-m", "tests.support.quick_program"]
        command = [*quick, "deploy-connector", str(spec), "--stable-for=1s", *options]
        env = self.pipeline.stack.environment() | {"PATH": "/usr/bin:/bin", "CDC_OUTBOX_DSN": self.pipeline.dsn}
        if url or self.url:
            env["CDC_OUTBOX_CONNECT_URL"] = url or self.url
        waiting, told = dict(when or {}), []
        pipe = subprocess.PIPE
        over = threading.Event()
        with subprocess.Popen(command, env=env, stdout=pipe, stderr=pipe, text=True) as process, Threads() as threads:
            threads.submit(_kill_late, process, over, seconds)
            assert process.stderr is not None
            assert process.stdout is not None
            try:
                for line in process.stderr:
                    told.append(line)
                    for start in [start for start in waiting if line.startswith(start)]:
                        waiting.pop(start)()
                result = process.stdout.read()
            finally:
                over.set()
        assert not waiting, (list(waiting), told)
        return Done(process.returncode, result, "".join(told))

    def deploy_through(self, fault: Fault, *options: str) -> Done:
        """Run it past a proxy before Connect."""
        with passing_on(self.pipeline.stack.connect_url, fault) as (url, _):
            return self.deploy(*options, url=url)

    def write(self, text: str = "") -> None:
        """Write one more event of the aggregate."""
        outbox = Outbox(spec=self.pipeline.spec)
        event = Event(aggregate_type="order", aggregate_id="1", type="OrderPlaced", payload={"text": text})
        with psycopg.connect(self.pipeline.dsn) as connection:
            self.last = outbox.add(connection, event).sequence or 0

    def arrives(self) -> None:
        """Write an event, and wait until it and all before it are in the topic, in their order."""
        self.write()
        wanted = list(range(1, self.last + 1))
        eventually(lambda: self._arrived() == wanted, f"the events {wanted}")

    def runs_as_before(self) -> None:
        """Ask Connect, and see an event."""
        assert self.client.find_config(self.pipeline.name) == self.before
        eventually(self._is_up, "the connector to run")
        self.arrives()

    def runs_as_changed(self) -> None:
        """Ask Connect, and see an event."""
        changed = self.client.find_config(self.pipeline.name) or {}
        assert (self.before["poll.interval.ms"], changed["poll.interval.ms"]) == ("100", "500")
        eventually(self._is_up, "the connector to run")
        self.arrives()

    def execute(self, statement: str) -> None:
        """Change something in the database."""
        with self.pipeline.connect() as connection:
            connection.execute(statement.encode())

    def _arrived(self) -> list[int]:
        events = [self.pipeline.spec.contract.event_of(message) for message in self.pipeline.messages()]
        return list(dict.fromkeys(event.sequence or 0 for event in events))

    def _is_up(self) -> bool:
        try:
            return condition_of(self.client.find_status(self.pipeline.name)) is Condition.UP
        except ConnectorNotFoundError:
            return False


@contextmanager
def worker_of_its_own(stack: Stack) -> Iterator[tuple[Worker, str]]:
    """Run a Connect cluster of one worker beside the stack's, and tell its config topic."""
    name, port = "connect-lost", stack.folder.reserve_port()
    folder = stack.folder.path / name
    folder.mkdir()
    plugins = folder / "plugins"
    plugins.mkdir()
    for plugin in stack.jvm.plugins:
        (plugins / plugin.name).symlink_to(plugin)
    settings = folder / "connect.properties"
    text = settings_file("connect.properties").read_text()
    settings.write_text(text.replace("group.id=connect", f"group.id={name}").replace("=connect-", f"={name}-"))
    environment = {
        **OWN_VARIABLES,
        **stack.config.environment,
        **worker_environment(port, stack.broker.bootstrap_servers),
        "POSTGRES_HOST": "127.0.0.1",
        "POSTGRES_PORT": str(stack.postgres.port),
    }
    command = stack.jvm.command("org.apache.kafka.connect.cli.ConnectDistributed", str(settings), heap="512m")
    worker = Worker(folder, ServerCommand(arguments=command, environment=environment), port=port)
    worker.start()
    try:
        yield worker, f"{name}-config"
    finally:
        worker.kill()


def _kill_late(process: "subprocess.Popen[str]", over: threading.Event, seconds: float) -> None:
    if not over.wait(patience(seconds)):
        process.kill()
