"""The bugs that `infra/faults planted` plants can be planted, and only a test that fails catches one."""

import shutil
from pathlib import Path

import pytest

from tests.faults import planted
from tests.faults.planted import BUGS, ROOT, Bug, Verdict, judge, plant


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_bug_can_be_planted(bug: Bug, tmp_path: Path) -> None:
    copied = tmp_path / "cdc_outbox" / bug.file
    copied.parent.mkdir(parents=True)
    shutil.copy2(ROOT / "cdc_outbox" / bug.file, copied)
    plant(bug, tmp_path)
    assert bug.wrong in copied.read_text()


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_the_test_that_catches_it_exists(bug: Bug) -> None:
    file, _, name = bug.test.partition("::")
    assert f"def {name.partition('[')[0]}" in (ROOT / file).read_text()


FIXTURE = "import pytest\n\n@pytest.fixture\ndef stack():\n    {}\n\n"
TEST = "def test_it({}):\n    from cdc_outbox.part import answer\n    assert answer() == 42\n"
CASES = {
    "fails": (TEST.format(""), "return 41", Verdict.CAUGHT),
    "passes": (TEST.format(""), "return 40 + 2", Verdict.NOT_CAUGHT),
    "has no stack": (FIXTURE.format("raise OSError") + TEST.format("stack"), "return 41", Verdict.RED_BEFORE),
    "loses its stack": (
        FIXTURE.format("from cdc_outbox.part import answer; assert answer() == 42") + TEST.format("stack"),
        "return 41",
        Verdict.ERROR,
    ),
    "fails anyway": (TEST.format("") + "    assert False\n", "return 41", Verdict.RED_BEFORE),
    "is skipped": ("import pytest\npytestmark = pytest.mark.skip\n" + TEST.format(""), "return 41", Verdict.RED_BEFORE),
}


@pytest.mark.parametrize("case", CASES)
def test_a_bug_is_caught_by_a_failure_and_by_no_error(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    test, wrong, verdict = CASES[case]

    def write(folder: Path) -> None:
        package = folder / "cdc_outbox"
        package.mkdir()
        (package / "__init__.py").touch()
        (package / "part.py").write_text("def answer():\n    return 42\n")
        (folder / "test_part.py").write_text(test)

    monkeypatch.setattr(planted, "copy_project", write)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # the tests above need none
    planted.passes_without_bugs.cache_clear()
    assert judge(Bug("wrong", "part.py", "return 42", wrong, "test_part.py")) is verdict
    planted.passes_without_bugs.cache_clear()
