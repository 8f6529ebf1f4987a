"""A whole run leaves out slower variants of tests, and keeps a faster test for each."""

import subprocess
import sys

import pytest

from tests.support import repeated_tests
from tests.support.pages import ROOT
from tests.support.repeated_tests import CELLS, LEFT_OUT, TESTS
from tests.support.scheduling import use_xdist_alone
from tests.support.vendor_subjects import FOLDER

pytest_plugins = ["pytester"]

CONFTEST = """
from tests.support.left_out import LeftOut

def pytest_addoption(parser):
    parser.addoption("--all", action="store_true")

def pytest_configure(config):
    config.pluginmanager.register(LeftOut(config))
"""
TEST = """
import pytest

@pytest.mark.parametrize("state", ["first", "second"])
def test_state(state):
    pass

def test_short():
    pass

def test_long():
    pass
"""


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    use_xdist_alone(monkeypatch)
    left_out = {"tests/test_it.py::test_state[second]", "tests/test_it.py::test_long"}
    monkeypatch.setattr(repeated_tests, "LEFT_OUT", left_out)
    (pytester.path / "conftest.py").write_text(CONFTEST)
    (pytester.path / "tests").mkdir()
    (pytester.path / "tests" / "test_it.py").write_text(TEST)
    return pytester


@pytest.mark.parametrize(
    ("arguments", "passed"),
    [
        ([], 2),
        (["tests"], 2),
        (["--all"], 4),
        (["tests/test_it.py"], 4),
        (["tests/test_it.py::test_long"], 1),
        (["tests", "-k", "long"], 1),
        (["tests", "--ff"], 4),
        (["tests", "--deselect", "tests/test_it.py::test_none"], 2),
    ],
    ids=str,
)
def test_they_are_left_out_and_counted_unless_selected(run: pytest.Pytester, arguments: list[str], passed: int) -> None:
    result = run.runpytest_inprocess(*arguments)
    result.assert_outcomes(passed=passed, deselected={2: 2, 1: 3 if "-k" in arguments else 0}.get(passed, 0))
    assert result.outlines[-1].startswith(f"left out: 0 suites of {FOLDER}, 2 slower") == (passed == 2)


@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=str)
def test_what_the_machine_cannot_run_is_the_last_line_and_not_passed(run: pytest.Pytester, workers: list[str]) -> None:
    skip = "import pytest\n\ndef test_it():\n    pytest.skip('SKIPPED compose: no engine')\n"
    (run.path / "tests" / "test_skipped.py").write_text(skip)
    result = run.runpytest_inprocess(*workers, "tests/test_skipped.py")
    result.assert_outcomes(skipped=1, passed=0)
    assert result.outlines[-1] == "SKIPPED compose: no engine"


def test_several_workers_count_them_once(run: pytest.Pytester) -> None:
    # The workers are processes of their own, in which nothing is replaced.
    name = next(iter(TESTS)).partition("::")[2]
    file = run.path / next(iter(TESTS)).partition("::")[0]
    file.parent.mkdir(parents=True)
    file.write_text(f"def {name}():\n    raise AssertionError\n")
    result = run.runpytest_inprocess("-n", "2", "tests")
    result.assert_outcomes(passed=4)
    assert result.outlines[-1].startswith(f"left out: 0 suites of {FOLDER}, 1 slower")


def test_each_exists_and_so_does_what_it_repeats() -> None:
    files = {name.partition("::")[0] for name in (*CELLS, *TESTS, *TESTS.values())}
    collecting = [sys.executable, "-m", "pytest", "--collect-only", "--quiet", "-p", "no:cacheprovider", *sorted(files)]
    found = subprocess.run(collecting, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    for test, cells in CELLS.items():
        every = {line for line in found if line.startswith(f"{test}[")}
        left_out = {f"{test}[{cell}]" for cell in cells}
        assert left_out < every
    assert {*TESTS, *TESTS.values()} <= {*found}
    assert not LEFT_OUT & {*TESTS.values()}
