import json
from contextlib import chdir
from pathlib import Path

import pytest

from tests.support.commands import run_command
from tests.support.configs import D5

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "unit" / "golden" / "orders.json"


def run(*arguments: str | Path, text: str | bytes = "") -> tuple[int, str, str]:
    with chdir(ROOT):
        done = run_command(*arguments, text=text)
    return done.returncode, done.stdout, done.stderr


def test_what_is_right_prints_nothing_and_exits_0() -> None:
    for file in (GOLDEN, "connectors/orders.yaml"):
        assert run("lint", file, "--strict") == (0, "", "nothing found\n")


def test_errors_exit_1_and_stand_on_stdout_with_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "d5.json"
    file.write_text(D5)
    code, out, err = run("lint", file, "--strict")
    assert code == 1
    assert f"{file}:10 database.server.name: error CC102:" in out
    assert err == "1 error, 8 warnings, 1 note\n"


def test_warnings_exit_3_only_where_they_are_asked_for(tmp_path: Path) -> None:
    config = json.loads(GOLDEN.read_text())
    del config["slot.name"]
    (tmp_path / "x.json").write_text(json.dumps(config))
    assert run("lint", tmp_path / "x.json")[0] == 0
    assert run("lint", tmp_path / "x.json", "--strict")[0] == 3


def test_notes_never_change_the_exit_code(tmp_path: Path) -> None:
    config = json.loads(GOLDEN.read_text())
    del config["poll.interval.ms"]
    (tmp_path / "x.json").write_text(json.dumps(config))
    code, out, _ = run("lint", tmp_path / "x.json", "--strict")
    assert (code, "note CC110" in out) == (0, True)


def test_standard_input_is_read() -> None:
    code, out, _ = run("lint", "-", text=D5)
    assert (code, out.splitlines()[0].startswith("stdin:")) == (1, True)
    assert run("lint", "-", text=(ROOT / "connectors" / "orders.yaml").read_text())[0] == 0


def test_several_files_are_compared() -> None:
    code, out, _ = run("lint", GOLDEN, "connectors/orders.yaml")
    assert code == 1
    assert "connectors/orders.yaml:15 database.slot: error CC901:" in out
    assert f"(as in {GOLDEN}:12)" in out


@pytest.mark.parametrize("octets", [b"\xff\xfe{", b"{" * 2_000_000, b"\xc3\xa4" * 1_000_000 + b"x", b"\x00", b""])
def test_bytes_that_are_no_text_are_a_finding_and_no_traceback(octets: bytes) -> None:
    code, out, err = run("lint", "-", text=octets)
    assert (code, len(out.splitlines())) == (2, 1)
    assert "Traceback" not in err


@pytest.mark.parametrize("name", ["missing.json", "no/such/file"])
def test_a_file_that_cannot_be_opened_exits_2(name: str) -> None:
    code, out, err = run("lint", name)
    assert (code, out) == (2, "")
    assert "cannot be read" in err


@pytest.mark.parametrize("output", ["json", "sarif", "ci"])
def test_machines_get_their_own_words(output: str) -> None:
    code, out, _ = run("lint", "-", "--output" if output == "json" else "--report", output, text=D5)
    assert code == 1
    if output == "ci":
        assert "::error file=stdin,line=10,title=CC102::" in out
    else:
        assert json.loads(out)


def test_an_older_debezium_has_other_options() -> None:
    text = GOLDEN.read_text()
    assert run("lint", "-", "--debezium", "3.6.3.Final", "--strict", text=text)[0] == 0
    assert run("lint", "-", "--debezium", "3.5", "--strict", text=text)[0] == 0
    newer = json.loads(text)
    del newer["transforms.outbox.table.fields.additional.error.on.missing"]
    code, out, _ = run("lint", "-", "--debezium", "3.5", text=json.dumps(newer))
    assert (code, "CC325" in out) == (0, True)
    assert run("lint", "-", "--debezium", "newest", text=text)[0] == 2


def test_a_code_is_explained() -> None:
    code, out, _ = run("explain", "cc302")
    assert (code, out.startswith("CC302 (warning): ")) == (0, True)
    assert "DBZ-2014" in out
    assert "Remedy: " in out


def test_a_code_that_does_not_exist_is_a_wrong_use() -> None:
    code, out, err = run("explain", "CC302x")
    assert (code, out) == (2, "")
    assert "Did you mean 'CC302'?" in err
    assert run("explain")[0] == 2
    assert run("explain", "CC302", "--all")[0] == 2


def test_all_codes_are_the_page() -> None:
    assert run("explain", "--all")[1] == (ROOT / "docs" / "findings.md").read_text()


def test_what_has_one_right_answer_is_fixed_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "d5.json"
    file.write_text(D5)
    code, out, err = run("lint", "--fix", file)
    assert (code, "error" in out) == (0, False)
    assert f"{file}:10 database.server.name: fixed CC102: database.server.name is now topic.prefix.\n" in err
    rewritten = file.read_bytes()
    assert run("lint", "--fix", file) == (0, out, err[err.index("6 warnings") :])
    assert file.read_bytes() == rewritten
    assert run("lint", "--fix", "-", text=D5)[0] == 2
