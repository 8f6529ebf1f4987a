"""A vendors' suite is left out only while what it checks is what its last passing run saw."""

import json
from pathlib import Path

import pytest

from tests.support import vendor_subjects
from tests.support.vendor_subjects import SUBJECTS, note_digests, unchanged_suites

SUITE = "test_router_releases.py"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working tree with one file of a subject, and a note that every suite passed on it."""
    monkeypatch.setattr(vendor_subjects, "ROOT", tmp_path)
    monkeypatch.setattr(vendor_subjects, "NOTE", tmp_path / "digests.json")
    (tmp_path / "cdc_outbox" / "router").mkdir(parents=True)
    (tmp_path / "cdc_outbox" / "router" / "routing.py").write_text("pass\n")
    note_digests()
    return tmp_path


@pytest.mark.usefixtures("root")
def test_what_passed_and_did_not_change_is_left_out() -> None:
    assert unchanged_suites() == list(SUBJECTS)


@pytest.mark.parametrize("change", ["other content", "another file", "no file", "no note"])
def test_a_change_of_the_subject_brings_the_suite_back(root: Path, change: str) -> None:
    file = root / "cdc_outbox" / "router" / "routing.py"
    match change:
        case "other content":
            file.write_text("raise SystemExit\n")
        case "another file":
            (file.parent / "another.py").touch()
        case "no file":
            file.unlink()
        case _:
            (root / "digests.json").write_text(json.dumps({}))
    assert SUITE not in unchanged_suites()


def test_every_suite_has_a_subject_of_files_that_exist() -> None:
    folder = vendor_subjects.NOTE.parent
    assert sorted(path.name for path in folder.glob("test_*.py")) == sorted(SUBJECTS)
    for suite, patterns in SUBJECTS.items():
        for pattern in patterns:
            assert any(vendor_subjects.ROOT.glob(pattern)), (suite, pattern)
