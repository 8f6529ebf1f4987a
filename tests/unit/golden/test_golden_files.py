"""The comparison itself: a difference is shown with the command that accepts it, and nothing unstable is accepted."""

from pathlib import Path

import pytest

from tests.support import golden as files
from tests.support.golden import UPDATE, UPDATING, golden, neutral


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(files, "FOLDER", tmp_path)
    monkeypatch.delenv(UPDATING, raising=False)
    return tmp_path


def test_a_difference_is_shown_with_the_command_that_updates(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(UPDATING, "1")
    golden("a/x.txt").check("one\ntwo")
    monkeypatch.delenv(UPDATING)
    golden("a/x.txt").check("one\ntwo\n")
    with pytest.raises(AssertionError) as caught:
        golden("a/x.txt").check("one\nthree\n")
    assert f"`{UPDATE}`" in str(caught.value)
    assert "-two\n+three" in str(caught.value)
    assert (folder / "a" / "x.txt").read_text() == "one\ntwo\n"


@pytest.mark.usefixtures("folder")
def test_a_missing_file_is_a_difference() -> None:
    with pytest.raises(AssertionError, match=UPDATE):
        golden("x.txt").check("one")


@pytest.mark.parametrize("text", ["see cdc_outbox.somewhere.module", "in /tmp/pytest-1/x.yaml"])
def test_names_of_modules_and_paths_of_a_machine_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv(UPDATING, "1")
    with pytest.raises(AssertionError, match="which other changes alter"):
        golden("x.txt").check(text)
    assert not list(folder.iterdir())


def test_what_is_random_becomes_neutral() -> None:
    text = "0198c0de-0000-7000-8000-000000000001 at 2026-11-21T10:00:00.1Z on http://127.0.0.1:4711 of p12"
    assert neutral(text, {"p12": "orders"}) == "<uuid> at <time> on http://127.0.0.1:<port> of orders"
