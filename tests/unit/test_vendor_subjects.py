"""Vendors' suites run when ``--all`` or their path asks for it, and a run fails where one is due."""

import subprocess

import pytest

from tests.support import vendor_subjects
from tests.support.scheduling import use_xdist_alone
from tests.support.vendor_subjects import FOLDER, SUBJECTS, digest, note_digests, noted_digests

pytest_plugins = ["pytester"]

SUITE = "test_router_releases.py"
ROUTING = "cdc_outbox/debezium/event_router/routing.py"
CONFTEST = """
from tests.support.left_out import LeftOut

def pytest_addoption(parser):
    parser.addoption("--all", action="store_true")

def pytest_configure(config):
    config.addinivalue_line("markers", "some: for -m")
    config.pluginmanager.register(LeftOut(config))
"""
TESTS = """
import pathlib, pytest

@pytest.mark.some
def test_first():
    pass

def test_second():
    {second}
"""


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A working tree with a file of a subject, its suite, whose two tests pass, and a test beside it."""
    use_xdist_alone(monkeypatch)
    write(pytester, "conftest.py", CONFTEST)
    write(pytester, ROUTING, "pass\n")
    write(pytester, f"{FOLDER}/{SUITE}", TESTS.format(second="pass"))
    write(pytester, "tests/unit/test_vendor_subjects.py", "def test_other():\n    pass\n")
    return pytester


def write(run: pytest.Pytester, path: str, text: str) -> None:
    (run.path / path).parent.mkdir(parents=True, exist_ok=True)
    (run.path / path).write_text(text)


def is_noted(run: pytest.Pytester) -> bool:
    return noted_digests(run.path) == {SUITE: digest(SUITE, run.path)}


@pytest.mark.parametrize(
    "arguments",
    [[], [FOLDER], [f"{FOLDER}/{SUITE}"], ["-n", "2", "tests"]],
    ids=lambda arguments: " ".join(arguments) or "no arguments",
)
def test_a_suite_that_passes_is_noted(run: pytest.Pytester, arguments: list[str]) -> None:
    run.runpytest_inprocess("--all", *arguments).assert_outcomes(passed=3 if FOLDER not in "".join(arguments) else 2)
    assert is_noted(run)


@pytest.mark.parametrize(
    "arguments",
    [
        ["-k", "first"],
        ["-k", "other"],
        ["-m", "some"],
        ["--deselect", f"{FOLDER}/{SUITE}::test_second"],
        ["--ignore", f"{FOLDER}/{SUITE}"],
        ["--collect-only"],
        ["--setup-only"],
        ["tests/unit"],
        [f"{FOLDER}/{SUITE}::test_first"],
        ["-n", "2", "-k", "first"],
    ],
    ids=" ".join,
)
def test_a_suite_that_runs_in_part_is_not_noted(run: pytest.Pytester, arguments: list[str]) -> None:
    assert run.runpytest_inprocess("--all", *arguments).ret == pytest.ExitCode.OK
    assert noted_digests(run.path) == {}


@pytest.mark.parametrize(
    "second", ["assert False", "pytest.skip()", "pytest.xfail()", f"pathlib.Path('{ROUTING}').write_text('edited')"]
)
def test_a_suite_of_which_a_test_did_not_pass_on_its_subject_is_not_noted(run: pytest.Pytester, second: str) -> None:
    write(run, f"{FOLDER}/{SUITE}", TESTS.format(second=second))
    run.runpytest_inprocess("--all")
    assert noted_digests(run.path) == {}


def test_a_run_of_what_failed_last_notes_nothing(run: pytest.Pytester) -> None:
    write(run, f"{FOLDER}/{SUITE}", TESTS.format(second="assert False"))
    run.runpytest_inprocess("--all")
    write(run, f"{FOLDER}/{SUITE}", TESTS.format(second="pass"))
    run.runpytest_inprocess("--all", "--lf").assert_outcomes(passed=1)
    assert noted_digests(run.path) == {}


def test_a_run_without_all_notes_nothing(run: pytest.Pytester) -> None:
    run.runpytest_inprocess(FOLDER).assert_outcomes(passed=2)
    assert noted_digests(run.path) == {}


def test_the_note_of_other_suites_stays(run: pytest.Pytester) -> None:
    note_digests({"test_proofs.py": "1"}, run.path)
    run.runpytest_inprocess("--all")
    assert noted_digests(run.path) == {"test_proofs.py": "1", SUITE: digest(SUITE, run.path)}


@pytest.mark.parametrize(
    ("arguments", "passed", "is_left_out"),
    [
        (["tests"], 1, True),
        (["-n", "2", "tests"], 1, True),
        (["--all"], 1, True),
        ([FOLDER], 2, False),
        ([f"{FOLDER}/{SUITE}"], 2, False),
        ([f"{FOLDER}/{SUITE}::test_first"], 1, False),
        (["tests/unit"], 1, False),
        (["tests/unit/test_vendor_subjects.py"], 1, False),
    ],
    ids=str,
)
def test_a_suite_that_passed_on_these_files_runs_only_when_named(
    run: pytest.Pytester, arguments: list[str], passed: int, *, is_left_out: bool
) -> None:
    note_digests({SUITE: digest(SUITE, run.path)}, run.path)
    result = run.runpytest_inprocess(*arguments)
    result.assert_outcomes(passed=passed)
    assert result.ret == pytest.ExitCode.OK
    assert result.outlines[-1].startswith("left out: 1 suites of tests/vendor, 0 slower") == is_left_out


@pytest.mark.parametrize("change", ["other content", "another file", "no file", "no note"])
def test_a_change_of_the_subject_fails_a_run_until_all_has_run(run: pytest.Pytester, change: str) -> None:
    note_digests({SUITE: digest(SUITE, run.path)}, run.path)
    file = run.path / ROUTING
    match change:
        case "other content":
            file.write_text("raise SystemExit\n")
        case "another file":
            (file.parent / "another.py").touch()
        case "no file":
            file.unlink()
        case _:
            (run.path / FOLDER / "digests.json").unlink()
    due = run.runpytest_inprocess()
    due.assert_outcomes(passed=1)
    assert due.ret == pytest.ExitCode.TESTS_FAILED
    assert due.outlines[-2].startswith(f"FAILED: {SUITE} of {FOLDER} passed last on other files than these.")
    assert run.runpytest_inprocess("-n", "2", "tests").ret == pytest.ExitCode.TESTS_FAILED
    assert run.runpytest_inprocess("-k", "other").ret == run.runpytest_inprocess("--collect-only").ret == 0
    run.runpytest_inprocess("--all").assert_outcomes(passed=3)
    assert run.runpytest_inprocess().ret == pytest.ExitCode.OK


def test_the_newest_digests_were_committed_alone() -> None:
    log = ["git", "log", "-1", "--format=", "--name-only", "--full-diff", "--", f"{FOLDER}/digests.json"]
    committed = subprocess.run(log, cwd=vendor_subjects.ROOT, capture_output=True, text=True, check=True)
    assert committed.stdout.split() == [f"{FOLDER}/digests.json"]


def test_every_suite_has_a_subject_of_files_that_exist() -> None:
    folder = vendor_subjects.ROOT / FOLDER
    assert sorted(path.name for path in folder.glob("test_*.py")) == sorted(SUBJECTS)
    for suite, patterns in SUBJECTS.items():
        for pattern in patterns:
            assert any(vendor_subjects.ROOT.glob(pattern)), (suite, pattern)
