"""What `cdc-outbox init` refuses and advises, on SQLite, which takes no server."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import run_command

SPEC = "version: 1\nname: {}\ndatabase: {{kind: sqlite}}\naggregates: {{order: {{}}}}\n"


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "orders.db"
    path.touch()
    return path


def test_who_lacks_an_inbox_is_told_how_to_make_one(database: Path) -> None:
    done = run_command("init", "--inbox", "--check", "--dsn", f"sqlite:///{database}")
    assert (done.returncode, "DB343" in done.stdout, "Run `cdc-outbox init --inbox`." in done.stdout) == (3, True, True)


def test_a_renamed_pipeline_does_not_pass_for_the_former_one(database: Path) -> None:
    spec = database.with_suffix(".yaml")
    spec.write_text(SPEC.format("orders"))
    assert run_command("init", spec, "--dsn", f"sqlite:///{database}").returncode == 0
    before = database.read_bytes()
    spec.write_text(SPEC.format("shop"))
    done = run_command("init", spec, "--dsn", f"sqlite:///{database}")
    assert done.returncode == 1
    assert "the source of the table is orders.1, and the spec sets shop (DB333); nothing was changed" in done.stderr
    assert "--new-incarnation --from-source orders.1" in done.stderr
    assert database.read_bytes() == before


def test_who_begins_a_new_incarnation_is_told_which_source_ends(database: Path) -> None:
    spec = database.with_suffix(".yaml")
    spec.write_text(SPEC.format("orders"))
    assert run_command("init", spec, "--dsn", f"sqlite:///{database}").returncode == 0
    done = run_command("init", spec, "--new-incarnation", "--dsn", f"sqlite:///{database}")
    assert (
        done.returncode,
        "the table's current source is orders.1, so add --from-source orders.1" in done.stderr,
    ) == (2, True)


def test_what_was_made_begun_and_found_is_a_document(database: Path) -> None:
    spec, dsn = database.with_suffix(".yaml"), f"sqlite:///{database}"
    spec.write_text(SPEC.format("orders"))

    def shown(*options: str, code: int = 0) -> dict[str, Any]:
        done = run_command("init", spec, "--inbox", "--dsn", dsn, "--output=json", *options)
        assert done.returncode == code, done.stderr
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    missing = shown("--check", code=3)
    assert (missing["kind"], missing["counts"]["error"] > 0) == ("Findings", True)
    for is_changed in (True, False):
        made = shown()
        assert (made["kind"], made["addedColumns"], made["publication"], made["partitions"]) == (
            "Tables",
            [],
            None,
            None,
        )
        assert {each["isChanged"] for each in made["components"]} == {is_changed}
    assert shown("--check")["findings"] == []
    for is_new in (True, False):
        begun = shown("--new-incarnation", "--from-source=orders.1", "--to-source=orders.2")
        assert (begun["kind"], begun["source"], begun["isNew"]) == ("Incarnation", "orders.2", is_new)
    done = run_command("init", spec, "--sql", "--output=json")
    assert (done.returncode, done.stdout) == (2, "")


def test_an_inbox_in_the_database_of_the_outbox_is_noted(database: Path) -> None:
    dsn, note = f"sqlite:///{database}", "note: this is the outbox's DSN; --inbox-dsn names the consuming service's"
    assert note in run_command("init", "--inbox", env={"CDC_OUTBOX_DSN": dsn}).stderr
    assert note not in run_command("init", "--inbox", "--dsn", dsn).stderr
    assert note not in run_command("init", "--inbox", env={"CDC_OUTBOX_INBOX_DSN": dsn}).stderr
