"""`cdc-outbox stack` from the shell: it comes up, tells how to reach it, and leaves nothing behind."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.cluster import Basic, Cluster
from cdc_outbox.testing import Stack
from cdc_outbox.testing.folder import StackFolder
from cdc_outbox.testing.process import ProcessRecord
from tests.support.commands import run_command, run_program
from tests.support.patience import patience
from tests.support.rig import eventually

COMMAND = f"{sys.prefix}/bin/cdc-outbox"
DATABASES = ["--create-database", "orders", "--create-database=shipping_2", "--create-database", "orders"]


@pytest.fixture
def home(server_folder: Path) -> dict[str, str]:
    """An environment with a temporary folder of its own, in which PostgreSQL's own user may look around."""
    return {**os.environ, "TMPDIR": str(server_folder)}


@pytest.fixture
def folder(server_folder: Path) -> Iterator[StackFolder]:
    """The folder of the stack named `try`, whatever becomes of it."""
    folder = StackFolder("try", server_folder)
    yield folder
    run_command("stack", "down", "--name", "try", env={"TMPDIR": str(server_folder)})
    assert not folder.path.exists()


def start(home: dict[str, str], *options: str) -> "subprocess.Popen[str]":
    command = [COMMAND, "stack", "up", "--name", "try", *options]
    return subprocess.Popen(command, env=home, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_until_ready(folder: StackFolder) -> dict[str, str]:
    eventually(folder.find_environment, "the stack to be ready", seconds=60)
    return folder.find_environment() or {}


def processes_in(folder: StackFolder) -> list[psutil.Process]:
    found = []
    for name in folder.find_states():
        record = ProcessRecord.read(folder.path / name / "process.json")
        found += record.family() if record else []
    return found


def has_ended(process: psutil.Process) -> bool:
    """Tell whether a process does nothing any more, though its parent may not have asked how it ended."""
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def assert_nothing_is_left(folder: StackFolder, processes: list[psutil.Process], ports: list[int]) -> None:
    assert not folder.path.exists()
    assert all(map(has_ended, processes))
    for port in ports:
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0


def assert_references_tell_what_was_asked_for(cluster: Cluster, folder: StackFolder) -> None:
    """Connect's validation resolves references, and quotes in its errors what they stand for."""
    (folder.path / "secrets" / "mine").write_text("key=own-file\n")
    outside = folder.path.parent / "outside"
    outside.write_text("key=other-file\n")
    client = ConnectClient(cluster)

    def told(reference: str) -> str:
        config = {"connector.class": "io.debezium.connector.postgresql.PostgresConnector", "name": "x"}
        findings = client.validate(config | {"topic.prefix": "x", "database.hostname": f"!{reference}!"})
        return " ".join(finding.message for finding in findings)

    assert "!asked!" in told("${env:ASKED_FOR}")
    assert "!another!" in told("${env:ANOTHER}")
    assert "!own-file!" in told(f"${{file:{folder.path}/secrets/mine:key}}")
    assert "shell" not in told("${env:OF_THE_SHELL}")
    assert "/bin" not in told("${env:PATH}")
    assert "other-file" not in told(f"${{file:{outside}:key}}")
    assert "host=" not in told(f'${{file:{folder.path}/environment.json:{{"CDC_OUTBOX_DSN"}}')


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ending_it_leaves_no_process_no_port_and_no_folder(
    number: signal.Signals, home: dict[str, str], folder: StackFolder
) -> None:
    process = start(home, "--no-kafka")
    environment = wait_until_ready(folder)
    processes = processes_in(folder)
    assert processes
    with psycopg.connect(environment["CDC_OUTBOX_DSN"]) as connection:
        port = connection.info.port
    process.send_signal(number)
    out, err = process.communicate(timeout=patience())
    assert process.returncode == 0, err
    assert "export CDC_OUTBOX_DSN=" in out
    assert "ready after" in err
    assert_nothing_is_left(folder, processes, [port])


def test_ending_it_while_it_starts_leaves_nothing_either(home: dict[str, str], folder: StackFolder) -> None:
    process = start(home)
    eventually(lambda: folder.path.exists() and folder.find_states(), "the first part to start")
    processes = processes_in(folder)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=patience())
    assert process.returncode == 130
    assert_nothing_is_left(folder, processes, [])


@pytest.mark.usefixtures("folder")
def test_databases_are_made_and_shown_as_variables_of_their_names(home: dict[str, str]) -> None:
    up = run_program("stack", "up", "--name=try", "--no-kafka", "-dd", *DATABASES, env=home)
    assert up.returncode == 0, up.stderr
    exports = run_command("stack", "env", "--name", "try", env=home).stdout
    assert exports.count("export ") == 6
    found = subprocess.run(["bash", "-c", f"{exports}\nenv"], capture_output=True, text=True, check=True).stdout
    variables = dict(line.split("=", 1) for line in found.splitlines())
    assert variables["CDC_OUTBOX_DSN"] == variables["ORDERS_DSN"]
    for name in ("orders", "shipping_2"):
        assert variables[f"{name.upper()}_URL"].startswith("postgresql://postgres:")
        for kind in ("URL", "DSN"):
            with psycopg.connect(variables[f"{name.upper()}_{kind}"]) as connection:
                assert connection.info.dbname == name
                assert connection.execute("select count(*) from pg_stat_user_tables").fetchall() == [(0,)]


@pytest.mark.parametrize(
    "name", ["postgres", "cdc_outbox", "cdc_outbox_connect", "Orders", "a-b", "", "x" * 64, "orders\n"]
)
def test_a_database_that_cannot_be_made_is_refused_before_anything_starts(
    name: str, home: dict[str, str], folder: StackFolder
) -> None:
    done = run_command("stack", "up", "--name=try", "--no-kafka", "--create-database", name, env=home)
    assert done.returncode == 2
    assert "is not a valid name for a new database" in done.stderr
    assert not folder.path.exists()


def test_detach_may_be_said_twice_and_its_interruption_ends_what_it_began(
    home: dict[str, str], folder: StackFolder
) -> None:
    process = start(home, "-dd")
    eventually(lambda: folder.path.exists() and folder.find_states(), "the first part to start")
    owner, processes = folder.owner, processes_in(folder)
    assert owner is not None
    assert owner.pid != process.pid
    processes += owner.family()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=patience())
    assert process.returncode == 130
    assert_nothing_is_left(folder, processes, [])


def test_the_whole_stack_beside_another_one_detached_and_down(
    outbox_stack: Stack, server_folder: Path, home: dict[str, str], folder: StackFolder
) -> None:
    del home
    env = {"TMPDIR": str(server_folder), "PATH": os.environ["PATH"], "HOME": os.environ["HOME"]}
    shell = env | {"ASKED_FOR": "asked", "ANOTHER": "another", "OF_THE_SHELL": "shell"}
    up = run_program("stack", "up", "--name=try", "--detach", "--env=ASKED_FOR", env=shell)
    assert up.returncode == 0, up.stderr
    assert up.stdout == ""
    assert up.stderr.startswith("try: starting PostgreSQL, Kafka and 1 Connect worker")

    exports = run_command("stack", "env", "--name", "try", env=env).stdout
    found = subprocess.run(["bash", "-c", f"{exports}\nenv"], capture_output=True, text=True, check=True).stdout
    variables = dict(line.split("=", 1) for line in found.splitlines() if line.startswith("CDC_OUTBOX_"))
    connect = {"CDC_OUTBOX_CONNECT_URL", "CDC_OUTBOX_CONNECT_LOGIN"}
    assert set(variables) == {"CDC_OUTBOX_DSN", "CDC_OUTBOX_BOOTSTRAP_SERVERS", *connect}
    assert not set(variables.values()) & set(outbox_stack.environment().values())
    [programs] = [line.removeprefix("POSTGRES_BIN=") for line in found.splitlines() if line.startswith("POSTGRES_BIN=")]
    assert (Path(programs) / "pg_dump").is_file()

    restart = run_command("stack", "restart", "connect-1", "--name", "try", "--env=ANOTHER", env=shell)
    assert (restart.returncode, restart.stderr) == (0, "connect-1: running\n")
    login = Basic.parse(variables["CDC_OUTBOX_CONNECT_LOGIN"], field="")
    cluster = Cluster(urls=(variables["CDC_OUTBOX_CONNECT_URL"],), login=login)
    assert_references_tell_what_was_asked_for(cluster, folder)

    status = run_command("stack", "status", "--name", "try", env=env)
    assert status.returncode == 0
    assert [line.split()[:2] for line in status.stdout.splitlines()] == [
        ["connect-1", "running"],
        ["kafka", "running"],
        ["postgres", "running"],
    ]
    assert "Kafka Connect started" in run_command("stack", "logs", "--name", "try", "--lines", "500", env=env).stdout

    twice = run_program("stack", "up", "--name", "try", env=env)
    assert twice.returncode == 1
    assert "error: a stack named 'try' is running" in twice.stderr
    assert "cdc-outbox stack down --name try" in twice.stderr

    processes = processes_in(folder)
    owner = folder.owner
    assert owner is not None
    assert run_command("stack", "down", "--name", "try", env=env).returncode == 0
    assert_nothing_is_left(folder, [*processes, *owner.family()], [])
    # And the other one never noticed.
    assert {part.state() for part in outbox_stack.parts} == {"running"}


def test_what_a_crash_left_is_cleared_by_the_next_stack_and_nothing_else_is(
    server_folder: Path, home: dict[str, str], folder: StackFolder
) -> None:
    process = start(home, "--no-kafka")
    wait_until_ready(folder)
    left = processes_in(folder)
    process.kill()
    process.communicate()
    assert all(one.is_running() for one in left)

    # A folder whose record names a process that is somebody else's by now: same pid, another start time.
    bystander = subprocess.Popen(["sleep", "60"])
    stranger = StackFolder("stranger", server_folder)
    stranger.path.mkdir(mode=0o700)
    (stranger.path / "postgres").mkdir()
    (stranger.path / "lock").touch()
    record = ProcessRecord.of(bystander.pid)
    ProcessRecord(record.pid, record.started - 100).write(stranger.path / "postgres" / "process.json")

    other = StackFolder("other", server_folder)
    try:
        other.occupy()
        assert not folder.path.exists()
        assert not stranger.path.exists()
        assert all(map(has_ended, left))
        assert bystander.poll() is None
    finally:
        other.release()
        bystander.kill()
        bystander.wait()
    assert not other.path.exists()


def test_a_part_that_dies_is_told_and_shown_and_can_be_started_again(
    home: dict[str, str], folder: StackFolder, server_folder: Path
) -> None:
    process = start(home, "--no-kafka")
    wait_until_ready(folder)
    killed = processes_in(folder)
    for one in killed:
        one.kill()
    eventually(lambda: all(has_ended(one) for one in killed), "the server to end")
    env = {"TMPDIR": str(server_folder)}
    status = run_command("stack", "status", "--name", "try", env=env)
    assert (status.returncode, status.stdout.split()) == (1, ["postgres", "not", "running"])
    assert "some parts of try do not run" in status.stderr
    again = run_command("stack", "restart", "postgres", "--name", "try", env=env)
    assert (again.returncode, again.stderr) == (0, "postgres: running\n")
    assert run_command("stack", "status", "--name", "try", env=env).returncode == 0
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=patience())


@pytest.mark.parametrize(
    ("programs", "sentence", "advice"),
    [
        ([], "Java is not installed (no `java` on the PATH)", "apt-get install openjdk-17-jre-headless"),
        (["java"], "Maven is not installed (no `mvn` on the PATH)", "apt-get install maven"),
    ],
)
def test_a_missing_program_is_one_sentence_and_what_to_install(
    programs: list[str], sentence: str, advice: str, server_folder: Path
) -> None:
    path = server_folder / "bin"
    path.mkdir()
    for program in programs:
        (path / program).write_text("#!/bin/sh\necho 'openjdk version \"17.0.1\"' >&2\n")
        (path / program).chmod(0o755)
    env = {
        "PATH": str(path),
        "TMPDIR": str(server_folder),
        "XDG_CACHE_HOME": str(server_folder / "cache"),
        "LC_ALL": "C.UTF-8",
    }
    done = run_program("stack", "up", "--name", "try", env=env)
    assert done.returncode == 1
    assert f"error: {sentence}" in done.stderr
    assert advice in done.stderr
    assert "Traceback" not in done.stderr
    assert not StackFolder("try", server_folder).path.exists()


def test_a_java_that_is_too_old_is_named(server_folder: Path) -> None:
    (server_folder / "java").write_text("#!/bin/sh\necho 'java version \"1.8.0_392\"' >&2\n")
    (server_folder / "java").chmod(0o755)
    done = run_program("stack", "up", env={"PATH": str(server_folder), "TMPDIR": str(server_folder)})
    assert "error: the Java on the PATH is version 8; 17 is required" in done.stderr


def test_a_variable_that_is_not_there_is_refused_before_anything_starts(
    home: dict[str, str], folder: StackFolder
) -> None:
    done = run_program("stack", "up", "--name=try", "--no-kafka", "--env=HOME", "--env=NOT_THERE", env=home)
    assert done.returncode == 2
    assert "NOT_THERE: not set in the environment" in done.stderr
    restart = run_command("stack", "restart", "kafka", "--name=try", "--env=HOME", env=home)
    assert restart.returncode == 2
    assert "--env is for Connect workers; kafka is not one" in restart.stderr
    assert not folder.path.exists()


@pytest.mark.parametrize("arguments", [["status"], ["env"], ["logs"], ["restart"]])
def test_asking_for_a_stack_that_is_not_there_is_answered(arguments: list[str], server_folder: Path) -> None:
    done = run_command("stack", *arguments, "--name", "nobody", env={"TMPDIR": str(server_folder)})
    assert done.returncode == 1
    assert "error: no stack named 'nobody' is running" in done.stderr
    assert "cdc-outbox stack up" in done.stderr


def test_down_without_a_stack_is_no_error(server_folder: Path) -> None:
    done = run_command("stack", "down", "--name", "nobody", env={"TMPDIR": str(server_folder)})
    assert (done.returncode, done.stderr) == (0, "nobody: was not running\n")


def test_an_unknown_part_is_answered_with_those_there_are(outbox_stack: Stack) -> None:
    for command in ("logs", "restart"):
        done = run_command("stack", command, "nobody", "--name", outbox_stack.config.name)
        assert done.returncode == 1
        parts = ", ".join(sorted(outbox_stack.folder.find_states()))
        assert f"Its parts are {parts}." in done.stderr


@pytest.mark.parametrize("name", ["a/b", "..", "", "a b", "x" * 61])
def test_a_name_that_is_no_name_for_a_folder_is_refused(name: str) -> None:
    done = run_command("stack", "status", "--name", name)
    assert done.returncode == 2
    assert "is not a valid name for a stack" in done.stderr
