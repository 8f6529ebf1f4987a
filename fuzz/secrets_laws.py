"""Where secrets may stand, and every command that is told them there: none of them is said again."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import quote

import yaml
from hypothesis import strategies as st

from cdc_outbox.debezium.render import render
from cdc_outbox.spec import parse_spec
from fuzz.secrets_planted import HELD, MANY, PLAIN, SECRETS, held_by, refuse_secrets
from fuzz.secrets_said import FAULTS, Ready, Worker, opened, said_by
from tests.support.connect_server import answering
from tests.support.specs import MINIMAL

NOBODY = "127.0.0.1:1"
AT_ONCE = ("--timeout", "0.01s", "--stable-for", "0s")
CONTEXTS: tuple[dict[str, Any], ...] = (
    {"connect": {"url": f"http://{NOBODY}", "bearer": "{}"}},
    {"connect": {"url": f"http://{NOBODY}", "basic": {"user": "me", "password": "{}"}}},
    {"connect": {"url": f"http://me:{{}}@{NOBODY}"}},
    {"connect": {"urls": [f"http://me:{{}}@{NOBODY}"]}},
    {"dsn": f"postgresql://me:{{}}@{NOBODY}/orders"},
    {"dsns": {"orders": "host=127.0.0.1 password={}"}},
    {"connect": {"url": f"http://{NOBODY}", "bearer": "${env:SECRET}"}},
    {"connect": {"url": f"http://{NOBODY}", "basic": {"user": "me", "password": "${env:SECRET}"}}},
    {"connect": {"url": f"http://me:${{env:SECRET}}@{NOBODY}"}},
    {"connect": {"url": f"http://{NOBODY}"}, "dsn": f"postgresql://me:${{env:SECRET}}@{NOBODY}/orders"},
    {"connect": {"url": f"http://{NOBODY}"}, "dsns": {"orders": "${env:SECRET}"}},
)
DSNS: Mapping[str, str] = {
    "url": f"postgresql://me:{{}}@{NOBODY}/orders",
    "encoded": f"postgresql://me:{{}}@{NOBODY}/orders",
    "conninfo": "host=127.0.0.1 port=1 user=me password='{}'",
    "raw": "host=127.0.0.1 port=1 user=me password={}",
    "mysql": f"mysql://me:{{}}@{NOBODY}/orders",
}
KAFKA_SETTINGS = (
    "sasl.password={}\nno.such.setting=1",
    "sasl.password={}\nsecurity.protocol=nonsense",
    "sasl.password {}\nsecurity.protocol=nonsense",
    "sasl.jaas.config=x.PlainLoginModule required password={};",
    "sasl.oauthbearer.client.secret={}\nenable.auto.commit=true",
    "ssl.key.password={}\nssl.key.location=/nonexistent",
    "ssl.keystore.password={}\nssl.keystore.location=/nonexistent",
    "ssl.key.pem={}\nsecurity.protocol=ssl",
    "debug=conf,security\nsasl.password={}\nacks",
)
"""Files of librdkafka's settings, each wrong in something."""


@dataclass(frozen=True)
class Law:
    """What holds of secrets in one kind of place.

    Args:
        drawn: What is planted.
        check: Refuse what is said of it; in a folder that is the command's alone.
        examples: What was found before, and is tried each time.
    """

    drawn: st.SearchStrategy[Any]
    check: Callable[[Any, Path], None]
    examples: tuple[Any, ...] = ()


def _spec_in(folder: Path) -> str:
    path = folder / "orders.yaml"
    path.write_text(MINIMAL)
    return str(path)


def _held(secrets: list[str]) -> dict[str, str]:
    return {option: held_by(option, secret) for option, secret in zip(HELD, secrets, strict=True)}


def connect_quotes(planted: tuple[list[str], str, str | int], folder: Path) -> None:
    """What Connect says of a connector's configuration, and of the login, is shown without secrets."""
    secrets, login, fault = planted
    spec, running = _spec_in(folder), render(parse_spec(MINIMAL)) | _held(secrets)
    contexts = folder / "contexts.yaml"
    variables = {"CDC_OUTBOX_CONTEXTS": str(contexts), "TOKEN": login}
    deploy = ("deploy-connector", spec, "--dsn", "dbname=orders", *AT_ONCE)
    watched = [("watch", "orders", "--give-up-after", "1", "--first-pause", "0s", "--interval", "0.1s")]
    for command in (
        ("plan", spec),
        ("plan", spec, "--output", "json"),
        ("status",),
        ("status", "--output", "json"),
        ("restart", "orders", *AT_ONCE),
        ("pause", "orders", "--timeout", "0.01s"),
        ("resume", "orders", *AT_ONCE),
        ("stop", "orders", "--timeout", "0.01s"),
        ("offsets", "show", "orders"),
        ("offsets", "reset", "orders", "--yes", *AT_ONCE),
        ("doctor", spec),
        ("delete", spec, "--timeout", "0.01s"),
        deploy,
        (*deploy, "--output", "json"),
        (*deploy, "--replace", "--no-undo"),
        (*deploy, "--dry-run"),
        *(watched if "trace" in str(fault) else []),
    ):
        with (
            answering(Worker(dict(running), fault, tuple(secrets))) as (url, asked),
            patch("cdc_outbox.cli.deploy.connected", opened),
            patch("cdc_outbox.cli.deploy.PostgresqlDatabase", Ready),
        ):
            contexts.write_text(f"contexts: {{here: {{connect: {{url: '{url}', bearer: '${{env:TOKEN}}'}}}}}}")
            said = said_by(*command, "--context", "here", "--connect-patience", "0s", variables=variables)
        assert asked, command
        refuse_secrets(said, [*secrets, login])


def spec_shows(planted: tuple[str, str], folder: Path) -> None:
    """A spec in which a secret stands is refused without it."""
    secret, option = planted
    spec, content = folder / "orders.yaml", yaml.safe_load(MINIMAL)
    if option == "database.password":
        content["database"]["password"] = secret
    else:
        content["overrides"] = {option: held_by(option, secret)}
    spec.write_text(json.dumps(content, ensure_ascii=False))
    with answering(Worker({}, 500)) as (url, _asked):
        for command in (
            ("render", str(spec)),
            ("render", str(spec), "--target", "strimzi", "--target-option", "connect=x", "--target-option", "kafka=y"),
            ("lint", str(spec)),
            ("lint", str(spec), "--output", "json"),
            ("plan", str(spec), "--connect-url", url, "--connect-patience", "0s"),
            ("topics", "create", str(spec), "--bootstrap-servers", NOBODY, "--kafka-settings", "/nonexistent"),
        ):
            refuse_secrets(said_by(*command, variables={}), [secret])


def configuration_holds(planted: tuple[list[str], tuple[str, ...]], folder: Path) -> None:
    """A connector's configuration is linted, adopted and simulated without its secrets."""
    secrets, output = planted
    path = folder / "orders.json"
    path.write_text(json.dumps(render(parse_spec(MINIMAL)) | _held(secrets)))
    for command in (
        ("lint", str(path), *output),
        ("adopt", str(path), *output),
        ("simulate", str(path), "--row", "{}"),
    ):
        refuse_secrets(said_by(*command, variables={}), secrets)


def dsn_holds(planted: tuple[str, str], folder: Path) -> None:
    """A DSN, and a login in a URL, are not quoted."""
    secret, form = planted
    spec = _spec_in(folder)
    escaped = {"encoded": quote(secret, safe=""), "conninfo": secret.replace("\\", "\\\\").replace("'", "\\'")}
    dsn = DSNS[form].format(escaped.get(form, secret))
    url, nobody = f"http://me:{secret}@{NOBODY}", ("--connect-url", f"http://{NOBODY}", "--connect-patience", "0s")
    inbox = ("--inbox-dsn", dsn)
    for command in (
        ("preflight", spec, "--dsn", dsn),
        ("deploy-connector", spec, "--dsn", dsn, *nobody),
        ("plan", spec, "--dsn", dsn, *nobody),
        ("init", spec, "--dsn", dsn),
        ("init", "--inbox", *inbox),
        ("simulate", spec, "--from-table", "--dsn", dsn),
        ("verify", spec, "--dsn", dsn, "--bootstrap-servers", NOBODY),
        ("doctor", spec, "--dsn", dsn, *nobody),
        ("parked", "list", *inbox, "--consumer", "x"),
        ("baseline", *inbox, "--consumer", "x", "--dry-run"),
        ("status", "--connect-url", url),
        ("adopt", "--connector", "orders", "--connect-url", url),
    ):
        refuse_secrets(said_by(*command, variables={}), [secret])
    variables = {"CDC_OUTBOX_DSN": dsn, "CDC_OUTBOX_INBOX_DSN": dsn, "CDC_OUTBOX_CONNECT_URL": url}
    for told in (
        ("preflight", spec),
        ("preflight", spec, *nobody),
        ("deploy-connector", spec, *nobody),
        ("status", *nobody),
        ("parked", "list", "--consumer", "x"),
    ):
        refuse_secrets(said_by(*told, variables=variables), [secret])
    for login in (secret, f"me:{secret}"):
        variables = {"CDC_OUTBOX_CONNECT_URL": f"http://{NOBODY}", "CDC_OUTBOX_CONNECT_LOGIN": login}
        refuse_secrets(said_by("status", "--connect-patience", "0s", variables=variables), [secret])


def context_holds(planted: tuple[str, dict[str, Any]], folder: Path) -> None:
    """A file of contexts is not quoted, nor a variable that it names."""
    secret, context = planted
    spec, contexts = _spec_in(folder), folder / "contexts.yaml"
    content = json.dumps(context).replace("{}", json.dumps(secret)[1:-1])
    contexts.write_text(f'{{"contexts": {{"here": {content}}}}}')
    variables = {"CDC_OUTBOX_CONTEXTS": str(contexts), "SECRET": secret}
    url = () if "connect" in context else ("--connect-url", f"http://{NOBODY}")
    patience = ("--context", "here", "--connect-patience", "0s", *url)
    dsn = () if context.keys() & {"dsn", "dsns"} else ("--dsn", f"postgresql://{NOBODY}/orders")
    for command in (
        ("status", *patience),
        ("plan", spec, *patience),
        ("deploy-connector", spec, *dsn, *patience),
        ("doctor", spec, *patience),
        ("init", spec, *dsn, "--context", "here"),
        ("contexts",),
        ("contexts", "--output", "json"),
    ):
        refuse_secrets(said_by(*command, variables=variables), [secret])


def kafka_settings_hold(planted: tuple[str, str], folder: Path) -> None:
    """A file of settings for Kafka is not quoted, whatever is wrong in it."""
    secret, text = planted
    settings = folder / "kafka.properties"
    settings.write_text(text.replace("{}", secret.replace("\\", "\\\\")))
    spec, brokers = _spec_in(folder), ("--bootstrap-servers", NOBODY, "--kafka-settings", str(settings))
    for command in (
        ("topics", "create", spec, "--dry-run"),
        ("doctor", spec, "--connect-url", f"http://{NOBODY}", "--connect-patience", "0s"),
        ("reset", spec, "--consumer", "x", "--all", "--dry-run"),
    ):
        said = said_by(*command, *brokers, variables={"CDC_OUTBOX_INBOX_DSN": f"postgresql://{NOBODY}/x"})
        refuse_secrets(said, [secret])


LAWS: Mapping[str, Law] = {
    "connect": Law(st.tuples(MANY, PLAIN, st.sampled_from(FAULTS)), connect_quotes),
    "spec": Law(st.tuples(SECRETS, st.sampled_from(sorted(HELD))), spec_shows),
    "configuration": Law(
        st.tuples(MANY, st.sampled_from([(), ("--output", "json"), ("--report", "ci")])), configuration_holds
    ),
    "dsn": Law(
        st.tuples(SECRETS, st.sampled_from(sorted(DSNS))),
        dsn_holds,
        (("zQ7x22%ef22", "url"), ("zQ7x22%zz22", "url"), ("zQ7x 22@2/2", "raw")),
    ),
    "context": Law(
        st.tuples(SECRETS, st.sampled_from(CONTEXTS)),
        context_holds,
        (("zQ7x 22 2", CONTEXTS[2]), ("zQ7x/22@2", CONTEXTS[3])),
    ),
    "kafka": Law(st.tuples(SECRETS, st.sampled_from(KAFKA_SETTINGS)), kafka_settings_hold),
}
"""By the place."""
