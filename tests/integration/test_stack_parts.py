"""What a stack is made of, beside what its command shows."""

import os
import pwd
import shutil
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path

import psutil
import psycopg
import pytest

from cdc_outbox.debezium.event_router.jvm import Jvm, find_jvm
from cdc_outbox.debezium.event_router.jvm.jars import refuse_other_jars
from cdc_outbox.debezium.render import render
from cdc_outbox.errors import StackError
from cdc_outbox.spec import parse_spec
from cdc_outbox.testing import Stack, StackConfig
from cdc_outbox.testing.configure import ConfigureCheck
from cdc_outbox.testing.process import ServerCommand, run_to_end
from tests.support.rig import eventually, one, postgres_program
from tests.support.specs import ORDERS

ROOT = Path(__file__).parents[2]


def test_the_database_is_postgresql_18_in_utf_8_with_logical_decoding(outbox_stack: Stack) -> None:
    with psycopg.connect(outbox_stack.postgres.dsn()) as connection:
        assert connection.info.server_version // 10_000 == 18
        for setting, value in {
            "server_encoding": "UTF8",
            "wal_level": "logical",
            "track_commit_timestamp": "on",
        }.items():
            assert one(connection, f"show {setting}") == value


def test_the_database_asks_for_a_password(outbox_stack: Stack) -> None:
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(outbox_stack.postgres.dsn(password="wrong"))


def test_the_superusers_password_is_in_no_file_that_others_may_read(
    server_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes = []

    def note_modes(command: ServerCommand, folder: Path, what: str) -> None:
        modes.append((folder / "password").stat().st_mode & 0o777)
        run_to_end(command, folder, what)

    monkeypatch.setattr("cdc_outbox.testing.postgres.run_to_end", note_modes)
    with Stack(StackConfig(name="secret", kafka=False, root=server_folder)) as stack:
        assert modes == [0o600]
        assert not (stack.postgres.folder / "password").exists()


def listed(folder: Path) -> list[Path]:
    return [*folder.iterdir()] if folder.is_dir() else []


def test_somebody_else_reads_nothing_of_a_stack(outbox_stack: Stack) -> None:
    parts = outbox_stack.parts
    assert {part.name for part in parts} >= {"postgres", "kafka", "connect-1"}
    for part in parts:
        assert part.folder.stat().st_mode & 0o007 == 0, part.name
        assert part.log.stat().st_mode & 0o077 == 0, part.name
    if os.geteuid() == 0:
        # Other tests put files of their own beside the parts' folders. Below these levels are only more files of the
        # same kind: a hundred thousand by the middle of a run. Folders of topics that are deleted vanish.
        found = [part.folder for part in parts]
        found += [path for folder in [*found, *(part.folder / "data" for part in parts)] for path in listed(folder)]
        assert len(found) > 20
        paths = "\n".join(map(str, found))
        look = 'while read -r path; do [ ! -r "$path" ] || echo "$path"; done'
        # A user that no part runs as.
        done = subprocess.run(
            ["sh", "-c", look],
            input=paths,
            user=60_111,
            group=60_111,
            extra_groups=[],
            cwd="/",
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == ""


def test_the_database_runs_as_its_user_and_in_that_users_group(outbox_stack: Stack) -> None:
    process = psutil.Process(outbox_stack.postgres.pid)
    assert process.uids().effective != 0
    assert process.gids().effective == pwd.getpwuid(process.uids().effective).pw_gid


def test_the_databases_user_owns_its_data_and_nothing_else(outbox_stack: Stack) -> None:
    """What it could put in place of log or process record, root would write to and obey."""
    server = outbox_stack.postgres
    user = psutil.Process(server.pid).uids().effective
    assert {path.name for path in server.folder.iterdir() if path.stat().st_uid == user != os.geteuid()} <= {"data"}
    assert (server.folder / "data").stat().st_uid == user
    for path in (server.folder, server.log, server.folder / "process.json"):
        assert path.lstat().st_uid == os.geteuid(), path
        assert path.lstat().st_mode & 0o022 == 0, path
    if user != os.geteuid():
        planted = server.folder / "planted"
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute("create temporary table said (line text)")
            with pytest.raises(psycopg.Error, match="program"):
                connection.execute(f"copy said from program 'ln -s /nonexistent/x {planted}'")
        assert not planted.is_symlink()


def test_a_server_starts_without_a_copy_of_the_embedded_programs(outbox_stack: Stack) -> None:
    own, package = outbox_stack.postgres.programs / "postgres", Path(postgres_program("postgres"))
    assert own.samefile(package) or own.stat().st_dev != package.stat().st_dev


def test_the_systems_postgresql_is_taken_when_asked_and_missed_when_missing(server_folder: Path) -> None:
    config = StackConfig(name="system", kafka=False, system_postgres=True, root=server_folder)
    installed = any(Path("/usr/lib/postgresql").glob("*/bin/initdb")) or shutil.which("initdb")
    if not installed:
        with pytest.raises(StackError, match="no PostgreSQL server is installed"):
            Stack(config).up()
        return
    with Stack(config) as stack, psycopg.connect(stack.postgres.dsn()) as connection:
        binary = Path(f"/proc/{stack.postgres.pid}/exe").readlink()
        assert server_folder not in binary.parents
        assert one(connection, "show wal_level") == "logical"


def test_topics_are_created_and_deleted(outbox_stack: Stack) -> None:
    broker, names = outbox_stack.broker, ["made-and-deleted.1", "made-and-deleted.2"]
    for partitions, name in enumerate(names, start=1):
        broker.create_topic(name, partitions=partitions)
    assert {*names} <= {*broker.topics()}
    assert [broker.ends(name) for name in names] == [{0: 0}, {0: 0, 1: 0}]
    broker.delete_topics(*names)
    eventually(lambda: not {*names} & {*broker.topics()}, "the topics to go")
    assert [broker.ends(name) for name in names] == [{}, {}]


def test_a_second_start_downloads_nothing(outbox_stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The jars are there, so Maven, which alone downloads, is not even looked for."""
    (tmp_path / "java").symlink_to(outbox_stack.jvm.java)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_jvm(outbox_stack.jvm.home.parents[1]).home == outbox_stack.jvm.home


def test_the_jars_that_run_are_those_whose_digests_are_known(outbox_stack: Stack) -> None:
    refuse_other_jars(outbox_stack.jvm.home)


def test_a_program_starts_from_the_classes_that_its_last_run_archived(outbox_stack: Stack, tmp_path: Path) -> None:
    def run(jvm: Jvm) -> str:
        command = jvm.command("kafka.tools.StorageTool", "random-uuid", heap="64m", archive="kafka")
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    jvm = replace(outbox_stack.jvm, archives=tmp_path, options=("-Xlog:class+load",))
    before = run(jvm)
    run(replace(jvm, is_recording=True))
    assert "kafka.tools.StorageTool source: file:" in before
    assert "kafka.tools.StorageTool source: shared objects file (top)" in run(jvm)


def test_broker_and_worker_start_from_the_archives_that_exist(outbox_stack: Stack) -> None:
    archives = outbox_stack.jvm.archives
    assert archives is not None
    if os.environ.get("WHOLE_TEST_RUN"):
        assert archives.exists()
    for part in (outbox_stack.broker, *outbox_stack.workers):
        command = " ".join(psutil.Process(part.pid).cmdline())
        assert (f"-XX:SharedArchiveFile={archives}" in command) is archives.exists()


def test_a_fetch_that_fails_leaves_no_half_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(shutil.which("java") or "")
    maven = tmp_path / "bin" / "mvn"
    maven.write_text("#!/bin/sh\necho '[ERROR] no route to host'\nexit 1\n")
    maven.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    with pytest.raises(StackError, match=r"Maven could not fetch the jars: \[ERROR\] no route to host") as caught:
        find_jvm(tmp_path / "cache")
    assert "Maven reaches its repositories" in caught.value.hint
    assert list((tmp_path / "cache" / "jars").iterdir()) == []


def test_recovery_is_quick_and_the_settings_say_why() -> None:
    settings = (ROOT / "cdc_outbox" / "testing" / "settings" / "connect.properties").read_text()
    for setting in ("scheduled.rebalance.max.delay.ms", "offset.flush.interval.ms"):
        before, _, _ = settings.partition(f"\n{setting}=")
        assert before.splitlines()[-1].startswith("# ")


def test_the_wheel_holds_everything_that_is_read_at_run_time(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    [wheel], [sdist] = tmp_path.glob("*.whl"), tmp_path.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    files = subprocess.run(["git", "ls-files", "cdc_outbox"], cwd=ROOT, check=True, capture_output=True, text=True)
    assert set(files.stdout.split()) <= packed
    assert "cdc_outbox/py.typed" in packed
    assert not {name for name in packed if name.startswith(("tests", "examples", "benchmarks"))}
    with tarfile.open(sdist) as archive:
        assert any(name.endswith("/cdc_outbox/spec/spec.schema.json") for name in archive.getnames())


def test_a_template_is_initialized_once_and_one_that_was_interrupted_is_begun_anew(outbox_stack: Stack) -> None:
    server, initialized = outbox_stack.postgres, []

    def initialize(dsn: str) -> None:
        initialized.append(dsn)
        with psycopg.connect(dsn) as connection:
            connection.execute("create table made (number int)")
        if len(initialized) == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        server.create_template("parts_template", initialize)
    for name in ("parts_copy", "parts_other_copy"):
        server.create_template("parts_template", initialize)
        with psycopg.connect(server.create_database(name, template="parts_template")) as connection:
            assert connection.execute("select count(*) from made").fetchall() == [(0,)]
    assert len(initialized) == 2


def test_plugins_are_configured_as_a_worker_configures_them(configure_check: ConfigureCheck) -> None:
    rendered = render(parse_spec(ORDERS.read_text()))
    assert configure_check.refusals(rendered) == []
    [refusal] = configure_check.refusals(rendered | {"transforms.outbox.route.topic.regex": "[[a"})
    assert refusal.option == "transforms.outbox"
    with pytest.raises(StackError, match="the check is not running"):
        ConfigureCheck(configure_check._jvm).refusals(rendered)
