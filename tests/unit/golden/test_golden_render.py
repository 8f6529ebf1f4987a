"""Configurations that `cdc-outbox render` prints: every database, mode, format and target."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import run_command
from tests.support.golden import golden
from tests.support.specs import MINIMAL, MONGODB, ORDERS

BASES = {
    "postgresql": MINIMAL,
    "mariadb": MINIMAL.replace("postgresql", "mariadb"),
    "mysql": MINIMAL.replace("postgresql", "mysql"),
    "sqlserver": MINIMAL.replace("postgresql", "sqlserver"),
    "oracle": MINIMAL.replace("postgresql", "oracle") + "outbox: {schema: APP}\n",
    "mongodb": MONGODB,
    "sqlite": "version: 1\nname: orders\ndatabase: {kind: sqlite}\naggregates: {customer: {}}\n",
}
OUTBOXES = (
    "mode: delete",
    "mode: message",
    "mode: message, payload_type: bytes",
    "mode: message, format: cloudevents-structured",
    *(
        f"format: {form}, payload_type: {payload_type}"
        for form in ("plain", "envelope", "cloudevents-binary", "cloudevents-structured")
        for payload_type in ("json", "bytes", "expanded")
    ),
    "mode: delete, format: envelope, headers: {tenant: tenant-id}",
    "headers: {tenant: tenant-id, kind: kind}",
    "columns: {payload: body, aggregate_type: kind, sequence: null, source: null}, headers: {tenant: tenant}",
    "columns: {created_at: null, id: event_id}, headers: {event_id: null}",
    "headers: {sequence: number, source: null}",
    'table: "Größe (neu), a.b"',
    "schema: shop, table: a+b$",
    "partitions: day",
    "partitions: month, headers: {tenant: tenant-id}",
)
SUFFIXES = (
    "latency: low",
    "latency: economy",
    "topic_prefix: dbserver1",
    "source: shop",
    "topics: {name: 'x.{aggregate_type}', partitions: 7, replication_factor: 3, retention: 2d}",
    "topics: {name: all, retention: forever, horizon: 30d}",
    "history: {topic: H, bootstrap_servers: 'k:1'}",
    "overrides: {database.sslmode: verify-full, poll.interval.ms: 20, max.batch.size: 4096, x: true}",
    "overrides: {producer.override.linger.ms: 20, heartbeat.interval.ms: 500, snapshot.fetch.size: 10}",
    "overrides: {heartbeat.interval.ms: 600001}",
    "overrides: {producer.override.acks: 1}",
    "overrides: {my.password: hunter2}",
    "overrides: {topic.creation.default.cleanup.policy: compact}",
)
DATABASES = {
    "postgresql": ("slot: s", "publication: P", "port: 5433", "port: '${env:PORT}'", "server_id: 7"),
    "mariadb": ("server_id: 7000", "server_id: '${file:/run/secrets/id:id}'", "port: 3307", "slot: s"),
    "mysql": ("server_id: 7000",),
    "sqlserver": ("port: 1434",),
    "oracle": ("pdb: SHOP", "port: 1522"),
    "mongodb": ("host: somewhere",),
}
STRIMZI = ("--target", "strimzi", "--target-option", "connect=my-connect", "--target-option", "kafka=my-cluster")


def variants_of(kind: str) -> dict[str, str]:
    """Return specs by what is changed in the base of this kind."""
    base = BASES[kind]
    found = {}
    # What all databases share is compared on PostgreSQL.
    outboxes, suffixes = (OUTBOXES, SUFFIXES) if kind == "postgresql" else (OUTBOXES[1::2], SUFFIXES[::3])
    for outbox in outboxes:
        text = base.replace("{schema: APP}", f"{{schema: APP, {outbox}}}") if kind == "oracle" else base
        found[f"outbox: {{{outbox}}}"] = text if kind == "oracle" else f"{text}outbox: {{{outbox}}}\n"
    found |= {suffix: f"{base}{suffix}\n" for suffix in suffixes}
    found |= {key: base.replace("  name: orders\n", f"  {key}\n  name: orders\n") for key in DATABASES.get(kind, ())}
    return found


def rendered(folder: Path, text: str) -> dict[str, str] | str:
    """Return the configuration, or how the spec is refused."""
    spec = folder / "x.yaml"
    spec.write_text(text)
    done = run_command("render", spec.name)
    if done.returncode:
        return f"exit {done.returncode}: {done.stderr}"
    config: dict[str, str] = json.loads(done.stdout)
    return config


def difference(base: dict[str, str], other: dict[str, str] | str) -> Any:
    """Return the options that differ, with their new values; null where one is missing."""
    if isinstance(other, str):
        return other.splitlines()
    names = sorted({*base, *other})
    return {name: other.get(name) for name in names if base.get(name) != other.get(name)}


@pytest.mark.parametrize("kind", BASES)
def test_configurations(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    base = rendered(tmp_path, BASES[kind])
    if isinstance(base, str):
        golden(f"render/{kind}.json").check_json({"base": base.splitlines()})
        return
    changed = {name: difference(base, rendered(tmp_path, text)) for name, text in variants_of(kind).items()}
    golden(f"render/{kind}.json").check_json({"base": base, "order": list(base), "variants": changed})


@pytest.mark.parametrize("kind", ["postgresql", "mariadb", "mongodb"])
def test_resources_for_strimzi(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    spec = tmp_path / "x.yaml"
    parts = []
    history = "history: {bootstrap_servers: 'my-cluster-kafka-bootstrap:9092'}\n" if kind == "mariadb" else ""
    for text in (BASES[kind], f"{BASES[kind]}{SUFFIXES[4]}\n{history}"):
        spec.write_text(text)
        done = run_command("render", spec.name, *STRIMZI)
        parts.append(f"# exit {done.returncode}\n{done.stdout}{done.stderr}")
    golden(f"render/strimzi-{kind}.txt").check("\n".join(parts))


def test_refusals_of_targets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.yaml").write_text(ORDERS.read_text())
    parts = []
    for options in (
        ("--target", "strimzy"),
        ("--target", "strimzi"),
        (*STRIMZI, "--target-option", "conect=x"),
        ("--target-option", "connect=x"),
        ("--target-option", "x"),
    ):
        done = run_command("render", "x.yaml", *options)
        parts.append(f"$ render {' '.join(options)}\n{done.stderr}exit {done.returncode}\n")
    golden("render/refusals.txt").check("\n".join(parts))
