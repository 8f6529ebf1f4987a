"""PostgreSQL, Kafka and Kafka Connect with Debezium as plain processes, without a container engine."""

import os
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import platformdirs

from cdc_outbox.connect.cluster import Basic, Cluster
from cdc_outbox.debezium.event_router.jvm import NEWEST_PLUGINS, SHORT_LIVED, Jvm, find_jvm
from cdc_outbox.errors import ConfigError, StackError
from cdc_outbox.testing.broker import Broker, broker_environment, make_broker
from cdc_outbox.testing.folder import HOST, StackFolder
from cdc_outbox.testing.mariadb import MariaDb, make_mariadb
from cdc_outbox.testing.postgres import Postgres, find_installed, make_postgres
from cdc_outbox.testing.process import Server
from cdc_outbox.testing.worker import Worker, make_login, make_worker, worker_environment

_TAKEN = {"cdc_outbox", "cdc_outbox_connect", "mariadb", "postgres", "template0", "template1"}
"""What every cluster has, and what would be another meaning of CDC_OUTBOX_DSN, CDC_OUTBOX_CONNECT_URL, MARIADB_DSN."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StackConfig:
    """The parts of a stack.

    Args:
        name: One stack of a name runs per user at a time.
        kafka: Whether there is a broker; without one there is no Connect worker either, and no Java is needed.
        workers: The number of Connect workers.
        databases: Empty databases to create, on MariaDB too if there is one; lower-case letters, digits and
            underscores, which PostgreSQL takes unquoted.
        system_postgres: Use the installed PostgreSQL instead of the embedded one.
        mariadb: Whether there is a MariaDB server too; :meth:`Stack.add_mariadb` adds one later.
        connectors: Debezium's connectors that workers can run in addition to the one for PostgreSQL: ``mariadb``,
            ``mysql``, ``sqlserver``, ``oracle``, ``mongodb``.
        short_lived: Start the broker and the workers with half of the CPU time, but slower once they are warm; do not
            flush the embedded PostgreSQL to disk at commits, and hash its passwords fast. For tests and demonstrations,
            not for measurements nor for data that must survive a crash of the machine.
        worker_settings: Settings of the Connect workers that replace the local stack's own, for example
            ``offset.flush.interval.ms``.
        environment: Variables that connectors may refer to as ``${env:NAME}``; the workers see no others but ``PATH``.
        cache: The folder of jars, by default the user's cache folder.
        root: The parent of the stack's folder, by default the system's temporary folder.
    """

    name: str = "default"
    kafka: bool = True
    workers: int = 1
    databases: Sequence[str] = ()
    system_postgres: bool = False
    mariadb: bool = False
    connectors: Sequence[str] = ()
    short_lived: bool = False
    worker_settings: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    cache: Path | None = None
    root: Path | None = None

    def __post_init__(self) -> None:
        # Values of their own, which JSON can have: os.environ and a MappingProxyType it cannot.
        object.__setattr__(self, "worker_settings", dict(self.worker_settings))
        object.__setattr__(self, "environment", dict(self.environment))
        for name in self.databases:
            if not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", name) or name in _TAKEN:
                raise ConfigError(
                    f"{name!r} is not a valid name for a new database",
                    field="databases",
                    hint=f"Use lower-case letters, digits and underscores, and none of {', '.join(sorted(_TAKEN))}.",
                )
        for name in self.connectors:
            if name not in NEWEST_PLUGINS:
                hint = f"Known are {', '.join(NEWEST_PLUGINS)}."
                raise ConfigError(f"there is no connector {name!r} to add", field="connectors", hint=hint)


class Stack:
    """A stack of this process; a context manager that stops it at its end.

    ::

        with Stack(StackConfig(name="try")) as stack:
            dsn = stack.postgres.create_database("orders")
            ...
            stack.workers[0].kill()
    """

    def __init__(self, config: StackConfig | None = None) -> None:
        self.config = config or StackConfig()
        self.folder = StackFolder(self.config.name, self.config.root)
        self.workers: list[Worker] = []
        self._login = make_login()
        self._postgres: Postgres | None = None
        self._broker: Broker | None = None
        self._mariadb: MariaDb | None = None
        self._added: list[Postgres] = []

    @classmethod
    def from_json(cls, state: dict[str, Any]) -> Self:
        """Return a handle on another process's stack, from its attributes as JSON."""
        cache, root = state["config"]["cache"], Path(state["folder"]["_root"])
        made = cls(StackConfig(**state["config"] | {"cache": cache and Path(cache), "root": root}))
        made._login = Basic(**state["_login"])
        made._postgres = state["_postgres"] and Postgres.from_json(state["_postgres"])
        made._broker = state["_broker"] and Broker.from_json(state["_broker"])
        made._mariadb = state["_mariadb"] and MariaDb.from_json(state["_mariadb"])
        made.workers = [Worker.from_json(each | {"_login": made._login}) for each in state["workers"]]
        return made

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
    def mariadb(self) -> MariaDb:
        """The MariaDB server, in a stack that has one."""
        if self._mariadb is None:
            raise StackError("the stack is not up, or was made without MariaDB")
        return self._mariadb

    @property
    def connect_url(self) -> str:
        """The REST API of the first Connect worker, without the login to it."""
        return self.connect_cluster.urls[0]

    @property
    def connect_cluster(self) -> Cluster:
        """The Connect workers and the login to them, for :class:`~cdc_outbox.connect.client.ConnectClient`."""
        if not self.workers:
            raise StackError("the stack is not up, or was made without a Connect worker")
        return Cluster(urls=tuple(worker.url for worker in self.workers), login=self._login)

    @cached_property
    def jvm(self) -> Jvm:
        """Java and the jars that broker and workers run on."""
        cache = self.config.cache or Path(platformdirs.user_cache_dir("cdc-outbox"))
        found = find_jvm(cache, connectors=self.config.connectors)
        return replace(found, options=SHORT_LIVED) if self.config.short_lived else found

    @property
    def parts(self) -> list[Server]:
        """Every part, each of which can be started, killed, paused and restarted."""
        return [
            part
            for part in (self._postgres, *self._added, self._mariadb, self._broker, *self.workers)
            if part is not None
        ]

    def up(self) -> Self:
        """Remove the remains of crashed stacks, start every part, and return when all are ready.

        Raises:
            StackError: A stack of this name runs, a program is missing, or a part did not start. Nothing keeps running.
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
        """Stop every part and remove the folder; no effect on a stack that is not up."""
        self.folder.release()
        for part in self.parts:
            part.reap()
        self.workers.clear()
        self._added.clear()
        self._postgres = self._broker = self._mariadb = None

    def leave(self) -> None:
        """End the use of a copy: stop the parts that were added to it. Without effect on the stack itself."""
        if not self.folder.is_held_here:
            for part in self.parts:
                if part.is_child:
                    part.stop()

    def add_worker(self) -> Worker:
        """Start one more Connect worker, which joins the others, and return it."""
        folder, port = self._part_folder(f"connect-{len(self.workers) + 1}"), self.folder.reserve_port()
        environment = {
            **self.config.environment,
            **worker_environment(port, self.broker.bootstrap_servers),
            "POSTGRES_HOST": HOST,
            "POSTGRES_PORT": str(self.postgres.port),
        }
        if self._mariadb is not None:
            environment |= {"MARIADB_HOST": HOST, "MARIADB_PORT": str(self._mariadb.port)}
        worker = make_worker(
            folder, port, environment, self.jvm, login=self._login, settings=self.config.worker_settings
        )
        # Before its start: one that fails in it has its folder and its number all the same, and can be started again.
        self.workers.append(worker)
        worker.start()
        return worker

    def add_mariadb(self) -> MariaDb:
        """Start a MariaDB server in a stack that was made without, and return it.

        Raises:
            StackError: The stack has one, the server or its driver is not installed, or it did not start.
        """
        if self._mariadb is not None:
            raise StackError("the stack already has a MariaDB server")
        self._mariadb = make_mariadb(self._part_folder("mariadb"), self.folder.reserve_port())
        self._mariadb.start()
        for name in dict.fromkeys(self.config.databases):
            self._mariadb.create_database(name)
        return self._mariadb

    def add_postgres(self, version: int) -> Postgres:
        """Start one more PostgreSQL server beside the first, of a version that is installed, and return it.

        Raises:
            StackError: That version is not installed, the stack has it already, or it did not start.
        """
        installed, folder = find_installed(version), self._part_folder(f"postgres-{version}")
        if any(server.folder == folder for server in self._added):
            raise StackError(f"the stack already has a PostgreSQL {version}")
        server = make_postgres(folder, self.folder.reserve_port(), installed=installed)
        self._added.append(server)
        server.start()
        return server

    def environment(self) -> dict[str, str]:
        """Return variables with this stack's addresses, for the ``cdc-outbox`` command and for services of your own.

        ``CDC_OUTBOX_DSN`` is the first database of :attr:`StackConfig.databases`, ``postgres`` without one. Each of
        them has ``NAME_DSN``, a connection string, and ``NAME_URL``, the same as a ``postgresql://`` URL. PostgreSQL's
        programs are in ``POSTGRES_BIN``. The first database of a MariaDB server is ``MARIADB_DSN``; its ``HOST``,
        ``PORT``, ``USER``, ``PASSWORD`` and ``DATABASE`` are variables of their own, for drivers that take no URL.
        """
        databases = self.config.databases
        programs = str(self.postgres.programs)
        environment = {"CDC_OUTBOX_DSN": self.postgres.dsn(*databases[:1]), "POSTGRES_BIN": programs}
        for name in databases:
            environment |= {
                f"{name.upper()}_DSN": self.postgres.dsn(name),
                f"{name.upper()}_URL": self.postgres.url(name),
            }
        if self._mariadb is not None:
            dsn = self._mariadb.dsn(*databases[:1])
            environment["MARIADB_DSN"] = dsn.command_dsn()
            environment |= {f"MARIADB_{name.upper()}": str(value) for name, value in asdict(dsn).items()}
        if self._broker is not None:
            environment["CDC_OUTBOX_BOOTSTRAP_SERVERS"] = self._broker.bootstrap_servers
        if self.workers:
            environment |= {
                "CDC_OUTBOX_CONNECT_URL": self.connect_url,
                "CDC_OUTBOX_CONNECT_LOGIN": self._login.text,
            }
        return environment

    def __enter__(self) -> Self:
        return self.up()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    def _part_folder(self, name: str) -> Path:
        """Return the folder of a part; copies of the stack, one for each process, add parts of the same names."""
        return self.folder.path / (name if self.folder.is_held_here else f"{name}-{os.getpid()}")

    def _start(self) -> None:
        port = self.folder.reserve_port()
        with ThreadPoolExecutor() as pool:
            # Database and broker need nothing of each other, and each waits more than it works.
            database = pool.submit(self._start_postgres, port)
            if self.config.kafka:
                self._start_broker()
            database.result()
        if self.config.mariadb:
            self.add_mariadb()
        for _ in range(self.config.workers if self.config.kafka else 0):
            self.add_worker()

    def _start_postgres(self, port: int) -> None:
        self._postgres = make_postgres(
            self.folder.path / "postgres",
            port,
            installed=find_installed() if self.config.system_postgres else None,
            short_lived=self.config.short_lived,
        )
        self._postgres.start()
        for name in dict.fromkeys(self.config.databases):
            self._postgres.create_database(name)

    def _start_broker(self) -> None:
        folder, port = self.folder.path / "kafka", self.folder.reserve_port()
        environment = broker_environment(folder, port, controller_port=self.folder.reserve_port())
        self._broker = make_broker(folder, port, environment, self.jvm)
        self._broker.start()
