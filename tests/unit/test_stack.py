"""A stack's life, with parts that only sleep."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any
from unittest.mock import Mock

import psutil
import psycopg
import pytest

from cdc_outbox.cli.stack import _arguments
from cdc_outbox.connect.cluster import Basic
from cdc_outbox.databases.drivers.mysql_dsn import options_of
from cdc_outbox.debezium.event_router.jvm import SHORT_LIVED, Jvm
from cdc_outbox.errors import ConfigError, StackError
from cdc_outbox.testing import Broker, MariaDb, MariaDbDsn, Postgres, Stack, StackConfig, Worker
from cdc_outbox.testing.folder import StackFolder
from cdc_outbox.testing.process import ServerCommand, unprivileged_user
from cdc_outbox.testing.settings import settings_file
from cdc_outbox.testing.sharing import shared
from cdc_outbox.testing.worker import make_worker
from tests.support.commands import run_command

BASIC_AUTH = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"


class Parts:
    """Makes parts that sleep, or a worker that ends at its start."""

    fails = False

    def __init__(self) -> None:
        self.environments = list[dict[str, str]]()

    def command(self, folder: Path, *, fails: bool = False) -> ServerCommand:
        folder.mkdir()
        arguments = [shutil.which("false")] if fails else [shutil.which("sleep"), "60"]
        user = unprivileged_user("sleep", "nobody")
        return ServerCommand(arguments=[str(argument) for argument in arguments], environment={}, user=user)

    def postgres(self, folder: Path, port: int, **options: Any) -> Postgres:
        return Postgres(folder, self.command(folder), port=port, password="secret")

    def broker(self, folder: Path, port: int, *arguments: Any) -> Broker:
        return Broker(folder, self.command(folder), port=port)

    def mariadb(self, folder: Path, port: int) -> MariaDb:
        return MariaDb(folder, self.command(folder), port=port, password="secret")

    def worker(self, folder: Path, port: int, environment: dict[str, str], *rest: Any, **options: Any) -> Worker:
        self.environments.append(environment)
        return Worker(folder, self.command(folder, fails=self.fails), port=port, login=options["login"])


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> Parts:
    parts = Parts()
    for kind in ("postgres", "broker", "mariadb", "worker"):
        monkeypatch.setattr(f"cdc_outbox.testing.stack.make_{kind}", getattr(parts, kind))
    for part in (Postgres, Broker, MariaDb, Worker):
        monkeypatch.setattr(part, "answers", Mock(return_value=True))
    monkeypatch.setattr(Stack, "jvm", None)
    return parts


@pytest.fixture
def stack(parts: Parts, tmp_path: Path) -> Iterator[Stack]:
    del parts
    with Stack(StackConfig(name="sleeping", root=tmp_path)) as stack:
        yield stack


def copy_of(stack: Stack, folder: Path) -> Stack:
    """Return what another process of a test run gets."""

    def share() -> AbstractContextManager[Stack]:
        return shared(folder, "stack", lambda: nullcontext(stack), Stack.from_json)

    with share(), share() as copy:
        assert copy is not stack
        return copy


def states(stack: Stack) -> dict[str, str]:
    return {part.name: part.state() for part in stack.parts}


def test_a_connector_that_there_is_none_of_is_refused() -> None:
    with pytest.raises(ConfigError, match="no connector 'postgresql' to add") as caught:
        StackConfig(connectors=["mariadb", "postgresql"])
    assert (caught.value.field, "mongodb" in caught.value.hint) == ("connectors", True)


def test_a_stack_that_comes_up_again_has_new_parts_and_no_others(stack: Stack) -> None:
    first = stack.workers[0]
    stack.add_mariadb()
    stack.down()
    assert stack.parts == []
    with pytest.raises(StackError, match="the stack is not up"):
        _ = stack.connect_url
    stack.up()
    assert states(stack) == {"postgres": "running", "kafka": "running", "connect-1": "running"}
    assert stack.workers[0] is not first
    assert stack.connect_url == stack.workers[0].url


def test_each_stack_has_a_login_to_connect_of_its_own_and_copies_have_the_same(stack: Stack, tmp_path: Path) -> None:
    login = stack.connect_cluster.login
    assert isinstance(login, Basic)
    assert stack.environment()["CDC_OUTBOX_CONNECT_LOGIN"] == login.text
    copy = copy_of(stack, tmp_path)
    assert copy.environment() == stack.environment()
    assert copy.connect_cluster == stack.connect_cluster
    assert [part.cluster for part in copy.workers] == [part.cluster for part in stack.workers]
    assert stack.add_worker().url in stack.connect_cluster.urls
    with Stack(StackConfig(name="another", root=tmp_path)) as other:
        assert other.connect_cluster.login != login


def test_a_stack_tells_where_the_programs_of_its_postgresql_are(stack: Stack) -> None:
    sleep = shutil.which("sleep")
    assert stack.environment()["POSTGRES_BIN"] == str(stack.postgres.programs) == str(Path(sleep or "").parent)


def test_connectors_may_refer_to_the_stacks_mariadb_server(parts: Parts, tmp_path: Path) -> None:
    with Stack(StackConfig(name="sleeping", root=tmp_path, mariadb=True)) as stack:
        [environment] = parts.environments
        assert environment["MARIADB_HOST"] == environment["POSTGRES_HOST"]
        assert environment["MARIADB_PORT"] == str(stack.mariadb.port)


@pytest.mark.usefixtures("parts")
def test_a_stack_with_mariadb_is_what_an_option_asks_for(tmp_path: Path) -> None:
    created = Mock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MariaDb, "create_database", created)
        patch.setattr(Postgres, "create_database", Mock())
        patch.setattr("cdc_outbox.cli.stack._hold", hold := Mock())
        run_command("stack", "up", "--mariadb", "--create-database", "orders", "--create-database", "shipping")
        [config] = hold.call_args[0]
        with Stack(replace(config, name="sleeping", root=tmp_path)) as stack:
            environment, wanted = stack.environment(), asdict(stack.mariadb.dsn("orders"))
    assert (config.mariadb, config.connectors) == (True, ["mariadb"])
    assert [each[0][0] for each in created.call_args_list] == ["orders", "shipping"]
    assert options_of(environment["MARIADB_DSN"]) == wanted
    assert {name: environment[f"MARIADB_{name.upper()}"] for name in wanted} == {k: str(v) for k, v in wanted.items()}
    assert "--mariadb" in _arguments(config)


def test_each_part_is_shown_with_its_process(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cdc_outbox.cli.stack.StackFolder", lambda name: StackFolder(name, stack.folder.path.parent))
    pids = {part.name: part.pid for part in stack.parts}
    shown = run_command("stack", "status", "--name", "sleeping")
    assert [line.split() for line in shown.stdout.splitlines()] == [
        [name, "running", str(pid)] for name, pid in sorted(pids.items())
    ]
    variables = json.loads(run_command("stack", "env", "--name", "sleeping", "--output=json").stdout)["variables"]
    assert variables == stack.environment()
    down = json.loads(run_command("stack", "down", "--name", "another", "--output=json").stdout)
    assert (down["kind"], down["name"], down["parts"]) == ("Stack", "another", [])
    stack.workers[0].kill()
    document = run_command("stack", "status", "--name", "sleeping", "--output", "json")
    assert document.returncode == 1
    found = {part["name"]: part for part in json.loads(document.stdout)["parts"]}
    assert {name: part["pid"] for name, part in found.items()} == pids | {"connect-1": None}
    assert (found["connect-1"]["state"], found["kafka"]["state"]) == ("not running", "running")
    assert found["kafka"]["log"] == str(stack.broker.log)
    stack.broker.log.write_text("one\n\x1b]0;owned\x07two\n::error file=x::three\n##vso[task]four\n")
    logs = run_command("stack", "logs", "kafka", "--name", "sleeping", "--lines", "3").stdout
    assert logs == "\\x1b]0;owned\\x07two\n:\\x3aerror file=x::three\n#\\x23vso[task]four\n"


def test_a_worker_that_does_not_start_is_shown_and_does_not_stand_in_the_way(stack: Stack, parts: Parts) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "fails", True)
        patch.setattr(Worker, "answers", Mock(return_value=False))
        with pytest.raises(StackError, match="connect-2 exited with 1 at startup"):
            stack.add_worker()
    assert states(stack)["connect-2"] == "not running"
    assert stack.add_worker().name == "connect-3"
    assert states(stack)["connect-3"] == "running"


def test_a_mariadb_database_is_reached_by_commands_and_by_sqlalchemy() -> None:
    dsn = MariaDbDsn(host="127.0.0.1", port=3307, user="root", password="a:/?@%b", database="o d")
    assert options_of(dsn.command_dsn()) == asdict(dsn)
    assert dsn.url() == f"{dsn.command_dsn().replace('mysql:', 'mysql+pymysql:')}?charset=utf8mb4"


def test_a_workers_settings_are_the_local_stacks_and_those_that_differ(tmp_path: Path) -> None:
    (tmp_path / "home" / "plugins").mkdir(parents=True)
    jvm = Jvm("java", tmp_path / "home", options=SHORT_LIVED)
    environment = {"CONNECTOR_PASSWORD": "secret", "OTHER_1": "x", ".*": "y", "A\nb": "z"}
    settings, login = {"offset.flush.interval.ms": "500"}, Basic("me", "secret")
    worker = make_worker(tmp_path / "worker", 1, environment, jvm, settings=settings, login=login)
    own = settings_file("connect.properties").read_text()
    assert (tmp_path / "worker" / "connect.properties").read_text().removeprefix(own).splitlines() == [
        "config.providers.env.param.allowlist.pattern=CONNECTOR_PASSWORD|OTHER_1",
        f"config.providers.file.param.allowed.paths={tmp_path / 'secrets'}",
        f"rest.extension.classes={BASIC_AUTH}",
        "offset.flush.interval.ms=500",
    ]
    assert (tmp_path / "secrets").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "worker" / "login.properties").read_text() == "me=secret\n"
    assert (tmp_path / "worker" / "login.properties").stat().st_mode & 0o777 == 0o600
    worker.add_variables({"ADDED": "later"})
    allowed = "config.providers.env.param.allowlist.pattern=CONNECTOR_PASSWORD|OTHER_1|ADDED"
    assert (tmp_path / "worker" / "connect.properties").read_text().removeprefix(own).splitlines()[0] == allowed
    assert set(SHORT_LIVED) < set(jvm.command("Main", heap="1m"))


@pytest.mark.usefixtures("parts")
def test_who_leaves_a_copy_stops_what_was_added_to_it_and_nothing_else(tmp_path: Path) -> None:
    with Stack(StackConfig(name="copied", root=tmp_path)) as stack:
        copy = copy_of(stack, tmp_path)
        added = copy.add_worker()
        stack.leave()
        copy.leave()
        assert [part.is_running for part in (*stack.parts, added)] == [True] * len(stack.parts) + [False]


@pytest.mark.usefixtures("parts")
def test_a_copy_pauses_kills_and_starts_the_same_servers(parts: Parts, tmp_path: Path) -> None:
    with Stack(StackConfig(name="copied", root=tmp_path, mariadb=True, cache=tmp_path)) as stack:
        copy = copy_of(stack, tmp_path)
        assert (copy.folder.path, copy.config.cache) == (stack.folder.path, tmp_path)
        assert [(part.name, part.pid) for part in copy.parts] == [(part.name, part.pid) for part in stack.parts]
        assert [part.is_child for part in copy.parts] == [False] * len(stack.parts)
        for ours, part in zip(stack.parts, copy.parts, strict=True):
            part.pause()
            assert (ours.state(), part.log) == ("paused", ours.log)
            part.kill()
            ours.reap()
            assert ours.state() == "not running"
            part.start()
            process = psutil.Process(part.pid)
            assert process.cmdline()[1:] == ["60"]
            assert process.username() == ("nobody" if os.geteuid() == 0 else psutil.Process().username())
            part.kill()
    del parts


@pytest.mark.usefixtures("parts")
def test_copies_in_several_processes_add_parts_of_their_own(
    stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cdc_outbox.testing.stack.find_installed", Mock())
    copies = [copy_of(stack, tmp_path) for _ in range(2)]
    for pid, copy in enumerate(copies):
        monkeypatch.setattr(os, "getpid", Mock(return_value=pid))
        added = [copy.add_worker(), copy.add_mariadb(), copy.add_postgres(15)]
        assert [part.name for part in added] == [f"connect-2-{pid}", f"mariadb-{pid}", f"postgres-15-{pid}"]
        assert all(part.is_running for part in added)
    assert [part.name for part in (stack.add_worker(), stack.add_mariadb())] == ["connect-2", "mariadb"]
    for copy in copies:
        copy.leave()


@pytest.mark.parametrize("values", [os.environ, MappingProxyType({"PATH": "/bin"})], ids=["os.environ", "a proxy"])
def test_any_mapping_can_be_copied_to_other_processes(values: Any, tmp_path: Path) -> None:
    config = StackConfig(environment=values, worker_settings=values)
    copy = copy_of(Stack(config), tmp_path).config
    assert (copy.environment, copy.worker_settings) == (dict(values), dict(values))


def test_a_database_has_a_url_that_keeps_what_names_and_passwords_may_hold(stack: Stack) -> None:
    url = stack.postgres.url("a b", user="u@x", password="p:/?#[]@ ü%")
    assert url.startswith("postgresql://u%40x:p")
    found = psycopg.conninfo.conninfo_to_dict(url)
    wanted = {"user": "u@x", "password": "p:/?#[]@ ü%", "dbname": "a b", "host": "127.0.0.1"}
    assert found == wanted | {"port": str(stack.postgres.port)}


def test_a_running_stack_is_refused_before_anything_is_said(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cdc_outbox.cli.stack.StackFolder", lambda name: StackFolder(name, stack.folder.path.parent))
    done = run_command("stack", "up", "--name", "sleeping", "--detach")
    assert done.returncode == 1
    assert done.stderr.startswith("error: a stack named 'sleeping' is running\n")


def test_a_log_shows_why_a_part_did_not_start_again(stack: Stack) -> None:
    log = stack.folder.log("postgres")
    log.write_text("12:00 FATAL:  of an earlier start\n")
    before = log.stat().st_size
    assert stack.folder.find_fatal("postgres", after=before) == ""
    with log.open("a") as file:
        file.write("12:01 LOG:  starting\n12:01 FATAL:  wal_level must be logical\n12:01 LOG:  shut down\n")
    assert stack.folder.find_fatal("postgres", after=before) == "12:01 FATAL:  wal_level must be logical"
