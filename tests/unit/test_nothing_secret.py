"""Whatever fails, no secret is said: random ones are planted where one may stand, and looked for in what is said."""

import io
import json
import logging
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import quote

import pytest
import yaml
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from cdc_outbox.cli import main
from cdc_outbox.connect import reader, undo, wait
from cdc_outbox.connect.facts import DatabaseFacts, SlotFacts, WrittenFacts
from cdc_outbox.connect.render import render
from cdc_outbox.lsn import Lsn
from cdc_outbox.spec import parse_spec
from tests.connect_server import Answer, Asked, answering
from tests.specs import MINIMAL
from tests.unit.test_preflight import GOOD, SLOT

LETTERS = st.sampled_from("abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789!$%&*+=~^.,:/'\"\\@#?-")
# The beginning is nowhere else, so that what is found is a secret and not a word.
SECRETS = st.text(LETTERS, min_size=7, max_size=20).map("zQ7x{}".format)
PLAIN = st.from_regex(r"zQ8x[A-Za-z0-9~._-]{7,20}", fullmatch=True)
HELD = {
    "database.password": "{}",
    "producer.override.sasl.jaas.config": 'x.PlainLoginModule required username="me" password="{}";',
    "value.converter.basic.auth.user.info": "me:{}",
    "value.converter.schema.registry.url": "https://me:{}@registry:8081",
    "producer.override.ssl.keystore.password": "{}",
    "producer.override.ssl.keystore.key": "{}",
    "signal.kafka.consumer.sasl.oauthbearer.token": "{}",
}
"""Options of a connector that somebody may have written a secret into by hand, and how."""
MANY = st.lists(SECRETS, min_size=len(HELD), max_size=len(HELD), unique=True)
FAULTS = ("trace", "connector trace", "validation", 400, 403, 409, 500)


def held_by(option: str, secret: str) -> str:
    """Return a value as it stands there: inside of quotation marks or a URL a secret is written another way."""
    if option.endswith(".url"):
        return HELD[option].format(quote(secret, safe=""))
    escaped = secret.replace("\\", "\\\\").replace('"', '\\"') if option.endswith(".config") else secret
    return HELD[option].format(escaped)


def forms_of(secret: str) -> set[str]:
    """Return what a secret looks like, written this way or another."""
    escaped = secret.replace("\\", "\\\\").replace('"', '\\"')
    written = {secret, quote(secret), quote(secret, safe=""), escaped}
    return written | {json.dumps(form)[1:-1] for form in written} | {repr(form)[1:-1] for form in written}


@dataclass
class Worker:
    """A Connect that fails, and quotes in what it says whatever it was told."""

    config: dict[str, str]
    fault: str | int
    knows: bool = False

    def __call__(self, asked: Asked) -> Answer:
        quoted = [*(asked.body or {}).items(), *(self.config.items() if self.knows else ())]
        said = "; ".join(f"Invalid value {value} for configuration {option}" for option, value in quoted)
        if isinstance(self.fault, int) and asked.method != "GET" and not asked.path.endswith("/validate"):
            return self.fault, {"error_code": self.fault, "message": f"{said} {asked.headers.get('Authorization')}"}
        if asked.path.endswith("/orders/config"):
            self.config = asked.body or self.config
            self.knows = True
        errors = [said] if self.fault == "validation" else []
        found: dict[str, Any] = {
            "health": {"status": "healthy"},
            "validate": {"configs": [{"value": {"name": "x", "errors": errors}}]},
            "connectors": ["orders"],
            "connectors?expand=status": {"orders": {"status": self._status()}},
            "config": self.config,
            "status": self._status(),
            "offsets": {"offsets": []},
        }
        return 200, found.get(asked.path.rpartition("/")[2], {})

    def _status(self) -> dict[str, Any]:
        quoted = "".join(f"\n\tat {option}={value}" for option, value in self.config.items())
        trace = f"org.apache.kafka.common.config.ConfigException: {' '.join(self.config.values())}{quoted}"
        task, connector = {"id": 0, "state": "RUNNING"}, {"state": "RUNNING", "worker_id": "connect-1:8083"}
        if self.fault == "trace":
            task |= {"state": "FAILED", "trace": trace}
        if self.fault == "connector trace":
            connector |= {"state": "FAILED", "trace": trace}
        return {"connector": connector, "tasks": [task]}


class Ready:
    """A database that is as it should be, and whose slot nobody reads, for the connector fails."""

    def __init__(self, *_arguments: object) -> None:
        self.slot = SLOT

    def read_facts(self) -> DatabaseFacts:
        return replace(GOOD, slot=self.slot)

    def find_slot(self) -> SlotFacts:
        return self.slot

    def find_wal_end(self) -> Lsn:
        return Lsn(2)

    def read_written(self) -> WrittenFacts:
        return WrittenFacts()

    def count_events_outside_slot(self, _columns: object) -> int:
        return 0


@contextmanager
def opened(*_arguments: object, **_options: object) -> Iterator[tuple[None, None]]:
    yield None, None


def said_by(*arguments: str, variables: Mapping[str, str]) -> str:
    """Return everything that one call of the command says: to both streams, to the log, and what it ends with."""
    out, terminate = io.StringIO(), signal.getsignal(signal.SIGTERM)
    log = logging.StreamHandler(out)
    root = logging.getLogger()
    level = root.level
    root.addHandler(log)
    root.setLevel(logging.DEBUG)
    clean = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **variables}
    try:
        with (
            patch.object(sys, "argv", ["cdc-outbox", *arguments]),
            patch.dict(os.environ, clean, clear=True),
            redirect_stdout(out),
            redirect_stderr(out),
            pytest.raises(SystemExit) as ended,
        ):
            main()
    finally:
        root.removeHandler(log)
        root.setLevel(level)
        signal.signal(signal.SIGTERM, terminate)
    return f"{out.getvalue()}\nended with {ended.value.code}"


def refuse_secrets(said: str, secrets: list[str]) -> None:
    assert "Traceback" not in said
    for secret in secrets:
        for form in forms_of(secret):
            assert form not in said


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait, "_FAILED_SECONDS", 0.0)
    monkeypatch.setattr(wait, "_LOOK_SECONDS", 0.001)
    monkeypatch.setattr(undo, "_STABLE_SECONDS", 0.0)
    monkeypatch.setattr(undo, "_LATE_SECONDS", 0.0)
    monkeypatch.setattr(reader, "_LINGER_SECONDS", 0.0)


once_for_all = settings(
    max_examples=5,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@once_for_all
@given(secrets=MANY, login=PLAIN, fault=st.sampled_from(FAULTS))
def test_what_connect_says_is_shown_without_secrets(
    secrets: list[str], login: str, fault: str | int, tmp_path: Path
) -> None:
    spec = tmp_path / "orders.yaml"
    spec.write_text(MINIMAL)
    held = {option: held_by(option, secret) for option, secret in zip(HELD, secrets, strict=True)}
    running = render(parse_spec(MINIMAL)) | held
    contexts = tmp_path / "contexts.yaml"
    variables = {"CDC_OUTBOX_CONTEXTS": str(contexts), "TOKEN": login}
    common = ("--context", "here", "--connect-patience", "0")
    patched = (
        patch("cdc_outbox.cli.deploy.connected", opened),
        patch("cdc_outbox.cli.deploy.Database", Ready),
    )
    deploy = ("deploy-connector", str(spec), "--dsn", "dbname=orders", "--timeout", "0.01", "--stable-seconds", "0")
    for command in (
        ("plan", str(spec)),
        ("plan", str(spec), "--json"),
        ("status",),
        ("status", "--json"),
        ("restart", "orders", "--timeout", "0.01", "--stable-seconds", "0"),
        ("resume", "orders", "--timeout", "0.01", "--stable-seconds", "0"),
        deploy,
        (*deploy, "--json"),
        (*deploy, "--replace", "--no-undo"),
        (*deploy, "--dry-run"),
    ):
        with answering(Worker(dict(running), fault)) as (url, asked), patched[0], patched[1]:
            contexts.write_text(f"contexts: {{here: {{connect: {{url: '{url}', bearer: '${{env:TOKEN}}'}}}}}}")
            said = said_by(*command, *common, variables=variables)
        assert asked
        refuse_secrets(said, [*secrets, login])


@once_for_all
@given(secret=SECRETS, option=st.sampled_from(sorted(HELD)))
def test_a_spec_that_shows_a_secret_is_refused_without_it(secret: str, option: str, tmp_path: Path) -> None:
    spec = tmp_path / "orders.yaml"
    content = yaml.safe_load(MINIMAL)
    if option == "database.password":
        content["database"]["password"] = secret
    else:
        content["overrides"] = {option: held_by(option, secret)}
    spec.write_text(json.dumps(content, ensure_ascii=False))
    with answering(Worker({}, 500)) as (url, _asked):
        for command in (
            ("render", str(spec)),
            ("render", str(spec), "--target", "strimzi", "--set", "connect=x"),
            ("lint", str(spec)),
            ("lint", str(spec), "--output", "json"),
            ("plan", str(spec), "--connect-url", url, "--connect-patience", "0"),
        ):
            refuse_secrets(said_by(*command, variables={}), [secret])


@once_for_all
@given(secrets=MANY, output=st.sampled_from(["text", "json", "ci"]))
def test_a_connectors_configuration_is_linted_without_its_secrets(
    secrets: list[str], output: str, tmp_path: Path
) -> None:
    held = {option: held_by(option, secret) for option, secret in zip(HELD, secrets, strict=True)}
    path = tmp_path / "orders.json"
    path.write_text(json.dumps(render(parse_spec(MINIMAL)) | held))
    refuse_secrets(said_by("lint", str(path), "--output", output, variables={}), secrets)


@once_for_all
@given(secret=SECRETS, form=st.sampled_from(["url", "encoded", "conninfo", "raw"]))
def test_a_dsn_and_a_url_are_not_quoted(secret: str, form: str, tmp_path: Path) -> None:
    spec = tmp_path / "orders.yaml"
    spec.write_text(MINIMAL)
    escaped = secret.replace("\\", "\\\\").replace("'", "\\'")
    dsn = {
        "url": f"postgresql://me:{secret}@127.0.0.1:1/orders",
        "encoded": f"postgresql://me:{quote(secret, safe='')}@127.0.0.1:1/orders",
        "conninfo": f"host=127.0.0.1 port=1 user=me password='{escaped}'",
        "raw": f"host=127.0.0.1 port=1 user=me password={secret}",
    }[form]
    url = f"http://me:{secret}@127.0.0.1:1"
    nobody = ("--connect-url", "http://127.0.0.1:1", "--connect-patience", "0")
    for command in (
        ("preflight", str(spec), "--dsn", dsn),
        ("deploy-connector", str(spec), "--dsn", dsn, *nobody),
        ("plan", str(spec), "--dsn", dsn, *nobody),
        ("status", "--connect-url", url),
    ):
        refuse_secrets(said_by(*command, variables={}), [secret])
    variables = {"CDC_OUTBOX_DSN": dsn, "CDC_OUTBOX_CONNECT_URL": url}
    for told in (["preflight", str(spec)], ["deploy-connector", str(spec), *nobody], ["status", *nobody]):
        refuse_secrets(said_by(*told, variables=variables), [secret])


@once_for_all
@example(secret="zQ7x 22 2", context={"connect": {"url": "http://me:{}@127.0.0.1:1"}})
@example(secret="zQ7x/22@2", context={"connect": {"urls": ["http://me:{}@127.0.0.1:1"]}})
@given(
    secret=SECRETS,
    context=st.sampled_from(
        [
            {"connect": {"url": "http://127.0.0.1:1", "bearer": "{}"}},
            {"connect": {"url": "http://127.0.0.1:1", "basic": {"user": "me", "password": "{}"}}},
            {"connect": {"url": "http://me:{}@127.0.0.1:1"}},
            {"dsn": "postgresql://me:{}@127.0.0.1:1/orders"},
            {"dsns": {"orders": "host=127.0.0.1 password={}"}},
            {"connect": {"url": "http://127.0.0.1:1", "bearer": "${env:SECRET}"}},
            {"connect": {"url": "http://127.0.0.1:1", "basic": {"user": "me", "password": "${env:SECRET}"}}},
            {"connect": {"url": "http://me:${env:SECRET}@127.0.0.1:1"}},
            {"connect": {"url": "http://127.0.0.1:1"}, "dsn": "postgresql://me:${env:SECRET}@127.0.0.1:1/orders"},
            {"connect": {"url": "http://127.0.0.1:1"}, "dsns": {"orders": "${env:SECRET}"}},
        ]
    ),
)
def test_a_context_is_not_quoted(secret: str, context: dict[str, Any], tmp_path: Path) -> None:
    spec, contexts = tmp_path / "orders.yaml", tmp_path / "contexts.yaml"
    spec.write_text(MINIMAL)
    planted = json.dumps(context).replace("{}", json.dumps(secret)[1:-1])
    contexts.write_text(f'{{"contexts": {{"here": {planted}}}}}')
    variables = {"CDC_OUTBOX_CONTEXTS": str(contexts), "SECRET": secret}
    patience = ("--context", "here", "--connect-patience", "0")
    for command in (
        ("status", *patience),
        ("plan", str(spec), *patience),
        ("deploy-connector", str(spec), *patience),
        ("contexts",),
        ("contexts", "--json"),
    ):
        refuse_secrets(said_by(*command, variables=variables), [secret])
