"""Class data archives are made once, and whole or not at all."""

from pathlib import Path
from typing import Any

import pytest

from cdc_outbox.debezium.event_router.jvm import Jvm
from cdc_outbox.errors import StackError
from cdc_outbox.testing import Stack
from cdc_outbox.testing.class_data import make_archives


@pytest.fixture
def archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = tmp_path / "class-data" / "these"
    jvm = Jvm("java", tmp_path / "home", archives=found)
    monkeypatch.setattr("cdc_outbox.testing.stack.find_jvm", lambda *_, **__: jvm)
    return found


def test_archives_that_exist_are_not_made_again(archives: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stack, "up", lambda _: pytest.fail("a stack was started"))
    archives.mkdir(parents=True)
    assert not make_archives()


def test_a_stack_that_does_not_start_leaves_no_archives(archives: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def up(stack: Stack) -> Any:
        jvm = stack.jvm
        assert jvm.is_recording
        assert jvm.archives is not None
        (jvm.archives / "kafka.jsa").write_text("half")
        raise StackError("the broker was not ready")

    monkeypatch.setattr(Stack, "up", up)
    with pytest.raises(StackError):
        make_archives()
    assert list(archives.parent.iterdir()) == []
