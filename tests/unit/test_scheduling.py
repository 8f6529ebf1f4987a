"""Tests of one file run on one worker, and so do all that need the exclusive stack."""

import re
from collections import defaultdict

import pytest

from tests.support.scheduling import use_xdist_alone

pytest_plugins = ["pytester"]

CONFTEST = """
import pytest
from tests.support.scheduling import Scheduling, order

def pytest_collection_modifyitems(items):
    items.sort(key=order)

def pytest_xdist_make_scheduler(config, log):
    config.option.loadscopereorder = False
    return Scheduling(config, log)
"""
FILES = [
    "tests/unit/test_u.py",
    "tests/new_folder/test_n.py",
    "tests/integration/test_i.py",
    "tests/integration/exclusive/test_a.py",
    "tests/integration/exclusive/test_b.py",
    "tests/vendor/test_proofs.py",
]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """Files of two tests each."""
    use_xdist_alone(monkeypatch)
    for path in ("conftest.py", *FILES):
        (pytester.path / path).parent.mkdir(parents=True, exist_ok=True)
        (pytester.path / path).write_text("def test_1():\n    pass\n\ndef test_2():\n    pass\n")
    (pytester.path / "conftest.py").write_text(CONFTEST)
    return pytester


@pytest.mark.parametrize("mode", [[], ["--dist", "worksteal"]], ids=" ".join)
def test_a_file_and_the_exclusive_group_run_on_one_worker(run: pytest.Pytester, mode: list[str]) -> None:
    result = run.runpytest_inprocess("-n", "2", "-v", *mode)
    result.assert_outcomes(passed=2 * len(FILES))
    workers = defaultdict(set)
    for worker, path in re.findall(r"\[(gw\d)\].* PASSED (\S+)::", result.stdout.str()):
        workers["exclusive" if "exclusive" in path or "proofs" in path else path].add(worker)
    assert len(workers) == 4
    assert {group: len(names) for group, names in workers.items()} == dict.fromkeys(workers, 1)
    assert len({name for names in workers.values() for name in names}) == 2


def test_what_takes_long_comes_first_and_an_unknown_folder_last(run: pytest.Pytester) -> None:
    result = run.runpytest_inprocess("-v")
    assert re.findall(r"(\S+)::test_1 PASSED", result.stdout.str()) == [
        *(path for path in FILES if "exclusive" in path),
        *("tests/vendor/test_proofs.py", "tests/integration/test_i.py", "tests/unit/test_u.py"),
        "tests/new_folder/test_n.py",
    ]
