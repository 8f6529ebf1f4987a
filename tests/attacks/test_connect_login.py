"""Another program of this machine, which has no login to the local stack's Connect."""

from pathlib import Path

import psutil
import pytest
import requests

from cdc_outbox.testing import Stack
from tests.support.patience import patience

CONFIG = {
    "name": "x",
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "topic.prefix": "x",
    "database.hostname": "!${env:BENCH_PASSWORD}!",
}
VALIDATE = "/connector-plugins/PostgresConnector/config/validate"


@pytest.mark.parametrize("login", [None, ("cdc-outbox", ""), ("cdc-outbox", "x"), ("", ""), ("x", "x")])
def test_no_reference_is_resolved_without_the_login(outbox_stack: Stack, login: tuple[str, str] | None) -> None:
    url, own = outbox_stack.connect_url + VALIDATE, outbox_stack.connect_cluster.login
    assert own is not None
    refused = requests.put(url, json=CONFIG, auth=login, timeout=patience())
    assert (refused.status_code, "!bench!" in refused.text) == (401, False)
    answered = requests.put(url, json=CONFIG, headers={"Authorization": own.header}, timeout=patience())
    assert (answered.status_code, "!bench!" in answered.text) == (200, True)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/health"),
        ("GET", "/connectors?expand=info"),
        ("POST", "/connectors"),
        ("PUT", "/connectors/x/config"),
        ("GET", "/admin/loggers"),
        ("POST", "/connectors/x/tasks/0/restart"),
    ],
)
def test_nothing_is_answered_without_the_login(outbox_stack: Stack, method: str, path: str) -> None:
    body = {"name": "x", "config": CONFIG} if method == "POST" else CONFIG
    assert requests.request(method, outbox_stack.connect_url + path, json=body, timeout=patience()).status_code == 401


@pytest.mark.parametrize(("method", "path"), [("POST", "/connectors/x/tasks"), ("PUT", "/connectors/x/fence")])
def test_what_workers_ask_each_other_needs_a_signature(outbox_stack: Stack, method: str, path: str) -> None:
    """Connect asks for no login there."""
    answer = requests.request(method, outbox_stack.connect_url + path, json=[CONFIG], timeout=patience())
    assert (answer.status_code, "missing required signature" in answer.text) == (400, True), answer.text


def test_the_password_stands_where_no_other_user_reads(outbox_stack: Stack) -> None:
    own, folder = outbox_stack.connect_cluster.login, outbox_stack.folder.path
    assert own is not None
    password = own.secrets[0]
    files = [path for path in (*folder.glob("*"), *folder.glob("*/*")) if path.is_file()]
    holders = [path for path in files if password.encode() in path.read_bytes()]
    assert {path.name for path in holders} == {"environment.json", "login.properties"}
    assert [path for path in holders if path.stat().st_mode & 0o077] == []
    assert {Path("kafka/log"), Path("connect-1/log")} <= {path.relative_to(folder) for path in files}
    for process in psutil.process_iter(["cmdline"]):
        assert password not in " ".join(process.info["cmdline"] or [])
