"""The login to Connect that is no context's: in a variable, in a file, or the local stack's own."""

from base64 import b64encode
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from cdc_outbox.connect.cluster import Basic
from cdc_outbox.testing import Worker
from cdc_outbox.testing.process import ServerCommand
from tests.support.commands import run_command
from tests.support.connect_server import answering, each

OWN, OTHER, CONTEXTS = ("Basic " + b64encode(login).decode() for login in (b"me:hunter2", b"me:a:b", b"me:context"))
VARIABLE = {"CDC_OUTBOX_CONNECT_URL": "{url}", "CDC_OUTBOX_CONNECT_LOGIN": "me:hunter2"}
FILE_VARIABLE = {"CDC_OUTBOX_CONNECT_LOGIN_FILE": "{file}"}
FILE, URL = "--connect-login-file={file}", "--connect-url={url}"
WITH, WITHOUT = ("--contexts={contexts}", "--context=with"), ("--contexts={contexts}", "--context=without")


@pytest.mark.parametrize(
    ("arguments", "variables", "sent"),
    [
        ((), VARIABLE, OWN),
        ((), VARIABLE | {"CDC_OUTBOX_CONNECT_LOGIN": ""}, None),
        ((URL,), VARIABLE | {"CDC_OUTBOX_CONNECT_URL": "http://127.0.0.1:1"}, None),
        ((URL,), FILE_VARIABLE, None),
        (WITHOUT, VARIABLE, None),
        (WITH, VARIABLE, CONTEXTS),
        (WITH, VARIABLE | FILE_VARIABLE, CONTEXTS),
        ((), VARIABLE | FILE_VARIABLE, OTHER),
        ((FILE,), VARIABLE, OTHER),
        ((FILE, URL), {}, OTHER),
        ((FILE, *WITHOUT), {}, OTHER),
        ((FILE, *WITH), {}, OTHER),
    ],
)
def test_a_variable_goes_to_the_url_of_a_variable_and_a_file_that_is_named_to_any(
    arguments: tuple[str, ...], variables: dict[str, str], sent: str | None, tmp_path: Path
) -> None:
    file, contexts = tmp_path / "login", tmp_path / "contexts.yaml"
    file.write_text("me:a:b\n")
    with answering(each((200, []))) as (url, asked):
        contexts.write_text(
            f"contexts:\n  without: {{connect: {{url: '{url}'}}}}\n"
            f"  with: {{connect: {{url: '{url}', basic: {{user: me, password: '${{env:CONTEXTS}}'}}}}}}\n"
        )
        given = {"url": url, "file": file, "contexts": contexts}
        done = run_command(
            "status",
            *(argument.format(**given) for argument in arguments),
            env={"CONTEXTS": "context"} | {name: value.format(**given) for name, value in variables.items()},
        )
    assert done.returncode == 0, done.stderr
    assert {one.headers.get("Authorization") for one in asked} == {sent}


@pytest.mark.parametrize("login", ["hunter2", ":hunter2"])
def test_a_login_of_another_form_is_refused_and_not_quoted(login: str, tmp_path: Path) -> None:
    file = tmp_path / "login"
    file.write_text(login)
    url = {"CDC_OUTBOX_CONNECT_URL": "http://127.0.0.1:1"}
    for done in (
        run_command("status", env=url | {"CDC_OUTBOX_CONNECT_LOGIN": login}),
        run_command("status", "--connect-login-file", file, env=url),
    ):
        assert (done.returncode, "a Connect login must be user:password" in done.stderr) == (2, True)
        assert "hunter2" not in done.stderr


def test_a_login_in_a_variable_does_not_go_over_http_to_another_machine() -> None:
    done = run_command("status", env=VARIABLE | {"CDC_OUTBOX_CONNECT_URL": "http://connect.prod:8083"})
    assert (done.returncode, "a login must not be sent to connect.prod over http" in done.stderr) == (2, True)
    assert "hunter2" not in done.stderr


def test_the_local_worker_is_asked_with_its_login_and_past_every_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    healthy = each((200, {"status": "healthy"}))
    with answering(healthy) as (url, asked), answering(healthy) as (proxy, passed):
        monkeypatch.setenv("http_proxy", proxy)
        monkeypatch.delenv("no_proxy", raising=False)
        port, command = urlsplit(url).port or 0, ServerCommand(arguments=[], environment={})
        assert Worker(tmp_path, command, port=port, login=Basic("me", "hunter2")).answers()
    assert [(one.path, one.headers.get("Authorization")) for one in asked] == [("/health", OWN)]
    assert passed == []
