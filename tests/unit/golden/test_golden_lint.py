"""Findings of `cdc-outbox lint`: every hazard, published configurations, specs, and every form of output."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import run_command
from tests.support.configs import CLEAN, D5, PUBLIC_CONFIGS, changed
from tests.support.golden import golden
from tests.support.hazards import CASES
from tests.support.lint_case import Case
from tests.support.specs import MINIMAL, MONGODB, ORDERS

GROUPS = sorted({case.code[:3] for case in CASES})
WRONG_SPECS = {
    "empty": "",
    "not YAML": "version: [1\n",
    "a list": "- 1\n",
    "another version": MINIMAL.replace("version: 1", "version: 2"),
    "an unknown key": f"{MINIMAL}latncy: low\n",
    "a key twice": f"{MINIMAL}latency: low\nlatency: low\n",
    "no aggregates": MINIMAL.replace("aggregates:\n  customer: {}\n", "aggregates: {}\n"),
    "a password": MINIMAL.replace("${env:PASSWORD}", "hunter2"),
    "a wrong name": MINIMAL.replace("name: orders", "name: 'o rders'", 1),
    "a wrong kind": MINIMAL.replace("postgresql", "postgres"),
    "a wrong type": f"{MINIMAL}topics: {{partitions: many}}\n",
    "a key of another database": MINIMAL.replace("  user:", "  server_id: 7\n  user:"),
    "formats that do not fit": f"{MINIMAL}outbox: {{format: expanded}}\n",
    "an override that breaks a promise": f"{MINIMAL}overrides: {{errors.tolerance: all}}\n",
    "an override that is known": f"{MINIMAL}overrides: {{slot.nam: x, max.queue.size: 1}}\n",
    "a topic that Kafka refuses": MINIMAL.replace("customer:", '"Größe":'),
}


def findings(*arguments: str, text: str = "") -> str:
    """Return one line of JSON for each finding, and how the call ended."""
    done = run_command("lint", *arguments, "--output", "json", text=text)
    if not done.stdout:
        return f"{done.stderr}exit {done.returncode}"
    document: dict[str, Any] = json.loads(done.stdout)
    lines = [json.dumps(finding, ensure_ascii=False) for finding in document.pop("findings")]
    return "\n".join([*lines, f"exit {done.returncode} {json.dumps(document)}"])


def sections(found: dict[str, str]) -> str:
    return "\n\n".join(f"== {name}\n{text}" for name, text in found.items())


def of_hazard(case: Case) -> str:
    """Return what is found in the configuration of a hazard."""
    version = ".".join(map(str, case.version))
    return findings("-", "--debezium", version, text=json.dumps(changed(case.kind, case.changes), indent=1))


@pytest.mark.parametrize("group", GROUPS)
def test_hazards(group: str) -> None:
    found = {
        f"{case} {json.dumps(case.changes, ensure_ascii=False)} {case.version[0]}.{case.version[1]}": of_hazard(case)
        for case in CASES
        if case.code.startswith(group)
    }
    golden(f"lint/{group}.txt").check(sections(found))


def test_clean_configurations_and_published_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {f"clean {kind.name}": findings("-", text=json.dumps(options, indent=1)) for kind, options in CLEAN.items()}
    monkeypatch.chdir(PUBLIC_CONFIGS)
    found |= {path.name: findings(path.name) for path in sorted(PUBLIC_CONFIGS.glob("*.json"))}
    golden("lint/published.txt").check(sections(found))


def test_specs_and_wrong_specs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = {}
    for name, text in {"orders": ORDERS.read_text(), "minimal": MINIMAL, "mongodb": MONGODB, **WRONG_SPECS}.items():
        Path("x.yaml").write_text(text)
        found[name] = findings("x.yaml")
    golden("lint/specs.txt").check(sections(found))


def test_several_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.yaml").write_text(MINIMAL)
    Path("b.yaml").write_text(
        MINIMAL.replace("name: orders", "name: twin", 1).replace("host:", "slot: orders_outbox\n  host:")
    )
    Path("c.json").write_text(D5)
    Path("d.properties").write_text("connector.class=io.debezium.connector.mysql.MySqlConnector\nname=x\n")
    Path("e.json").write_bytes(b"\xff")
    golden("lint/several.txt").check(findings("."))


@pytest.mark.parametrize("output", ["text", "ci", "sarif"])
def test_forms_of_output(output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.json").write_text(D5)
    Path("b.yaml").write_text(WRONG_SPECS["an override that breaks a promise"])
    files = ("b.yaml",) if output == "sarif" else ("a.json", "b.yaml")
    done = run_command("lint", *files, "--output" if output == "text" else "--report", output, "--strict")
    assert done.returncode == 1
    stdout = re.sub('"semanticVersion": "[^"]+"', '"semanticVersion": "<version>"', done.stdout)
    golden(f"lint/output.{output}").check(f"{stdout}\n{done.stderr}")


def test_fixes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.json").write_text(D5)
    done = run_command("lint", "--fix", "a.json")
    golden("lint/fixed.txt").check(f"{Path('a.json').read_text()}\n{done.stderr}")
