import json
from contextlib import chdir
from pathlib import Path

import pytest

from tests.support.commands import run_command

ROOT = Path(__file__).parents[2]


def run(*arguments: str | Path) -> tuple[int, str, str]:
    with chdir(ROOT):
        done = run_command(*arguments)
    return done.returncode, done.stdout, done.stderr


def test_a_written_spec_lints_clean_and_renders(tmp_path: Path) -> None:
    spec = tmp_path / "orders.yaml"
    written = run("new", "orders", "--database", "postgresql", "--aggregate-type", "customer:none", "-f", spec)
    steps = (f"lint {spec}", f"init {spec}", f"init {spec} --grants", f"deploy-connector {spec}")
    assert written == (0, "", f"wrote {spec}\nnext:\n" + "".join(f"  cdc-outbox {step}\n" for step in steps))
    assert run("lint", "--strict", spec) == (0, "", "nothing found\n")
    code, out, _ = run("render", spec)
    assert (code, json.loads(out)["name"]) == (0, "orders")


def test_a_file_that_exists_is_never_overwritten(tmp_path: Path) -> None:
    spec = tmp_path / "orders.yaml"
    spec.write_text("mine")
    code, _, err = run("new", "orders", "--database", "sqlite", "-f", spec)
    assert (code, "already exists" in err, spec.read_text()) == (2, True, "mine")


@pytest.mark.parametrize(
    "arguments",
    [
        ("Größe", "--database", "sqlite"),
        ("orders", "--database", "dbase"),
        ("orders", "--database", "sqlite", "--aggregate-type", "customer:sometimes"),
        ("orders", "--database", "sqlite", "--aggregate-type", "customer", "--aggregate-type", "customer:none"),
        ("orders", "--database", "sqlite", "-f", "no/such/folder/x.yaml"),
    ],
)
def test_what_cannot_be_written_is_a_wrong_use(arguments: tuple[str, ...]) -> None:
    code, out, err = run("new", *arguments)
    assert (code, out) == (2, "")
    assert "Traceback" not in err


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    done = run_command("new", "orders", "--file", tmp_path / "connectors" / "orders.yaml")
    assert (done.returncode, f"hint: Create the folder {tmp_path}/connectors first." in done.stderr) == (2, True)


def test_the_database_is_postgresql_unless_another_is_named() -> None:
    assert run("new", "orders") == run("new", "orders", "--database", "postgresql")
    assert "Did you mean 'postgresql'?" in run("new", "orders", "--database", "postgres")[2]


def test_the_schema_and_its_page_are_printed() -> None:
    assert json.loads(run("spec-schema")[1]) == json.loads(
        (ROOT / "cdc_outbox" / "spec" / "spec.schema.json").read_text()
    )
    assert run("spec-schema", "--page")[1] == (ROOT / "docs" / "spec.md").read_text()
