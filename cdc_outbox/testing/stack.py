"""PostgreSQL, Kafka and Kafka Connect with Debezium as plain processes, without a container engine."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import platformdirs

from cdc_outbox.errors import StackError
from cdc_outbox.testing.folder import HOST, StackFolder
from cdc_outbox.testing.jars import Jars, fetch_jars, find_java
from cdc_outbox.testing.parts import Broker, Postgres, Worker, make_broker, make_postgres, make_worker
from cdc_outbox.testing.process import Server


@dataclass(frozen=True, slots=True, kw_only=True)
class StackConfig:
    """What a stack is made of.

    Args:
        name: One stack of a name runs per user at a time.
        kafka: Whether there is a broker; without one there is no Connect worker either, and no Java is needed.
        workers: Connect workers, 0 for none.
        system_postgres: Take the PostgreSQL that is installed instead of the embedded one.
        environment: What connectors may refer to as ``${env:NAME}``.
        cache: Where jars are kept, by default the user's cache folder.
        root: Where the stack's folder is made, by default the system's temporary folder.
    """

    name: str = "default"
    kafka: bool = True
    workers: int = 1
    system_postgres: bool = False
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    cache: Path | None = None
    root: Path | None = None


class Stack:
    """A stack of this process; a context manager that takes it down at its end.

    ::

        with Stack(StackConfig(name="try")) as stack:
            dsn = stack.postgres.create_database("orders")
            ...
            stack.workers[0].server.kill()
    """

    def __init__(self, config: StackConfig | None = None) -> None:
        self.config = config or StackConfig()
        self.folder = StackFolder(self.config.name, self.config.root)
        self.workers: list[Worker] = []
        self._postgres: Postgres | None = None
        self._broker: Broker | None = None

    @property
    def postgres(self) -> Postgres:
        """The database server."""
        if self._postgres is None:
            raise StackError("the stack is not up")
        return self._postgres

    @property
    def broker(self) -> Broker:
        """The Kafka broker."""
        if self._broker is None:
            raise StackError("the stack is not up, or was made without Kafka")
        return self._broker

    @property
    def connect_url(self) -> str:
        """The REST API of the first Connect worker."""
        if not self.workers:
            raise StackError("the stack is not up, or was made without a Connect worker")
        return self.workers[0].url

    @property
    def parts(self) -> list[Server]:
        """Every part, each of which can be started, killed, paused and restarted."""
        parts = (self._postgres, self._broker, *self.workers)
        return [part.server for part in parts if part is not None]

    def up(self) -> Self:
        """Clear away what crashed stacks left, start every part, and return when all are ready.

        Raises:
            StackError: A stack of this name runs, a program is missing, or a part did not start. Nothing is left.
        """
        self.folder.occupy()
        try:
            self._start()
            self.folder.write_environment(self.environment())
        except BaseException:
            self.down()
            raise
        return self

    def down(self) -> None:
        """End every part and remove the folder; without effect on a stack that is not up."""
        self.folder.release()
        for part in self.parts:
            part.reap()

    def add_worker(self) -> Worker:
        """Start one more Connect worker, which joins the others, and return it."""
        java, jars = self._java()
        name = f"connect-{len(self.workers) + 1}"
        reach = {"POSTGRES_HOST": HOST, "POSTGRES_PORT": str(self.postgres.port)}
        worker = make_worker(
            self.folder.path / name,
            self.folder.reserve_port(),
            java=java,
            jars=jars,
            bootstrap_servers=self.broker.bootstrap_servers,
            environment={**self.config.environment, **reach},
        )
        worker.server.start()
        self.workers.append(worker)
        return worker

    def environment(self) -> dict[str, str]:
        """Return the variables by which the ``cdc-outbox`` command finds this stack."""
        environment = {"CDC_OUTBOX_DSN": self.postgres.dsn()}
        if self._broker is not None:
            environment["CDC_OUTBOX_BOOTSTRAP_SERVERS"] = self._broker.bootstrap_servers
        if self.workers:
            environment["CDC_OUTBOX_CONNECT_URL"] = self.connect_url
        return environment

    def __enter__(self) -> Self:
        return self.up()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    def _start(self) -> None:
        port = self.folder.reserve_port()
        with ThreadPoolExecutor() as pool:
            # Database and broker need nothing of each other, and each waits more than it works.
            database = pool.submit(self._start_postgres, port)
            if self.config.kafka:
                self._start_broker()
            database.result()
        for _ in range(self.config.workers if self.config.kafka else 0):
            self.add_worker()

    def _start_postgres(self, port: int) -> None:
        self._postgres = make_postgres(self.folder.path / "postgres", port, system=self.config.system_postgres)
        self._postgres.server.start()

    def _start_broker(self) -> None:
        java, jars = self._java()
        ports = self.folder.reserve_port(), self.folder.reserve_port()
        self._broker = make_broker(self.folder.path / "kafka", *ports, java=java, jars=jars)
        self._broker.server.start()

    def _java(self) -> tuple[str, Jars]:
        return find_java(), fetch_jars(self.config.cache or Path(platformdirs.user_cache_dir("cdc-outbox")))
