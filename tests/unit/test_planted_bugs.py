"""The bugs that `infra/faults planted` plants can be planted, and the tests that catch them exist."""

import shutil
from pathlib import Path

import pytest

from tests.faults.planted import BUGS, ROOT, Bug, plant


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
    assert f"def {name}" in (ROOT / file).read_text()
